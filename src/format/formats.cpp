#include "format/formats.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <htensor/base/utf8.hpp>

#include "base/format_text.hpp"
#include "format/gguf/gguf.hpp"
#include "format/ht/ht.hpp"
#include "format/irpa/irpa.hpp"
#include "format/npy/npy.hpp"
#include "format/safetensors/safetensors.hpp"

namespace ht::inline v1 {
namespace {

// A format is registered by its line here.
constexpr std::array registered{
    Format{"ht", ".ht", format_ht::looks_like, format_ht::parse, format_ht::encode},
    Format{"gguf", ".gguf", format_gguf::looks_like, format_gguf::parse, format_gguf::encode,
           format_gguf::edit, format_gguf::warnings},
    Format{"irpa", ".irpa", format_irpa::looks_like, format_irpa::parse, format_irpa::encode},
    Format{"npy", ".npy", format_npy::looks_like, format_npy::parse, format_npy::encode},
    // The last, as it has no magic.
    Format{"safetensors", ".safetensors", format_safetensors::looks_like, format_safetensors::parse,
           format_safetensors::encode, format_safetensors::edit},
};

}  // namespace

std::span<const Format> formats() noexcept { return registered; }

bool begins_with(Bytes bytes, std::string_view magic) noexcept {
  // A file that ends within a magic is a truncated file of that format.
  const auto seen = std::min(bytes.size(), magic.size());
  return seen > 0 && std::ranges::equal(bytes.first(seen), bytes_of(magic).first(seen));
}

std::vector<std::string_view> format_names() {
  std::vector<std::string_view> names;
  for (const auto& format : formats()) names.push_back(format.name);
  return names;
}

std::optional<std::string_view> format_of_extension(std::string_view extension) {
  const auto found = std::ranges::find(formats(), extension, &Format::extension);
  if (found == formats().end()) return std::nullopt;
  return found->name;
}

Result<std::string_view> format_for(const std::filesystem::path& target) {
  return without_bad_alloc([&]() -> Result<std::string_view> {
    const auto extension = target.extension().string();
    if (const auto found = format_of_extension(extension)) return *found;
    return fail(
        Error(ErrorCode::not_found, "extension_names_a_format",
              format_text("extension '{}' does not name a format that can be written", to_utf8(extension)))
            .at_path(target.native())
            .with_hint(format_text("use one of the extensions .{}", fmt::join(format_names(), ", ."))));
  });
}

std::vector<Error> reader_warnings(std::string_view format, const Catalog& catalog) {
  const auto found = std::ranges::find(formats(), format, &Format::name);
  if (found == formats().end() || found->warnings == nullptr) return {};
  return found->warnings(catalog);
}

Result<Encoded> encode(std::string_view format, const Catalog& catalog, const Layout& layout) {
  return without_bad_alloc([&]() -> Result<Encoded> {
    const auto found = std::ranges::find(formats(), format, &Format::name);
    if (found == formats().end()) {
      return fail(
          Error(ErrorCode::not_found, "format_has_a_name", format_text("format '{}' is unknown", format))
              .with_hint(format_text("use one of {}", fmt::join(format_names(), ", "))));
    }
    if (layout.alignment != 0 && !std::has_single_bit(layout.alignment)) {
      return fail(Error(ErrorCode::misaligned, "alignment_is_a_power_of_two",
                        format_text("alignment {} is not a power of two", layout.alignment))
                      .with_hint("use 64 or 4096"));
    }
    if (layout.block_bytes != 0 && !std::has_single_bit(layout.block_bytes)) {
      return fail(ErrorCode::misaligned, "blocks_are_powers_of_two",
                  format_text("block size {} is not a power of two", layout.block_bytes));
    }
    return found->encode(catalog, layout);
  });
}

}  // namespace ht::inline v1
