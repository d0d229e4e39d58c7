// Products of matrices.
//
//   const auto c = HT_TRY(ht::matmul(a, b));                  // [m, k] · [k, n] = [m, n]
//   const auto y = HT_TRY(ht::matmul(w.transpose(), x));      // [m, k] · [k] = [m]; nothing is copied
//
//   a          b          result
//   [m, k]     [k, n]     [m, n]
//   [m, k]     [k]        [m]
//   [k]        [k, n]     [n]
//   […, m, k]  […, k, n]  […, m, n]     equal ranks from 3 on, equal extents for …
//
// Both operands are F32 or both are F64, and so is the result, which is in new memory. Static extents that
// differ do not compile; dynamic extents that differ return `shape_mismatch`. k = 0 gives zeros. Many threads
// may call the function at once.
//
// Operands may have any strides and may be mapped; an unreadable page is an Error. A matrix with a stride of
// 1, also a transposed one, is read in place. Other matrices are copied panel by panel.
//
// Ownership: operands are borrowed during the call; the result shares no memory with them. Errors:
// `shape_mismatch`, `out_of_memory`, `read_failed` or `changed_underfoot` for an unreadable page, and
// `device_unavailable` for OpenCL devices.
//
// On OpenCL devices the same function runs a kernel of the device on `ComputeOptions::queue`.
//
// The error of each element is at most k · eps · Σ|a·b|; eps is the machine epsilon of the dtype.
//
// The first call loads OpenBLAS ("libopenblas.so.0", else "libblas.so.3"). OpenBLAS has its own threads. This
// library does not change their number, which a process sets with openblas_set_num_threads or
// OPENBLAS_NUM_THREADS. `ComputeOptions::workers` has no effect on OpenBLAS, and the last bits of a result
// may depend on the thread count. Without OpenBLAS, a kernel of this library computes on `workers`; its
// results do not depend on the number of threads.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <htensor/base/work.hpp>
#include <htensor/compute/elementwise.hpp>
#include <htensor/compute/weights.hpp>
#include <htensor/dtype/device.hpp>
#include <htensor/tensor/tensor.hpp>
#include <type_traits>

namespace ht::inline v1 {

namespace detail {

// Compile-time checks of a pair of shapes. A vector on the left is a matrix of one row, a vector on the right
// a matrix of one column.
template <class SA, class SB>
consteval bool matmul_ranks_fit() {
  if constexpr (SA::rank == 1 || SB::rank == 1) {
    return SA::rank + SB::rank == 3;
  } else {
    return SA::rank == SB::rank && SA::rank >= 2;
  }
}

template <class SA, class SB>
consteval bool inner_extents_may_match() {
  const auto a = SA::static_extents[SA::static_extents.size() - 1];
  const auto b = SB::static_extents[SB::rank == 1 ? 0 : SB::static_extents.size() - 2];
  return extents_may_match(a, b);
}

template <class SA, class SB>
consteval bool batch_extents_may_match() {
  for (std::size_t i = 0; i + 2 < SA::static_extents.size(); ++i) {
    if (!extents_may_match(SA::static_extents[i], SB::static_extents[i])) return false;
  }
  return true;
}

/// The extents of a product, from those of its operands.
template <std::size_t NA, std::size_t NB>
[[nodiscard]] constexpr auto product_extents(const std::array<std::int64_t, NA>& a,
                                             const std::array<std::int64_t, NB>& b) noexcept {
  constexpr std::size_t rank = NA == 1 || NB == 1 ? 1 : NA;
  std::array<std::int64_t, rank> extents{};
  for (std::size_t i = 0; i + 2 < rank; ++i) extents[i] = a[i] == dynamic ? b[i] : a[i];
  if constexpr (NA > 1) extents[NA - 2] = a[NA - 2];
  if constexpr (NB > 1) extents[rank - 1] = b[NB - 1];
  return extents;
}

template <class SA, class SB>
using ProductShape = ShapeFrom<product_extents(SA::static_extents, SB::static_extents)>;

/// `shape_mismatch` unless the extents match. The caller has checked the ranks.
[[nodiscard]] Result<void> check_product(layout::Extents a, layout::Extents b);

/// Writes the product in row-major order to zeroed memory. The caller has checked the shapes.
[[nodiscard]] Result<void> multiply_matrices(const HostView<float>& a, const HostView<float>& b, float* into,
                                             const ComputeOptions& options);
[[nodiscard]] Result<void> multiply_matrices(const HostView<double>& a, const HostView<double>& b,
                                             double* into, const ComputeOptions& options);

}  // namespace detail

/// The operands are two matrices, a matrix and a vector, or batches of matrices of equal rank.
template <class SA, class SB>
concept MatmulRanksFit = IsShape<SA> && IsShape<SB> && detail::matmul_ranks_fit<SA, SB>();

/// The number of columns on the left equals the number of rows on the right, unless one of them is dynamic.
template <class SA, class SB>
concept InnerExtentsMayMatch = MatmulRanksFit<SA, SB> && detail::inner_extents_may_match<SA, SB>();

/// Each batch extent on the left equals the one on the right, unless one of the two is dynamic.
template <class SA, class SB>
concept BatchExtentsMayMatch = MatmulRanksFit<SA, SB> && detail::batch_extents_may_match<SA, SB>();

/// Returns the product of a and b, in new memory, row-major; the table above has the shapes. Errors as above.
template <class A, class B, class SA, class SB, class Dev>
  requires SameDType<A, B> && InnerExtentsMayMatch<SA, SB> && BatchExtentsMayMatch<SA, SB> &&
           CanRun<Dev, slice::Linear, A, operation::Matmul,
                  Tensor<std::remove_const_t<A>, detail::ProductShape<SA, SB>, Dev>, Tensor<A, SA, Dev>,
                  Tensor<B, SB, Dev>>
[[nodiscard]] auto matmul(const Tensor<A, SA, Dev>& a, const Tensor<B, SB, Dev>& b,
                          const ComputeOptions& options = {})
    -> Result<Tensor<std::remove_const_t<A>, detail::ProductShape<SA, SB>, Dev>> {
  using Out = Tensor<std::remove_const_t<A>, detail::ProductShape<SA, SB>, Dev>;
  const auto extents_a = a.shape().extents();
  const auto extents_b = b.shape().extents();
  HT_TRY(detail::check_product(extents_a, extents_b));
  const auto shape = Out::ShapeType::assume(detail::product_extents(extents_a, extents_b));
  if constexpr (HasOperation<Dev, operation::Matmul, Out, Tensor<A, SA, Dev>, Tensor<B, SB, Dev>>) {
    return detail::run_on_device<Out>(operation::Matmul{}, shape, options, a, b);
  } else {
    auto result = HT_TRY(Out::zeros(shape));
    const auto a_bytes = HT_TRY(placement::touched_bytes<A>(a.data(), extents_a, a.strides()));
    const auto b_bytes = HT_TRY(placement::touched_bytes<B>(b.data(), extents_b, b.strides()));
    const std::array<Bytes, 2> touched{a_bytes, b_bytes};
    using View = detail::HostView<typename Out::Element>;
    HT_TRY(guarded(touched, [&] {
      return detail::multiply_matrices(View{a.data(), extents_a, a.strides()},
                                       View{b.data(), extents_b, b.strides()}, result.data(), options);
    }));
    return result;
  }
}

}  // namespace ht::inline v1
