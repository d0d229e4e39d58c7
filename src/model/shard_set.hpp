// Several files that are one model.
#pragma once

#include <filesystem>
#include <htensor/format/catalog.hpp>
#include <htensor/model/model.hpp>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "format/shards/shard_index.hpp"
#include "model/set_journal.hpp"

namespace ht::inline v1 {

struct ModelFile {
  std::filesystem::path path;
  /// Null where the file is missing, as another file's data may be with `headers_only`.
  std::shared_ptr<const io::Source> source;
};

struct ModelFiles {
  Catalog catalog;
  /// The files of entries by their number.
  std::vector<ModelFile> files;
  /// The index that names the files.
  std::optional<std::filesystem::path> index = std::nullopt;
};

/// Whether the source is a file that was opened by its path, so that other files can lie beside it.
[[nodiscard]] bool lies_in_a_folder(const io::Source& source) noexcept;

/// `missing_shard` names the files that do not exist.
[[nodiscard]] Result<void> check_all_there(const std::vector<std::filesystem::path>& paths,
                                           const OpenOptions& options, const SetView& view = SetView());

/// One file with its own catalog, and the files that it refers to. `name` is the file's own path where the
/// file lies under a temporary one. A format that has no name for its tensor uses the stem of the path.
[[nodiscard]] Result<ModelFiles> open_one(std::shared_ptr<const io::Source> source,
                                          const OpenOptions& options, const std::filesystem::path& name = {});

/// Each of these files, in this order. `missing_shard` names the files that do not exist.
[[nodiscard]] Result<std::vector<ModelFiles>> open_shards(const std::vector<std::filesystem::path>& paths,
                                                          const OpenOptions& options,
                                                          const SetView& view = SetView());
/// All of them as one model. A key's value is that of the first shard that has the key; keys that begin with
/// `left_out` are dropped. `duplicate_tensor` where two shards have a tensor of the same name.
[[nodiscard]] Result<ModelFiles> merge(std::vector<ModelFiles> shards, std::string_view left_out = {});

/// The shards that the index at `path` names. `missing_shard` where shards are missing, or the index skips
/// some of a numbered set; `stale_index` where index and shards do not agree.
[[nodiscard]] Result<ModelFiles> open_indexed(const std::filesystem::path& path, const ShardIndex& index,
                                              const OpenOptions& options, const SetView& view = SetView());

[[nodiscard]] inline io::Port& port_of(const OpenOptions& options) noexcept {
  return options.port != nullptr ? *options.port : io::system_port();
}

}  // namespace ht::inline v1
