#include "model/model_files.hpp"

#include <algorithm>
#include <htensor/base/utf8.hpp>
#include <htensor/format/encode.hpp>
#include <map>

#include "base/format_text.hpp"
#include "format/shards/numbered_name.hpp"
#include "format/shards/split_info.hpp"
#include "io/system_error.hpp"
#include "model/shard_set.hpp"

namespace ht::inline v1 {
namespace {

using Path = std::filesystem::path;

// The index at this path, if it is one.
Result<std::optional<ShardIndex>> read_index(const Path& path, const OpenOptions& options) {
  // As long as a header may be: an index has a line a tensor, too.
  constexpr std::uint64_t default_most = 100'000'000;
  const std::uint64_t most = options.max_header_bytes != 0 ? options.max_header_bytes : default_most;
  const auto file = HT_TRY(io::Opened::open(path, port_of(options)));
  std::vector<std::byte> text(static_cast<std::size_t>(std::min<std::uint64_t>(file.stat().bytes, 512)));
  HT_TRY(file.read(0, text));
  if (!may_be_shard_index(text)) return std::nullopt;
  if (file.stat().bytes > most) {
    return fail(Error(ErrorCode::header_too_large, "index_is_not_too_large",
                      format_text("is a JSON text of {} bytes, and {} are the most that are taken",
                                  file.stat().bytes, most))
                    .at_path(path.native())
                    .with_hint("if it is an index of that many tensors, raise the limit on header bytes"));
  }
  text.resize(static_cast<std::size_t>(file.stat().bytes));
  HT_TRY(file.read(0, text));
  auto index = parse_shard_index(text);
  if (index) return index;
  // What begins with a brace may be anything; only what speaks of weights is an index that is broken.
  const std::string_view words(reinterpret_cast<const char*>(text.data()), text.size());
  if (words.find("\"weight_map\"") == words.npos) return std::nullopt;
  return fail(std::move(index).error().at_path(path.native()));
}

std::vector<Path> all_parts(const Path& folder, const NumberedName& name) {
  std::vector<Path> paths;
  for (std::uint32_t i = 1; i <= name.count; ++i) paths.push_back(folder / name.of(i));
  return paths;
}

// Where all parts of a split model are, told by the name of one.
Result<std::vector<Path>> split_paths(const Path& path, const SplitInfo& info) {
  const auto name = parse_numbered_name(path.filename().string());
  if (!name || name->count != info.count || name->number != info.number + 1) {
    return fail(
        Error(ErrorCode::missing_shard, "split_part_is_named_by_its_number",
              format_text("is part {} of {}, but its name does not say so, and so the others are not found",
                          info.number + 1, info.count))
            .at_path(path.native())
            .with_hint(format_text("call it NAME-{:05}-of-{:05}.gguf, and the others likewise",
                                   info.number + 1, info.count)));
  }
  return all_parts(path.parent_path(), *name);
}

// The parts, all of them, of the model that the file at `path` is one of.
Result<ModelFiles> join_split(const Path& path, const SplitInfo& info, std::vector<ModelFiles> shards) {
  std::uint64_t tensors = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const auto other = split_info(shards[i].catalog);
    tensors += shards[i].catalog.size();
    if (other && other->number == i && other->count == info.count && other->tensors == info.tensors) continue;
    return fail(Error(ErrorCode::stale_index, "split_parts_belong_together",
                      format_text("is no part {} of {} of the model that '{}' is of", i + 1, info.count,
                                  to_utf8(path.filename().string())))
                    .at_path(shards[i].files[0].path.native())
                    .with_hint("a file of another model has taken its name: fetch the right one"));
  }
  if (info.tensors && tensors != *info.tensors) {
    return fail(Error(ErrorCode::stale_index, "split_tensors_are_all_there",
                      format_text("the parts say that they have {} tensors together, and they have {}",
                                  *info.tensors, tensors))
                    .at_path(path.native())
                    .with_hint("fetch all parts again"));
  }
  // Together they are whole: what is said of the parts holds no longer.
  return merge(std::move(shards), "split.");
}

// What a folder holds that may be weights; told by name, as the content of all its files is not to be read.
struct FolderContents {
  std::vector<std::string> indexes;
  std::vector<std::string> weights;
};

Result<FolderContents> look_into(const Path& folder, const OpenOptions& options) {
  auto names = port_of(options).list(folder);
  if (!names) {
    return fail(io::system_error(ErrorCode::open_failed, "folder_can_be_listed", "list the folder", folder,
                                 names.error()));
  }
  // Deterministic: the system lists in any order.
  std::ranges::sort(*names);
  FolderContents contents;
  constexpr std::string_view index_ending = ".index.json";
  for (auto& name : *names) {
    if (name.starts_with('.')) continue;
    const bool is_index = name.ends_with(index_ending);
    // What an index is of stands before its ending: there are some of formats that are not read here.
    const Path weights(is_index ? name.substr(0, name.size() - index_ending.size()) : name);
    if (!format_of_extension(weights.extension().string())) continue;
    // A link that leads nowhere stays, so that it is told of.
    const auto stat = port_of(options).stat(folder / name);
    if (stat && stat->kind == io::FileKind::folder) continue;
    (is_index ? contents.indexes : contents.weights).push_back(std::move(name));
  }
  return contents;
}

Error several_models(const Path& folder, std::vector<std::string> names) {
  constexpr std::size_t most = 5;
  const auto total = names.size();
  names.resize(std::min(total, most));
  for (auto& name : names) name = to_utf8(name);
  return Error(ErrorCode::not_found, "folder_holds_one_model",
               format_text("holds several models: {}{}", fmt::join(names, ", "), total > most ? ", …" : ""))
      .at_path(folder.native())
      .with_hint("name one of them");
}

// Numbered files count as one model; so do several safetensors without numbers, as some writers leave them.
Result<std::vector<Path>> model_in(const Path& folder, const std::vector<std::string>& weights) {
  std::map<std::string, std::vector<Path>> sets;
  for (const auto& name : weights) {
    const auto numbered = parse_numbered_name(name);
    if (!numbered) {
      const bool joins = name.ends_with(".safetensors");
      sets[joins ? std::string("*.safetensors") : name].push_back(folder / name);
      continue;
    }
    auto& set = sets[numbered->of(0)];
    if (set.empty()) set = all_parts(folder, *numbered);
  }
  if (sets.size() == 1) return std::move(sets.begin()->second);
  std::vector<std::string> first_names;
  first_names.reserve(sets.size());
  for (const auto& [name, files] : sets) first_names.push_back(files[0].filename().string());
  return fail(several_models(folder, std::move(first_names)));
}

Result<ModelFiles> open_folder(const Path& folder, const OpenOptions& options) {
  const auto contents = HT_TRY(look_into(folder, options));
  auto indexes = contents.indexes;
  // Variants such as model.fp16.safetensors.index.json lie beside the model itself.
  constexpr std::string_view usual = "model.safetensors.index.json";
  if (std::ranges::find(indexes, usual) != indexes.end()) indexes = {std::string(usual)};
  if (indexes.size() > 1) return fail(several_models(folder, std::move(indexes)));
  if (!indexes.empty()) {
    const auto index = HT_TRY(read_index(folder / indexes[0], options));
    if (index) return open_indexed(folder / indexes[0], *index, options);
  }
  if (contents.weights.empty()) {
    return fail(Error(ErrorCode::not_found, "folder_holds_weights", "is a folder without a weights file")
                    .at_path(folder.native())
                    .with_hint(format_text("known formats: {}", fmt::join(format_names(), ", "))));
  }
  const auto paths = HT_TRY(model_in(folder, contents.weights));
  auto shards = HT_TRY(open_shards(paths, options));
  if (const auto split = split_info(shards[0].catalog)) {
    HT_TRY(split_paths(paths[0], *split));
    return join_split(paths[0], *split, std::move(shards));
  }
  return merge(std::move(shards));
}

Result<ModelFiles> open_file(io::Opened file, const OpenOptions& options) {
  const Path path = file.path();
  auto model = open_one(std::move(file), options);
  if (!model) {
    if (model.error().code() != ErrorCode::bad_magic) return model;
    const auto index = HT_TRY(read_index(path, options));
    return index ? open_indexed(path, *index, options) : std::move(model);
  }
  if (const auto split = split_info(model->catalog)) {
    const auto paths = HT_TRY(split_paths(path, *split));
    return join_split(path, *split, HT_TRY(open_shards(paths, options)));
  }
  return model;
}

}  // namespace

Result<ModelFiles> open_model_files(const Path& path, const OpenOptions& options) {
  auto file = io::Opened::open(path, port_of(options));
  if (file) return open_file(*std::move(file), options);
  if (file.error().code() == ErrorCode::not_regular_file) {
    const auto stat = port_of(options).stat(path);
    if (stat && stat->kind == io::FileKind::folder) return open_folder(path, options);
  }
  return fail(std::move(file).error());
}

}  // namespace ht::inline v1
