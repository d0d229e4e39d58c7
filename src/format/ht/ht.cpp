#include "format/ht/ht.hpp"

#include <algorithm>
#include <htensor/dtype/packed.hpp>
#include <htensor/hash/digest.hpp>

#include "format/format_errors.hpp"

namespace ht::inline v1::format_ht {
namespace {

// Offset of each field.
enum Field : std::size_t {
  at_magic = 0,
  at_version = 8,
  at_dtype = 10,
  at_rank = 11,
  at_flags = 12,
  at_data_offset = 16,
  at_data_bytes = 24,
  at_dims = 32,
  at_payload_crc = 96,
  at_reserved = 104,
  at_header_crc = 120,
};

constexpr std::uint32_t flag_payload_crc = 1;

Result<void> check_magic_checksum_and_version(Bytes bytes) {
  if (!std::ranges::equal(bytes.first(magic.size()), bytes_of(magic))) {
    return fail(broken(ErrorCode::bad_magic, "magic_is_htensor", {at_magic},
                       "file does not start with the magic 'HTENSOR'"));
  }
  const auto stored = load_le<std::uint64_t>(bytes.subspan(at_header_crc));
  const auto actual = crc64nvme(bytes.first(at_header_crc));
  if (stored != actual) {
    return fail(broken(ErrorCode::checksum_mismatch, "header_checksum_matches", {at_header_crc},
                       "checksum mismatch in the header: computed {:016x}, stored {:016x}", actual, stored)
                    .with_hint("download the file again"));
  }
  const auto found = load_le<std::uint16_t>(bytes.subspan(at_version));
  if (found != version) {
    return fail(broken(ErrorCode::bad_version, "version_is_1", {at_version},
                       "ht version {} is not supported; the supported version is {}", found, version)
                    .with_hint("update htensor, or write the file again with an older htensor"));
  }
  return {};
}

Result<void> check_flags(Bytes bytes) {
  const auto flags = load_le<std::uint32_t>(bytes.subspan(at_flags));
  if ((flags & ~flag_payload_crc) != 0) {
    return fail(broken(ErrorCode::bad_header, "unknown_flags_are_zero", {at_flags},
                       "flags are {:#x} but only bit 0 is defined", flags));
  }
  if ((flags & flag_payload_crc) == 0 && load_le<std::uint64_t>(bytes.subspan(at_payload_crc)) != 0) {
    return fail(broken(ErrorCode::bad_header, "payload_checksum_requires_its_flag", {at_payload_crc},
                       "payload checksum is set but its flag is not"));
  }
  for (const std::size_t at : {std::size_t{at_reserved}, std::size_t{at_reserved} + 8}) {
    if (load_le<std::uint64_t>(bytes.subspan(at)) != 0) {
      return fail(
          broken(ErrorCode::bad_header, "reserved_fields_are_zero", {at}, "reserved field is not zero"));
    }
  }
  return {};
}

Result<void> read_dims(Bytes bytes, Header& header) {
  header.rank = std::to_integer<std::uint8_t>(bytes[at_rank]);
  if (header.rank > header.dims.size()) {
    return fail(broken(ErrorCode::bad_shape, "rank_is_at_most_8", {at_rank}, "rank {} exceeds the limit of 8",
                       header.rank));
  }
  for (std::size_t i = 0; i < header.dims.size(); ++i) {
    const std::size_t at = at_dims + 8 * i;
    const auto dim = load_le<std::uint64_t>(bytes.subspan(at));
    if (i >= header.rank && dim != 0) {
      return fail(broken(ErrorCode::bad_shape, "unused_dims_are_zero", {at},
                         "dimension {} is {} but must be 0 beyond rank {}", i, dim, header.rank));
    }
    const auto extent = checked::narrow<std::int64_t>(dim);
    if (!extent) {
      return fail(broken(ErrorCode::size_overflow, "dims_fit_63_bits", {at},
                         "dimension {} is {}, which exceeds 2^63-1", i, dim));
    }
    header.dims[i] = *extent;
  }
  return {};
}

Result<void> check_data_bytes(const Header& header, const DTypeInfo& dtype) {
  const auto expected = dense_bytes(header.extents(), dtype.bits);
  if (!expected) {
    return fail(broken(ErrorCode::size_overflow, "data_size_fits_63_bits", {at_dims},
                       "shape [{}] of {} exceeds 2^63-1 bytes", fmt::join(header.extents(), ", "),
                       dtype.name));
  }
  if (header.data_bytes != *expected) {
    return fail(broken(ErrorCode::size_mismatch, "data_size_matches_the_shape", {at_data_bytes},
                       "data size field is {} bytes but {} [{}] needs {}", header.data_bytes, dtype.name,
                       fmt::join(header.extents(), ", "), *expected));
  }
  return {};
}

Result<void> read_data_offset(Bytes bytes, Header& header) {
  header.data_offset = load_le<std::uint64_t>(bytes.subspan(at_data_offset));
  if (header.data_offset < header_bytes) {
    return fail(broken(ErrorCode::bad_offset, "data_starts_after_the_header", {at_data_offset},
                       "data starts at byte {}, inside the header of {} bytes", header.data_offset,
                       header_bytes));
  }
  if (header.data_offset % data_alignment != 0) {
    return fail(broken(ErrorCode::misaligned, "data_offset_is_a_multiple_of_64", {at_data_offset},
                       "data starts at byte {}, which is not a multiple of 64", header.data_offset));
  }
  if (!checked::add(header.data_offset, header.data_bytes)) {
    return fail(broken(ErrorCode::size_overflow, "data_end_fits_64_bits", {at_data_offset},
                       "data of {} bytes at byte {} ends beyond 2^64-1", header.data_bytes,
                       header.data_offset));
  }
  return {};
}

// Checks the file size against the header.
Result<void> check_length(const Header& header, std::uint64_t file_bytes, bool allow_incomplete) {
  const std::uint64_t end = header.data_offset + header.data_bytes;
  if (!allow_incomplete) HT_TRY(check_data_is_complete(end, file_bytes));
  if (file_bytes > end) {
    return fail(broken(ErrorCode::trailing_bytes, "nothing_follows_the_data", {end},
                       "{} bytes follow the data, which ends at byte {}", file_bytes - end, end));
  }
  return {};
}

}  // namespace

Result<Header> make_header(const DTypeInfo& dtype, std::span<const std::int64_t> dims) {
  Header header{.dtype = dtype.tag};
  if (dims.size() > header.dims.size()) {
    return fail(Error(ErrorCode::bad_shape, "rank_is_at_most_8",
                      format_text("rank {} exceeds the limit of 8", dims.size()))
                    .with_hint("reshape the tensor to at most 8 dimensions"));
  }
  if (std::ranges::any_of(dims, [](std::int64_t dim) { return dim < 0; })) {
    return fail(Error(ErrorCode::bad_shape, "dims_are_not_negative",
                      format_text("shape [{}] has a negative extent", fmt::join(dims, ", ")))
                    .with_hint("pass dimensions of 0 or more"));
  }
  const auto bytes = dense_bytes(dims, dtype.bits);
  if (!bytes) {
    return fail(Error(ErrorCode::size_overflow, "data_size_fits_63_bits",
                      format_text("shape [{}] of {} exceeds 2^63-1 bytes", fmt::join(dims, ", "), dtype.name))
                    .with_hint("pass a smaller shape"));
  }
  header.rank = static_cast<std::uint8_t>(dims.size());
  std::ranges::copy(dims, header.dims.begin());
  header.data_bytes = *bytes;
  return header;
}

Result<Header> decode(std::span<const std::byte, header_bytes> bytes, std::span<const DTypeInfo> user_dtypes,
                      bool require_known_dtype) {
  HT_TRY(check_magic_checksum_and_version(bytes));
  HT_TRY(check_flags(bytes));
  Header header{.dtype = static_cast<DTypeTag>(bytes[at_dtype])};
  const auto dtype = find_dtype(header.dtype, user_dtypes);
  const bool is_user_tag = static_cast<std::uint8_t>(header.dtype) >= first_user_tag;
  if (!dtype && (require_known_dtype || !is_user_tag))
    return fail(unknown_dtype(header.dtype).at_offset(at_dtype));
  HT_TRY(read_dims(bytes, header));
  const Bytes all = bytes;
  header.data_bytes = load_le<std::uint64_t>(all.subspan(at_data_bytes));
  if (dtype) HT_TRY(check_data_bytes(header, *dtype));
  HT_TRY(read_data_offset(bytes, header));
  if ((load_le<std::uint32_t>(all.subspan(at_flags)) & flag_payload_crc) != 0) {
    header.payload_crc = load_le<std::uint64_t>(all.subspan(at_payload_crc));
  }
  return header;
}

Result<std::optional<Format::OwnChecksum>> own_checksum(Bytes prefix) {
  if (prefix.size() < header_bytes) return std::nullopt;
  const auto header = HT_TRY(decode(prefix.first<header_bytes>(), {}, false));
  if (!header.payload_crc) return std::nullopt;
  return Format::OwnChecksum{.header_bytes = header_bytes,
                             .offset = header.data_offset,
                             .bytes = header.data_bytes,
                             .crc = *header.payload_crc};
}

void finish(MutableBytes header, std::uint64_t crc) {
  store_le(header.subspan(at_flags), flag_payload_crc);
  store_le(header.subspan(at_payload_crc), crc);
  store_le(header.subspan(at_header_crc), crc64nvme(header.first(at_header_crc)));
}

std::array<std::byte, header_bytes> encode(const Header& header) noexcept {
  std::array<std::byte, header_bytes> bytes{};
  const MutableBytes all(bytes);
  std::ranges::copy(bytes_of(magic), bytes.begin());
  store_le(all.subspan(at_version), version);
  store_le(all.subspan(at_dtype), static_cast<std::uint8_t>(header.dtype));
  store_le(all.subspan(at_rank), header.rank);
  store_le(all.subspan(at_data_offset), header.data_offset);
  store_le(all.subspan(at_data_bytes), header.data_bytes);
  for (std::size_t i = 0; i < header.dims.size(); ++i) store_le(all.subspan(at_dims + 8 * i), header.dims[i]);
  store_le(all.subspan(at_header_crc), crc64nvme(all.first(at_header_crc)));
  if (header.payload_crc) finish(bytes, *header.payload_crc);
  return bytes;
}

Result<ParseResult> parse(const FileParts& parts, std::uint64_t file_bytes, const ParseOptions& options) {
  if (file_bytes < header_bytes) {
    return fail(broken(ErrorCode::truncated, "header_is_complete", {file_bytes},
                       "header ends at byte {} but the file has {} bytes", header_bytes, file_bytes));
  }
  if (parts.prefix().size() < header_bytes) return Need{0, header_bytes};
  const auto header = HT_TRY(decode(parts.prefix().first<header_bytes>(), options.dtypes));
  HT_TRY(check_length(header, file_bytes, options.allow_incomplete));
  CatalogBuilder builder("ht");
  HT_TRY(builder.add({.name = options.stem,
                      .dtype = header.dtype,
                      .dims = header.extents(),
                      .offset = header.data_offset,
                      .bytes = header.data_bytes}));
  return std::move(builder).build();
}

Result<EncodedFile> encode(const Catalog& catalog, const EncodeOptions& layout) {
  if (catalog.size() != 1) {
    return fail(
        Error(ErrorCode::would_lose, "ht_holds_one_tensor",
              format_text("ht stores one tensor but the model has {}", catalog.size()))
            .with_hint(
                "export one tensor with `htensor export`, or convert to safetensors, GGUF or IRPA instead"));
  }
  const Entry entry = catalog[0];
  HT_TRY(check_plain(entry, "ht"));
  HT_TRY(check_no_metadata(catalog, "ht"));
  if (entry.dims.size() > Header{}.dims.size()) {
    return fail(
        would_lose_error("ht_carries_at_most_8_dimensions", entry, "convert to safetensors or IRPA instead",
                         "tensor '{}': rank {} exceeds ht's limit of 8", entry.name, entry.dims.size()));
  }
  HT_TRY(check_data_size(entry));
  // The width of a user dtype is not known here; the size is set from the entry.
  auto header = HT_TRY(make_header({.tag = entry.dtype, .name = "bytes", .bits = 8}, entry.dims));
  header.data_bytes = entry.bytes;
  const std::uint64_t alignment = std::max(layout.alignment, data_alignment);
  const auto begin = checked::align_up(header_bytes, alignment);
  const auto end = begin ? checked::add(*begin, header.data_bytes) : std::nullopt;
  if (!end) return fail(file_too_large());
  header.data_offset = *begin;
  const auto bytes = encode(header);
  return EncodedFile{.header = {bytes.begin(), bytes.end()}, .offsets = {begin}, .file_bytes = *end};
}

}  // namespace ht::inline v1::format_ht
