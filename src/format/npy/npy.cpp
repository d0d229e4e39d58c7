#include "format/npy/npy.hpp"
#include "base/utf8.hpp"
#include "format/format_errors.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <htensor/dtype/packed.hpp>

namespace ht::inline v1::format_npy {
namespace {

// Offset of each field.
enum Field : std::size_t { at_magic = 0, at_major = 6, at_minor = 7, at_length = 8 };

// Magic, version and header length, which has two bytes in version 1 and four bytes in later versions.
constexpr std::uint64_t short_preamble = at_length + sizeof(std::uint16_t);
constexpr std::uint64_t long_preamble = at_length + sizeof(std::uint32_t);

Error truncated_header(std::uint64_t file_bytes, std::uint64_t header_end) {
  return broken(ErrorCode::truncated, "header_is_complete", {file_bytes},
                "header ends at byte {} but the file has {} bytes", header_end, file_bytes);
}

/// Like `broken`, with the hint to save the array again.
template <class... Args>
Error malformed(ErrorCode code, std::string_view rule, const FilePlace& place,
                MessageFormat<std::type_identity_t<Args>...> message, Args&&... args) {
  return broken(code, rule, place, message, std::forward<Args>(args)...)
      .with_hint("save the array again with numpy.save");
}

/// Text of the file for a message: truncated if long, and valid UTF-8.
std::string excerpt(std::string_view text) {
  constexpr std::size_t max_bytes = 40;
  return to_utf8(text.substr(0, max_bytes)) + (text.size() > max_bytes ? "…" : "");
}

/// The major version.
Result<int> read_version(Bytes start) {
  if (!std::ranges::equal(start.first(magic.size()), bytes_of(magic))) {
    return fail(malformed(ErrorCode::bad_magic, "magic_is_numpy", {at_magic},
                          "file does not start with the magic '\\x93NUMPY'"));
  }
  const auto major = std::to_integer<int>(start[at_major]);
  const auto minor = std::to_integer<int>(start[at_minor]);
  if (major < 1 || major > 3 || minor != 0) {
    return fail(malformed(ErrorCode::bad_version, "npy_version_is_1_2_or_3", {at_major},
                          "NPY version {}.{} is not supported; supported versions are 1.0, 2.0 and 3.0",
                          major, minor));
  }
  return major;
}

Result<void> check_limit(std::uint64_t data_offset, std::uint64_t requested_limit) {
  const std::uint64_t limit = requested_limit == 0 ? default_max_header_bytes : requested_limit;
  if (data_offset <= limit) return {};
  return fail(broken(ErrorCode::header_too_large, "npy_header_is_within_the_limit", {at_length},
                     "header ends at byte {} but the limit is {} bytes", data_offset, limit));
}

// Checks the file size against the header.
Result<void> check_length(std::uint64_t end, std::uint64_t file_bytes, bool allow_incomplete) {
  if (!allow_incomplete) HT_TRY(check_data_is_complete(end, file_bytes));
  if (file_bytes > end) {
    return fail(malformed(ErrorCode::trailing_bytes, "nothing_follows_the_data", {end},
                          "{} bytes follow the array, which ends at byte {}", file_bytes - end, end)
                    .with_hint("save each array to a file of its own with numpy.save"));
  }
  return {};
}

/// The values of the dict, and their offsets in the file.
struct Literal {
  std::string_view descr;
  std::uint64_t descr_at = 0;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
  std::uint64_t shape_at = 0;
};

constexpr std::array<std::string_view, 3> keys{"descr", "fortran_order", "shape"};

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

/// Reads the dict literal: the three keys once each, in any order. No other Python is accepted. `begin` is
/// the offset of `text` in the file. The literal has views of `text`.
class LiteralReader {
 public:
  LiteralReader(std::string_view text, std::uint64_t begin) : text_(text), begin_(begin) {}

  Result<Literal> read() {
    if (!take('{')) return fail(expected("'{'"));
    while (!take('}')) {
      HT_TRY(read_item());
      if (take(',')) continue;
      if (!take('}')) return fail(expected("',' or '}'"));
      break;
    }
    for (std::size_t key = 0; key < keys.size(); ++key) {
      if (!has_[key]) {
        return fail(malformed(ErrorCode::bad_header, "npy_header_has_all_keys", {begin_},
                              "header key '{}' is missing", keys[key]));
      }
    }
    skip_space();
    if (at_ != text_.size()) {
      return fail(malformed(ErrorCode::bad_header, "npy_header_ends_with_its_dict", {offset()},
                            "{} follows the dict in the header", found()));
    }
    return std::move(literal_);
  }

 private:
  Result<void> read_item() {
    skip_space();
    const std::uint64_t key_at = offset();
    const std::string_view key = HT_TRY(read_string());
    const auto known = static_cast<std::size_t>(std::ranges::find(keys, key) - keys.begin());
    if (known == keys.size()) {
      return fail(malformed(ErrorCode::bad_header, "npy_header_keys_are_known", {key_at},
                            "header key '{}' is unknown", excerpt(key)));
    }
    if (has_[known]) {
      return fail(malformed(ErrorCode::duplicate_key, "npy_header_keys_are_unique", {key_at},
                            "header key '{}' occurs twice", key));
    }
    has_[known] = true;
    if (!take(':')) return fail(expected("':'"));
    skip_space();
    if (known == 0) return read_descr_text();
    if (known == 1) return read_order();
    return read_shape();
  }

  Result<void> read_descr_text() {
    literal_.descr_at = offset();
    if (front() == '[' || front() == '(') {
      return fail(
          malformed(ErrorCode::bad_dtype, "npy_dtype_has_no_fields", {literal_.descr_at},
                    "dtype is a list of fields (structured array)")
              .with_hint("save each field to a file of its own: numpy.save(\"x.npy\", array[\"x\"])"));
    }
    literal_.descr = HT_TRY(read_string());
    return {};
  }

  Result<void> read_order() {
    const std::size_t begin = at_;
    while (is_letter(front())) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word != "True" && word != "False") {
      return fail(malformed(ErrorCode::bad_header, "npy_fortran_order_is_true_or_false", {begin_ + begin},
                            "fortran_order is '{}', not True or False",
                            excerpt(text_.substr(begin, std::max<std::size_t>(word.size(), 1)))));
    }
    literal_.fortran_order = word == "True";
    return {};
  }

  Result<void> read_shape() {
    literal_.shape_at = offset();
    if (!take('(')) return fail(not_a_tuple());
    auto& shape = literal_.shape;
    while (!take(')')) {
      if (shape.size() == max_rank) {
        return fail(malformed(ErrorCode::bad_shape, "npy_rank_is_at_most_64", {offset()},
                              "shape has more than {} dimensions", max_rank));
      }
      shape.push_back(HT_TRY(read_dim()));
      if (take(',')) continue;
      if (!take(')')) return fail(expected("',' or ')'"));
      // In Python, (3) is the number 3.
      if (shape.size() == 1) return fail(not_a_tuple());
      break;
    }
    return {};
  }

  Result<std::int64_t> read_dim() {
    skip_space();
    const std::size_t begin = at_;
    if (front() == '-') {
      return fail(malformed(ErrorCode::bad_shape, "dims_are_not_negative", {offset()},
                            "dimension {} of the shape is negative", literal_.shape.size()));
    }
    std::int64_t dim = 0;
    const auto [end, error] = std::from_chars(text_.data() + begin, text_.data() + text_.size(), dim);
    if (error == std::errc::result_out_of_range) {
      return fail(malformed(ErrorCode::size_overflow, "dims_fit_63_bits", {begin_ + begin},
                            "dimension {} of the shape exceeds 2^63-1", literal_.shape.size()));
    }
    at_ = static_cast<std::size_t>(end - text_.data());
    const std::size_t digits = at_ - begin;
    // Python 2 wrote long numbers as 3L.
    if (digits > 0 && front() == 'L') ++at_;
    const bool has_suffix = is_digit(front()) || is_letter(front()) || front() == '.';
    if (digits == 0 || has_suffix || (digits > 1 && text_[begin] == '0')) {
      return fail(malformed(ErrorCode::bad_shape, "npy_dims_are_whole_numbers", {begin_ + begin},
                            "dimension {} of the shape is not an integer: '{}'", literal_.shape.size(),
                            excerpt(text_.substr(begin, at_ - begin + 1))));
    }
    return dim;
  }

  /// A string in single or double quotes. Escapes are rejected: no known value needs one.
  Result<std::string_view> read_string() {
    skip_space();
    const char quote = front();
    if (quote != '\'' && quote != '"') return fail(expected("a quoted string"));
    const std::size_t begin = at_ + 1;
    const std::array<char, 5> stops{quote, '\\', '\n', '\r', '\0'};
    const auto end = text_.find_first_of(std::string_view(stops.data(), stops.size()), begin);
    at_ = std::min(end, text_.size());
    if (front() != quote) {
      return fail(malformed(ErrorCode::bad_header, "npy_strings_are_closed_and_plain", {offset()},
                            "string at byte {} has {} before its closing quote", begin_ + begin - 1,
                            found()));
    }
    ++at_;
    return text_.substr(begin, end - begin);
  }

  Error not_a_tuple() const {
    return malformed(ErrorCode::bad_shape, "npy_shape_is_a_tuple", {literal_.shape_at},
                     "shape is not a tuple of integers such as (2, 3), (3,) or ()");
  }

  Error expected(std::string_view token) const {
    return malformed(ErrorCode::bad_header, "npy_header_is_a_dict_literal", {offset()},
                     "header has {} where {} is expected", found(), token);
  }

  [[nodiscard]] std::string found() const {
    if (at_ == text_.size()) return "the end of the header";
    const char c = text_[at_];
    if (c > ' ' && c < 0x7F) return format_text("'{}'", c);
    return format_text("byte {:#04x}", static_cast<unsigned char>(c));
  }

  void skip_space() {
    while (is_space(front())) ++at_;
  }
  bool take(char character) {
    skip_space();
    if (at_ == text_.size() || front() != character) return false;
    ++at_;
    return true;
  }
  /// NUL at the end, which is not valid in a header either.
  [[nodiscard]] char front() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  [[nodiscard]] std::uint64_t offset() const { return begin_ + at_; }

  std::string_view text_;
  std::uint64_t begin_;
  std::size_t at_ = 0;
  std::array<bool, keys.size()> has_{};
  Literal literal_;
};

struct NumpyType {
  std::string_view code;
  DTypeInfo dtype;
};

// numpy's type codes with their widths in bytes.
constexpr std::array numpy_types{
    NumpyType{"b1", dtype_info<Bool>()}, NumpyType{"i1", dtype_info<I8>()},
    NumpyType{"i2", dtype_info<I16>()},  NumpyType{"i4", dtype_info<I32>()},
    NumpyType{"i8", dtype_info<I64>()},  NumpyType{"u1", dtype_info<U8>()},
    NumpyType{"u2", dtype_info<U16>()},  NumpyType{"u4", dtype_info<U32>()},
    NumpyType{"u8", dtype_info<U64>()},  NumpyType{"f2", dtype_info<F16>()},
    NumpyType{"f4", dtype_info<F32>()},  NumpyType{"f8", dtype_info<F64>()},
    NumpyType{"c8", dtype_info<C64>()},
};

bool is_one_byte(const NumpyType& type) { return type.dtype.bits == 8; }

std::string_view hint_for(std::string_view code) {
  switch (code.empty() ? '\0' : code[0]) {
    case 'c': return "save it as complex64: numpy.save(path, array.astype(numpy.complex64))";
    case 'f':
    case 'g': return "save it as float64: numpy.save(path, array.astype(numpy.float64))";
    case 'S':
    case 'U':
    case 'a': return "store text outside the weights, for instance as JSON";
    case 'M':
    case 'm': return "save it as int64: numpy.save(path, array.astype(numpy.int64))";
    case 'V':
      return "numpy.save drops the dtype of ml_dtypes arrays such as bfloat16 and float8: write them as "
             "safetensors, or save array.astype(numpy.float32)";
    default:
      return "save it as b1, i1 to i8, u1 to u8, f2, f4, f8 or c8, with the byte order '<', '>', '=' or '|'";
  }
}

Error unsupported_dtype(std::string_view text, std::string_view code, std::uint64_t offset) {
  if (code.starts_with('O')) {
    return malformed(ErrorCode::bad_dtype, "npy_elements_are_not_pickled", {offset},
                     "array holds pickled Python objects, which can run code when loaded")
        .with_hint("if you trust the file, load it with numpy and save its numbers with a plain dtype");
  }
  return malformed(ErrorCode::bad_dtype, "npy_dtype_is_known", {offset}, "dtype '{}' is not supported",
                   excerpt(text))
      .with_hint(hint_for(code));
}

struct Descr {
  DTypeInfo dtype;
  ByteOrder byte_order = ByteOrder::little;
};

/// The dtype of a descr such as "<f4", which is at `offset` in the file.
Result<Descr> read_descr(std::string_view text, std::uint64_t offset) {
  const bool has_order = !text.empty() && std::string_view("<>=|").find(text[0]) != std::string_view::npos;
  const std::string_view code = has_order ? text.substr(1) : text;
  const auto type = std::ranges::find(numpy_types, code, &NumpyType::code);
  if (type == numpy_types.end()) return fail(unsupported_dtype(text, code, offset));
  if (is_one_byte(*type)) return Descr{type->dtype, ByteOrder::little};
  // In numpy, '=' or a missing order is the byte order of the machine. This parser reads it as little-endian.
  const char order = has_order ? text[0] : '=';
  if (order == '|') {
    return fail(malformed(ErrorCode::bad_dtype, "npy_wide_dtypes_have_a_byte_order", {offset},
                          "dtype '{}' has no byte order", text));
  }
  return Descr{type->dtype, order == '>' ? ByteOrder::big : ByteOrder::little};
}

/// The inverse; nullopt for a dtype that NPY cannot store.
std::optional<std::string> write_descr(DTypeTag dtype, ByteOrder byte_order) {
  const auto type =
      std::ranges::find(numpy_types, dtype, [](const NumpyType& each) { return each.dtype.tag; });
  if (type == numpy_types.end()) return std::nullopt;
  const char order = is_one_byte(*type) ? '|' : byte_order == ByteOrder::big ? '>' : '<';
  return order + std::string(type->code);
}

Result<Catalog> read_array(Bytes header, int version, std::uint64_t file_bytes, const ParseOptions& options) {
  const std::uint64_t begin = version == 1 ? short_preamble : long_preamble;
  const std::string_view text = as_text(header.subspan(static_cast<std::size_t>(begin)));
  // Versions 1 and 2 are Latin-1, in which every byte is valid.
  if (version == 3 && !is_utf8(text)) {
    return fail(malformed(ErrorCode::bad_utf8, "npy_header_is_utf8", {begin}, "header is not valid UTF-8"));
  }
  const auto literal = HT_TRY(LiteralReader(text, begin).read());
  const auto descr = HT_TRY(read_descr(literal.descr, literal.descr_at));
  const auto bytes = dense_bytes(literal.shape, descr.dtype.bits);
  if (!bytes) {
    return fail(malformed(ErrorCode::size_overflow, "data_size_fits_63_bits", {literal.shape_at},
                          "shape [{}] of {} exceeds 2^63-1 bytes", fmt::join(literal.shape, ", "),
                          descr.dtype.name));
  }
  // Cannot overflow: the data size has 63 bits and the header size 32.
  HT_TRY(check_length(header.size() + *bytes, file_bytes, options.allow_incomplete));
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

Result<std::string> descr_for(const Entry& entry) {
  // NPY stores element order and byte order, so they are not checked.
  Entry plain = entry;
  plain.order = ElementOrder::row_major;
  plain.byte_order = ByteOrder::little;
  HT_TRY(check_plain(plain, "NPY"));
  if (auto descr = write_descr(entry.dtype, entry.byte_order)) return *std::move(descr);
  const auto dtype = find_dtype(entry.dtype);
  return fail(would_lose_error("npy_carries_the_dtype", entry, "convert to IRPA or ht instead",
                               "tensor '{}': NPY cannot store {}", entry.name,
                               dtype ? dtype->name : "a user-defined dtype"));
}

Result<void> check_rank(const Entry& entry) {
  if (entry.dims.size() <= max_rank) return {};
  return fail(would_lose_error("npy_carries_at_most_64_dims", entry, "convert to safetensors instead",
                               "tensor '{}': rank {} exceeds NPY's limit of {}", entry.name,
                               entry.dims.size(), max_rank));
}

// The header is padded up to the alignment, and readers limit its size.
Result<void> check_alignment(std::uint64_t alignment) {
  if (alignment <= default_max_header_bytes) return {};
  return fail(Error(ErrorCode::header_too_large, "npy_alignment_is_within_the_limit",
                    format_text("alignment {} makes the header larger than the limit of {} bytes", alignment,
                                default_max_header_bytes))
                  .with_hint("use --align 4096: numpy.load accepts headers of up to 10000 bytes"));
}

/// The dict as numpy writes it. The spaces after it are room to rewrite one dimension in place when the array
/// grows: the first one, or in column-major order the last one.
std::string dict_of(const Entry& entry, const std::string& descr) {
  const bool column_major = !entry.is_row_major();
  std::string text =
      "{'descr': '" + descr + "', 'fortran_order': " + (column_major ? "True" : "False") + ", 'shape': (";
  for (std::size_t i = 0; i < entry.dims.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(entry.dims[i]);
  }
  text += entry.dims.size() == 1 ? ",), }" : "), }";
  if (entry.dims.empty()) return text;
  constexpr std::size_t reserved_digits = 21;
  const auto grows = column_major ? entry.dims.back() : entry.dims.front();
  return text.append(reserved_digits - std::to_string(grows).size(), ' ');
}

/// All bytes before the data. numpy pads with at least one space, even if the data is aligned already.
std::vector<std::byte> encode_header(std::string_view dict, std::uint64_t data_offset, bool is_long) {
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

Result<ParseResult> parse(const FileParts& parts, std::uint64_t file_bytes, const ParseOptions& options) {
  if (file_bytes < short_preamble) return fail(truncated_header(file_bytes, short_preamble));
  const auto start = parts.range(0, short_preamble);
  if (!start) return Need{0, short_preamble};
  const int version = HT_TRY(read_version(*start));
  const std::uint64_t preamble = version == 1 ? short_preamble : long_preamble;
  if (file_bytes < preamble) return fail(truncated_header(file_bytes, preamble));
  const auto fields = parts.range(0, preamble);
  if (!fields) return Need{0, preamble};
  const Bytes length = fields->subspan(at_length);
  const std::uint64_t data_offset =
      preamble + (version == 1 ? load_le<std::uint16_t>(length) : load_le<std::uint32_t>(length));
  HT_TRY(check_limit(data_offset, options.max_header_bytes));
  if (file_bytes < data_offset) return fail(truncated_header(file_bytes, data_offset));
  const auto header = parts.range(0, data_offset);
  if (!header) return Need{0, data_offset};
  return read_array(*header, version, file_bytes, options);
}

Result<EncodedFile> encode(const Catalog& catalog, const EncodeOptions& layout) {
  if (catalog.size() != 1) {
    return fail(
        Error(ErrorCode::would_lose, "npy_holds_one_tensor",
              format_text("NPY stores one tensor but the model has {}", catalog.size()))
            .with_hint(
                "export one tensor with `htensor export`, or convert to safetensors, GGUF or IRPA instead"));
  }
  HT_TRY(check_no_metadata(catalog, "NPY"));
  const Entry entry = catalog[0];
  const auto descr = HT_TRY(descr_for(entry));
  HT_TRY(check_rank(entry));
  HT_TRY(check_data_size(entry));
  const std::uint64_t alignment = std::max(layout.alignment, data_alignment);
  HT_TRY(check_alignment(alignment));
  const std::string dict = dict_of(entry, descr);
  const auto data_offset = [&](std::uint64_t preamble) {
    return *checked::align_up(preamble + dict.size() + std::string_view(" \n").size(), alignment);
  };
  const auto offset_if_short = data_offset(short_preamble);
  const bool is_long = offset_if_short - short_preamble > UINT16_MAX;
  const auto begin = is_long ? data_offset(long_preamble) : offset_if_short;
  // Cannot overflow: the data size has 63 bits, and the alignment and the dict have at most 2 MiB.
  return EncodedFile{
      .header = encode_header(dict, begin, is_long), .offsets = {begin}, .file_bytes = begin + entry.bytes};
}

}  // namespace ht::inline v1::format_npy
