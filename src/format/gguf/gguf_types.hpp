// ggml's types: dense dtypes and block encodings under one numbering.
#pragma once

#include <cstdint>
#include <htensor/dtype/encoding.hpp>
#include <htensor/format/catalog.hpp>
#include <optional>

namespace ht::inline v1::format_gguf {

struct TensorType {
  std::uint32_t id = 0;
  /// `invalid` for a block encoding.
  DTypeTag dtype = DTypeTag::invalid;
  /// A dense dtype has blocks of one element and the tag `dense`.
  Encoding encoding{};
};

/// Nothing for numbers that ggml has retired or not given out.
[[nodiscard]] std::optional<TensorType> find_type(std::uint32_t id) noexcept;

/// Nothing for what ggml has no type for.
[[nodiscard]] std::optional<TensorType> type_of(const Entry& entry) noexcept;

}  // namespace ht::inline v1::format_gguf
