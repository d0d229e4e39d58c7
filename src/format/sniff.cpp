#include "format/sniff.hpp"
#include "base/utf8.hpp"
#include "format/format_errors.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <htensor/format/format.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ht::inline v1 {
namespace {

using namespace std::string_view_literals;

/// The first bytes of a file, as characters because most magics are text.
struct Beginning {
  std::string_view text;
  std::uint64_t file_bytes;

  [[nodiscard]] bool has(std::string_view magic, std::size_t at = 0) const {
    return text.size() >= at && text.substr(at).starts_with(magic);
  }
};

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::string_view after_space(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(" \t\n\r"), text.size()));
}

/// The text after its byte-order mark and leading white space.
std::string_view without_leading_space(const Beginning& file) {
  const std::string_view text = file.text;
  return after_space(file.has("\xEF\xBB\xBF") ? text.substr(3) : text);
}

bool begins_in_any_case(std::string_view text, std::string_view lower) {
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; };
  return text.size() >= lower.size() && std::ranges::equal(text.substr(0, lower.size()), lower, same);
}

/// Removes an incomplete UTF-8 character from the end of the text.
std::string_view without_incomplete_character(std::string_view text) {
  for (std::size_t tail = 1; tail <= 3 && tail <= text.size(); ++tail) {
    const auto byte = static_cast<unsigned char>(text[text.size() - tail]);
    if ((byte & 0xC0) == 0x80) continue;
    if (byte < 0xC2 || byte > 0xF4) return text;  // not the first byte of a multi-byte character
    const std::size_t character_size = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    return character_size > tail ? text.substr(0, text.size() - tail) : text;
  }
  return text;
}

bool is_text(const Beginning& file) {
  const bool has_more = file.file_bytes > file.text.size();
  const std::string_view text = has_more ? without_incomplete_character(file.text) : file.text;
  const auto is_printable = [](char c) {
    return static_cast<unsigned char>(c) >= ' ' ? c != 0x7F : is_space(c) || c == '\f';
  };
  return std::ranges::all_of(text, is_printable) && is_utf8(text);
}

bool is_html(const Beginning& file) {
  const auto text = without_leading_space(file);
  return begins_in_any_case(text, "<!doctype html") || begins_in_any_case(text, "<html");
}

/// Checks the first bracket and the character after it, which excludes a section of a .toml file.
bool is_json(const Beginning& file) {
  const auto text = without_leading_space(file);
  if (text.empty() || !is_text(file)) return false;
  const auto inside = after_space(text.substr(1));
  const std::string_view may_follow = text[0] == '{' ? "\"}"sv : text[0] == '[' ? "[]{\"-0123456789"sv : ""sv;
  return !inside.empty() && may_follow.find(inside[0]) != std::string_view::npos;
}

/// The name of the first file in a zip, as far as it is in the prefix.
std::string_view first_in_zip(const Beginning& file) {
  constexpr std::size_t at_name_bytes = 26;
  constexpr std::size_t at_name = 30;
  if (file.text.size() < at_name) return {};
  return file.text.substr(at_name, load_le<std::uint16_t>(bytes_of(file.text).subspan(at_name_bytes)));
}

bool is_torch_zip(const Beginning& file) { return first_in_zip(file).find(".pkl") != std::string_view::npos; }

bool is_npz(const Beginning& file) { return first_in_zip(file).ends_with(".npy"); }

bool is_keras_zip(const Beginning& file) {
  const auto name = first_in_zip(file);
  return name == "metadata.json" || name == "config.json" || name == "model.weights.h5";
}

/// The byte after the first one is the protocol of the pickle.
bool is_pickle(const Beginning& file) {
  return file.text.size() > 1 && file.text[1] >= 2 && file.text[1] <= 5;
}

/// Removes a protobuf varint from the front.
std::optional<std::uint64_t> take_varint(std::string_view& text) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 63 && !text.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(text[0]);
    text.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

/// ONNX has no magic: checks for a version, short producer strings and a graph that fits in the file.
bool is_onnx(const Beginning& file) {
  constexpr std::string_view starts_of_a_graph = "\x0A\x12\x2A\x52\x5A\x62\x6A";
  constexpr std::uint64_t latest_version = 63;
  std::string_view rest = file.text;
  while (const auto field = take_varint(rest)) {
    const auto number = take_varint(rest);
    if (!number) return false;
    const std::uint64_t left = file.file_bytes - (file.text.size() - rest.size());
    switch (*field) {
      case 0x08:  // version of the format
        if (*number == 0 || *number > latest_version) return false;
        continue;
      case 0x28:  // version of the model
        continue;
      case 0x3A:  // graph
        return *number > 0 && *number <= left && !rest.empty() &&
               starts_of_a_graph.find(rest[0]) != std::string_view::npos;
      case 0x12:  // producer, its version, domain, doc string
      case 0x1A:
      case 0x22:
      case 0x32:
        if (*number > rest.size() || !is_text({rest.substr(0, *number), 0})) return false;
        break;
      case 0x42:  // operators, properties
      case 0x72:
        if (*number > rest.size()) return false;
        break;
      default: return false;
    }
    rest.remove_prefix(static_cast<std::size_t>(*number));
  }
  return false;
}

/// The magics were numbers, so they occur in both byte orders.
bool is_old_ggml(const Beginning& file) {
  constexpr std::array magics{"ggml"sv, "lmgg"sv, "ggmf"sv, "fmgg"sv, "ggjt"sv, "tjgg"sv, "ggla"sv, "algg"sv};
  // A text may begin with these letters as well.
  return std::ranges::any_of(magics, [&](auto magic) { return file.has(magic); }) && !is_text(file);
}

bool is_windows_program(const Beginning& file) {
  constexpr std::size_t at_offset = 0x3C;
  if (file.text.size() < at_offset + 4) return false;
  return file.has("PE\0\0"sv, load_le<std::uint32_t>(bytes_of(file.text).subspan(at_offset)));
}

bool is_bzip2(const Beginning& file) { return file.has("1AY&SY", 4); }

bool is_zeros(const Beginning& file) {
  return std::ranges::all_of(file.text, [](char c) { return c == '\0'; });
}

bool is_xml(const Beginning& file) { return without_leading_space(file).starts_with("<?xml"); }

/// A kind of file. A file is of this kind if it has the magic and `matches` is null or returns true.
struct Kind {
  // Always `bad_magic`; tools/check_rules.py searches for `ErrorCode::` before the name of a rule.
  ErrorCode code;
  std::string_view rule;
  std::string_view message;
  std::string_view hint;
  std::string_view magic{};
  bool (*matches)(const Beginning& file) = nullptr;
  std::size_t at = 0;

  [[nodiscard]] bool is(const Beginning& file) const {
    return file.has(magic, at) && (matches == nullptr || matches(file));
  }
};

constexpr auto torch_hint =
    "convert it with Python if you trust its source: safetensors.torch.save_file(torch.load(path, "
    "weights_only=True), \"model.safetensors\")"sv;
constexpr auto keras_hint = "load it with Keras and write its weights with safetensors.numpy.save_file"sv;
constexpr auto other_file_hint = "open the weights file beside this one"sv;
constexpr auto unpack_hint = "unpack it first"sv;

// The first match counts, so specific kinds precede general ones.
constexpr std::array kinds{
    Kind(ErrorCode::bad_magic, "file_is_not_a_torch_zip",
         "is a PyTorch file: a zip with a pickle, which runs code when it is read", torch_hint, "PK\3\4",
         is_torch_zip),
    Kind(ErrorCode::bad_magic, "file_is_not_an_npz", "is an .npz file: a zip of .npy files",
         "unzip it: each .npy file in it is one tensor", "PK\3\4", is_npz),
    Kind(ErrorCode::bad_magic, "file_is_not_a_keras_zip", "is a zip that begins like a .keras file",
         keras_hint, "PK\3\4", is_keras_zip),
    Kind(ErrorCode::bad_magic, "file_is_not_a_zip", "is a zip archive", unpack_hint, "PK\3\4"),
    Kind(ErrorCode::bad_magic, "file_is_not_an_empty_zip", "is a zip archive without files",
         "pack the archive again", "PK\5\6"),
    Kind(ErrorCode::bad_magic, "file_is_not_a_pickle",
         "is a pickle, as old PyTorch files are; it runs code when it is read", torch_hint, "\x80",
         is_pickle),
    Kind(ErrorCode::bad_magic, "file_is_not_a_tar_archive", "is a tar archive", unpack_hint, "ustar", nullptr,
         257),
    Kind(ErrorCode::bad_magic, "file_is_not_gzip", "is compressed with gzip", unpack_hint, "\x1F\x8B"),
    Kind(ErrorCode::bad_magic, "file_is_not_zstd", "is compressed with zstd", unpack_hint,
         "\x28\xB5\x2F\xFD"),
    Kind(ErrorCode::bad_magic, "file_is_not_xz", "is compressed with xz", unpack_hint, "\xFD\x37zXZ\0"sv),
    Kind(ErrorCode::bad_magic, "file_is_not_bzip2", "is compressed with bzip2", unpack_hint, "BZh", is_bzip2),
    Kind(ErrorCode::bad_magic, "file_is_not_7z", "is a 7z archive", unpack_hint, "7z\xBC\xAF\x27\x1C"),
    Kind(ErrorCode::bad_magic, "file_is_not_hdf5", "is an HDF5 file, as .h5 files of Keras are", keras_hint,
         "\x89HDF\r\n\x1A\n"),
    Kind(ErrorCode::bad_magic, "file_is_not_tflite", "is a TensorFlow Lite model: a graph with its weights",
         "open the model that it was converted from", "TFL3", nullptr, 4),
    Kind(ErrorCode::bad_magic, "file_is_not_onnx", "is an ONNX model: a graph with its weights",
         "load it with onnx and write its initializers with safetensors.numpy.save_file", "\x08", is_onnx),
    Kind(
        ErrorCode::bad_magic, "file_is_not_old_ggml", "is in a format that ggml used before GGUF",
        "convert the original model to GGUF with llama.cpp; for a model of whisper.cpp, open the safetensors "
        "that it was converted from",
        "", is_old_ggml),
    Kind(ErrorCode::bad_magic, "file_is_not_elf", "is an ELF program or library", other_file_hint,
         "\x7F"
         "ELF"),
    Kind(ErrorCode::bad_magic, "file_is_not_a_windows_program", "is a Windows program or library",
         other_file_hint, "MZ", is_windows_program),
    Kind(ErrorCode::bad_magic, "file_is_not_png", "is a PNG picture", other_file_hint, "\x89PNG\r\n\x1A\n"),
    Kind(ErrorCode::bad_magic, "file_is_not_jpeg", "is a JPEG picture", other_file_hint, "\xFF\xD8\xFF"),
    Kind(ErrorCode::bad_magic, "file_is_not_pdf", "is a PDF document", other_file_hint, "%PDF-"),
    Kind(ErrorCode::bad_magic, "file_does_not_begin_with_zeros",
         "begins with zeros: its space was allocated but not written", "download the file again", "\0"sv,
         is_zeros),
    Kind(ErrorCode::bad_magic, "file_is_not_html", "is an HTML page",
         "download the file again: the server sent a login page or an error page", "", is_html),
    Kind(ErrorCode::bad_magic, "file_is_not_xml", "is XML",
         "read it: a server may have sent an error such as AccessDenied; then download the file again", "",
         is_xml),
};

// JSON and plain text, which `known_file_kind_except_json_and_text` does not report.
constexpr std::array texts{
    Kind(ErrorCode::bad_magic, "file_is_not_json", "is JSON without tensors",
         "open the weights beside it, or their .index.json", "", is_json),
    Kind(ErrorCode::bad_magic, "file_is_not_text", "is a text file", other_file_hint, "", is_text),
};

/// A clone without Git LFS has pointer files instead of the large files.
std::optional<Error> lfs_pointer(const Beginning& file) {
  if (!file.has("version https://git-lfs.github.com/spec/")) return std::nullopt;
  constexpr auto size_key = "\nsize "sv;
  std::string size;
  const auto at = file.text.find(size_key);
  const auto digits = at == std::string_view::npos ? ""sv : file.text.substr(at + size_key.size());
  std::uint64_t bytes = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), bytes).ec == std::errc{}) {
    size = format_text(" to a file of {} bytes", bytes);
  }
  return Error(ErrorCode::bad_magic, "file_is_not_an_lfs_pointer",
               format_text("is a Git LFS pointer{}", size))
      .at_offset(0)
      .with_hint("run `git lfs pull` in its repository");
}

Beginning beginning_of(Bytes prefix, std::uint64_t file_bytes) { return {as_text(prefix), file_bytes}; }

std::optional<Error> first_match(std::span<const Kind> candidates, const Beginning& file) {
  const auto kind = std::ranges::find_if(candidates, [&](const Kind& each) { return each.is(file); });
  if (kind == candidates.end()) return std::nullopt;
  return Error(kind->code, kind->rule, format_text("{}", kind->message)).at_offset(0).with_hint(kind->hint);
}

}  // namespace

bool begins_with(Bytes bytes, std::string_view magic) noexcept {
  // A file that ends within a magic is a truncated file of that format.
  const auto seen = std::min(bytes.size(), magic.size());
  return seen > 0 && std::ranges::equal(bytes.first(seen), bytes_of(magic).first(seen));
}

bool is_json_file(Bytes prefix, std::uint64_t file_bytes) {
  return is_json(beginning_of(prefix, file_bytes));
}

std::optional<Error> known_file_kind_except_json_and_text(Bytes prefix, std::uint64_t file_bytes) {
  if (file_bytes == 0) {
    return Error(ErrorCode::bad_magic, "file_is_not_empty", "is empty")
        .at_offset(0)
        .with_hint("download or copy the file again");
  }
  const auto file = beginning_of(prefix, file_bytes);
  if (auto error = lfs_pointer(file)) return error;
  return first_match(kinds, file);
}

std::optional<Error> known_file_kind(Bytes prefix, std::uint64_t file_bytes) {
  if (auto error = known_file_kind_except_json_and_text(prefix, file_bytes)) return error;
  return first_match(texts, beginning_of(prefix, file_bytes));
}

Error unknown_format_error(Bytes prefix, std::uint64_t file_bytes, std::span<const Format> more) {
  if (auto error = known_file_kind(prefix, file_bytes)) return *std::move(error);
  return Error(ErrorCode::bad_magic, "format_is_known", "is not in a known format")
      .at_offset(0)
      .with_hint(format_text("use a file in one of these formats: {}", fmt::join(format_names(more), ", ")));
}

}  // namespace ht::inline v1
