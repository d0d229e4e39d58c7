// GGUF, ggml's format: typed metadata, a table of tensors, and their data in the order of the table. Reads
// versions 2 and 3, little- and big-endian; writes version 3.
//
//   "GGUF"   u32 version   i64 tensors   i64 values
//   values:  string key, u32 type, value
//   tensors: string name, u32 rank, i64 dims[rank] innermost first, u32 ggml type, u64 offset in the data
//   zeros up to a multiple of the alignment, then the data, each tensor padded to such a multiple
//
// A string is its u64 length and its bytes, an array its u32 type, u64 count and elements. The alignment is
// the u32 `general.alignment` of the metadata, or 32.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/format/format.hpp>
#include <string_view>
#include <vector>

#include "format/sniff.hpp"

namespace ht::inline v1::format_gguf {

inline constexpr std::string_view magic = "GGUF";
inline constexpr std::string_view alignment_key = "general.alignment";
inline constexpr std::uint64_t default_alignment = 32;
inline constexpr std::size_t max_rank = 4;
/// The limit unless the options set one.
inline constexpr std::uint64_t default_max_header_bytes = std::uint64_t{256} << 20;

/// The header does not store its length. If it continues after the bytes read so far, `parse` requests a
/// longer prefix.
[[nodiscard]] Result<ParseResult> parse(const FileParts& parts, std::uint64_t file_bytes,
                                        const ParseOptions& options = {});

/// The file is big-endian if the tensors are. If `layout.alignment` is set, it replaces the value of
/// `general.alignment`. If the key is missing, it is added unless the alignment is 32.
[[nodiscard]] Result<EncodedFile> encode(const Catalog& catalog, const EncodeOptions& layout);

/// The key of the padding value, the last value of the metadata: a string that consists of spaces. An edit
/// writes it to fill the bytes between header and data. A later edit shortens it to make room.
inline constexpr std::string_view pad_key = "htensor.pad";

/// Reasons why llama.cpp rejects a file of this catalog: names that are too long for ggml, a missing
/// architecture.
[[nodiscard]] std::vector<Error> warnings(const Catalog& catalog);

/// Version, byte order, tensor table and unedited values are kept byte for byte. `bad_name` for edits of
/// values that describe the layout of the file.
[[nodiscard]] Result<Format::EditedHeader> edit(const Format::HeaderEdit& edit);

/// `data_end`, rounded up to the alignment. The parser ignores bytes after it.
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
    .sharding = Format::Sharding::parts,
    // `split.count` has 16 bits.
    .max_shards = UINT16_MAX,
    .byte_orders = Format::ByteOrders::one_per_file,
    .metadata = Format::MetadataTypes::all,
    .raw_dtype = I8::tag,
};

}  // namespace ht::inline v1::format_gguf
