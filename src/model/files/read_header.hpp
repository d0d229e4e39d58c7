// Reads the parts of a file that its parser requests.
#pragma once

#include <htensor/format/format.hpp>
#include <htensor/io/source.hpp>

namespace ht::inline v1 {

using Parser = Result<ParseResult> (*)(const FileParts& parts, std::uint64_t file_bytes,
                                       const ParseOptions& options);

struct FileHeader {
  Catalog catalog;
  /// The part of the file that has been read, from its start.
  Bytes prefix;
  std::shared_ptr<const void> owner;
};

/// Returns the file's catalog. `internal` if the parser requests bytes that it has seen already or that are
/// outside the file.
[[nodiscard]] Result<FileHeader> read_header(const io::Source& file, Parser parser,
                                             const ParseOptions& options);

}  // namespace ht::inline v1
