// How the elements of a tensor are stored, as known at run time.
#pragma once

#include <cstdint>
#include <htensor/dtype/encoding.hpp>
#include <htensor/dtype/facts.hpp>
#include <string_view>

namespace ht::inline v1 {

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
  /// Elements and bytes of one block; 1 and 0 where there are no blocks.
  std::uint32_t block_elements = 1;
  std::uint32_t block_bytes = 0;

  [[nodiscard]] bool is_known() const noexcept { return !name.empty(); }
  [[nodiscard]] bool is_dense() const noexcept { return dtype != DTypeTag::invalid; }
  [[nodiscard]] bool is_blocks() const noexcept { return encoding != EncodingTag::dense; }

  friend bool operator==(const ElementType&, const ElementType&) = default;
};

}  // namespace ht::inline v1
