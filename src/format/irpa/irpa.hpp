// IRPA v0, IREE's parameter archive: entries without dtype or shape, in a table that a header points to.
//
// clang-format off
//   header   0 magic "IRPA"   4 u16 major   6 u16 minor   8 u64 header size = 88
//           16 u64 next header   24 u64 flags   32 u64 entry count
//           40 entry table   56 metadata   72 storage
//   entry    0 u64 entry size   8 u32 kind   12 u64 flags
//           20 name   36 metadata   52 u64 minimum alignment
//   splat   60 u64 length   68 u8 pattern[16]   84 u8 pattern length
//   data    60 range of the storage
//   external 60 path   76 range of the file of that path
// clang-format on
//
// Entry table, metadata and storage are ranges: {u64 offset, u64 length}. Their offsets and the offset of the
// next header are relative to the header's first byte. Names, paths and an entry's metadata are ranges of the
// metadata. Entries begin at multiples of 16.
//
// Entries have no internal padding. The type and shape of a tensor are in its metadata, as IREE's Python
// runtime writes them; see irpa_metadata.hpp.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/format/format.hpp>
#include <string_view>

#include "format/sniff.hpp"

namespace ht::inline v1::format_irpa {

inline constexpr std::string_view magic = "IRPA";
/// Maximum number of linked headers. No known program writes more than one.
inline constexpr std::size_t max_headers = 256;
/// Limit for the bytes of headers, entry tables and metadata, unless the options set one.
inline constexpr std::uint64_t default_max_header_bytes = std::uint64_t{256} << 20;

/// The entries of all linked headers, in order. Entries of kind "skip" are left out. External entries name
/// their file. Requests entry tables and metadata wherever they are stored, but not the data between them.
[[nodiscard]] Result<ParseResult> parse(const FileParts& parts, std::uint64_t file_bytes,
                                        const ParseOptions& options = {});

/// The archive in the layout of IREE's own builder, with one header. External entries of an IRPA catalog stay
/// external if `keep_external` is set; all other data is stored in the archive.
[[nodiscard]] Result<EncodedFile> encode(const Catalog& catalog, const EncodeOptions& layout);

/// Returns `entry.note`, or an empty text if the note describes only dtype and shape, in a spelling that the
/// library does not write, such as the older prefix `PYTORCH:`.
[[nodiscard]] std::string_view note_beyond_type(const Entry& entry);

inline constexpr Format format{.name = "irpa",
                               .extension = ".irpa",
                               .looks_like = has_magic<magic>,
                               .parse = parse,
                               .encode = encode,
                               .metadata = Format::MetadataTypes::all};

}  // namespace ht::inline v1::format_irpa
