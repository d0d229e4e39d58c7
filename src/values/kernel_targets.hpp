// Excludes Highway targets: kernels of the sources that include this file are not compiled for them. Include
// before Highway.
//
// With AVX2, most kernels of src/values already run at memory speed, so wider registers would only add build
// time. Vectors of unknown length (SVE) cannot be stored in arrays, which some kernels need.
#pragma once

#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
