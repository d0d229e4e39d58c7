#include "format/safetensors/safetensors_header.hpp"

#include <array>

#include "base/format_text.hpp"
#include "format/common.hpp"
#include "format/json.hpp"
#include "format/safetensors/safetensors.hpp"

namespace ht::inline v1::format_safetensors {
namespace {

// What was read of the tensor that is read now, but for its name and dims, which are packed at once.
struct TensorInfo {
  std::optional<std::size_t> dtype;
  std::array<std::uint64_t, 2> offsets{};
  bool has_shape = false;
  bool has_offsets = false;
};

// Packs the header, or tells what is wrong where.
class HeaderReader {
 public:
  HeaderReader(Bytes text, Bytes follows, const ParseOptions& options)
      : document_(text, follows), pack_(text.size(), options.dtypes) {}

  Result<HeaderItems> read() && {
    auto error = document_.each<Error>(
        [&](std::string_view key, json::Value& value) { return read_member(key, value); }, broken_json);
    if (error) return fail(*std::move(error));
    return std::move(pack_).finish();
  }

 private:
  using Failure = std::optional<Error>;

  [[nodiscard]] Error broken(ErrorCode code, std::string_view rule, std::string message,
                             SourceLine where = SourceLine::here()) {
    const auto at = document_.problem({}).offset;
    auto error = ht::broken(code, rule, std::move(message), length_bytes + at, where);
    return name_ ? std::move(error).at_tensor(*name_) : std::move(error);
  }

  [[nodiscard]] static Error broken_json(const json::Problem& problem) {
    const std::uint64_t at = length_bytes + problem.offset;
    if (problem.is_bad_utf8) {
      return ht::broken(ErrorCode::bad_utf8, "safetensors_header_is_utf8", "header is not valid UTF-8", at);
    }
    return ht::broken(ErrorCode::bad_header, "safetensors_header_is_json",
                      format_text("header is not valid JSON at byte {}: {}", at, problem.what), at);
  }

  Failure read_member(std::string_view key, json::Value& value) {
    name_.reset();
    if (key == metadata_key) return read_metadata(value);
    name_ = key;
    info_ = {};
    if (!document_.is(value, json::Type::object)) {
      return broken(ErrorCode::bad_header, "tensor_info_is_an_object",
                    format_text("header entry '{}' is not a JSON object", key));
    }
    begin_tensor(key);
    auto failure = document_.each_field<Error>(
        value, [&](std::string_view field, json::Value& inner) { return read_info(field, inner); },
        broken_json);
    if (failure) return failure;
    return end_tensor();
  }

  Failure read_metadata(json::Value& value) {
    if (std::exchange(has_metadata_, true)) {
      return broken(ErrorCode::duplicate_key, "metadata_is_there_once",
                    "__metadata__ occurs twice in the header");
    }
    if (const auto null = value.is_null(); null.error() == simdjson::SUCCESS && null.value_unsafe())
      return {};
    if (!document_.is(value, json::Type::object)) {
      return broken(ErrorCode::bad_header, "metadata_is_an_object", "__metadata__ is not a JSON object");
    }
    return document_.each_field<Error>(
        value,
        [&](std::string_view key, json::Value& inner) -> Failure {
          if (!document_.is(inner, json::Type::string)) {
            return broken(ErrorCode::bad_header, "metadata_is_texts",
                          format_text("metadata key '{}': value is not a string", key));
          }
          const auto text = document_.text(inner);
          if (!text) return broken_json(text.error());
          add_metadata(key, *text);
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
                  format_text("header has two {} for tensor '{}'", field, *name_));
  }

  Failure read_dtype(json::Value& value) {
    if (info_.dtype) return twice("dtype");
    const auto text = document_.text(value);
    if (!text)
      return broken(ErrorCode::bad_dtype, "dtype_is_a_text",
                    format_text("tensor '{}': dtype is not a string", *name_));
    info_.dtype = pack_.number_of_dtype(*text);
    if (info_.dtype) return {};
    return broken(ErrorCode::bad_dtype, "safetensors_dtype_is_known",
                  format_text("tensor '{}': dtype '{}' is unknown", *name_, *text));
  }

  Failure read_shape(json::Value& value) {
    if (std::exchange(info_.has_shape, true)) return twice("shape");
    const auto no_list = [&](const json::Problem&) {
      return broken(ErrorCode::bad_shape, "shape_is_a_list_of_sizes",
                    format_text("tensor '{}': shape is not a list of integers from 0 to 2^64-1", *name_));
    };
    std::size_t rank = 0;
    auto failure = document_.each_element<Error>(
        value,
        [&](json::Value& element) -> Failure {
          if (++rank > max_rank) {
            return broken(
                ErrorCode::bad_shape, "safetensors_rank_is_at_most_64",
                format_text("tensor '{}': the shape has more than {} dimensions", *name_, max_rank));
          }
          const auto size = document_.natural(element);
          if (!size) return no_list(size.error());
          if (!checked::narrow<std::int64_t>(*size)) {
            return broken(ErrorCode::size_overflow, "safetensors_dims_fit_63_bits",
                          format_text("tensor '{}': dimension {} exceeds 2^63-1", *name_, *size));
          }
          pack_.dim(*size);
          return {};
        },
        no_list);
    pack_.end_dims();
    return failure;
  }

  Failure read_offsets(json::Value& value) {
    if (std::exchange(info_.has_offsets, true)) return twice("data_offsets");
    const auto no_pair = [&](const json::Problem&) {
      return broken(
          ErrorCode::bad_offset, "data_offsets_are_a_pair",
          format_text("tensor '{}': data_offsets are not a pair of integers from 0 to 2^64-1", *name_));
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

  // Where a name begins that has no escapes; else where it was read.
  [[nodiscard]] std::uint64_t place_of(std::string_view name) {
    const auto at = document_.offset_of(name);
    return at ? *at : document_.problem({}).offset;
  }

  void add_metadata(std::string_view key, std::string_view text) {
    pack_.metadata(key, place_of(key), document_.offset_of(key).has_value(), text);
  }

  void begin_tensor(std::string_view name) {
    pack_.begin_tensor(name, place_of(name), document_.offset_of(name).has_value());
  }

  Failure end_tensor() {
    if (!info_.dtype || !info_.has_shape || !info_.has_offsets) {
      return broken(ErrorCode::bad_header, "tensor_info_is_complete",
                    format_text("tensor '{}': {} is missing", *name_,
                                !info_.dtype       ? "dtype"
                                : !info_.has_shape ? "shape"
                                                   : "data_offsets"));
    }
    pack_.end_tensor(*info_.dtype, info_.offsets);
    return {};
  }

  json::Document document_;
  HeaderPacker pack_;
  TensorInfo info_;
  std::optional<std::string_view> name_;
  bool has_metadata_ = false;
};

// Whether an odd number of backslashes precedes the character.
bool is_escaped(std::string_view text, std::size_t at) {
  const std::size_t before = text.find_last_not_of('\\', at - 1);
  return (at - before) % 2 == 0;
}

// The offset of the first array with more elements than a shape may have. The search needs no memory; the
// index of a JSON parser takes several bytes for each element.
std::optional<std::size_t> find_long_array(std::string_view text) {
  std::optional<std::size_t> array;
  std::size_t commas = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    if (letter == '"') {
      do at = text.find('"', at + 1);
      while (at != text.npos && is_escaped(text, at));
      if (at == text.npos) return std::nullopt;
    } else if (letter == '[') {
      array = at;
      commas = 0;
    } else if (letter == ']' || letter == '{' || letter == '}') {
      array.reset();
    } else if (letter == ',' && array && ++commas == max_rank) {
      return array;
    }
  }
  return std::nullopt;
}

}  // namespace

Result<HeaderItems> read_json_header(Bytes text, Bytes follows, const ParseOptions& options) {
  return HeaderReader(text, follows, options).read();
}

Result<HeaderItems> read_header(Bytes text, Bytes follows, const ParseOptions& options) {
  const std::string_view letters(reinterpret_cast<const char*>(text.data()), text.size());
  if (auto items = read_plain_header(letters, options)) return *std::move(items);
  constexpr std::size_t min_searched_bytes = std::size_t{1} << 20;
  if (text.size() >= min_searched_bytes) {
    if (const auto at = find_long_array(letters)) {
      return fail(broken(
          ErrorCode::bad_shape, "safetensors_rank_is_at_most_64",
          format_text("the shape at byte {} has more than {} dimensions", length_bytes + *at, max_rank),
          length_bytes + *at));
    }
  }
  return read_json_header(text, follows, options);
}

}  // namespace ht::inline v1::format_safetensors
