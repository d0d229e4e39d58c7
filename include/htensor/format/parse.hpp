// From the first bytes of a file to its catalog. Parsers see bytes, never a descriptor.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/dtype/visit.hpp>
#include <htensor/format/catalog.hpp>
#include <span>
#include <string_view>
#include <variant>

namespace ht::inline v1 {

/// What a parser has to see before it can go on: the file's bytes from 0 to `bytes`.
struct Need {
  std::uint64_t bytes = 0;
};

using Parsed = std::variant<Catalog, Need>;

struct ParseOptions {
  /// Names the tensor where a format holds just one and has no name for it.
  std::string_view stem{};
  /// Users' own dtypes that the file may use.
  std::span<const DTypeInfo> dtypes{};
  /// Also takes a file whose data is not all there, as of an unfinished download.
  bool headers_only = false;
};

/// Recognises the format by content and parses it. `prefix` is the beginning of a file of `file_bytes`
/// bytes. `bad_magic` for what is no weights file, else the format's own errors.
[[nodiscard]] Result<Parsed> parse(Bytes prefix, std::uint64_t file_bytes, const ParseOptions& options = {});

}  // namespace ht::inline v1
