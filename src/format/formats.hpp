// The list of formats: what each has to bring.
#pragma once

#include <htensor/format/encode.hpp>
#include <htensor/format/parse.hpp>
#include <span>
#include <string_view>

#include "format/header_edit.hpp"

namespace ht::inline v1 {

struct Format {
  std::string_view name;
  std::string_view extension;
  /// Whether a file that begins like this is meant to be of the format. `prefix` has 512 bytes, or all of a
  /// shorter file. Told by a magic, this is so even where the file ends within it.
  bool (*looks_like)(Bytes prefix, std::uint64_t file_bytes);
  Result<Parsed> (*parse)(const Seen& seen, std::uint64_t file_bytes, const ParseOptions& options);
  Result<Encoded> (*encode)(const Catalog& catalog, const Layout& layout);
  /// Nothing where the header has no metadata, or none that could be changed by itself.
  Result<EditedHeader> (*edit)(const HeaderEdit& edit) = nullptr;
  /// Null where the format's usual readers take every file that the format allows.
  std::vector<Error> (*warnings)(const Catalog& catalog) = nullptr;
};

/// All of them, in the order in which they are tried.
[[nodiscard]] std::span<const Format> formats() noexcept;

/// Whether the bytes begin with the magic, or end within it.
[[nodiscard]] bool begins_with(Bytes bytes, std::string_view magic) noexcept;

}  // namespace ht::inline v1
