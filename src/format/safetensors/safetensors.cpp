#include "format/safetensors/safetensors.hpp"

#include <algorithm>
#include <array>
#include <htensor/dtype/sizes.hpp>
#include <numeric>
#include <tuple>

#include "base/format_text.hpp"
#include "format/json.hpp"
#include "format/safetensors/safetensors_dtypes.hpp"
#include "format/sniff.hpp"

namespace ht::inline v1::format_safetensors {
namespace {

constexpr std::uint64_t length_bytes = sizeof(std::uint64_t);
constexpr std::string_view metadata_key = "__metadata__";
constexpr std::string_view rewrite =
    "whatever wrote this file broke the format: write it again with another program";
constexpr std::string_view fetch_again = "the download or copy was cut short: fetch it again";

bool is_white_space(std::byte byte) {
  return byte == std::byte{' '} || byte == std::byte{'\t'} || byte == std::byte{'\n'} ||
         byte == std::byte{'\r'};
}

// What the JSON says of one tensor; offsets count from the first byte behind the JSON.
struct TensorInfo {
  std::optional<DTypeInfo> dtype;
  std::vector<std::int64_t> dims;
  std::array<std::uint64_t, 2> offsets{};
  bool has_shape = false;
  bool has_offsets = false;

  void clear() {
    dtype.reset();
    dims.clear();
    has_shape = has_offsets = false;
  }
};

struct Header {
  CatalogBuilder tensors;
  /// The end of the data where the tensors follow each other in the order of the header, as they mostly do.
  std::optional<std::uint64_t> data_end;
};

// Reads the header into a builder, with what is wrong where.
class HeaderReader {
 public:
  HeaderReader(Bytes text, Bytes follows, const ParseOptions& options)
      : options_(options),
        data_begin_(length_bytes + text.size()),
        document_(text, follows),
        builder_("safetensors") {}

  Result<Header> read() && {
    auto error = document_.each<Error>(
        [&](std::string_view key, json::Value& value) { return read_member(key, value); }, broken_json);
    if (error) return fail(*std::move(error));
    return Header{std::move(builder_), data_end_};
  }

 private:
  using Failure = std::optional<Error>;

  [[nodiscard]] Error broken(ErrorCode code, std::string_view rule, std::string message,
                             SourceLine where = SourceLine::here()) {
    const auto at = document_.problem({}).offset;
    auto error = Error(code, rule, std::move(message), where).at_offset(length_bytes + at).with_hint(rewrite);
    return name_ ? std::move(error).at_tensor(*name_) : std::move(error);
  }

  [[nodiscard]] static Error broken_json(const json::Problem& problem) {
    auto error = problem.is_bad_utf8
                     ? Error(ErrorCode::bad_utf8, "safetensors_header_is_utf8", "the header is no UTF-8")
                     : Error(ErrorCode::bad_header, "safetensors_header_is_json",
                             format_text("the header is broken at byte {}: {}", length_bytes + problem.offset,
                                         problem.what));
    return std::move(error).at_offset(length_bytes + problem.offset).with_hint(rewrite);
  }

  Failure read_member(std::string_view key, json::Value& value) {
    name_.reset();
    if (key == metadata_key) return read_metadata(value);
    name_ = key;
    info_.clear();
    simdjson::ondemand::json_type type{};
    if (value.type().get(type) != simdjson::SUCCESS || type != simdjson::ondemand::json_type::object) {
      return broken(ErrorCode::bad_header, "tensor_info_is_an_object",
                    format_text("what the header says of '{}' is no object", key));
    }
    auto failure = document_.each_field<Error>(
        value, [&](std::string_view field, json::Value& inner) { return read_info(field, inner); },
        broken_json);
    if (failure) return failure;
    return add_tensor();
  }

  Failure read_metadata(json::Value& value) {
    if (std::exchange(has_metadata_, true)) {
      return broken(ErrorCode::duplicate_key, "metadata_is_there_once", "the header has two __metadata__");
    }
    if (const auto null = value.is_null(); null.error() == simdjson::SUCCESS && null.value_unsafe())
      return {};
    simdjson::ondemand::json_type type{};
    if (value.type().get(type) != simdjson::SUCCESS || type != simdjson::ondemand::json_type::object) {
      return broken(ErrorCode::bad_header, "metadata_is_an_object", "__metadata__ is no object");
    }
    return document_.each_field<Error>(
        value,
        [&](std::string_view key, json::Value& inner) -> Failure {
          simdjson::ondemand::json_type inner_type{};
          if (inner.type().get(inner_type) != simdjson::SUCCESS ||
              inner_type != simdjson::ondemand::json_type::string) {
            return broken(ErrorCode::bad_header, "metadata_is_texts",
                          format_text("the metadata '{}' is no text", key));
          }
          const auto text = document_.text(inner);
          if (!text) return broken_json(text.error());
          builder_.metadata().add(key, *text);
          return {};
        },
        broken_json);
  }

  Failure read_info(std::string_view field, json::Value& value) {
    if (field == "dtype") return read_dtype(value);
    if (field == "shape") return read_shape(value);
    if (field == "data_offsets") return read_offsets(value);
    // The reference reader passes over what it does not know, if it is JSON at all.
    if (const auto problem = document_.check(value, 3)) return broken_json(*problem);
    return {};
  }

  Failure twice(std::string_view field) {
    return broken(ErrorCode::duplicate_key, "tensor_info_fields_are_unique",
                  format_text("the header has two {} for '{}'", field, *name_));
  }

  Failure read_dtype(json::Value& value) {
    if (info_.dtype) return twice("dtype");
    const auto text = document_.text(value);
    if (!text)
      return broken(ErrorCode::bad_dtype, "dtype_is_a_text",
                    format_text("the dtype of '{}' is no text", *name_));
    // Most tensors have the dtype of the one before.
    if (!last_dtype_ || last_dtype_->name != *text) last_dtype_ = dtype_named(*text, options_.dtypes);
    if (!last_dtype_) {
      return broken(ErrorCode::bad_dtype, "safetensors_dtype_is_known",
                    format_text("the dtype of '{}' is '{}', which is none of safetensors'", *name_, *text));
    }
    info_.dtype = last_dtype_;
    return {};
  }

  Failure read_shape(json::Value& value) {
    if (std::exchange(info_.has_shape, true)) return twice("shape");
    const auto no_list = [&](const json::Problem&) {
      return broken(ErrorCode::bad_shape, "shape_is_a_list_of_sizes",
                    format_text("the shape of '{}' is no list of whole numbers below 2^64", *name_));
    };
    return document_.each_element<Error>(
        value,
        [&](json::Value& element) -> Failure {
          const auto size = document_.natural(element);
          if (!size) return no_list(size.error());
          const auto dim = checked::narrow<std::int64_t>(*size);
          if (!dim) {
            return broken(ErrorCode::size_overflow, "safetensors_dims_fit_63_bits",
                          format_text("the shape of '{}' has a dimension of {}", *name_, *size));
          }
          info_.dims.push_back(*dim);
          return {};
        },
        no_list);
  }

  Failure read_offsets(json::Value& value) {
    if (std::exchange(info_.has_offsets, true)) return twice("data_offsets");
    const auto no_pair = [&](const json::Problem&) {
      return broken(ErrorCode::bad_offset, "data_offsets_are_a_pair",
                    format_text("the data_offsets of '{}' are no pair of whole numbers below 2^64", *name_));
    };
    std::size_t count = 0;
    auto failure = document_.each_element<Error>(
        value,
        [&](json::Value& element) -> Failure {
          const auto offset = document_.natural(element);
          if (!offset) return no_pair(offset.error());
          if (count == info_.offsets.size()) return no_pair({});
          info_.offsets[count++] = *offset;
          return {};
        },
        no_pair);
    if (!failure && count != info_.offsets.size()) return no_pair({});
    return failure;
  }

  Failure add_tensor() {
    const auto [begin, end] = info_.offsets;
    if (!info_.dtype || !info_.has_shape || !info_.has_offsets) {
      return broken(ErrorCode::bad_header, "tensor_info_is_complete",
                    format_text("the header does not say of '{}' what its {} is", *name_,
                                !info_.dtype       ? "dtype"
                                : !info_.has_shape ? "shape"
                                                   : "place"));
    }
    if (begin > end) {
      return broken(ErrorCode::bad_offset, "data_offsets_are_in_order",
                    format_text("the data of '{}' ends at {}, before it begins at {}", *name_, end, begin));
    }
    const auto bytes = dense_bytes(info_.dims, info_.dtype->bits);
    if (!bytes) {
      return broken(ErrorCode::size_overflow, "safetensors_size_fits_63_bits",
                    format_text("'{}', {} [{}], has more bytes than 63 bits can count", *name_,
                                info_.dtype->name, fmt::join(info_.dims, ", ")));
    }
    if (!fills_whole_bytes(info_.dims, info_.dtype->bits)) {
      return broken(ErrorCode::misaligned, "sub_byte_data_fills_whole_bytes",
                    format_text("'{}', {} [{}], ends within a byte", *name_, info_.dtype->name,
                                fmt::join(info_.dims, ", ")));
    }
    if (*bytes != end - begin) {
      return broken(ErrorCode::size_mismatch, "data_offsets_span_the_tensor",
                    format_text("'{}', {} [{}], has {} bytes, but its data_offsets span {}", *name_,
                                info_.dtype->name, fmt::join(info_.dims, ", "), *bytes, end - begin));
    }
    const auto absolute = checked::add(data_begin_, begin);
    if (!absolute || !checked::add(*absolute, *bytes)) {
      return broken(ErrorCode::size_overflow, "data_offsets_fit_64_bits",
                    format_text("the data of '{}' lies beyond what 64 bits can count", *name_));
    }
    if (builder_.size() == sampled_tensors) reserve_by_sample();
    if (data_end_ != *absolute) data_end_.reset();
    if (data_end_) data_end_ = *absolute + *bytes;
    auto added = builder_.add({.name = *name_,
                               .dtype = info_.dtype->tag,
                               .dims = info_.dims,
                               .offset = *absolute,
                               .bytes = *bytes});
    if (!added) return std::move(added).error();
    return {};
  }

  // What the first tensors are like tells how much room all of them take; growing would copy.
  void reserve_by_sample() {
    std::size_t names = 0;
    std::size_t dims = 0;
    for (std::size_t i = 0; i < builder_.size(); ++i) {
      names += builder_[i].name.size();
      dims += builder_[i].dims.size();
    }
    const std::size_t seen = std::max<std::size_t>(document_.problem({}).offset, 1);
    const std::size_t rest = static_cast<std::size_t>(data_begin_) / seen + 1;
    const auto room = [&](std::size_t sample) { return sample * rest + sample * rest / 4; };
    builder_.reserve(room(builder_.size()), room(names), room(dims));
  }

  static constexpr std::size_t sampled_tensors = 64;
  const ParseOptions& options_;
  std::uint64_t data_begin_;
  json::Document document_;
  CatalogBuilder builder_;
  TensorInfo info_;
  std::optional<std::string_view> name_;
  std::optional<DTypeInfo> last_dtype_;
  bool has_metadata_ = false;
  std::optional<std::uint64_t> data_end_ = data_begin_;
};

// The tensors, in the order of their data, must follow each other from the first byte of the data. That alone
// rules out overlaps and holes to hide things in. The end of the data.
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
      const bool overlaps = entry.offset < end;
      auto error = overlaps ? Error(ErrorCode::overlap, "tensors_do_not_overlap",
                                    format_text("tensor '{}' and tensor '{}' overlap at byte {}", before,
                                                entry.name, entry.offset))
                            : Error(ErrorCode::gap, "tensors_leave_no_gap",
                                    format_text("{} bytes before tensor '{}' belong to no tensor",
                                                entry.offset - end, entry.name));
      return fail(
          std::move(error).at_tensor(entry.name).at_offset(overlaps ? entry.offset : end).with_hint(rewrite));
    }
    end += entry.bytes;
    before = entry.name;
  }
  return end;
}

// The data must be what the file has behind its header: with the tiling, no tensor lies outside the file.
Result<void> check_end(std::uint64_t end, std::uint64_t file_bytes, bool headers_only) {
  if (end > file_bytes && !headers_only) {
    return fail(Error(ErrorCode::truncated, "safetensors_data_is_all_there",
                      format_text("the data ends at byte {}, but the file has {} bytes", end, file_bytes))
                    .at_offset(file_bytes)
                    .with_hint(fetch_again));
  }
  if (end < file_bytes) {
    return fail(Error(ErrorCode::trailing_bytes, "nothing_follows_the_tensors",
                      format_text("{} bytes follow the last tensor and belong to none", file_bytes - end))
                    .at_offset(end)
                    .with_hint(rewrite));
  }
  return {};
}

Result<std::uint64_t> read_length(Bytes prefix, std::uint64_t file_bytes, const ParseOptions& options) {
  const auto length = load_le<std::uint64_t>(prefix);
  const std::uint64_t limit =
      options.max_header_bytes != 0 ? options.max_header_bytes : default_max_header_bytes;
  if (length > limit) {
    return fail(
        Error(ErrorCode::header_too_large, "safetensors_header_is_not_too_large",
              format_text("the header claims {} bytes, and {} are the most that are taken", length, limit))
            .at_offset(0)
            .with_hint("if it is not damaged but has that many tensors, raise the limit on header bytes"));
  }
  if (!checked::range_fits(length_bytes, length, file_bytes)) {
    return fail(Error(ErrorCode::truncated, "safetensors_header_is_all_there",
                      format_text("the header ends at byte {}, but the file has {} bytes",
                                  length_bytes + length, file_bytes))
                    .at_offset(file_bytes)
                    .with_hint(fetch_again));
  }
  return length;
}

}  // namespace

bool looks_like(Bytes prefix, std::uint64_t file_bytes) {
  if (prefix.size() < length_bytes) return false;
  const auto length = load_le<std::uint64_t>(prefix);
  const Bytes text = prefix.subspan(length_bytes);
  const auto first = std::ranges::find_if_not(text, is_white_space);
  const bool begins_with_brace = first != text.end() && *first == std::byte{'{'};
  // Eight letters are no length but the beginning of a text.
  const bool is_text = std::ranges::all_of(prefix.first(length_bytes), [](std::byte b) {
    return (b >= std::byte{0x20} && b < std::byte{0x7F}) || is_white_space(b);
  });
  if (begins_with_brace && !is_text) return true;
  // Whatever the header is then, or if it is cut off, its length is one; unless it is the beginning of
  // something else, as of an archive.
  constexpr std::uint64_t plausible = std::uint64_t{1} << 32;
  return length > 0 && length < plausible && (text.empty() || length <= file_bytes - length_bytes) &&
         no_weights(prefix, file_bytes).rule() == "format_is_known";
}

Result<Parsed> parse(const Seen& seen, std::uint64_t file_bytes, const ParseOptions& options) {
  const Bytes prefix = seen.prefix();
  if (file_bytes < length_bytes) {
    return fail(Error(ErrorCode::truncated, "safetensors_length_is_all_there",
                      format_text("has {} bytes, and the length of the header alone has 8", file_bytes))
                    .at_offset(file_bytes)
                    .with_hint(fetch_again));
  }
  if (prefix.size() < length_bytes) return Need{0, length_bytes};
  const auto length = HT_TRY(read_length(prefix, file_bytes, options));
  const std::uint64_t data_begin = length_bytes + length;
  // With some bytes more, where there are any, the text can be read where it lies.
  if (prefix.size() < data_begin)
    return Need{0, std::min(file_bytes, data_begin + simdjson::SIMDJSON_PADDING)};
  const Bytes text = prefix.subspan(length_bytes, static_cast<std::size_t>(length));
  const Bytes follows = prefix.subspan(static_cast<std::size_t>(data_begin));
  auto header = HT_TRY(HeaderReader(text, follows, options).read());
  const std::uint64_t end =
      header.data_end ? *header.data_end : HT_TRY(check_tiling(header.tensors, data_begin));
  HT_TRY(check_end(end, file_bytes, options.headers_only));
  return std::move(header.tensors).build();
}

}  // namespace ht::inline v1::format_safetensors
