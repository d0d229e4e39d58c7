// The storage of a tensor's elements, as known at run time: dense, or in blocks with shared scales.
#pragma once

#include <cstdint>
#include <htensor/dtype/facts.hpp>
#include <optional>
#include <span>
#include <string_view>

namespace ht::inline v1 {

/// ggml's type number of a block encoding. 0, which is F32 in ggml, is any dense dtype.
enum class EncodingTag : std::uint8_t { dense = 0 };

struct Encoding {
  EncodingTag tag = EncodingTag::dense;
  /// As ggml spells it: "Q4_K".
  std::string_view name;
  std::uint32_t block_elements = 1;
  std::uint32_t block_bytes = 0;

  friend bool operator==(const Encoding&, const Encoding&) = default;
};

/// nullopt for `dense` and for numbers that ggml has removed or not assigned.
[[nodiscard]] std::optional<Encoding> find_encoding(EncodingTag tag) noexcept;
[[nodiscard]] std::optional<Encoding> find_encoding(std::string_view name) noexcept;

/// The size in bytes of a tensor whose rows (the innermost dimension) are stored in blocks. nullopt if a row
/// is not a whole number of blocks or the size exceeds 63 bits.
[[nodiscard]] std::optional<std::uint64_t> block_bytes(std::span<const std::int64_t> dims,
                                                       const Encoding& encoding) noexcept;

/// A dense dtype, a block encoding, or neither if the type in the file is unknown.
struct ElementType {
  /// `invalid` unless the tensor is dense.
  DTypeTag dtype = DTypeTag::invalid;
  /// `dense` unless the elements are stored in blocks.
  EncodingTag encoding = EncodingTag::dense;
  /// As in safetensors or ggml: "BF16", "Q4_K". Empty if the type is unknown.
  std::string_view name{};
  /// The width of one element; 0 for blocks and unknown types.
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
