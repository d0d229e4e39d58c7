// What a file with other metadata is going to be. Pure: nothing here reads or writes.
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

/// `seen` is the beginning of a file of `file_bytes` bytes, with all of its header at least.
[[nodiscard]] Result<EditedFile> plan_edit(Bytes seen, std::uint64_t file_bytes,
                                           std::span<const MetadataEdit> edits, bool grow,
                                           const ParseOptions& options = {});

/// Whether the metadata of a file like this can be edited. `unsupported_encoding` where the format has none,
/// or none that can be changed by itself, `bad_state` for a part of a model that has its metadata elsewhere.
[[nodiscard]] Result<void> check_editable(const Catalog& catalog);

}  // namespace ht::inline v1
