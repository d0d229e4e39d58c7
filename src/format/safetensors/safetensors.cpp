#include "format/safetensors/safetensors.hpp"

#include <algorithm>
#include <htensor/dtype/packed.hpp>
#include <numeric>
#include <tuple>

#include "format/format_errors.hpp"
#include "format/json/json.hpp"
#include "format/safetensors/safetensors_header.hpp"
#include "format/sniff.hpp"

namespace ht::inline v1::format_safetensors {
namespace {

struct Tensors {
  CatalogBuilder builder{"safetensors"};
  /// The end of the data if the tensors are adjacent in the order of the header, as is usual.
  std::optional<std::uint64_t> data_end;
};

// Checks the members of a header and adds them to a catalog.
class MemberReader {
 public:
  MemberReader(HeaderMembers members, Bytes text)
      : members_(std::move(members)), text_(text), tensors_{.data_end = data_begin_} {}

  Result<Tensors> read() && {
    auto& builder = tensors_.builder;
    HT_TRY(builder.reserve(members_.tensors, members_.name_bytes, members_.dims));
    HT_TRY(builder.metadata().reserve(members_.values, members_.key_bytes, members_.value_bytes));
    Unpacker in(members_.packed.bytes());
    while (!in.done()) {
      const auto tag = MemberTag::of(in.number());
      const std::uint64_t at = in.number();
      const std::string_view name =
          tag.is_in_text ? Unpacker(text_.subspan(static_cast<std::size_t>(at))).text(tag.name_bytes)
                         : in.text(tag.name_bytes);
      if (tag.is_metadata) {
        HT_TRY(builder.metadata().add(name, in.text(in.number())));
      } else {
        HT_TRY(read_tensor(name, length_bytes + at, in));
      }
    }
    return std::move(tensors_);
  }

 private:
  Result<void> read_tensor(std::string_view name, std::uint64_t at, Unpacker& in) {
    auto& builder = tensors_.builder;
    for (auto dim = in.number(); dim != end_of_dims; dim = in.number()) {
      HT_TRY(builder.add_dim(static_cast<std::int64_t>(dim - 1)));
    }
    const auto dims = builder.next_dims();
    const DTypeInfo& dtype = members_.dtypes[in.number()];
    const std::uint64_t begin = in.number();
    const std::uint64_t end = in.number();
    const FilePlace where{at, name};
    if (begin > end) {
      return fail(broken(ErrorCode::bad_offset, "data_offsets_are_in_order", where,
                         "tensor '{}': data_offsets end at {}, before their start at {}", name, end, begin));
    }
    const auto bytes = dense_bytes(dims, dtype.bits);
    if (!bytes) {
      return fail(broken(ErrorCode::size_overflow, "safetensors_size_fits_63_bits", where,
                         "tensor '{}', {} [{}]: size exceeds 2^63-1 bytes", name, dtype.name,
                         fmt::join(dims, ", ")));
    }
    if (!fills_whole_bytes(dims, dtype.bits)) {
      return fail(broken(ErrorCode::misaligned, "sub_byte_data_fills_whole_bytes", where,
                         "tensor '{}', {} [{}]: size is not a whole number of bytes", name, dtype.name,
                         fmt::join(dims, ", ")));
    }
    if (*bytes != end - begin) {
      return fail(broken(ErrorCode::size_mismatch, "data_offsets_span_the_tensor", where,
                         "tensor '{}', {} [{}]: needs {} bytes but its data_offsets span {}", name,
                         dtype.name, fmt::join(dims, ", "), *bytes, end - begin));
    }
    const auto absolute = checked::add(data_begin_, begin);
    if (!absolute || !checked::add(*absolute, *bytes)) {
      return fail(broken(ErrorCode::size_overflow, "data_offsets_fit_64_bits", where,
                         "tensor '{}': {} bytes at data offset {} end beyond byte 2^64-1", name, *bytes,
                         begin));
    }
    auto& data_end = tensors_.data_end;
    if (data_end != *absolute) data_end.reset();
    if (data_end) data_end = *absolute + *bytes;
    return builder.add({.name = name, .dtype = dtype.tag, .offset = *absolute, .bytes = *bytes});
  }

  HeaderMembers members_;
  Bytes text_;
  std::uint64_t data_begin_ = length_bytes + text_.size();
  Tensors tensors_;
};

// Checks that the tensors, in the order of their data, are adjacent from the first byte of the data. This
// rules out overlaps and hidden gaps. Returns the end of the data.
Result<std::uint64_t> check_tiling(const CatalogBuilder& tensors, std::uint64_t data_begin) {
  std::vector<std::uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, {}, [&](std::uint32_t i) {
    const Entry entry = tensors[i];
    return std::tuple(entry.offset, entry.bytes, i);
  });
  std::uint64_t end = data_begin;
  std::string_view before;
  for (const auto i : order) {
    const Entry entry = tensors[i];
    if (entry.offset != end) {
      return fail(entry.offset < end
                      ? broken(ErrorCode::overlap, "tensors_do_not_overlap", {entry.offset, entry.name},
                               "tensor '{}' and tensor '{}' overlap at byte {}", before, entry.name,
                               entry.offset)
                      : broken(ErrorCode::gap, "tensors_leave_no_gap", {end, entry.name},
                               "gap of {} bytes at byte {}, before tensor '{}'", entry.offset - end, end,
                               entry.name));
    }
    end += entry.bytes;
    before = entry.name;
  }
  return end;
}

// Checks that the data ends at the end of the file, or later if `allow_incomplete` is set. As the tensors are
// adjacent, no tensor of a complete file is outside the file.
Result<void> check_end(std::uint64_t end, std::uint64_t file_bytes, bool allow_incomplete) {
  if (end > file_bytes && !allow_incomplete) {
    return fail(broken(ErrorCode::truncated, "safetensors_data_is_complete", {file_bytes},
                       "data ends at byte {} but the file has {} bytes", end, file_bytes));
  }
  if (end < file_bytes) {
    return fail(broken(ErrorCode::trailing_bytes, "nothing_follows_the_tensors", {end},
                       "{} bytes follow the data, which ends at byte {}", file_bytes - end, end));
  }
  return {};
}

Result<std::uint64_t> read_length(Bytes prefix, std::uint64_t file_bytes, const ParseOptions& options) {
  const auto length = load_le<std::uint64_t>(prefix);
  const std::uint64_t limit =
      options.max_header_bytes != 0 ? options.max_header_bytes : default_max_header_bytes;
  if (length > limit) {
    return fail(broken(ErrorCode::header_too_large, "safetensors_header_is_within_the_limit", {0},
                       "header has {} bytes but the limit is {}", length, limit));
  }
  if (!checked::range_fits(length_bytes, length, file_bytes)) {
    return fail(broken(ErrorCode::truncated, "safetensors_header_is_complete", {file_bytes},
                       "header ends at byte {} but the file has {} bytes", length_bytes + length,
                       file_bytes));
  }
  return length;
}

}  // namespace

bool looks_like(Bytes prefix, std::uint64_t file_bytes) {
  if (prefix.size() < length_bytes) return false;
  const auto length = load_le<std::uint64_t>(prefix);
  const std::string_view text = as_text(prefix.subspan(length_bytes));
  const auto first = text.find_first_not_of(json::white_space);
  const bool begins_with_brace = first != std::string_view::npos && text[first] == '{';
  // Eight printable characters are the start of a text and not a length.
  const bool is_text = std::ranges::all_of(as_text(prefix.first(length_bytes)), [](char c) {
    return (c >= 0x20 && c < 0x7F) || json::white_space.find(c) != std::string_view::npos;
  });
  if (begins_with_brace && !is_text) return true;
  // Otherwise a plausible length is enough, even if the header is damaged or truncated, unless the file is of
  // another known kind, such as an archive.
  constexpr std::uint64_t plausible = std::uint64_t{1} << 32;
  return length > 0 && length < plausible && (text.empty() || length <= file_bytes - length_bytes) &&
         !known_file_kind(prefix, file_bytes);
}

Result<ParseResult> parse(const FileParts& parts, std::uint64_t file_bytes, const ParseOptions& options) {
  const Bytes prefix = parts.prefix();
  if (file_bytes < length_bytes) {
    return fail(broken(ErrorCode::truncated, "safetensors_length_is_complete", {file_bytes},
                       "header size field ends at byte 8 but the file has {} bytes", file_bytes));
  }
  if (prefix.size() < length_bytes) return Need{0, length_bytes};
  const auto length = HT_TRY(read_length(prefix, file_bytes, options));
  const std::uint64_t data_begin = length_bytes + length;
  // Some extra bytes, if the file has them, let simdjson read the text without a copy.
  if (prefix.size() < data_begin) {
    const auto padded = checked::add<std::uint64_t>(data_begin, simdjson::SIMDJSON_PADDING);
    return Need{0, std::min(file_bytes, padded.value_or(file_bytes))};
  }
  const Bytes text = prefix.subspan(length_bytes, static_cast<std::size_t>(length));
  const Bytes bytes_after = prefix.subspan(static_cast<std::size_t>(data_begin));
  auto tensors = HT_TRY(MemberReader(HT_TRY(read_header(text, bytes_after, options)), text).read());
  const std::uint64_t end =
      tensors.data_end ? *tensors.data_end : HT_TRY(check_tiling(tensors.builder, data_begin));
  HT_TRY(check_end(end, file_bytes, options.allow_incomplete));
  return std::move(tensors.builder).build();
}

}  // namespace ht::inline v1::format_safetensors
