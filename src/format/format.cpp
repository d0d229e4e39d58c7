#include <htensor/format/format.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <htensor/base/bytes.hpp>
#include <string>
#include <vector>

#include "base/format_text.hpp"
#include "base/utf8.hpp"
#include "format/gguf/gguf.hpp"
#include "format/ht/ht.hpp"
#include "format/irpa/irpa.hpp"
#include "format/npy/npy.hpp"
#include "format/safetensors/safetensors.hpp"
#include "format/sniff.hpp"

namespace ht::inline v1 {
namespace {

// All formats of the library: add a new one here. safetensors is last because it has no magic.
constexpr std::array registered{format_ht::format, format_gguf::format, format_irpa::format,
                                format_npy::format, format_safetensors::format};

const Format* find(std::string_view text, std::string_view Format::* member,
                   std::span<const Format> more) noexcept {
  for (const auto list : {more, formats()}) {
    if (const auto found = std::ranges::find(list, text, member); found != list.end()) return &*found;
  }
  return nullptr;
}

std::vector<std::string_view> texts_of(std::string_view Format::* member, std::span<const Format> more) {
  std::vector<std::string_view> texts;
  for (const auto list : {more, formats()}) {
    for (const auto& format : list) texts.push_back(format.*member);
  }
  return texts;
}

}  // namespace

std::span<const Format> formats() noexcept { return registered; }

const Format* find_format(std::string_view name, std::span<const Format> more) noexcept {
  return find(name, &Format::name, more);
}

const Format* format_of_extension(std::string_view extension, std::span<const Format> more) noexcept {
  // A caller's format may have no extension. It is not the format of all files without one.
  return extension.empty() ? nullptr : find(extension, &Format::extension, more);
}

std::vector<std::string_view> format_names(std::span<const Format> more) {
  return texts_of(&Format::name, more);
}

Result<const Format*> format_for(const std::filesystem::path& target, std::span<const Format> more) {
  return without_bad_alloc([&]() -> Result<const Format*> {
    const auto extension = target.extension().string();
    if (const auto* const found = format_of_extension(extension, more)) return found;
    auto extensions = texts_of(&Format::extension, more);
    std::erase(extensions, "");  // a caller's format may have none
    return fail(
        Error(ErrorCode::not_found, "extension_names_a_format",
              format_text("extension '{}' does not name a format that can be written", to_utf8(extension)))
            .at_path(target.native())
            .with_hint(format_text("use one of the extensions {}", fmt::join(extensions, ", "))));
  });
}

std::vector<Error> reader_warnings(std::string_view name, const Catalog& catalog,
                                   std::span<const Format> more) {
  const auto* const format = find_format(name, more);
  if (format == nullptr || format->warnings == nullptr) return {};
  return format->warnings(catalog);
}

std::optional<Bytes> FileParts::range(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  if (const auto found = part(prefix_, offset, bytes)) return found;
  for (const auto& known : parts_) {
    if (offset < known.offset) continue;
    if (const auto found = part(known.bytes, offset - known.offset, bytes)) return found;
  }
  return std::nullopt;
}

Result<ParseResult> parse(const FileParts& parts, std::uint64_t file_bytes, const ParseOptions& options) {
  return without_bad_alloc([&]() -> Result<ParseResult> {
    const std::uint64_t sniffed = std::min<std::uint64_t>(sniffed_bytes, file_bytes);
    if (parts.prefix().size() < sniffed) return Need{0, sniffed};
    const Bytes beginning = parts.prefix().first(static_cast<std::size_t>(sniffed));
    for (const auto list : {options.formats, formats()}) {
      for (const auto& format : list) {
        if (format.looks_like(beginning, file_bytes)) return format.parse(parts, file_bytes, options);
      }
    }
    return fail(unknown_format_error(beginning, file_bytes, options.formats));
  });
}

namespace {

// Checks that the encoder returned one offset for each tensor, and that the data of each tensor is after the
// header, in the file and in bytes of its own. Writers rely on this, and the encoder may be a function of the
// caller.
Result<void> check_encoded(const EncodedFile& file, const Catalog& catalog) {
  const auto refuse = [](std::string message) {
    return fail(Error(ErrorCode::bad_offset, "encoded_tensors_have_separate_bytes", std::move(message))
                    .with_hint("correct the function `encode` of the format"));
  };
  if (file.offsets.size() != catalog.size()) {
    return refuse(format_text("encoded file has {} offsets but the catalog has {} tensors",
                              file.offsets.size(), catalog.size()));
  }
  struct Range {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::size_t tensor = 0;
  };
  std::vector<Range> ranges;
  ranges.reserve(catalog.size());
  for (std::size_t i = 0; i < catalog.size(); ++i) {
    if (file.offsets[i] && catalog[i].bytes != 0) ranges.push_back({*file.offsets[i], catalog[i].bytes, i});
  }
  if (!std::ranges::is_sorted(ranges, {}, &Range::offset)) std::ranges::sort(ranges, {}, &Range::offset);
  std::uint64_t end = file.header.size();
  for (const auto& range : ranges) {
    const auto name = [&] { return to_utf8(catalog[range.tensor].name); };
    if (range.offset < end) {
      return refuse(format_text(
          "tensor '{}': data begins at byte {} but the header and the tensors before it end at byte {}",
          name(), range.offset, end));
    }
    if (!checked::range_fits(range.offset, range.bytes, file.file_bytes)) {
      return refuse(format_text("tensor '{}': {} bytes at byte {} are outside the encoded file of {} bytes",
                                name(), range.bytes, range.offset, file.file_bytes));
    }
    end = range.offset + range.bytes;
  }
  if (end > file.file_bytes)
    return refuse(format_text("encoded file has {} bytes but its header has {}", file.file_bytes, end));
  return {};
}

}  // namespace

Result<EncodedFile> encode(const Format& format, const Catalog& catalog, const EncodeOptions& layout) {
  return without_bad_alloc([&]() -> Result<EncodedFile> {
    if (layout.alignment != 0 && !std::has_single_bit(layout.alignment)) {
      return fail(Error(ErrorCode::misaligned, "alignment_is_a_power_of_two",
                        format_text("alignment {} is not a power of two", layout.alignment))
                      .with_hint("use 64 or 4096"));
    }
    if (layout.disk_block_bytes != 0 && !std::has_single_bit(layout.disk_block_bytes)) {
      return fail(Error(ErrorCode::misaligned, "disk_block_size_is_a_power_of_two",
                        format_text("disk block size {} is not a power of two", layout.disk_block_bytes))
                      .with_hint("use 4096"));
    }
    auto encoded = HT_TRY(format.encode(catalog, layout));
    HT_TRY(check_encoded(encoded, catalog));
    encoded.finish = format.finish;
    return encoded;
  });
}

Result<EncodedFile> encode(std::string_view name, const Catalog& catalog, const EncodeOptions& layout) {
  return without_bad_alloc([&]() -> Result<EncodedFile> {
    if (const auto* const format = find_format(name)) return encode(*format, catalog, layout);
    return fail(
        Error(ErrorCode::not_found, "format_name_is_known", format_text("format '{}' is unknown", name))
            .with_hint(format_text("use one of {}", fmt::join(format_names(), ", "))));
  });
}

}  // namespace ht::inline v1
