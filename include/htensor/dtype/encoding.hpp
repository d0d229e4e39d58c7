// How the elements of a tensor are stored, as known at run time: one by one, or in blocks that share scales.
#pragma once

#include <cstdint>
#include <htensor/dtype/facts.hpp>
#include <optional>
#include <span>
#include <string_view>

namespace ht::inline v1 {

/// ggml's number of a block encoding; 0, where ggml has F32, is dense: one element after another.
enum class EncodingTag : std::uint8_t { dense = 0 };

struct Encoding {
  EncodingTag tag = EncodingTag::dense;
  /// As ggml spells it: "Q4_K".
  std::string_view name;
  std::uint32_t block_elements = 1;
  std::uint32_t block_bytes = 0;

  friend bool operator==(const Encoding&, const Encoding&) = default;
};

/// Nothing for `dense` and for numbers that ggml has retired or not given out.
[[nodiscard]] std::optional<Encoding> find_encoding(EncodingTag tag) noexcept;
[[nodiscard]] std::optional<Encoding> find_encoding(std::string_view name) noexcept;

/// Bytes of a tensor whose rows, its innermost dimension, are cut into blocks. Nothing where a row is no
/// whole number of blocks or 63 bits cannot count them.
[[nodiscard]] std::optional<std::uint64_t> block_bytes(std::span<const std::int64_t> dims,
                                                       const Encoding& encoding) noexcept;

/// A dense dtype, a block encoding, or neither where the file does not name one.
struct ElementType {
  /// `invalid` unless the tensor is dense.
  DTypeTag dtype = DTypeTag::invalid;
  /// `dense` unless the elements lie in blocks.
  EncodingTag encoding = EncodingTag::dense;
  /// As in safetensors or ggml: "BF16", "Q4_K". Empty where the type is unknown.
  std::string_view name{};
  /// Of one element; 0 for blocks and unknown types.
  int bits = 0;
  /// Elements and bytes of one block; 1 and 0 for dense dtypes.
  std::uint32_t block_elements = 1;
  std::uint32_t block_bytes = 0;

  [[nodiscard]] bool is_known() const noexcept { return !name.empty(); }
  [[nodiscard]] bool is_dense() const noexcept { return dtype != DTypeTag::invalid; }
  [[nodiscard]] bool is_blocks() const noexcept { return encoding != EncodingTag::dense; }

  friend bool operator==(const ElementType&, const ElementType&) = default;
};

}  // namespace ht::inline v1
