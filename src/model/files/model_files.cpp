#include "model/files/model_files.hpp"
#include "base/format_text.hpp"
#include "base/utf8.hpp"
#include "format/shards/numbered_name.hpp"
#include "format/sniff.hpp"
#include "io/file_source.hpp"

#include <algorithm>
#include <htensor/format/metadata.hpp>

namespace ht::inline v1 {
namespace {

using Path = std::filesystem::path;

Error not_an_index(Bytes prefix, std::uint64_t file_bytes) {
  if (auto other = known_file_kind_except_json_and_text(prefix, file_bytes)) return *std::move(other);
  return Error(ErrorCode::bad_header, "index_is_json", "the index is not a JSON object")
      .at_offset(0)
      .with_hint("download the index again");
}

// One attempt to open a model.
struct Attempt {
  /// Maps names to temporary files while a set is being replaced.
  SetView view{};
  /// The file by which the model is opened, and its status before any other file of the model was opened.
  Path path{};
  std::optional<io::FileStat> stat{};
};

// Reads the index at this path. Returns nullopt if the file is not an index and is not named like one.
Result<std::optional<ShardIndex>> read_index(const Path& path, const OpenOptions& options,
                                             const SetView& view) {
  // The limit of a safetensors header: an index also has one line per tensor.
  constexpr std::uint64_t default_max_bytes = 100'000'000;
  const std::uint64_t max_bytes =
      options.max_header_bytes != 0 ? options.max_header_bytes : default_max_bytes;
  const auto file = HT_TRY(io::FileSource::open(view.current_path(path), port_of(options)));
  const std::uint64_t file_bytes = file->size();
  std::vector<std::byte> text(static_cast<std::size_t>(std::min<std::uint64_t>(file_bytes, sniffed_bytes)));
  HT_TRY(file->read(0, text));
  if (!may_be_shard_index(text)) {
    if (!is_index_name(path.native())) return std::nullopt;
    return fail(not_an_index(text, file_bytes).at_path(path.native()));
  }
  if (file_bytes > max_bytes) {
    return fail(Error(ErrorCode::header_too_large, "index_size_within_limit",
                      format_text("index has {} bytes but the limit is {}", file_bytes, max_bytes))
                    .at_path(path.native())
                    .with_hint("raise the limit with --max-header SIZE if you trust the file"));
  }
  text.resize(static_cast<std::size_t>(file_bytes));
  HT_TRY(file->read(0, text));
  auto index = parse_shard_index(text);
  if (index && *index) return **std::move(index);
  // A JSON file that is not named like an index may be of any kind. If it does not parse but contains
  // "weight_map", it is reported as a malformed index.
  const std::string_view json(reinterpret_cast<const char*>(text.data()), text.size());
  const bool has_map = json.find("\"weight_map\"") != json.npos;
  if (!is_index_name(path.native()) && (index || !has_map)) return std::nullopt;
  if (!index) return fail(std::move(index).error().at_path(path.native()));
  return fail(Error(ErrorCode::bad_header, "index_has_a_weight_map", "index has no weight_map")
                  .at_path(path.native())
                  .with_hint("download the index again"));
}

// Returns the validated split keys of a part of a split model; nullopt for any other file.
Result<std::optional<SplitInfo>> split_of(const ModelFiles& model, const OpenOptions& options) {
  const auto& path = model.files[0].path;
  const auto* const format = find_format(model.catalog.format(), options.formats);
  auto split = checked_split_info(model.catalog, format, path.filename().string());
  if (!split) return fail(std::move(split).error().at_path(path.native()));
  return split;
}

// Joins all parts of the split model that contains the file at `path`.
Result<ModelFiles> join_split(const Path& path, const SplitInfo& info, std::vector<ModelFiles> shards,
                              const OpenOptions& options) {
  std::uint64_t tensors = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const auto other = split_info(shards[i].catalog);
    tensors += shards[i].catalog.size();
    if (!other || other->number != i || other->count != info.count || other->tensors != info.tensors) {
      return fail(Error(ErrorCode::stale_index, "split_parts_belong_together",
                        format_text("is named as part {} of {}, but its split keys do not match '{}'", i + 1,
                                    info.count, to_utf8(path.filename().string())))
                      .at_path(shards[i].files[0].path.native())
                      .with_hint("download this file again: it may belong to another model"));
    }
    HT_TRY(split_of(shards[i], options));
  }
  if (info.tensors && tensors != *info.tensors) {
    return fail(
        Error(ErrorCode::stale_index, "split_tensor_count_matches",
              format_text("the parts have {} tensors, but split.tensors.count is {}", tensors, *info.tensors))
            .at_path(path.native())
            .with_hint("download all parts again"));
  }
  // The split keys describe the parts, not the joined model.
  return merge(std::move(shards), split_prefix);
}

Result<ModelFiles> open_folder(const Path& folder, const OpenOptions& options, Attempt& attempt) {
  auto [models, found_view] = HT_TRY(models_of_folder(folder, options));
  const auto& files = models[0].files;
  const auto& view = attempt.view;
  attempt.view = std::move(found_view);
  attempt.path = files[0];
  if (const auto stat = port_of(options).stat(view.current_path(files[0]))) attempt.stat = *stat;
  if (models.size() > 1) return fail(several_models(folder, models));
  if (models[0].is_index) {
    const auto index = HT_TRY(read_index(files[0], options, view));
    return open_indexed(files[0], *index, options, view);
  }
  auto shards = HT_TRY(open_shards(files, files[0].parent_path(), options, view));
  if (const auto split = HT_TRY(split_of(shards[0], options)))
    return join_split(files[0], *split, std::move(shards), options);
  return merge(std::move(shards));
}

Result<ModelFiles> open_file(const Path& path, std::shared_ptr<const io::FileSource> file,
                             const OpenOptions& options, const SetView& view) {
  auto model = open_one(std::move(file), options, path);
  if (!model) {
    if (model.error().code() != ErrorCode::bad_magic) return model;
    const auto index = HT_TRY(read_index(path, options, view));
    return index ? open_indexed(path, *index, options, view) : std::move(model);
  }
  if (const auto split = HT_TRY(split_of(*model, options))) {
    const auto folder = path.parent_path();
    const auto paths = paths_in(folder, parse_numbered_name(path.filename().string())->names());
    return join_split(path, *split, HT_TRY(open_shards(paths, folder, options, view)), options);
  }
  return model;
}

Result<ModelFiles> open_at(const Path& path, const OpenOptions& options, Attempt& attempt) {
  auto file = io::FileSource::open(attempt.view.current_path(path), port_of(options));
  if (file) {
    attempt.path = path;
    attempt.stat = (*file)->stat();
    return open_file(path, *std::move(file), options, attempt.view);
  }
  if (file.error().code() == ErrorCode::not_regular_file && is_folder(path, options))
    return open_folder(path, options, attempt);
  return fail(std::move(file).error());
}

// Returns whether the path still leads to the file that was opened.
bool is_same_file(const Path& path, std::uint64_t device, std::uint64_t inode, const Attempt& attempt,
                  const OpenOptions& options) {
  const auto now = port_of(options).stat(attempt.view.current_path(path));
  if (!now) return !is_missing(now.error());
  return now->device == device && now->inode == inode;
}

// Returns whether each path of the set still leads to the file that was opened. A writer that replaces the
// set renames every old file to a temporary name before it renames the first new file into place. So if the
// file by which the set was opened is still at its path, no new file is in place: the writer has not yet
// renamed a new file, or it has rolled the replacement back. Before the rollback, a new file may have been
// opened. Therefore the other files are compared, too: after the rollback, no new file is at its path.
bool is_one_set(const Attempt& attempt, std::span<const ModelFile> files, const OpenOptions& options) {
  if (!attempt.stat) return true;
  if (!is_same_file(attempt.path, attempt.stat->device, attempt.stat->inode, attempt, options)) return false;
  return std::ranges::all_of(files, [&](const ModelFile& file) {
    if (!file.source || file.path == attempt.path) return true;
    const auto opened = file.source->identity();
    return is_same_file(file.path, opened.device, opened.object, attempt, options);
  });
}

// Returns whether the open may have failed only because a writer was renaming files. If a file was renamed
// just before the open of this file, the cause of the error is a missing file. If files were renamed just
// before the folder was listed, the folder may have seemed to have no model: the error has no cause, and no
// file has been examined.
bool may_be_temporary(const Error& error, const Attempt& attempt) {
  return is_missing(error.cause()) || (!attempt.stat && !error.cause());
}

// Fails if both models have the same tensor, or the same key with different values.
Result<void> check_mergeable(const ModelFiles& first, const Path& first_path, const ModelFiles& second,
                             const Path& second_path) {
  for (const Entry& entry : second.catalog) {
    if (!first.catalog.find(entry.name)) continue;
    return fail(
        Error(ErrorCode::duplicate_tensor, "merged_models_share_no_tensor",
              format_text("tensor '{}' is in '{}' and in '{}'", to_utf8(entry.name),
                          to_utf8(first_path.string()), to_utf8(second_path.string())))
            .at_path(second_path.native())
            .at_tensor(entry.name)
            .with_hint("write one of the models without the tensor first: htensor convert --exclude NAME"));
  }
  for (const auto& item : second.catalog.metadata()) {
    const auto& [key, value] = item;
    const auto other = first.catalog.metadata().find(key);
    if (!other || describes_layout(item)) continue;
    if (other->type() == value.type() && std::ranges::equal(other->bytes(), value.bytes())) continue;
    return fail(
        Error(ErrorCode::duplicate_key, "merged_models_agree_on_metadata",
              format_text("metadata key '{}' has one value in '{}' and another in '{}'", to_utf8(key),
                          to_utf8(first_path.string()), to_utf8(second_path.string())))
            .at_path(second_path.native())
            .with_hint("give the key one value: htensor meta FILE set KEY VALUE, or remove it from one "
                       "model: htensor meta FILE rm KEY"));
  }
  return {};
}

}  // namespace

Result<ModelFiles> open_merged_files(std::span<const Path> paths, const OpenOptions& options) {
  if (paths.empty()) {
    return fail(Error(ErrorCode::bad_state, "merged_models_have_a_path", "no path of a model was given")
                    .with_hint("pass at least one path"));
  }
  std::vector<ModelFiles> models;
  models.reserve(paths.size());
  for (const auto& path : paths) {
    auto model = HT_TRY(open_model_files(path, options));
    for (std::size_t i = 0; i < models.size(); ++i) HT_TRY(check_mergeable(models[i], paths[i], model, path));
    models.push_back(std::move(model));
  }
  return merge(std::move(models));
}

Result<ModelFiles> open_model_files(const Path& path, const OpenOptions& options) {
  SetView view;
  constexpr int max_tries = 4;
  for (int i = 0; i < max_tries; ++i) {
    Attempt attempt{.view = std::move(view)};
    auto model = open_at(path, options, attempt);
    const bool is_single = model && model->files.size() < 2 && !model->index;
    const auto opened = model ? std::span<const ModelFile>(model->files) : std::span<const ModelFile>();
    const bool is_same = is_single || is_one_set(attempt, opened, options);
    if (model && is_same) return model;
    view = HT_TRY(SetView::of_path(path, port_of(options)));
    // A writer that has finished meanwhile leaves no journal, so changed files are the only sign of it.
    const bool has_writer = !is_same || !view.is_empty() || !attempt.view.is_empty();
    const bool can_retry =
        i + 1 < max_tries && (has_writer || (i == 0 && may_be_temporary(model.error(), attempt)));
    if (!model && !can_retry) return model;
  }
  return fail(Error(ErrorCode::changed_underfoot, "set_is_unchanged_while_opening",
                    format_text("the set was replaced {} times while it was opened", max_tries))
                  .at_path(path.native())
                  .with_hint("retry when no other program writes the set"));
}

Result<std::vector<Path>> models_in(const Path& path, const OpenOptions& options) {
  return without_bad_alloc([&]() -> Result<std::vector<Path>> {
    if (!is_folder(path, options)) return std::vector{path};
    OpenOptions catalog_options = options;
    catalog_options.catalog_only = true;
    const auto [models, view] = HT_TRY(models_of_folder(path, options));
    if (models.size() == 1) {
      const auto& [files, is_index, is_numbered] = models[0];
      if (is_index || is_numbered || files.size() == 1) return std::vector{path};
      // Files without numbers form one model unless they share tensor names, as adapters do.
      const auto joined = open_model_files(path, catalog_options);
      if (joined || joined.error().code() != ErrorCode::duplicate_tensor) return std::vector{path};
      return files;
    }
    std::vector<Path> paths;
    for (const auto& [files, is_index, is_numbered] : models) {
      // One part of a split GGUF opens all of them; shards of other formats are listed one by one.
      const auto first = is_numbered ? open_model_files(files[0], catalog_options)
                                     : Result<ModelFiles>(fail(Error(ErrorCode::not_found)));
      const bool opens_all = first && first->files.size() == files.size();
      if (is_numbered && !opens_all) HT_TRY(check_all_exist(files, options, view));
      paths.insert(paths.end(), files.begin(), opens_all ? files.begin() + 1 : files.end());
    }
    return paths;
  });
}

Result<std::vector<Path>> files_of_model(const Path& path, const OpenOptions& options) {
  return without_bad_alloc([&]() -> Result<std::vector<Path>> {
    Path file = path;
    SetView view;
    if (is_folder(path, options)) {
      auto folder = HT_TRY(models_of_folder(path, options));
      if (folder.models.size() > 1) return fail(several_models(path, folder.models));
      if (!folder.models[0].is_index) return std::move(folder.models[0].files);
      file = folder.models[0].files[0];
      view = std::move(folder.view);
    } else {
      view = HT_TRY(SetView::of_set(file, port_of(options)));
    }
    const auto index = HT_TRY(read_index(file, options, view));
    const auto numbered = parse_numbered_name(file.filename().string());
    if (!index && !numbered) return std::vector{file};
    return paths_in(file.parent_path(), index ? index->files : numbered->names());
  });
}

}  // namespace ht::inline v1
