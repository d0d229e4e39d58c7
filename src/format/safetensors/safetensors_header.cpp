#include "format/safetensors/safetensors_header.hpp"

#include <array>

#include "format/format_errors.hpp"
#include "format/json/json.hpp"
#include "format/json/plain_json.hpp"
#include "format/safetensors/safetensors.hpp"

namespace ht::inline v1::format_safetensors {
namespace {

// The fields of the current tensor except its name and dims, which are packed as soon as they are read.
struct TensorInfo {
  std::optional<std::size_t> dtype;
  std::array<std::uint64_t, 2> offsets{};
  bool has_shape = false;
  bool has_offsets = false;
};

// Packs the header, or reports the error and its offset.
class HeaderReader {
 public:
  HeaderReader(Bytes text, Bytes bytes_after, const ParseOptions& options)
      : document_(text, bytes_after), packer_(text.size(), options.dtypes) {}

  Result<HeaderMembers> read() && {
    auto error = document_.each<Error>(
        [&](std::string_view key, json::Value& value) { return read_member(key, value); }, broken_json);
    if (error) return fail(*std::move(error));
    return std::move(packer_).finish();
  }

 private:
  using Failure = std::optional<Error>;

  template <class... Args>
  [[nodiscard]] Error broken(ErrorCode code, std::string_view rule,
                             MessageFormat<std::type_identity_t<Args>...> message, Args&&... args) {
    const FilePlace place{length_bytes + document_.problem({}).offset, name_.value_or("")};
    return ht::broken(code, rule, place, message, std::forward<Args>(args)...);
  }

  [[nodiscard]] static Error broken_json(const json::Problem& problem) {
    const std::uint64_t at = length_bytes + problem.offset;
    if (problem.is_bad_utf8) {
      return ht::broken(ErrorCode::bad_utf8, "safetensors_header_is_utf8", {at}, "header is not valid UTF-8");
    }
    return ht::broken(ErrorCode::bad_header, "safetensors_header_is_json", {at},
                      "header is not valid JSON at byte {}: {}", at, problem.message);
  }

  Failure read_member(std::string_view key, json::Value& value) {
    name_.reset();
    if (key == metadata_key) return read_metadata(value);
    name_ = key;
    info_ = {};
    if (!document_.is(value, json::Type::object)) {
      return broken(ErrorCode::bad_header, "tensor_info_is_an_object",
                    "header entry '{}' is not a JSON object", key);
    }
    packer_.begin_tensor(member_name(key));
    auto failure = document_.each_field<Error>(
        value, [&](std::string_view field, json::Value& inner) { return read_info(field, inner); },
        broken_json);
    if (failure) return failure;
    return end_tensor();
  }

  Failure read_metadata(json::Value& value) {
    if (std::exchange(has_metadata_, true)) {
      return broken(ErrorCode::duplicate_key, "metadata_occurs_once",
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
            return broken(ErrorCode::bad_header, "metadata_values_are_strings",
                          "metadata key '{}': value is not a string", key);
          }
          const auto text = document_.text(inner);
          if (!text) return broken_json(text.error());
          packer_.metadata(member_name(key), *text);
          return {};
        },
        broken_json);
  }

  Failure read_info(std::string_view field, json::Value& value) {
    if (field == "dtype") return read_dtype(value);
    if (field == "shape") return read_shape(value);
    if (field == "data_offsets") return read_offsets(value);
    // The reference reader ignores unknown fields that are valid JSON.
    if (const auto problem = document_.check(value, 3)) return broken_json(*problem);
    return {};
  }

  Failure duplicate_field(std::string_view field) {
    return broken(ErrorCode::duplicate_key, "tensor_info_fields_are_unique", "tensor '{}': {} occurs twice",
                  *name_, field);
  }

  Failure read_dtype(json::Value& value) {
    if (info_.dtype) return duplicate_field("dtype");
    const auto text = document_.text(value);
    if (!text)
      return broken(ErrorCode::bad_dtype, "dtype_is_a_string", "tensor '{}': dtype is not a string", *name_);
    info_.dtype = packer_.number_of_dtype(*text);
    if (info_.dtype) return {};
    return broken(ErrorCode::bad_dtype, "safetensors_dtype_is_known", "tensor '{}': dtype '{}' is unknown",
                  *name_, *text);
  }

  Failure read_shape(json::Value& value) {
    if (std::exchange(info_.has_shape, true)) return duplicate_field("shape");
    const auto not_a_list = [&](const json::Problem&) {
      return broken(ErrorCode::bad_shape, "shape_is_a_list_of_sizes",
                    "tensor '{}': shape is not a list of integers from 0 to 2^64-1", *name_);
    };
    std::size_t rank = 0;
    auto failure = document_.each_element<Error>(
        value,
        [&](json::Value& element) -> Failure {
          if (++rank > max_rank) {
            return broken(ErrorCode::bad_shape, "safetensors_rank_is_at_most_64",
                          "tensor '{}': the shape has more than {} dimensions", *name_, max_rank);
          }
          const auto size = document_.unsigned_integer(element);
          if (!size) return not_a_list(size.error());
          if (!checked::narrow<std::int64_t>(*size)) {
            return broken(ErrorCode::size_overflow, "safetensors_dims_fit_63_bits",
                          "tensor '{}': dimension {} exceeds 2^63-1", *name_, *size);
          }
          packer_.dim(*size);
          return {};
        },
        not_a_list);
    packer_.end_dims();
    return failure;
  }

  Failure read_offsets(json::Value& value) {
    if (std::exchange(info_.has_offsets, true)) return duplicate_field("data_offsets");
    const auto not_a_pair = [&](const json::Problem&) {
      return broken(ErrorCode::bad_offset, "data_offsets_are_a_pair",
                    "tensor '{}': data_offsets are not a pair of integers from 0 to 2^64-1", *name_);
    };
    std::size_t count = 0;
    auto failure = document_.each_element<Error>(
        value,
        [&](json::Value& element) -> Failure {
          const auto offset = document_.unsigned_integer(element);
          if (!offset) return not_a_pair(offset.error());
          if (count == info_.offsets.size()) return not_a_pair({});
          info_.offsets[count++] = *offset;
          return {};
        },
        not_a_pair);
    if (!failure && count != info_.offsets.size()) return not_a_pair({});
    return failure;
  }

  // Returns the name and its offset in the text. If the name has escapes, the offset is the current position
  // of the parser.
  [[nodiscard]] MemberName member_name(std::string_view name) {
    const auto at = document_.offset_of(name);
    return {name, at ? *at : document_.problem({}).offset, at.has_value()};
  }

  Failure end_tensor() {
    if (!info_.dtype || !info_.has_shape || !info_.has_offsets) {
      return broken(ErrorCode::bad_header, "tensor_info_is_complete", "tensor '{}': {} is missing", *name_,
                    !info_.dtype       ? "dtype"
                    : !info_.has_shape ? "shape"
                                       : "data_offsets");
    }
    packer_.end_tensor(*info_.dtype, info_.offsets);
    return {};
  }

  json::Document document_;
  HeaderPacker packer_;
  TensorInfo info_;
  std::optional<std::string_view> name_;
  bool has_metadata_ = false;
};

// Higher ranks are left to the JSON parser, which also checks the limit.
constexpr std::size_t max_plain_rank = 8;

// Reads the header word by word; every function returns whether the text was as expected.
class PlainHeaderReader {
 public:
  PlainHeaderReader(std::string_view text, const ParseOptions& options)
      : text_begin_(text.data()), text_(text), packer_(text.size(), options.dtypes) {}

  std::optional<HeaderMembers> read() && {
    if (!text_.take('{')) return std::nullopt;
    do {
      if (!read_member()) return std::nullopt;
    } while (text_.take(','));
    if (!text_.take('}') || !text_.done()) return std::nullopt;
    return std::move(packer_).finish();
  }

 private:
  [[nodiscard]] MemberName member_name(std::string_view name) const {
    return {name, static_cast<std::uint64_t>(name.data() - text_begin_), true};
  }

  bool read_member() {
    if (!text_.take('"')) return false;
    const auto name = text_.string();
    if (!name || !text_.take(":{")) return false;
    if (*name == metadata_key) return !std::exchange(has_metadata_, true) && read_metadata();
    packer_.begin_tensor(member_name(*name));
    return read_tensor();
  }

  bool read_metadata() {
    if (text_.take('}')) return true;
    do {
      if (!text_.take('"')) return false;
      const auto key = text_.string();
      if (!key || !text_.take(":\"")) return false;
      const auto value = text_.string();
      if (!value) return false;
      packer_.metadata(member_name(*key), *value);
    } while (text_.take(','));
    return text_.take('}');
  }

  // Expects the fields in the order in which the safetensors library writes them.
  bool read_tensor() {
    if (!text_.take(R"("dtype":")")) return false;
    const auto dtype_name = text_.string();
    const auto dtype = dtype_name ? packer_.number_of_dtype(*dtype_name) : std::nullopt;
    if (!dtype || !text_.take(R"(,"shape":[)") || !read_dims()) return false;
    if (!text_.take(R"(,"data_offsets":[)")) return false;
    const auto begin = text_.unsigned_integer();
    if (!begin || !text_.take(',')) return false;
    const auto end = text_.unsigned_integer();
    if (!end || !text_.take("]}")) return false;
    packer_.end_tensor(*dtype, {*begin, *end});
    return true;
  }

  bool read_dims() {
    if (!text_.take(']')) {
      std::size_t rank = 0;
      do {
        const auto size = text_.unsigned_integer();
        if (!size || !checked::narrow<std::int64_t>(*size) || ++rank > max_plain_rank) return false;
        packer_.dim(*size);
      } while (text_.take(','));
      if (!text_.take(']')) return false;
    }
    packer_.end_dims();
    return true;
  }

  const char* text_begin_;
  json::PlainReader text_;
  HeaderPacker packer_;
  bool has_metadata_ = false;
};

// Whether an odd number of backslashes precedes the character.
bool is_escaped(std::string_view text, std::size_t at) {
  const std::size_t before = text.find_last_not_of('\\', at - 1);
  return (at - before) % 2 == 0;
}

// The offset of the first shape of a tensor that has too many dimensions. The search allocates no memory; a
// JSON parser's index takes several bytes per dimension. Long arrays in other fields are allowed.
std::optional<std::size_t> find_long_shape(std::string_view text) {
  std::optional<std::size_t> shape;
  std::string_view last_string;
  std::size_t depth = 0;  // open braces; fields of a tensor are at depth 2
  std::size_t commas = 0;
  char previous = 0;  // the last character that is not white space
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    if (json::white_space.find(letter) != std::string_view::npos) continue;
    if (letter == '"') {
      const std::size_t begin = at + 1;
      do at = text.find('"', at + 1);
      while (at != text.npos && is_escaped(text, at));
      if (at == text.npos) return std::nullopt;
      last_string = text.substr(begin, at - begin);
    } else if (letter == '[') {
      const bool is_shape = depth == 2 && previous == ':' && last_string == "shape";
      shape = is_shape ? std::optional(at) : std::nullopt;
      commas = 0;
    } else if (letter == ']' || letter == '{' || letter == '}') {
      if (letter == '{') ++depth;
      if (letter == '}' && depth > 0) --depth;
      shape.reset();
    } else if (letter == ',' && shape && ++commas == max_rank) {
      return shape;
    }
    previous = letter;
  }
  return std::nullopt;
}

}  // namespace

Result<HeaderMembers> read_json_header(Bytes text, Bytes bytes_after, const ParseOptions& options) {
  return HeaderReader(text, bytes_after, options).read();
}

std::optional<HeaderMembers> read_plain_header(std::string_view text, const ParseOptions& options) {
  const auto last = text.find_last_not_of(json::white_space);
  if (last == std::string_view::npos) return std::nullopt;
  return PlainHeaderReader(text.substr(0, last + 1), options).read();
}

Result<HeaderMembers> read_header(Bytes text, Bytes bytes_after, const ParseOptions& options) {
  const std::string_view letters = as_text(text);
  if (auto members = read_plain_header(letters, options)) return *std::move(members);
  constexpr std::size_t min_searched_bytes = std::size_t{1} << 20;
  if (text.size() >= min_searched_bytes) {
    if (const auto at = find_long_shape(letters)) {
      return fail(broken(ErrorCode::bad_shape, "safetensors_rank_is_at_most_64", {length_bytes + *at},
                         "the shape at byte {} has more than {} dimensions", length_bytes + *at, max_rank));
    }
  }
  return read_json_header(text, bytes_after, options);
}

}  // namespace ht::inline v1::format_safetensors
