// What the JSON of a header says, before it is known to make sense.
#pragma once

#include <cstdint>
#include <htensor/base/result.hpp>
#include <htensor/format/parse.hpp>
#include <vector>

#include "format/packed.hpp"

namespace ht::inline v1::format_safetensors {

inline constexpr std::uint64_t length_bytes = sizeof(std::uint64_t);
inline constexpr std::string_view rewrite = "write the file again with its exporter";

/// How the packed members lie. A number says what follows: of which kind it is, and how long its name or key
/// is. Then where that begins in the text, and itself, unless it can be read there as it is. Then of a tensor
/// its dims + 1 and `end_of_dims`, the number of its dtype and its two offsets; of metadata the length of its
/// text and the text.
struct Item {
  bool is_metadata = false;
  bool is_in_text = false;
  std::size_t name_bytes = 0;

  [[nodiscard]] static Item of(std::uint64_t number) noexcept {
    return {(number & 1) != 0, (number & 2) != 0, static_cast<std::size_t>(number / 4)};
  }
  [[nodiscard]] std::uint64_t number() const noexcept {
    return name_bytes * 4 + (is_in_text ? 2U : 0U) + (is_metadata ? 1U : 0U);
  }
};
inline constexpr std::uint64_t end_of_dims = 0;

/// The members of a header in their order
/// and how much of everything there is.
struct HeaderItems {
  Packed packed;
  std::vector<DTypeInfo> dtypes;  // those that tensors have, each once
  std::size_t tensors = 0;
  std::size_t name_bytes = 0;
  std::size_t dims = 0;
  std::size_t values = 0;
  std::size_t key_bytes = 0;
  std::size_t value_bytes = 0;
};

/// Every value is of its type, and every tensor has all that belongs to one. `follows` are the bytes straight
/// behind the text.
[[nodiscard]] Result<HeaderItems> read_header(Bytes text, Bytes follows, const ParseOptions& options);

}  // namespace ht::inline v1::format_safetensors
