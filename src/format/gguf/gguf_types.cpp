#include "format/gguf/gguf_types.hpp"

#include <algorithm>
#include <array>
#include <htensor/base/checked.hpp>
#include <htensor/dtype/dtypes.hpp>

namespace ht::inline v1::format_gguf {
namespace {

template <IsDType D>
constexpr TensorType dense(std::uint32_t id) {
  return {id, D::tag, {.name = D::name, .block_elements = 1, .block_bytes = D::bits / 8}};
}

constexpr std::array dense_types{dense<F32>(0),  dense<F16>(1),  dense<I8>(24),  dense<I16>(25),
                                 dense<I32>(26), dense<I64>(27), dense<F64>(28), dense<BF16>(30)};

std::optional<TensorType> block_type(EncodingTag tag) noexcept {
  const auto encoding = find_encoding(tag);
  if (!encoding) return std::nullopt;
  return TensorType{.id = static_cast<std::uint32_t>(tag), .encoding = *encoding};
}

}  // namespace

std::optional<TensorType> find_type(std::uint32_t id) noexcept {
  const auto found = std::ranges::find(dense_types, id, &TensorType::id);
  if (found != dense_types.end()) return *found;
  const auto number = checked::narrow<std::uint8_t>(id);
  return number ? block_type(static_cast<EncodingTag>(*number)) : std::nullopt;
}

std::optional<TensorType> type_of(const Entry& entry) noexcept {
  if (entry.encoding != EncodingTag::dense) return block_type(entry.encoding);
  const auto found = std::ranges::find(dense_types, entry.dtype, &TensorType::dtype);
  if (found == dense_types.end()) return std::nullopt;
  return *found;
}

}  // namespace ht::inline v1::format_gguf
