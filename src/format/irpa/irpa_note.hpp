// What the metadata of entries says. Of a tensor: `TENSORv0:` and JSON, a convention of IREE's Python
// runtime.
//
//   TENSORv0:{"type": "Tensor", "dtype": "float32", "shape": [2, 3]}
//   TENSORv0:{"type": "Tensor", "dtype": "uint8", "shape": [144], "encoding": "Q4_K", "logical_shape": [256]}
//
// The second is a block encoding, told so that readers which know none still see bytes that they understand.
// The older prefix `PYTORCH:` and dtypes as torch spells them ("torch.float32") are read too.
//
// A model's own metadata, for which an archive has no place, is that of an entry to be skipped:
//
//   name "htensor.metadata"
//   metadata "METADATAv0:", u64 count, then as GGUF has them: u64 length and bytes of the key, u32 type, the
//   value
//
// IREE and others pass over such entries.
#pragma once

#include <array>
#include <cstdint>
#include <htensor/base/result.hpp>
#include <htensor/format/catalog.hpp>
#include <htensor/format/metadata.hpp>
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

struct Dims {
  std::array<std::int64_t, max_rank> values{};
  std::size_t rank = 0;

  /// False where there is no such dimension, or no room for it.
  bool add(std::optional<std::uint64_t> number) {
    const auto dim = number ? checked::narrow<std::int64_t>(*number) : std::nullopt;
    if (!dim || rank == max_rank) return false;
    values[rank++] = *dim;
    return true;
  }
  [[nodiscard]] std::span<const std::int64_t> span() const { return std::span(values).first(rank); }
};

/// The type and shape of a tensor.
struct Description {
  DTypeTag dtype = DTypeTag::invalid;
  EncodingTag encoding = EncodingTag::dense;
  Dims dims{};
  /// Whether `describe` is known to write the same text for it.
  bool is_canonical = false;
  /// Whether the metadata has members beside the type and the shape.
  bool has_other_members = false;

  [[nodiscard]] std::span<const std::int64_t> extents() const noexcept { return dims.span(); }
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

inline constexpr std::string_view metadata_name = "htensor.metadata";

/// `would_lose` for what could not be read back.
[[nodiscard]] Result<std::string> metadata_text(const Metadata& metadata);

/// Adds what the text says. `offset` is where its entry is, for the Error.
[[nodiscard]] Result<void> read_metadata_text(std::string_view text, std::uint64_t offset,
                                              Metadata& metadata);

}  // namespace ht::inline v1::format_irpa
