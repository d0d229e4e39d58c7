// The plan of a file with other metadata. Pure: nothing here reads or writes.
#pragma once

#include <htensor/base/result.hpp>
#include <htensor/convert/plan.hpp>
#include <htensor/format/metadata_edit.hpp>
#include <htensor/format/parse.hpp>
#include <span>

namespace ht::inline v1 {

struct EditedFile {
  /// The new header, and one part: all that followed the old one.
  PlannedFile file;
  Metadata metadata;
  bool changed = false;
  std::uint64_t moved_by = 0;
};

struct MetadataEdits {
  std::span<const MetadataEdit> edits;
  /// Whether the data may move.
  bool grow = false;
};

/// `seen` is the beginning of a file of `file_bytes` bytes, with all of its header at least; it was parsed to
/// `before`. `unsupported_encoding` where the format's metadata cannot be edited, `bad_state` for a part of a
/// model that has its metadata in another part.
[[nodiscard]] Result<EditedFile> plan_edit(const Catalog& before, Bytes seen, std::uint64_t file_bytes,
                                           const MetadataEdits& edits, const ParseOptions& options = {});

}  // namespace ht::inline v1
