// The processor generations that kernels are compiled for. Include before Highway.
//
// With AVX2, most kernels of src/values already run at memory speed, so wider registers would only add build
// time. Vectors of unknown length (SVE) cannot be stored in arrays, which some kernels need.
#pragma once

#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
