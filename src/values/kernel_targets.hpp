// The processor generations that kernels are compiled for; included before Highway.
//
// With AVX2, kernels of values run at the speed of memory already: wider registers would only cost build
// time. Vectors of unknown length (SVE) cannot be kept in arrays, which some kernels do.
#pragma once

#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
