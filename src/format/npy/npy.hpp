// `.npy`, as numpy.save writes it: one array after a Python dict literal.
//
//   0 magic "\x93NUMPY"   6 u8 major   7 u8 minor
//   8 u16 (version 1.0) or u32 (2.0, 3.0) length of the header, little endian
//  10 or 12 the header, padded with spaces and ended by a newline, then the data:
//      {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
#pragma once

#include <cstdint>
#include <htensor/format/format.hpp>
#include <string_view>

#include "format/sniff.hpp"

namespace ht::inline v1::format_npy {

inline constexpr std::string_view magic = "\x93NUMPY";
inline constexpr std::uint64_t data_alignment = 64;
/// Limit for the bytes before the data, unless the options set one. numpy writes a few hundred bytes for a
/// plain array; the rest allows for the padding before data with a large alignment.
inline constexpr std::uint64_t default_max_header_bytes = 1 << 20;
/// numpy's own limit.
inline constexpr std::size_t max_rank = 64;

/// A catalog of one tensor named by the options' stem. Big-endian and column-major data is not converted; the
/// entry records both.
[[nodiscard]] Result<ParseResult> parse(const FileParts& parts, std::uint64_t file_bytes,
                                        const ParseOptions& options = {});

/// The file for a catalog of one dense tensor, byte for byte as numpy writes it. The tensor name is not
/// stored; readers take it from the file name.
[[nodiscard]] Result<EncodedFile> encode(const Catalog& catalog, const EncodeOptions& layout);

inline constexpr Format format{
    .name = "npy",
    .extension = ".npy",
    .looks_like = has_magic<magic>,
    .parse = parse,
    .encode = encode,
    // The header is as long as the alignment, and numpy.load limits its size.
    .max_alignment = 8192,
    .max_alignment_reason = "numpy.load accepts headers of at most 10000 bytes by default",
    .byte_orders = Format::ByteOrders::any,
    .column_major = true,
};

}  // namespace ht::inline v1::format_npy
