// Rows of a table by their indices: the first layer of a language model.
//
//   const std::vector<std::int32_t> ids{15496, 11, 995};           // or int64_t
//   const auto x = HT_TRY(ht::embedding(table, ids));              // table [vocabulary, size], of any type
//   const auto d = HT_TRY(ht::embedding<ht::F64>(table, ids));     // [3, size] in F64
//   const auto any = HT_TRY(model["token_embd.weight"]);           // type known at run time
//   const auto y = HT_TRY(ht::embedding(any, ids));
//
// Only the requested rows are read and decoded: of a mapped table, only the pages of these rows are read from
// disk. The values are exact, as those of `cast`. Ids may repeat and have any order; without ids, the result
// has no rows.
//
// Ownership: the table and the ids are borrowed during the call. The result is in new memory. A table on an
// OpenCL device is a dense tensor, and the result is on that device.
//
// Threads: many threads may call the functions at once, also with the same table. One call divides many rows
// among the threads of `ComputeOptions::workers`; the result does not depend on their number.
//
// Errors: `out_of_bounds` for an id that is negative or not below the number of rows; the message has the id
// and its index. No row is read in that case. `out_of_memory`, and `read_failed` or `changed_underfoot` for
// an unreadable page of a mapped table. For a type that is known at run time also `shape_mismatch`,
// `would_lose` and `unsupported_encoding`.
//
// Edge cases: a table without rows accepts no id; a table without columns gives a result without elements.
//
// Cost: proportional to the number of ids times the columns, independent of the number of rows. A lazy view
// `as<F32>(table)` reads the same bytes as the table itself. Rows whose elements are not adjacent, and rows
// of user-defined dtypes, are converted one at a time on the calling thread.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <htensor/base/work.hpp>
#include <htensor/compute/weights.hpp>
#include <htensor/device/transfer.hpp>
#include <span>
#include <type_traits>

namespace ht::inline v1 {

namespace detail {

/// Rows of contiguous elements of a library type, `step` bytes apart. The step may be negative or 0. The
/// caller keeps the bytes alive.
struct StoredRows {
  ElementType type;
  const std::byte* first;
  std::int64_t step;
  std::int64_t columns;
};

/// `out_of_bounds` unless each id is the index of a row. Reads the ids only, so a wrong id is found before
/// any page of the table is read.
[[nodiscard]] Result<void> check_ids(std::span<const std::int32_t> ids, std::int64_t rows);
[[nodiscard]] Result<void> check_ids(std::span<const std::int64_t> ids, std::int64_t rows);

/// Copies the ids to a tensor, for a device. `out_of_memory`.
[[nodiscard]] Result<Tensor<I64, Rank<1>>> tensor_of_ids(std::span<const std::int32_t> ids);
[[nodiscard]] Result<Tensor<I64, Rank<1>>> tensor_of_ids(std::span<const std::int64_t> ids);

/// Converts the rows to `to`, F32 or F64, and writes them one after another. The caller has checked the ids.
/// `into` has room for all rows.
[[nodiscard]] Result<void> gather_rows(const StoredRows& rows, std::span<const std::int32_t> ids,
                                       const ElementType& to, std::byte* into, const ComputeOptions& options);
[[nodiscard]] Result<void> gather_rows(const StoredRows& rows, std::span<const std::int64_t> ids,
                                       const ElementType& to, std::byte* into, const ComputeOptions& options);

// Rows of blocks are contiguous: they are always read in place.
template <class To, class E, class S, class Id>
[[nodiscard]] Result<void> gather(const BlockTensor<E, S>& table, std::span<const Id> ids,
                                  const Tensor<To, Rank<2>>& into, const ComputeOptions& options) {
  const StoredRows rows{.type = element_type_of<E>(),
                        .first = table.data(),
                        .step = table.extent(1) / E::block_elements * E::block_bytes,
                        .columns = table.extent(1)};
  return guarded(table.bytes(), [&] {
    return gather_rows(rows, ids, element_type_of<To>(), first_byte<To>(into.data()), options);
  });
}

// Rows of dense tensors are read in place if their elements are adjacent and start at whole bytes.
template <class To, class D, class S, class Dev, class Id>
[[nodiscard]] Result<void> gather(const Tensor<D, S, Dev>& table, std::span<const Id> ids,
                                  const Tensor<To, Rank<2>>& into, const ComputeOptions& options) {
  using From = std::remove_const_t<D>;
  const auto& strides = table.strides();
  // With fewer than two rows the stride is unused and was not validated.
  const std::int64_t row_stride = table.extent(0) <= 1 ? 0 : strides[0];
  if constexpr (contains<From, AllDTypes>) {
    const auto* const first = first_byte<D>(table.data());
    const bool has_whole_bytes = first != nullptr && row_stride * From::bits % 8 == 0;
    if (has_whole_bytes && (strides[1] == 1 || table.extent(1) == 1)) {
      const StoredRows rows{.type = element_type_of<From>(),
                            .first = first,
                            .step = row_stride * From::bits / 8,
                            .columns = table.extent(1)};
      const auto touched =
          HT_TRY(placement::touched_bytes<D>(table.data(), table.shape().extents(), strides));
      return guarded(touched, [&] {
        return gather_rows(rows, ids, element_type_of<To>(), first_byte<To>(into.data()), options);
      });
    }
  }
  // Other strides, packed elements that begin within a byte, and user-defined dtypes.
  std::int64_t next = 0;
  for (const auto id : ids) {
    const auto row = HT_TRY(table.template select<0>(static_cast<std::int64_t>(id)));
    const auto target = HT_TRY(into.template select<0>(next++));
    HT_TRY(convert_into(row, target, Rounding{}));
  }
  return {};
}

// A device that gathers rows itself receives the ids as an I64 tensor.
template <class To, class W, class Id>
[[nodiscard]] auto embedding(const W& table, std::span<const Id> ids, const ComputeOptions& options)
    -> Result<Tensor<To, Rank<2>, typename StoredOf<W>::Device>> {
  const auto& stored = stored_of(table);
  using Dev = typename StoredOf<W>::Device;
  using Out = Tensor<To, Rank<2>, Dev>;
  HT_TRY(check_ids(ids, stored.extent(0)));
  const Rank<2> shape(ids.size(), stored.extent(1));
  if constexpr (HasOperation<Dev, operation::Embedding, Out, StoredOf<W>, Tensor<const I64, Rank<1>, Dev>>) {
    const auto host_ids = HT_TRY(tensor_of_ids(ids));
    const auto device_ids = HT_TRY(to_device<Dev>(host_ids, options));
    return run_on_device<Out>(operation::Embedding{}, shape, options, stored, device_ids);
  } else {
    auto result = HT_TRY(Out::zeros(shape));
    if (result.elements() > 0) HT_TRY(gather(stored, ids, result, options));
    return result;
  }
}

/// For a table whose type is known at run time. Rows that kernels cannot read in place are cast one at a
/// time; packed rows that are not whole bytes, eight at a time. Checks the type, then the ids, then reads
/// rows.
template <class To, RuntimeWeights W, class Id>
[[nodiscard]] Result<Tensor<To, Rank<2>>> runtime_embedding(const W& table, std::span<const Id> ids,
                                                            const ComputeOptions& options) {
  const auto rows = HT_TRY(rows_in_place<To>(table));
  const auto dims = table.dims();
  HT_TRY(check_ids(ids, dims[0]));
  auto result = HT_TRY(Tensor<To, Rank<2>>::zeros(Rank<2>(ids.size(), dims[1])));
  if (result.elements() == 0) return result;
  if (rows) {
    const StoredRows stored{
        .type = rows->type, .first = rows->first, .step = rows->row_bytes, .columns = dims[1]};
    HT_TRY(guarded(rows->touched, [&] {
      return gather_rows(stored, ids, element_type_of<To>(), first_byte<To>(result.data()), options);
    }));
    return result;
  }
  // Eight rows of packed elements begin and end at byte boundaries.
  const bool has_whole_rows = table.type().is_block_encoded() || dims[1] % 8 * table.type().bits % 8 == 0;
  const std::int64_t step = has_whole_rows ? 1 : 8;
  auto* into = result.data();
  for (const std::int64_t id : ids) {
    const std::int64_t first = id / step * step;
    const auto row_group = HT_TRY(table.slice(first, std::min(first + step, dims[0])));
    const auto cast_rows = HT_TRY(row_group.template cast<To>());
    into = std::copy_n(cast_rows.data() + (id - first) * dims[1], dims[1], into);
  }
  return result;
}

}  // namespace detail

/// Tables whose rows `embedding` gathers as `To`, on the table's device. Rank 2; `To` holds every value of
/// the table. The device stores I64, the dtype of the ids. Tables of a type known at run time satisfy
/// RuntimeWeights (weights.hpp) instead.
///
///   static_assert(ht::TableOf<ht::Tensor<const ht::F16, ht::Rank<2>>, ht::F32>);
///   static_assert(ht::TableOf<ht::BlockTensor<ht::Q6_K, ht::Rank<2>>, ht::F32>);
///   static_assert(!ht::TableOf<ht::Tensor<ht::F64, ht::Rank<2>>, ht::F32>);
template <class W, class To>
concept TableOf = (W::rank == 2) && WeightOf<W, To, typename detail::StoredOf<W>::Device> &&
                  (std::same_as<typename detail::StoredOf<W>::Device, Host> ||
                   !HostAccessible<typename detail::StoredOf<W>::Device>) &&
                  CanRun<typename detail::StoredOf<W>::Device, slice::Nn, To, operation::Embedding,
                         Tensor<To, Rank<2>, typename detail::StoredOf<W>::Device>, detail::StoredOf<W>,
                         Tensor<const I64, Rank<1>, typename detail::StoredOf<W>::Device>>;

/// Returns the rows `ids` of a table, converted to `To` (F32 or F64), as [ids, columns], in new memory. The
/// table is a tensor, a tensor of blocks or a lazy view of rank 2 whose values `To` holds. Row i of the
/// result is row ids[i] of the table. The result is a Result<Tensor<To, Rank<2>, Dev>>, row-major. An array
/// or a vector of ids converts to the span; the caller keeps it during the call. `out_of_bounds` for an id
/// that is not the index of a row, such as -1 for padding; `out_of_memory`; `read_failed` or
/// `changed_underfoot`; for OpenCL devices also `device_unavailable`.
template <class To = F32, class W>
  requires TableOf<W, To>
[[nodiscard]] auto embedding(const W& table, std::span<const std::int32_t> ids,
                             const ComputeOptions& options = {}) {
  return detail::embedding<To>(table, ids, options);
}
/// The same with ids of 64 bits.
template <class To = F32, class W>
  requires TableOf<W, To>
[[nodiscard]] auto embedding(const W& table, std::span<const std::int64_t> ids,
                             const ComputeOptions& options = {}) {
  return detail::embedding<To>(table, ids, options);
}

/// The same for a table whose type is known at run time: `shape_mismatch` unless it is a matrix, `would_lose`
/// where `To` does not hold its values. `unsupported_encoding` for a type that the library does not know.
/// Tables that kernels cannot read in place (weights.hpp) are cast row by row, not as a whole: each id then
/// costs a cast and an allocation. Errors of the typed overload, and those of `AnyTensor::view` and
/// `AnyTensor::cast`.
template <class To = F32, RuntimeWeights W>
  requires Computes<Host, slice::Nn, To>
[[nodiscard]] Result<Tensor<To, Rank<2>>> embedding(const W& table, std::span<const std::int32_t> ids,
                                                    const ComputeOptions& options = {}) {
  return detail::runtime_embedding<To>(table, ids, options);
}
/// The same with ids of 64 bits.
template <class To = F32, RuntimeWeights W>
  requires Computes<Host, slice::Nn, To>
[[nodiscard]] Result<Tensor<To, Rank<2>>> embedding(const W& table, std::span<const std::int64_t> ids,
                                                    const ComputeOptions& options = {}) {
  return detail::runtime_embedding<To>(table, ids, options);
}

}  // namespace ht::inline v1
