// `.ht`: one tensor after a 128-byte header. The normative text is spec/ht-format.md.
//
//   0 magic "HTENSOR\0"   8 u16 version   10 u8 dtype tag   11 u8 rank   12 u32 flags
//  16 u64 data offset    24 u64 data bytes    32 u64 dims[8]
//  96 u64 payload crc   104 u64 zero   112 u64 zero   120 u64 crc of bytes 0 to 119
#pragma once

#include <array>
#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/format/format.hpp>
#include <optional>

#include "format/sniff.hpp"

namespace ht::inline v1::format_ht {

inline constexpr std::uint64_t header_bytes = 128;
inline constexpr std::string_view magic{"HTENSOR\0", 8};
inline constexpr std::uint16_t version = 1;
inline constexpr std::uint64_t data_alignment = 64;

/// The fields of a valid header.
struct Header {
  DTypeTag dtype = DTypeTag::invalid;
  std::uint8_t rank = 0;
  /// Outermost first; dims from `rank` on are 0.
  std::array<std::int64_t, 8> dims{};
  std::uint64_t data_offset = header_bytes;
  std::uint64_t data_bytes = 0;
  /// The CRC-64/NVME of the data; nullopt if it was not computed.
  std::optional<std::uint64_t> payload_crc{};

  [[nodiscard]] std::span<const std::int64_t> extents() const noexcept { return std::span(dims).first(rank); }
  friend bool operator==(const Header&, const Header&) = default;
};

/// The header of a dense tensor; sizes are computed from dtype and dims.
[[nodiscard]] Result<Header> make_header(const DTypeInfo& dtype, std::span<const std::int64_t> dims);

/// Checks every rule that the 128 bytes can violate, the magic and the checksum first. If
/// `require_known_dtype` is false, the tag of a user-defined dtype that is not in `user_dtypes` is accepted,
/// and its data size is not compared with the shape.
[[nodiscard]] Result<Header> decode(std::span<const std::byte, header_bytes> bytes,
                                    std::span<const DTypeInfo> user_dtypes = {},
                                    bool require_known_dtype = true);

/// The inverse of `decode`.
[[nodiscard]] std::array<std::byte, header_bytes> encode(const Header& header) noexcept;

/// A catalog of one tensor named by the options' stem.
[[nodiscard]] Result<ParseResult> parse(const FileParts& parts, std::uint64_t file_bytes,
                                        const ParseOptions& options = {});

/// The file for a catalog of one dense tensor. The tensor name is not stored; readers take it from
/// the file name.
[[nodiscard]] Result<EncodedFile> encode(const Catalog& catalog, const EncodeOptions& layout);

/// Stores the checksum of the data in a header, and updates the checksum of the header.
void finish(MutableBytes header, std::uint64_t crc);

/// The checksum of the data; nullopt if the header has none. The header's own checksum is checked. User
/// dtypes need not be known: their data size is not compared with the shape.
[[nodiscard]] Result<std::optional<Format::OwnChecksum>> own_checksum(Bytes prefix);

inline constexpr Format format{.name = "ht",
                               .extension = ".ht",
                               .looks_like = has_magic<magic>,
                               .parse = parse,
                               .encode = encode,
                               .finish = finish,
                               .own_checksum = own_checksum};

}  // namespace ht::inline v1::format_ht
