// Edits the metadata of a file whose format has `Format::edit`, such as safetensors and GGUF.
//
//   const std::array edits{ht::MetadataEdit{.key = "license", .value = "MIT"},
//                          ht::MetadataEdit{.key = "author"}};                 // no value: removes the key
//   const auto edited = HT_TRY(ht::edit_metadata("model.safetensors", edits));
//
// Only the metadata changes; tensors, their order, the layout of the data and the byte order stay. New
// metadata uses the padding between header and data. In safetensors the padding is the spaces after the JSON.
// In GGUF it is the zeros before the data and a string of spaces under the key `htensor.pad`. An edit that
// shortens a GGUF header adds that key; a later edit reuses its space. If the padding is too small, the data
// moves.
//
// The file is replaced atomically, as in `ht::write`: processes that have it open or mapped keep the old
// file, and a crash leaves either the old or the new file. Data that does not move, or moves by whole blocks,
// is shared by reflink if the file system supports it, else copied. The file is never written in place:
// mappings of other processes would change, and a power loss may tear a page. Many threads may edit different
// files at once. A symbolic link is replaced, not followed, so that shared files such as those of Hugging
// Face's cache stay unchanged. A file with several hard links is replaced under this name only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <htensor/base/result.hpp>
#include <htensor/base/work.hpp>
#include <htensor/convert/convert.hpp>
#include <htensor/format/format.hpp>
#include <htensor/format/metadata.hpp>
#include <optional>
#include <span>
#include <vector>

namespace ht::inline v1 {

struct EditOptions {
  /// Whether the data may move, by a multiple of 4096 bytes, if the metadata does not fit before the data. If
  /// false, such an edit is `header_too_large`.
  bool grow = true;
  /// The maximum header size in bytes, before and after the edit; 0 is the limit of the format.
  std::uint64_t max_header_bytes = 0;
  /// The caller's formats, besides the library's.
  std::vector<Format> formats{};
  WorkOptions work{};
  /// The operating system if null; tests substitute their own Port.
  io::Port* port = nullptr;
};

struct EditReport {
  /// The metadata of the file after the edit.
  Metadata metadata;
  /// False if the edits changed nothing; the file was not written then.
  bool changed = false;
  /// The number of bytes by which the data moved towards the end of the file.
  std::uint64_t moved_by = 0;
  CopiedBy copied_by{};
  /// The file's renewed seal; nullopt if the file is not sealed. Digests of the data are reused, not
  /// recomputed.
  std::optional<std::filesystem::path> seal{};
};

/// Applies all edits to one file atomically; for a split GGUF that file is the first part. `header_too_large`
/// if the header would exceed the limit, or if `grow` is false and the metadata does not fit before the data.
/// `not_found` for a key to remove that does not exist, `dtype_mismatch` for a value that does not match its
/// type, `would_lose` for a value that the format cannot hold, `bad_name` for a key that describes the layout
/// of the file. `unsupported_encoding` for formats whose metadata cannot be edited, `changed_underfoot` if
/// another process changed or replaced the file meanwhile, `checksum_mismatch` for a sealed file that differs
/// from its seal.
[[nodiscard]] Result<EditReport> edit_metadata(const std::filesystem::path& file,
                                               std::span<const MetadataEdit> edits,
                                               const EditOptions& options = {});

}  // namespace ht::inline v1
