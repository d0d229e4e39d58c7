// safetensors: a JSON header that describes every byte of the data after it.
//
//   0 u64 header length N   8 N bytes of JSON   8 + N data, tiled by the tensors without gap or overlap
//
// {"__metadata__":{"format":"pt"},"w":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]}}
#pragma once

#include <htensor/format/format.hpp>

namespace ht::inline v1::format_safetensors {

/// The reference reader's limit for the size of the JSON.
inline constexpr std::uint64_t default_max_header_bytes = 100'000'000;

/// The rank limit of NumPy and PyTorch. It bounds the memory that a header can demand.
inline constexpr std::size_t max_rank = 64;

[[nodiscard]] bool looks_like(Bytes prefix, std::uint64_t file_bytes);

/// Tensors in the order of the header. Accepts the same files as the reference reader, except duplicate keys,
/// shapes of more than `max_rank` dimensions and sizes over 63 bits.
[[nodiscard]] Result<ParseResult> parse(const FileParts& parts, std::uint64_t file_bytes,
                                        const ParseOptions& options = {});

/// The bytes that the reference writer produces for tensors in this order.
[[nodiscard]] Result<EncodedFile> encode(const Catalog& catalog, const EncodeOptions& layout = {});

/// Replaces the metadata in the JSON, keeps all other members byte for byte, and pads the header with spaces.
[[nodiscard]] Result<Format::EditedHeader> edit(const Format::HeaderEdit& edit);

/// The order of the reference crate: by dtype, the largest alignment first, then by name.
[[nodiscard]] bool precedes(const Entry& a, const Entry& b);

inline constexpr Format format{.name = "safetensors",
                               .extension = ".safetensors",
                               .looks_like = looks_like,
                               .parse = parse,
                               .encode = encode,
                               .edit = edit,
                               .precedes = precedes,
                               .sharding = Format::Sharding::index,
                               .metadata = Format::MetadataTypes::text};

}  // namespace ht::inline v1::format_safetensors
