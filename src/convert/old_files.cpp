#include "convert/old_files.hpp"

#include <algorithm>
#include <htensor/io/source.hpp>
#include <optional>

#include "format/shards/numbered_name.hpp"
#include "format/shards/shard_index.hpp"
#include "io/system_error.hpp"

namespace ht::inline v1 {
namespace {

using Path = std::filesystem::path;

// The files that an index names; nothing where there is no index.
Result<std::optional<std::vector<Path>>> files_of_index(const Path& path, io::Port& port) {
  if (!port.stat(path)) return std::nullopt;
  constexpr std::uint64_t max_bytes = 100'000'000;
  const auto file = HT_TRY(io::FileSource::open(path, port));
  std::vector<Path> files;
  // A file that is not an index, or too large for one, proves nothing about other files.
  if (file->size() > max_bytes) return files;
  std::vector<std::byte> text(static_cast<std::size_t>(file->size()));
  HT_TRY(file->read(0, text));
  const auto index = parse_shard_index(text);
  if (index && *index) {
    for (const auto& name : (*index)->files) files.push_back(path.parent_path() / name);
  }
  return files;
}

// The files that a set is opened by come first, then seals, then shards.
int rank_of(const Path& path) {
  const auto name = path.filename().string();
  if (name.ends_with(".index.json")) return 0;
  if (name.ends_with(".htseal")) return 2;
  const auto numbered = parse_numbered_name(name);
  return !numbered || numbered->number == 1 ? 1 : 3;
}

}  // namespace

Result<std::vector<Path>> shards_to_remove(const ConversionPlan& plan, io::Port& port) {
  return without_bad_alloc([&]() -> Result<std::vector<Path>> {
    std::vector<Path> old;
    if (!plan.is_sharded) return old;
    const Path folder = plan.target.parent_path();
    auto index = plan.target;
    index += ".index.json";
    const auto indexed = HT_TRY(files_of_index(index, port));
    const auto is_planned = [&](const Path& path) {
      return std::ranges::find(plan.files, path, &PlannedFile::path) != plan.files.end();
    };
    const auto names = port.list(folder.empty() ? Path(".") : folder);
    if (!names) {
      return fail(io::system_error(ErrorCode::open_failed, "folder_can_be_listed", "list the folder",
                                   folder.empty() ? Path(".") : folder, names.error()));
    }
    for (const auto& name : *names) {
      const auto path = folder / name;
      const auto numbered = parse_numbered_name(name);
      const bool is_shard = numbered && numbered->stem == plan.target.stem().string() &&
                            numbered->extension == plan.target.extension().string();
      const bool is_of_the_set = !indexed || std::ranges::find(*indexed, path) != indexed->end();
      if (is_shard && is_of_the_set && !is_planned(path)) old.push_back(path);
    }
    // Deterministic: the system lists in any order.
    std::ranges::sort(old);
    // The index goes first, so that it never names a file that is gone.
    if (indexed && !indexed->empty() && !is_planned(index)) old.insert(old.begin(), index);
    return old;
  });
}

void sort_old_files(std::vector<Path>& paths) {
  std::ranges::sort(paths, [](const Path& a, const Path& b) {
    const int rank_a = rank_of(a);
    const int rank_b = rank_of(b);
    return rank_a != rank_b ? rank_a < rank_b : a < b;
  });
  paths.erase(std::ranges::unique(paths).begin(), paths.end());
}

}  // namespace ht::inline v1
