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
// Entry table, metadata and storage are ranges, {u64 offset, u64 length}, from the header's first byte, as is
// the next header. Names, paths and an entry's metadata are ranges of the metadata. Entries begin at
// multiples of 16.
//
// Nothing is padded inside an entry. What a tensor is stands in its metadata, as IREE's Python runtime writes
// it; see irpa_note.hpp.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/format/encode.hpp>
#include <htensor/format/parse.hpp>
#include <string_view>

#include "format/sniff.hpp"

namespace ht::inline v1::format_irpa {

inline constexpr std::string_view magic = "IRPA";
/// Headers that may be linked. No program is known to write a second one.
inline constexpr std::size_t max_headers = 256;
/// Bytes of headers, entry tables and metadata that are read unless the options say otherwise.
inline constexpr std::uint64_t default_max_header_bytes = std::uint64_t{256} << 20;

/// The entries of all linked headers in order. Entries to be skipped are left out, and those that lie in
/// other files are entries of those files. Asks for entry tables and metadata wherever they lie, and never
/// for what is between them.
[[nodiscard]] Result<Parsed> parse(const Seen& seen, std::uint64_t file_bytes,
                                   const ParseOptions& options = {});

/// The archive as IREE's own builder lays it out, with one header. Entries of a catalog of this format that
/// lie in other files stay there; those of other formats' catalogs are brought in.
[[nodiscard]] Result<Encoded> encode(const Catalog& catalog, const Layout& layout);

/// The note of an entry, if it is more than another spelling of its type and shape; empty otherwise.
[[nodiscard]] std::string_view note_beyond_type(const Entry& entry);

inline constexpr Format format{.name = "irpa",
                               .extension = ".irpa",
                               .looks_like = has_magic<magic>,
                               .parse = parse,
                               .encode = encode,
                               .metadata = MetadataTypes::all};

}  // namespace ht::inline v1::format_irpa
