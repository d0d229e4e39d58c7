#include <algorithm>
#include <array>
#include <htensor/format/format.hpp>
#include <map>

#include "base/format_text.hpp"
#include "base/utf8.hpp"
#include "format/shards/numbered_name.hpp"
#include "format/sniff.hpp"
#include "io/file_source.hpp"
#include "io/port/system_error.hpp"
#include "model/files/model_files.hpp"

namespace ht::inline v1 {
namespace {

using Path = std::filesystem::path;
using Names = std::vector<std::string>;

// Returns the names in a folder, sorted and without hidden files. With `view`, reads the journals in the
// folder into `view`, and returns the names as they are after all journals are finished.
Result<Names> names_in(const Path& folder, const OpenOptions& options, SetView* view = nullptr) {
  auto names = port_of(options).list(folder);
  if (!names) {
    return fail(io::system_error(ErrorCode::open_failed, "folder_can_be_listed", "list the folder", folder,
                                 names.error()));
  }
  if (view != nullptr) *view = HT_TRY(SetView::of_folder(folder, *names, port_of(options)));
  std::erase_if(*names, [](const std::string& name) { return name.starts_with('.'); });
  std::ranges::sort(*names);
  return *std::move(names);
}

// Decides by name, without reading the file. An index has the name of its files plus an ending; the check
// excludes indexes of formats that the library does not read.
bool may_be_weights(std::string_view name, const OpenOptions& options) {
  if (is_index_name(name)) name.remove_suffix(index_suffix.size());
  return format_of_extension(Path(name).extension().string(), options.formats) != nullptr;
}

struct FolderContents {
  Names indexes;
  Names weights;
};

FolderContents contents_of(const Path& folder, const Names& names, const OpenOptions& options) {
  FolderContents contents;
  for (const auto& name : names) {
    // A dangling link is kept, so that it is reported as missing.
    if (!may_be_weights(name, options) || is_folder(folder / name, options)) continue;
    (is_index_name(name) ? contents.indexes : contents.weights).push_back(name);
  }
  return contents;
}

bool holds_weights(const Path& folder, const OpenOptions& options) {
  const auto names = names_in(folder, options);
  if (!names) return false;
  const auto contents = contents_of(folder, *names, options);
  return !contents.indexes.empty() || !contents.weights.empty();
}

// Returns the first line of a small text file; empty if the file cannot be read.
std::string first_line(const Path& path, const OpenOptions& options) {
  const auto file = io::FileSource::open(path, port_of(options));
  if (!file) return {};
  std::string text(static_cast<std::size_t>(std::min<std::uint64_t>((*file)->size(), 256)), '\0');
  if (!(*file)->read(0, std::as_writable_bytes(std::span(text)))) return {};
  return text.substr(0, text.find_first_of("\r\n"));
}

// The snapshots of a model in Hugging Face's cache: `refs/main` names the current one.
std::vector<Path> snapshots_in(const Path& model, const OpenOptions& options) {
  const auto snapshots = model / "snapshots";
  const auto names = names_in(snapshots, options);
  if (!names) return {};
  const auto current = first_line(model / "refs" / "main", options);
  if (std::ranges::find(*names, current) != names->end()) return {snapshots / current};
  return paths_in(snapshots, *names);
}

// Returns folders below this one that hold weights: those of a pipeline (`unet`, `vae`), or snapshots in a
// Hugging Face cache. Other folders are not searched, because a tree can be as large as a disk.
std::vector<Path> folders_with_weights(const Path& folder, const Names& names, const OpenOptions& options) {
  std::vector<Path> candidates;
  const auto add = [&](const std::vector<Path>& more) {
    candidates.insert(candidates.end(), more.begin(), more.end());
  };
  const auto add_models = [&](const Path& hub, const Names& models) {
    for (const auto& name : models) {
      if (name.starts_with("models--")) add(snapshots_in(hub / name, options));
    }
  };
  add(snapshots_in(folder, options));
  add_models(folder, names);
  if (const auto hub = names_in(folder / "hub", options)) add_models(folder / "hub", *hub);
  for (const auto& name : names) candidates.push_back(folder / name);
  std::erase_if(candidates,
                [&](const Path& path) { return !is_folder(path, options) || !holds_weights(path, options); });
  return candidates;
}

// Returns whether the file may hold weights in a format that the library does not read.
bool is_of_another_format(std::string_view name) {
  constexpr std::array<std::string_view, 10> endings{".bin", ".pt",  ".pth",     ".ckpt",   ".onnx",
                                                     ".h5",  ".npz", ".msgpack", ".tflite", ".keras"};
  return std::ranges::any_of(endings, [&](auto ending) { return name.ends_with(ending); });
}

Error no_weights_in(const Path& folder, const Names& names, const OpenOptions& options) {
  const auto error = [&](std::string message, std::string_view hint) {
    return Error(ErrorCode::not_found, "folder_holds_weights", std::move(message))
        .at_path(folder.native())
        .with_hint(hint);
  };
  const auto below = folders_with_weights(folder, names, options);
  if (!below.empty()) {
    Names paths;
    for (const auto& path : below) paths.push_back(path.native());
    return error(below.size() == 1 ? "the folder has no weights file, but a subfolder has one"
                                   : format_text("the folder has no weights file, but {} subfolders have one",
                                                 below.size()),
                 format_text("open {}{}", below.size() == 1 ? "" : "one of ", name_list(paths)));
  }
  const auto other = std::ranges::find_if(names, is_of_another_format);
  if (other != names.end()) {
    const auto file = io::FileSource::open(folder / *other, port_of(options));
    std::array<std::byte, sniffed_bytes> buffer{};
    const auto prefix = MutableBytes(buffer).first(
        static_cast<std::size_t>(file ? std::min<std::uint64_t>((*file)->size(), sniffed_bytes) : 0));
    if (file && (*file)->read(0, prefix)) {
      const auto kind = unknown_format_error(prefix, (*file)->size(), options.formats);
      return error(format_text("the folder has no weights file of a known format; '{}' {}",
                               name_list(std::span(&*other, 1)), kind.message()),
                   kind.hint());
    }
  }
  return error("the folder has no weights file",
               format_text("open a folder with files in one of these formats: {}",
                           fmt::join(format_names(options.formats), ", ")));
}

std::vector<FolderModel> group_files(const Path& folder, const Names& weights, const OpenOptions& options) {
  std::map<std::string, FolderModel> models;
  for (const auto& name : weights) {
    const auto numbered = parse_numbered_name(name);
    if (!numbered) {
      // Files of a format with indexes form one model even without an index.
      const auto* const format = format_of_extension(Path(name).extension().string(), options.formats);
      const bool joins = format != nullptr && format->sharding == Format::Sharding::index;
      models[joins ? "*" + std::string(format->extension) : name].files.push_back(folder / name);
      continue;
    }
    auto& model = models[numbered->name_of_part(0)];
    if (model.is_numbered) continue;
    model.is_numbered = true;
    for (const auto& part : numbered->names()) model.files.push_back(folder / part);
  }
  std::vector<FolderModel> found;
  found.reserve(models.size());
  for (auto& [name, model] : models) found.push_back(std::move(model));
  return found;
}

}  // namespace

Result<FolderModels> models_of_folder(const Path& folder, const OpenOptions& options) {
  SetView view;
  const auto names = HT_TRY(names_in(folder, options, &view));
  auto [indexes, weights] = contents_of(folder, names, options);
  // Indexes of variants such as model.fp16.safetensors.index.json are stored beside the index of the model.
  constexpr std::string_view default_index = "model.safetensors.index.json";
  if (std::ranges::find(indexes, default_index) != indexes.end()) indexes = {std::string(default_index)};
  std::vector<FolderModel> models;
  for (const auto& index : indexes) models.push_back({.files = {folder / index}, .is_index = true});
  if (models.empty()) models = group_files(folder, weights, options);
  if (models.empty()) return fail(no_weights_in(folder, names, options));
  return FolderModels{std::move(models), std::move(view)};
}

Error several_models(const Path& folder, const std::vector<FolderModel>& models) {
  Names names;
  for (const auto& model : models) names.push_back(model.files[0].filename().string());
  return Error(ErrorCode::not_found, "folder_holds_one_model",
               format_text("the folder holds {} models: {}", models.size(), name_list(names)))
      .at_path(folder.native())
      .with_hint("open one of them by its path; `htensor ls` lists all of them");
}

}  // namespace ht::inline v1
