// Reads the parts of a file that its parser asks for.
#pragma once

#include <htensor/format/parse.hpp>
#include <htensor/io/source.hpp>

namespace ht::inline v1 {

using Parser = Result<Parsed> (*)(const Seen& seen, std::uint64_t file_bytes, const ParseOptions& options);

struct FileHeader {
  Catalog catalog;
  /// The beginning of the file as far as it was read.
  Bytes prefix;
  std::shared_ptr<const void> owner;
};

/// The file's catalog. A parser that asks for bytes that it has seen or that are not there is `internal`.
[[nodiscard]] Result<FileHeader> read_header(const io::Source& file, Parser parser,
                                             const ParseOptions& options);

}  // namespace ht::inline v1
