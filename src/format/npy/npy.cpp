#include "format/npy/npy.hpp"

#include <algorithm>
#include <htensor/base/utf8.hpp>
#include <htensor/dtype/relations.hpp>
#include <htensor/dtype/sizes.hpp>

#include "base/format_text.hpp"
#include "format/carried.hpp"
#include "format/formats.hpp"
#include "format/npy/npy_header.hpp"

namespace ht::inline v1::format_npy {
namespace {

// Where each field lies.
enum Field : std::size_t { at_magic = 0, at_major = 6, at_minor = 7, at_length = 8 };

// Magic, version and the length of the header, which has two bytes in version 1 and four later.
constexpr std::uint64_t short_preamble = at_length + sizeof(std::uint16_t);
constexpr std::uint64_t long_preamble = at_length + sizeof(std::uint32_t);

Error cut_short(std::uint64_t file_bytes, std::uint64_t wanted) {
  return broken(ErrorCode::truncated, "header_is_all_there",
                format_text("has {} bytes, and the header alone has {}", file_bytes, wanted), file_bytes)
      .with_hint("the download or copy was cut short: fetch it again");
}

/// The major version.
Result<int> read_version(Bytes start) {
  if (!std::ranges::equal(start.first(magic.size()), bytes_of(magic))) {
    return fail(broken(ErrorCode::bad_magic, "magic_is_numpy", "does not begin with the magic of a .npy file",
                       at_magic));
  }
  const auto major = std::to_integer<int>(start[at_major]);
  const auto minor = std::to_integer<int>(start[at_minor]);
  if (major < 1 || major > 3 || minor != 0) {
    return fail(
        broken(ErrorCode::bad_version, "npy_version_is_1_2_or_3",
               format_text("is of version {}.{} of NPY, and 1.0, 2.0 and 3.0 are known here", major, minor),
               at_major)
            .with_hint("a newer version of this library may read it"));
  }
  return major;
}

Result<void> check_limit(std::uint64_t data_offset, std::uint64_t wanted_limit) {
  const std::uint64_t limit = wanted_limit == 0 ? default_header_limit : wanted_limit;
  if (data_offset <= limit) return {};
  return fail(
      broken(ErrorCode::header_too_large, "npy_header_is_within_the_limit",
             format_text("says that its data begins at byte {}, and {} is the most that is read before",
                         data_offset, limit),
             at_length)
          .with_hint("no plain array needs that much; if the file is trusted, raise max_header_bytes"));
}

// The file's length against what the header says.
Result<void> check_length(std::uint64_t end, std::uint64_t file_bytes, bool headers_only) {
  if (file_bytes < end && !headers_only) {
    return fail(broken(ErrorCode::truncated, "data_is_all_there",
                       format_text("ends at byte {}, but its data ends at byte {}", file_bytes, end),
                       file_bytes)
                    .with_hint("the download or copy was cut short: fetch it again"));
  }
  if (file_bytes > end) {
    return fail(
        broken(ErrorCode::trailing_bytes, "nothing_follows_the_data",
               format_text("has {} bytes after the end of its array", file_bytes - end), end)
            .with_hint("if several arrays were saved into it, give each a file of its own: numpy.load "
                       "on the open file gives one after another"));
  }
  return {};
}

Result<Catalog> read_array(Bytes header, int version, std::uint64_t file_bytes, const ParseOptions& options) {
  const std::uint64_t begin = version == 1 ? short_preamble : long_preamble;
  const Bytes rest = header.subspan(static_cast<std::size_t>(begin));
  const std::string_view text(reinterpret_cast<const char*>(rest.data()), rest.size());
  // The versions before are in Latin-1, in which every byte is a character.
  if (version == 3 && !is_utf8(text)) {
    return fail(broken(ErrorCode::bad_utf8, "npy_header_is_utf8", "has a header that is no UTF-8", begin));
  }
  const auto literal = HT_TRY(read_literal(text, begin));
  const auto descr = HT_TRY(read_descr(literal.descr, literal.descr_at));
  const auto bytes = dense_bytes(literal.shape, descr.dtype.bits);
  if (!bytes) {
    return fail(broken(ErrorCode::size_overflow, "data_size_fits_63_bits",
                       format_text("has dimensions [{}] of {}, more bytes than 63 bits can count",
                                   fmt::join(literal.shape, ", "), descr.dtype.name),
                       literal.shape_at));
  }
  // 63 bits and a header of 32 do not overflow.
  HT_TRY(check_length(header.size() + *bytes, file_bytes, options.headers_only));
  const bool column_major = literal.fortran_order && literal.shape.size() > 1;
  CatalogBuilder builder("npy");
  HT_TRY(builder.add({.name = options.stem,
                      .dtype = descr.dtype.tag,
                      .dims = literal.shape,
                      .order = column_major ? ElementOrder::column_major : ElementOrder::row_major,
                      .byte_order = descr.byte_order,
                      .offset = header.size(),
                      .bytes = *bytes}));
  return std::move(builder).build();
}

/// The dtype of NPY that takes every value of one that NPY does not know.
std::string_view nearest(DTypeTag tag) {
  const auto found = visit_dtype(tag, []<class D>(D) -> std::string_view {
    if constexpr (LosslessTo<D, U8>) return "U8";
    if constexpr (LosslessTo<D, I8>) return "I8";
    if constexpr (LosslessTo<D, F16>) return "F16";
    return "F32";
  });
  return found ? *found : "a dtype that numpy has";
}

Result<std::string> descr_for(const Entry& entry) {
  // Order and byte order are what NPY carries and others do not.
  Entry plain = entry;
  plain.order = ElementOrder::row_major;
  plain.byte_order = ByteOrder::little;
  HT_TRY(check_plain(plain, "NPY"));
  if (auto descr = write_descr(entry.dtype, entry.byte_order)) return *std::move(descr);
  const auto dtype = find_dtype(entry.dtype);
  return fail(
      Error(ErrorCode::would_lose, "npy_carries_the_dtype",
            format_text("tensor '{}' is of {}, which NPY does not know", entry.name,
                        dtype ? dtype->name : "a dtype of a user's own"))
          .at_tensor(entry.name)
          .with_hint(format_text("cast it to {} first, or choose safetensors", nearest(entry.dtype))));
}

Result<void> check_rank(const Entry& entry) {
  if (entry.dims.size() <= max_rank) return {};
  return fail(Error(ErrorCode::would_lose, "npy_carries_at_most_64_dims",
                    format_text("tensor '{}' has {} dimensions, and numpy takes at most {}", entry.name,
                                entry.dims.size(), max_rank))
                  .at_tensor(entry.name)
                  .with_hint("join some of its dimensions first"));
}

// The header is as long as it takes to align the data, and has to be read again.
Result<void> check_alignment(std::uint64_t alignment) {
  if (alignment <= default_header_limit) return {};
  return fail(Error(ErrorCode::header_too_large, "npy_alignment_is_within_the_limit",
                    format_text("data at multiples of {} needs a header of that length, and {} is the most "
                                "that is read back",
                                alignment, default_header_limit))
                  .with_hint("choose 4096: numpy itself reads at most 10000 bytes unless it is told more"));
}

/// The dict as numpy writes it, with room behind it for the outermost dimension in memory to grow.
std::string dict_of(const Entry& entry, const std::string& descr) {
  const bool column_major = entry.order == ElementOrder::column_major && entry.dims.size() > 1;
  std::string text =
      "{'descr': '" + descr + "', 'fortran_order': " + (column_major ? "True" : "False") + ", 'shape': (";
  for (std::size_t i = 0; i < entry.dims.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(entry.dims[i]);
  }
  text += entry.dims.size() == 1 ? ",), }" : "), }";
  if (entry.dims.empty()) return text;
  constexpr std::size_t digits_to_grow_to = 21;
  const auto grows = column_major ? entry.dims.back() : entry.dims.front();
  return text.append(digits_to_grow_to - std::to_string(grows).size(), ' ');
}

/// All before the data. numpy pads with one space or more, also where none is needed.
std::vector<std::byte> wrapped(std::string_view dict, std::uint64_t data_offset, bool is_long) {
  const std::uint64_t preamble = is_long ? long_preamble : short_preamble;
  std::vector<std::byte> header(static_cast<std::size_t>(data_offset), std::byte{' '});
  const MutableBytes all(header);
  std::ranges::copy(bytes_of(magic), header.begin());
  store_le(all.subspan(at_major), static_cast<std::uint8_t>(is_long ? 2 : 1));
  store_le(all.subspan(at_minor), std::uint8_t{0});
  if (is_long) {
    store_le(all.subspan(at_length), static_cast<std::uint32_t>(data_offset - preamble));
  } else {
    store_le(all.subspan(at_length), static_cast<std::uint16_t>(data_offset - preamble));
  }
  std::ranges::copy(bytes_of(dict), header.begin() + static_cast<std::ptrdiff_t>(preamble));
  header.back() = std::byte{'\n'};
  return header;
}

}  // namespace

bool looks_like(Bytes prefix, std::uint64_t /*file_bytes*/) { return begins_with(prefix, magic); }

Result<Parsed> parse(const Seen& seen, std::uint64_t file_bytes, const ParseOptions& options) {
  if (file_bytes < short_preamble) return fail(cut_short(file_bytes, short_preamble));
  const auto start = seen.range(0, short_preamble);
  if (!start) return Need{0, short_preamble};
  const int version = HT_TRY(read_version(*start));
  const std::uint64_t preamble = version == 1 ? short_preamble : long_preamble;
  if (file_bytes < preamble) return fail(cut_short(file_bytes, preamble));
  const auto fields = seen.range(0, preamble);
  if (!fields) return Need{0, preamble};
  const Bytes length = fields->subspan(at_length);
  const std::uint64_t data_offset =
      preamble + (version == 1 ? load_le<std::uint16_t>(length) : load_le<std::uint32_t>(length));
  HT_TRY(check_limit(data_offset, options.max_header_bytes));
  if (file_bytes < data_offset) return fail(cut_short(file_bytes, data_offset));
  const auto header = seen.range(0, data_offset);
  if (!header) return Need{0, data_offset};
  return read_array(*header, version, file_bytes, options);
}

Result<Encoded> encode(const Catalog& catalog, const Layout& layout) {
  if (catalog.size() != 1) {
    return fail(Error(ErrorCode::would_lose, "npy_holds_one_tensor",
                      format_text("a .npy file holds one tensor, and there are {}", catalog.size()))
                    .with_hint("choose one of them, or GGUF, IRPA or safetensors, which hold many"));
  }
  HT_TRY(check_no_metadata(catalog, "NPY"));
  const Entry entry = catalog[0];
  const auto descr = HT_TRY(descr_for(entry));
  HT_TRY(check_rank(entry));
  const std::uint64_t alignment = std::max(layout.alignment, data_alignment);
  HT_TRY(check_alignment(alignment));
  const std::string dict = dict_of(entry, descr);
  const auto data_offset = [&](std::uint64_t preamble) {
    return checked::align_up(preamble + dict.size() + std::string_view(" \n").size(), alignment);
  };
  const auto if_short = data_offset(short_preamble);
  const bool is_long = if_short && *if_short - short_preamble > UINT16_MAX;
  const auto begin = is_long ? data_offset(long_preamble) : if_short;
  const auto end = begin ? checked::add(*begin, entry.bytes) : std::nullopt;
  if (!end) {
    return fail(ErrorCode::size_overflow, "encoded_size_fits_64_bits",
                "the file would have more bytes than 64 bits can count");
  }
  return Encoded{.header = wrapped(dict, *begin, is_long), .offsets = {begin}, .file_bytes = *end};
}

}  // namespace ht::inline v1::format_npy
