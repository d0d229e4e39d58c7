// GGUF, ggml's format: typed metadata, a table of tensors, and their data in the table's order. Versions 2
// and 3, little and big endian; version 3 is written.
//
//   "GGUF"   u32 version   i64 tensors   i64 values
//   values:  string key, u32 type, value
//   tensors: string name, u32 rank, i64 dims[rank] innermost first, u32 ggml type, u64 offset in the data
//   zeros up to a multiple of the alignment, then the data, each tensor's filled up to such a multiple
//
// A string is its u64 length and its bytes, an array its u32 type, u64 count and elements. The alignment is
// the u32 `general.alignment` of the metadata, or 32.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/format/encode.hpp>
#include <htensor/format/parse.hpp>
#include <string_view>
#include <vector>

#include "format/sniff.hpp"

namespace ht::inline v1::format_gguf {

inline constexpr std::string_view magic = "GGUF";
inline constexpr std::string_view alignment_key = "general.alignment";
inline constexpr std::uint64_t default_alignment = 32;
inline constexpr std::size_t max_rank = 4;
/// Where the options name no limit.
inline constexpr std::uint64_t default_max_header_bytes = std::uint64_t{256} << 20;

/// The header has no length: where it goes on behind what is seen, ever larger beginnings are asked for.
[[nodiscard]] Result<Parsed> parse(const Seen& seen, std::uint64_t file_bytes,
                                   const ParseOptions& options = {});

/// In big endian where the tensors are. An alignment that the layout asks for goes into the metadata.
[[nodiscard]] Result<Encoded> encode(const Catalog& catalog, const Layout& layout);

/// A string of spaces under this key, behind all others, fills a header up whose data is to stay where it is.
/// Edits take it for room, and leave as much of it as they do not need.
inline constexpr std::string_view pad_key = "htensor.pad";

/// Why llama.cpp refuses a file of this catalog: names that are too long for ggml, no architecture.
[[nodiscard]] std::vector<Error> warnings(const Catalog& catalog);

/// Version, byte order, table of tensors and all values that stay are kept byte for byte. `bad_name` for
/// values that say how the file is laid out.
[[nodiscard]] Result<EditedHeader> edit(const HeaderEdit& edit);

/// The next multiple of the alignment: files may end there, or have other bytes behind.
[[nodiscard]] std::uint64_t file_end(const Catalog& catalog, std::uint64_t data_end);

inline constexpr Format format{
    .name = "gguf",
    .extension = ".gguf",
    .looks_like = has_magic<magic>,
    .parse = parse,
    .encode = encode,
    .edit = edit,
    .warnings = warnings,
    .file_end = file_end,
    .sharding = Sharding::parts,
    // `split.count` has 16 bits.
    .max_shards = UINT16_MAX,
    .byte_orders = ByteOrders::one_per_file,
    .metadata = MetadataTypes::all,
    .raw_dtype = I8::tag,
};

}  // namespace ht::inline v1::format_gguf
