#include "format/plain_json.hpp"
#include "format/safetensors/safetensors_header.hpp"

namespace ht::inline v1::format_safetensors {
namespace {

// More dims are left to the JSON parser, with their rules.
constexpr std::size_t max_plain_rank = 8;

// Reads the header word by word; every function answers whether it was as expected.
class PlainHeaderReader {
 public:
  PlainHeaderReader(std::string_view text, const ParseOptions& options)
      : text_begin_(text.data()), text_(text), pack_(text.size(), options.dtypes) {}

  std::optional<HeaderItems> read() && {
    if (!text_.take('{')) return std::nullopt;
    do {
      if (!read_member()) return std::nullopt;
    } while (text_.take(','));
    if (!text_.take('}') || !text_.done()) return std::nullopt;
    return std::move(pack_).finish();
  }

 private:
  [[nodiscard]] std::uint64_t place_of(std::string_view name) const {
    return static_cast<std::uint64_t>(name.data() - text_begin_);
  }

  bool read_member() {
    if (!text_.take('"')) return false;
    const auto name = text_.string();
    if (!name || !text_.take(":{")) return false;
    if (*name == metadata_key) return !std::exchange(has_metadata_, true) && read_metadata();
    pack_.begin_tensor(*name, place_of(*name), true);
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
      pack_.metadata(*key, place_of(*key), true, *value);
    } while (text_.take(','));
    return text_.take('}');
  }

  // In the order of the safetensors library.
  bool read_tensor() {
    if (!text_.take(R"("dtype":")")) return false;
    const auto dtype_name = text_.string();
    const auto dtype = dtype_name ? pack_.number_of_dtype(*dtype_name) : std::nullopt;
    if (!dtype || !text_.take(R"(,"shape":[)") || !read_dims()) return false;
    if (!text_.take(R"(,"data_offsets":[)")) return false;
    const auto begin = text_.natural();
    if (!begin || !text_.take(',')) return false;
    const auto end = text_.natural();
    if (!end || !text_.take("]}")) return false;
    pack_.end_tensor(*dtype, {*begin, *end});
    return true;
  }

  bool read_dims() {
    if (!text_.take(']')) {
      std::size_t rank = 0;
      do {
        const auto size = text_.natural();
        if (!size || !checked::narrow<std::int64_t>(*size) || ++rank > max_plain_rank) return false;
        pack_.dim(*size);
      } while (text_.take(','));
      if (!text_.take(']')) return false;
    }
    pack_.end_dims();
    return true;
  }

  const char* text_begin_;
  json::PlainReader text_;
  HeaderPacker pack_;
  bool has_metadata_ = false;
};

}  // namespace

std::optional<HeaderItems> read_plain_header(std::string_view text, const ParseOptions& options) {
  constexpr std::string_view white_space = " \t\r\n";
  const auto last = text.find_last_not_of(white_space);
  if (last == std::string_view::npos) return std::nullopt;
  return PlainHeaderReader(text.substr(0, last + 1), options).read();
}

}  // namespace ht::inline v1::format_safetensors
