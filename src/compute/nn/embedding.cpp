#include <htensor/compute/embedding.hpp>

#include "base/format_text.hpp"
#include "compute/nn/rows.hpp"
#include "values/convert_values.hpp"

namespace ht::inline v1::detail {
namespace {

template <class Id>
Result<void> check_each(std::span<const Id> ids, std::int64_t rows) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < rows) continue;
    return fail(Error(ErrorCode::out_of_bounds, "id_is_a_row_of_the_table",
                      format_text("id {} at index {} is outside the table of {} rows", ids[i], i, rows))
                    .with_hint("use the tokenizer of the same model"));
  }
  return {};
}

template <class Id>
Result<void> gather_each(const StoredRows& rows, std::span<const Id> ids, const ElementType& to,
                         std::byte* into, const ComputeOptions& options) {
  const values::Conversion conversion{.from = rows.type, .to = to};
  const auto bytes = static_cast<std::int64_t>(values::stored_bytes(to, rows.columns));
  return nn::divide_work(static_cast<std::int64_t>(ids.size()), rows.columns, options.workers,
                         [&](std::int64_t first, std::int64_t last) -> Result<void> {
                           for (std::int64_t i = first; i < last; ++i) {
                             const std::int64_t id = ids[static_cast<std::size_t>(i)];
                             values::convert_values(conversion, rows.first + id * rows.step, into + i * bytes,
                                                    rows.columns);
                           }
                           return {};
                         });
}

template <class Id>
Result<Tensor<I64, Rank<1>>> copy_ids(std::span<const Id> ids) {
  auto copy = HT_TRY(Tensor<I64, Rank<1>>::zeros(Rank<1>(ids.size())));
  std::copy(ids.begin(), ids.end(), copy.data());
  return copy;
}

}  // namespace

Result<Tensor<I64, Rank<1>>> tensor_of_ids(std::span<const std::int32_t> ids) { return copy_ids(ids); }
Result<Tensor<I64, Rank<1>>> tensor_of_ids(std::span<const std::int64_t> ids) { return copy_ids(ids); }

Result<void> check_ids(std::span<const std::int32_t> ids, std::int64_t rows) { return check_each(ids, rows); }
Result<void> check_ids(std::span<const std::int64_t> ids, std::int64_t rows) { return check_each(ids, rows); }

Result<void> gather_rows(const StoredRows& rows, std::span<const std::int32_t> ids, const ElementType& to,
                         std::byte* into, const ComputeOptions& options) {
  return gather_each(rows, ids, to, into, options);
}
Result<void> gather_rows(const StoredRows& rows, std::span<const std::int64_t> ids, const ElementType& to,
                         std::byte* into, const ComputeOptions& options) {
  return gather_each(rows, ids, to, into, options);
}

}  // namespace ht::inline v1::detail
