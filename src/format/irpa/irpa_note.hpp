// What an entry's metadata says of its tensor: `TENSORv0:` and JSON, a convention of IREE's Python runtime.
//
//   TENSORv0:{"type": "Tensor", "dtype": "float32", "shape": [2, 3]}
//   TENSORv0:{"type": "Tensor", "dtype": "uint8", "shape": [144], "encoding": "Q4_K", "logical_shape": [256]}
//
// The second is a block encoding, told so that readers which know none still see bytes that they understand.
// The older prefix `PYTORCH:` and dtypes as torch spells them ("torch.float32") are read too.
#pragma once

#include <array>
#include <cstdint>
#include <htensor/format/catalog.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "format/json.hpp"

namespace ht::inline v1::format_irpa {

/// As many as NumPy and torch know.
inline constexpr std::size_t max_rank = 64;
/// Longer metadata describes no tensor.
inline constexpr std::size_t max_description_bytes = 16384;

/// The type and shape of a tensor.
struct Description {
  DTypeTag dtype = DTypeTag::invalid;
  EncodingTag encoding = EncodingTag::dense;
  std::array<std::int64_t, max_rank> dims{};
  std::size_t rank = 0;
  /// Whether `describe` is known to write the same text for it.
  bool is_canonical = false;

  [[nodiscard]] std::span<const std::int64_t> extents() const noexcept { return std::span(dims).first(rank); }
};

/// The type and shape of a tensor of this many bytes from its metadata. nullopt where the metadata is not a
/// description, has an unknown dtype, or describes another number of bytes.
[[nodiscard]] std::optional<Description> read_description(std::string_view metadata, std::uint64_t bytes,
                                                          json::Scratch& scratch);

/// The same by the JSON parser alone. `read_description` reads the text that `describe` and IREE write
/// directly, as a JSON parser costs more than all other work on an entry, and the rest by this.
[[nodiscard]] std::optional<Description> read_json_description(std::string_view metadata, std::uint64_t bytes,
                                                               json::Scratch& scratch);

/// The metadata for a typed tensor, from which `read_description` gives its type and shape back. Nothing
/// where it cannot be told: for users' own dtypes, and for shapes that no such metadata has.
[[nodiscard]] std::optional<std::string> describe(const Entry& entry);

}  // namespace ht::inline v1::format_irpa
