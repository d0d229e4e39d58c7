// The processor generations that the kernels of dot products are compiled for. Include before Highway.
//
// These kernels compute enough per byte that AVX-512 is faster: it widens 16 elements at once and looks up
// nibbles in registers. Most other kernels run at memory speed with AVX2 (values/kernel_targets.hpp).
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
