#include <algorithm>
#include <htensor/compute/linear.hpp>
#include <htensor/compute/weights.hpp>

#include "base/format_text.hpp"
#include "values/convert_values.hpp"

namespace ht::inline v1::detail {
namespace {

Result<void> check_runtime_weights(const ErasedWeights& weights, const ElementType& target) {
  const auto name = weights.name;
  const auto& type = weights.type;
  const auto dims = weights.dims;
  if (!type.is_known()) {
    return fail(Error(ErrorCode::unsupported_encoding, "weights_have_a_known_type",
                      format_text("tensor '{}' has an unknown dtype", name))
                    .at_tensor(name)
                    .with_hint("read the stored bytes with bytes()"));
  }
  if (dims.size() != 2) {
    return fail(
        Error(ErrorCode::shape_mismatch, "weights_are_a_matrix",
              format_text("tensor '{}' of shape {} has {} dimensions, not 2", name, layout::to_text(dims),
                          dims.size()))
            .at_tensor(name)
            .with_hint(
                "use weights of shape [outputs, inputs]; cast a norm or bias to F32 or F64 before the call"));
  }
  if (!values::is_lossless(type, target)) {
    return fail(Error(ErrorCode::would_lose, "weights_keep_every_value",
                      format_text("tensor '{}' is {}, and {} does not hold every {} value", name, type.name,
                                  target.name, type.name))
                    .at_tensor(name)
                    .with_hint(format_text("convert the weights first: htensor convert --cast '*={}' --round",
                                           target.name)));
  }
  return {};
}

// Returns the number of bytes per row; nullopt unless rows are whole bytes and elements are aligned for their
// dtype. Other weights are cast.
std::optional<std::int64_t> plain_row_bytes(const ElementType& type, Bytes stored,
                                            std::int64_t columns) noexcept {
  if (!type.is_block_encoded()) {
    if (columns % 8 * type.bits % 8 != 0) return std::nullopt;
    const std::uintptr_t alignment = type.bits < 8 ? 1 : static_cast<std::uintptr_t>(type.bits) / 8;
    if (reinterpret_cast<std::uintptr_t>(stored.data()) % alignment != 0) return std::nullopt;
  }
  return static_cast<std::int64_t>(values::stored_bytes(type, columns));
}

}  // namespace

Result<std::optional<RuntimeMatrix>> rows_in_place(const ErasedWeights& weights, const ElementType& target) {
  HT_TRY(check_runtime_weights(weights, target));
  if (!weights.is_plain) return std::nullopt;
  // A view that is not in place fills the buffer; one byte is enough to detect that.
  std::vector<std::byte> buffer;
  HT_TRY(weights.view(weights.weights, 0, std::min<std::uint64_t>(weights.bytes, 1), buffer));
  if (!buffer.empty()) return std::nullopt;
  const Bytes stored = HT_TRY(weights.view(weights.weights, 0, weights.bytes, buffer));
  const auto row_bytes = plain_row_bytes(weights.type, stored, weights.dims[1]);
  if (!row_bytes) return std::nullopt;
  return RuntimeMatrix{.type = weights.type,
                       .first = stored.data(),
                       .row_bytes = *row_bytes,
                       .extents = Rank<2>(weights.dims[0], weights.dims[1]),
                       .touched = stored};
}

Result<RuntimeMatrix> matrix_or_error(Result<std::optional<RuntimeMatrix>> rows) {
  return *HT_TRY(std::move(rows));
}

Result<RuntimeMatrix> matrix_of_copy(const ElementType& type, const Result<Bytes>& elements,
                                     std::span<const std::int64_t> dims, const Storage& owner) {
  const Bytes bytes = HT_TRY(elements);
  return RuntimeMatrix{.type = type,
                       .first = bytes.data(),
                       .row_bytes = bytes.empty() ? 0 : dims[1] * type.bits / 8,
                       .extents = Rank<2>(dims[0], dims[1]),
                       .touched = bytes,
                       .owner = owner};
}

Result<Bytes> touched_by(const RuntimeMatrix& weights) { return weights.touched; }

}  // namespace ht::inline v1::detail
