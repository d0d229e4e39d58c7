// Other metadata in a file whose format has `Format::edit`, such as safetensors and GGUF.
//
// All but the metadata is kept as it is: tensors, their order, their offsets, the byte order. The room is
// what the header leaves before the data: spaces behind the JSON of a safetensors file, and in a GGUF the
// zeros before the data and a string of spaces under the key `htensor.pad`, which an edit that makes the
// header shorter puts there and the next one takes. Where that is not enough, the data moves.
//
// The file is replaced as a whole, as `ht::write` does it: whoever has it open or mapped keeps the old one,
// and whatever happens meanwhile leaves the old file or the new one. Data that does not move, or by whole
// blocks, is stored once for both where the file system can do that, and is copied elsewhere. Nothing is
// written in place: what others have mapped would change under them, and a disk may tear even one page when
// the power goes. A link is replaced and not followed, so that what is shared through it, as the files of
// Hugging Face's cache are, stays what its name says; so is one of several hard links.
#pragma once

#include <cstdint>
#include <filesystem>
#include <htensor/base/result.hpp>
#include <htensor/base/work.hpp>
#include <htensor/convert/plan.hpp>
#include <htensor/format/format.hpp>
#include <htensor/format/metadata.hpp>
#include <htensor/format/metadata_edit.hpp>
#include <htensor/io/port.hpp>
#include <optional>
#include <span>
#include <vector>

namespace ht::inline v1 {

struct EditOptions {
  /// Whether the data may move, by a multiple of 4096 bytes, where the metadata does not fit before it; else
  /// `header_too_large`.
  bool grow = true;
  /// The most bytes that are read of a header, and that it may have afterwards; 0 is the format's own limit.
  std::uint64_t max_header_bytes = 0;
  /// Formats of the caller's, besides the library's.
  std::vector<Format> formats{};
  WorkOptions work{};
  /// The system, unless a test puts another in its place.
  io::Port* port = nullptr;
};

struct Edited {
  /// As it is in the file now.
  Metadata metadata;
  /// False where the file was just so before, and nothing was written.
  bool changed = false;
  /// How many bytes later the data begins than it did.
  std::uint64_t moved_by = 0;
  CopiedBy copied_by{};
  /// The file's seal, renewed along with it; nullopt if the file is not sealed. Digests of the data are
  /// carried over, not computed anew.
  std::optional<std::filesystem::path> seal{};
};

/// Applies all edits to one file, or none of them; of a split GGUF that file is the first part.
/// `header_too_large` where the header would pass the limit, or `grow` is false and the metadata does not fit
/// before the data; `not_found` for a key to remove that the file does not have, `dtype_mismatch` for a value
/// that is not of its type, `would_lose` for one that the format cannot hold, `bad_name` for one that says
/// how the file is laid out, `unsupported_encoding` for formats whose metadata cannot be edited,
/// `changed_underfoot` where somebody else has changed or replaced the file meanwhile, `checksum_mismatch`
/// for a sealed file that differs from its seal.
[[nodiscard]] Result<Edited> edit_metadata(const std::filesystem::path& file,
                                           std::span<const MetadataEdit> edits,
                                           const EditOptions& options = {});

}  // namespace ht::inline v1
