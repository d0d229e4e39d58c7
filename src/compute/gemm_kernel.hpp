// The library's own product of matrices, for machines without BLAS.
#pragma once

#include <htensor/base/result.hpp>

#include "compute/gemm.hpp"

namespace ht::inline v1::compute {

/// As `gemm`, by this kernel alone: matrices of any strides and extents. Blocks of c are jobs, each of which
/// adds in one order, so that the result does not depend on the number of threads.
[[nodiscard]] Result<void> multiply_by_kernel(const Matrix<const float>& a, const Matrix<const float>& b,
                                              const Matrix<float>& c, const GemmOptions& options);
[[nodiscard]] Result<void> multiply_by_kernel(const Matrix<const double>& a, const Matrix<const double>& b,
                                              const Matrix<double>& c, const GemmOptions& options);

}  // namespace ht::inline v1::compute
