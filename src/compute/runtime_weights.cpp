#include <htensor/compute/weights.hpp>

#include "base/format_text.hpp"
#include "values/convert_values.hpp"

namespace ht::inline v1::detail {

Result<void> check_runtime_weights(std::string_view name, const ElementType& type,
                                   std::span<const std::int64_t> dims, const ElementType& target) {
  if (!type.is_known()) {
    return fail(Error(ErrorCode::unsupported_encoding, "weights_have_a_known_type",
                      format_text("tensor '{}' has an unknown dtype", name))
                    .at_tensor(name)
                    .with_hint("use bytes to read the stored bytes"));
  }
  if (dims.size() != 2) {
    return fail(Error(ErrorCode::shape_mismatch, "weights_are_a_matrix",
                      format_text("tensor '{}' of shape {} has {} dimensions, not 2", name,
                                  layout::to_text(dims), dims.size()))
                    .at_tensor(name)
                    .with_hint("use weights of shape [out, in], and cast for norms and biases"));
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

std::optional<std::int64_t> plain_row_bytes(const ElementType& type, Bytes stored,
                                            std::int64_t columns) noexcept {
  if (!type.is_blocks()) {
    if (columns % 8 * type.bits % 8 != 0) return std::nullopt;
    const std::uintptr_t alignment = type.bits < 8 ? 1 : static_cast<std::uintptr_t>(type.bits) / 8;
    if (reinterpret_cast<std::uintptr_t>(stored.data()) % alignment != 0) return std::nullopt;
  }
  return static_cast<std::int64_t>(values::stored_bytes(type, columns));
}

}  // namespace ht::inline v1::detail
