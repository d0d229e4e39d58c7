// Reads and writes the metadata of IRPA entries: the description of a tensor (dtype and shape), and the
// metadata of the model.
//
// The description is `TENSORv0:` and JSON, a convention of IREE's Python runtime:
//
//   TENSORv0:{"type": "Tensor", "dtype": "float32", "shape": [2, 3]}
//   TENSORv0:{"type": "Tensor", "dtype": "uint8", "shape": [144], "encoding": "Q4_K", "logical_shape": [256]}
//
// The second example is a block encoding. Readers that do not know it still see an array of uint8. The older
// prefix `PYTORCH:` and torch's dtype names ("torch.float32") are read too.
//
// An archive has no field for the metadata of the model. It is stored in the metadata of a "skip" entry:
//
//   name "htensor.metadata"
//   metadata "METADATAv0:", u64 count, then pairs as in GGUF: u64 length and bytes of the key, u32 type,
//   value
//
// IREE and other readers ignore such entries.
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

#include "format/json/json.hpp"

namespace ht::inline v1::format_irpa {

/// The limit of NumPy and torch.
inline constexpr std::size_t max_rank = 64;
/// Longer metadata is not parsed as a description.
inline constexpr std::size_t max_description_bytes = 16384;

struct Dims {
  std::array<std::int64_t, max_rank> values{};
  std::size_t rank = 0;

  /// False if the number is not a valid dimension or the rank limit is reached.
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
  /// If true, `describe` writes exactly the text that was read. If false, this is not known: compare the text
  /// with that of `describe`.
  bool is_known_canonical = false;
  /// Whether the metadata has members other than type and shape.
  bool has_other_members = false;

  [[nodiscard]] std::span<const std::int64_t> extents() const noexcept { return dims.span(); }
};

/// The type and shape of a tensor of this many bytes from its metadata. nullopt if the metadata is not a
/// description, has an unknown dtype, or describes another number of bytes.
[[nodiscard]] std::optional<Description> read_description(std::string_view metadata, std::uint64_t bytes,
                                                          json::Scratch& scratch);

/// The same with the JSON parser only. `read_description` has a faster reader for the text that `describe`
/// and IREE write, because a JSON parser costs more than all other work on an entry.
[[nodiscard]] std::optional<Description> read_json_description(std::string_view metadata, std::uint64_t bytes,
                                                               json::Scratch& scratch);

/// Returns the metadata from which `read_description` restores the dtype or encoding and the shape of the
/// entry. Precondition: `check_data_size` accepts the entry. nullopt for an entry without a type, for user
/// dtypes and for more than `max_rank` dimensions.
[[nodiscard]] std::optional<std::string> describe(const Entry& entry);

inline constexpr std::string_view metadata_name = "htensor.metadata";

/// The metadata of the entry `htensor.metadata`, which stores the metadata of the model. `would_lose` for
/// values that could not be read back.
[[nodiscard]] Result<std::string> encode_model_metadata(const Metadata& metadata);

/// The inverse of `encode_model_metadata`: adds the values in `entry_metadata` to `metadata`. `offset` is the
/// offset of the entry, for the Error.
[[nodiscard]] Result<void> decode_model_metadata(std::string_view entry_metadata, std::uint64_t offset,
                                                 Metadata& metadata);

}  // namespace ht::inline v1::format_irpa
