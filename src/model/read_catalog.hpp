// Feeds a parser what it asks to see of a file until it has seen enough.
#pragma once

#include <htensor/format/parse.hpp>
#include <htensor/io/mapped.hpp>

namespace ht::inline v1 {

using Parser = Result<Parsed> (*)(const Seen& seen, std::uint64_t file_bytes, const ParseOptions& options);

/// The file's catalog. A parser that asks for what it has seen or for what is not there is `internal`.
[[nodiscard]] Result<Catalog> read_catalog(const io::Opened& file, Parser parser,
                                           const ParseOptions& options);

}  // namespace ht::inline v1
