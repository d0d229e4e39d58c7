#include <algorithm>
#include <set>

#include "base/format_text.hpp"
#include "base/utf8.hpp"
#include "format/shards/numbered_name.hpp"
#include "io/file_source.hpp"
#include "model/files/model_files.hpp"
#include "model/files/read_header.hpp"

namespace ht::inline v1 {
namespace {

// The parent path of a file in the current folder is empty.
std::string folder_text(const std::filesystem::path& folder) {
  return folder.empty() ? "." : folder.string();
}

// Opens the external data files that the header refers to.
Result<void> open_external(ModelFiles& model, const OpenOptions& options) {
  const auto folder = model.files[0].path.parent_path();
  const auto& names = model.catalog.files();
  if (names.size() > 1 && !is_opened_by_path(*model.files[0].source)) {
    return fail(
        Error(ErrorCode::missing_shard, "external_files_have_a_folder",
              format_text("has tensors in '{}', but was not opened by a path, so it has no folder", names[1]))
            .at_path(model.files[0].path.native())
            .with_hint("open the archive by its path"));
  }
  for (std::size_t i = 1; i < names.size(); ++i) {
    const auto path = folder / names[i];
    auto opened = io::FileSource::open(path, port_of(options));
    if (opened) {
      model.files.push_back({path, *std::move(opened)});
    } else if (!is_missing(opened.error().cause())) {
      return fail(std::move(opened).error());
    } else if (options.allow_incomplete) {
      model.files.push_back({path, nullptr});
    } else {
      return fail(Error(ErrorCode::missing_shard, "external_files_exist",
                        format_text("has tensors in '{}', which is missing", names[i]))
                      .at_path(model.files[0].path.native())
                      .with_cause(opened.error().cause())
                      .with_hint("download the missing file into the same folder"));
    }
  }
  if (names.size() == 1 || options.allow_incomplete) return {};
  for (const Entry& entry : model.catalog) {
    const auto file_bytes = model.files[entry.file].source->size();
    if (entry.file == 0 || checked::range_fits(entry.offset, entry.bytes, file_bytes)) continue;
    return fail(Error(ErrorCode::truncated, "external_data_is_complete",
                      format_text("tensor '{}' ends at byte {} of '{}', which has {} bytes", entry.name,
                                  entry.offset + entry.bytes, names[entry.file], file_bytes))
                    .at_path(model.files[0].path.native())
                    .at_tensor(entry.name)
                    .with_hint(format_text("download '{}' again", names[entry.file])));
  }
  return {};
}

Error missing_files(const std::vector<std::filesystem::path>& paths, const std::vector<std::string>& missing,
                    const std::filesystem::path& folder, std::error_code cause) {
  return Error(ErrorCode::missing_shard, "shards_exist",
               format_text("{} of {} files of this model are missing: {}", missing.size(), paths.size(),
                           name_list(missing)))
      .at_path(folder_text(folder))
      .with_cause(cause)
      .with_hint("download the missing files into the same folder");
}

// Fails if the index names some but not all files of a numbered set.
Result<void> check_numbering(const std::filesystem::path& path, const ShardIndex& index) {
  for (const auto& file : index.files) {
    const auto numbered = parse_numbered_name(file);
    if (!numbered) continue;
    auto unnamed = numbered->names();
    // Both lists are sorted.
    std::erase_if(unnamed, [&](const auto& name) { return std::ranges::binary_search(index.files, name); });
    if (unnamed.empty()) continue;
    return fail(
        Error(ErrorCode::missing_shard, "index_names_all_numbered_files",
              format_text("the index names {} of the {} files numbered like '{}', but not {}",
                          numbered->count - unnamed.size(), numbered->count, file, name_list(unnamed)))
            .at_path(path.native())
            .with_hint("download the index and all shards again"));
  }
  return {};
}

Error duplicate_across(const std::vector<ModelFiles>& shards, const Error& error) {
  const auto name = error.tensor();
  std::vector<std::string> holders;
  for (const auto& shard : shards) {
    if (shard.catalog.find(name)) holders.push_back(shard.files[0].path.filename().string());
  }
  return Error(ErrorCode::duplicate_tensor, "shards_share_no_tensor",
               format_text("tensor '{}' is in {} files: {}", name, holders.size(), name_list(holders)))
      .at_path(folder_text(shards[0].files[0].path.parent_path()))
      .at_tensor(name)
      .with_hint("open one of these files, or an index: they are not shards of one model");
}

}  // namespace

bool is_folder(const std::filesystem::path& path, const OpenOptions& options) {
  const auto stat = port_of(options).stat(path);
  return stat && stat->kind == io::FileKind::folder;
}

std::vector<std::filesystem::path> paths_in(const std::filesystem::path& folder,
                                            std::span<const std::string> names) {
  std::vector<std::filesystem::path> paths;
  paths.reserve(names.size());
  for (const auto& name : names) paths.push_back(folder / name);
  return paths;
}

bool is_opened_by_path(const io::Source& source) noexcept {
  const auto* const file = dynamic_cast<const io::FileSource*>(&source);
  return file != nullptr && file->has_path();
}

Result<void> check_all_exist(const std::vector<std::filesystem::path>& paths, const OpenOptions& options,
                             const SetView& view) {
  std::vector<std::string> missing;
  std::error_code cause;
  for (const auto& path : paths) {
    const auto stat = port_of(options).stat(view.current_path(path));
    if (stat || !is_missing(stat.error())) continue;
    missing.push_back(path.filename().string());
    cause = stat.error();
  }
  if (missing.empty()) return {};
  return fail(missing_files(paths, missing, paths[0].parent_path(), cause));
}

Result<ModelFiles> open_one(std::shared_ptr<const io::Source> source, const OpenOptions& options,
                            const std::filesystem::path& name) {
  auto path = name.empty() ? source->path() : name;
  const std::string stem = path.has_stem() ? to_utf8(path.stem().string()) : "tensor";
  auto header = read_header(*source, parse,
                            {.stem = stem,
                             .dtypes = options.dtypes,
                             .formats = options.formats,
                             .allow_incomplete = options.allow_incomplete,
                             .max_header_bytes = options.max_header_bytes});
  if (!header) return fail(std::move(header).error().at_path(source->path().native()));
  ModelFiles model{std::move(header->catalog), {}};
  model.files.push_back({std::move(path), std::move(source)});
  HT_TRY(open_external(model, options));
  return model;
}

Result<std::vector<ModelFiles>> open_shards(const std::vector<std::filesystem::path>& paths,
                                            const std::filesystem::path& folder, const OpenOptions& options,
                                            const SetView& view) {
  std::vector<std::shared_ptr<const io::FileSource>> files;
  std::vector<std::string> missing;
  std::error_code cause;
  for (const auto& path : paths) {
    auto opened = io::FileSource::open(view.current_path(path), port_of(options));
    if (opened) {
      files.push_back(*std::move(opened));
    } else if (is_missing(opened.error().cause())) {
      missing.push_back(path.lexically_relative(folder).string());
      cause = opened.error().cause();
    } else {
      return fail(std::move(opened).error());
    }
  }
  if (!missing.empty()) return fail(missing_files(paths, missing, folder, cause));
  std::vector<ModelFiles> shards;
  shards.reserve(files.size());
  for (std::size_t i = 0; i < files.size(); ++i)
    shards.push_back(HT_TRY(open_one(std::move(files[i]), options, paths[i])));
  return shards;
}

Result<ModelFiles> merge(std::vector<ModelFiles> shards, std::string_view excluded_prefix) {
  if (shards.size() == 1) return std::move(shards[0]);
  CatalogBuilder builder(shards[0].catalog.format());
  std::size_t tensors = 0;
  std::size_t name_bytes = 0;
  std::size_t dims = 0;
  for (const auto& shard : shards) {
    tensors += shard.catalog.size();
    for (const Entry& entry : shard.catalog) {
      name_bytes += entry.name.size();
      dims += entry.dims.size();
    }
  }
  HT_TRY(builder.reserve(tensors, name_bytes, dims));
  const auto folder = shards[0].files[0].path.parent_path();
  std::vector<ModelFile*> named;  // in the order of the builder's file numbers
  std::set<std::string_view> keys;
  for (auto& shard : shards) {
    std::vector<std::uint32_t> numbers;
    for (auto& file : shard.files) {
      // The name is not converted to UTF-8, so that different names stay different.
      const auto relative = file.path.lexically_relative(folder);
      const auto name = (relative.empty() ? file.path : relative).generic_string();
      numbers.push_back(named.empty() ? 0 : HT_TRY(builder.add_file(name)));
      if (numbers.back() == named.size()) named.push_back(&file);
    }
    for (Entry entry : shard.catalog) {
      entry.file = numbers[entry.file];
      HT_TRY(builder.add(entry));
    }
    // The first file that has a key decides its value.
    for (const auto& [key, value] : shard.catalog.metadata()) {
      const bool is_kept = excluded_prefix.empty() || !key.starts_with(excluded_prefix);
      if (is_kept && keys.insert(key).second) HT_TRY(builder.metadata().add(key, value));
    }
  }
  auto catalog = std::move(builder).build();
  if (!catalog) {
    if (catalog.error().code() == ErrorCode::duplicate_tensor)
      return fail(duplicate_across(shards, catalog.error()));
    return fail(std::move(catalog).error());
  }
  std::vector<ModelFile> files;
  files.reserve(named.size());
  for (auto* file : named) files.push_back(std::move(*file));
  return ModelFiles{*std::move(catalog), std::move(files)};
}

Result<ModelFiles> open_indexed(const std::filesystem::path& path, const ShardIndex& index,
                                const OpenOptions& options, const SetView& view) {
  const auto stale = [&](Error error, std::string_view tensor) {
    return fail(std::move(error)
                    .at_path(path.native())
                    .at_tensor(tensor)
                    .with_hint("download the index and all shards again: they are of different versions"));
  };
  if (index.files.empty()) {
    return fail(Error(ErrorCode::stale_index, "index_names_files", "the index names no files")
                    .at_path(path.native())
                    .with_hint("download the index again"));
  }
  HT_TRY(check_numbering(path, index));
  const auto folder = path.parent_path();
  auto shards = HT_TRY(open_shards(paths_in(folder, index.files), folder, options, view));
  for (std::size_t i = 0; i < index.tensors.size(); ++i) {
    const auto name = index.tensors[i];
    const auto file = index.file_of[i];
    if (shards[file].catalog.find(name)) continue;
    return stale(Error(ErrorCode::stale_index, "indexed_tensors_exist",
                       format_text("the index lists tensor '{}' in '{}', but this file does not contain it",
                                   name, index.files[file])),
                 name);
  }
  for (std::size_t file = 0; file < shards.size(); ++file) {
    for (const Entry& entry : shards[file].catalog) {
      if (index.tensors.find(entry.name)) continue;
      return stale(Error(ErrorCode::stale_index, "index_names_every_tensor",
                         format_text("'{}' has tensor '{}', which the index does not name", index.files[file],
                                     entry.name)),
                   entry.name);
    }
  }
  auto model = HT_TRY(merge(std::move(shards)));
  model.index = path;
  return model;
}

}  // namespace ht::inline v1
