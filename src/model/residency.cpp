#include <htensor/model/residency.hpp>

#include <algorithm>
#include <htensor/base/glob.hpp>
#include <tuple>

#include "base/format_text.hpp"
#include "model/model_state.hpp"

namespace ht::inline v1 {

namespace {

// Which files have a tensor that does not match.
std::vector<bool> files_with_others(const Catalog& catalog, std::size_t files, std::string_view glob) {
  std::vector<bool> found(files);
  for (std::size_t i = 0; i < catalog.size(); ++i) {
    const Entry entry = catalog[i];
    if (!glob_matches(glob, entry.name)) found[entry.file] = true;
  }
  return found;
}

}  // namespace

struct Model::FileRange {
  std::uint32_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

Result<std::vector<Model::FileRange>> Model::ranges_of(std::string_view glob) const {
  const auto& catalog = *state_->catalog;
  std::vector<FileRange> ranges;
  bool any = false;
  for (std::size_t i = 0; i < catalog.size(); ++i) {
    const Entry entry = catalog[i];
    if (!glob_matches(glob, entry.name)) continue;
    any = true;
    // Whether it can be looked up at all.
    if (!entry.is_splat()) HT_TRY(storage_of(entry));
    if (!entry.is_splat() && entry.bytes != 0) ranges.push_back({entry.file, entry.offset, entry.bytes});
  }
  if (!any) {
    return fail(Error(ErrorCode::not_found, "glob_matches_a_tensor",
                      format_text("has no tensor whose name matches '{}'", glob))
                    .at_path(state_->opened.native())
                    .with_hint("list the names with `htensor ls`; * stands for any characters"));
  }
  std::ranges::sort(ranges, {}, [](const FileRange& range) { return std::tuple(range.file, range.offset); });
  // Entries may share bytes, so the end that counts is the furthest.
  std::vector<FileRange> merged;
  for (const auto& range : ranges) {
    auto* const last = merged.empty() ? nullptr : &merged.back();
    if (last != nullptr && last->file == range.file && range.offset <= last->offset + last->bytes) {
      last->bytes = std::max(last->bytes, range.offset + range.bytes - last->offset);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

Result<std::vector<TensorResidency>> Model::residency() const {
  return without_bad_alloc([&]() -> Result<std::vector<TensorResidency>> {
    const auto& catalog = *state_->catalog;
    std::vector<TensorResidency> tensors;
    tensors.reserve(catalog.size());
    for (std::size_t i = 0; i < catalog.size(); ++i) {
      const Entry entry = catalog[i];
      auto& tensor = tensors.emplace_back(TensorResidency{.index = i});
      if (entry.is_splat()) continue;
      HT_TRY(storage_of(entry));
      tensor.bytes = entry.bytes;
      tensor.cached_bytes =
          HT_TRY(named(entry.name, state_->files[entry.file]->cached(entry.offset, entry.bytes)));
    }
    return tensors;
  });
}

Result<std::uint64_t> Model::prefetch(std::string_view glob, const WorkOptions& options) const {
  return without_bad_alloc([&]() -> Result<std::uint64_t> {
    // Small enough to be stopped soon, large enough for the disk.
    constexpr std::uint64_t piece = std::uint64_t{16} << 20;
    const auto begin = std::chrono::steady_clock::now();
    const auto ranges = HT_TRY(ranges_of(glob));
    Progress progress;
    for (const auto& range : ranges) progress.total_bytes += range.bytes;
    const auto tell = [&] {
      progress.elapsed = std::chrono::steady_clock::now() - begin;
      if (options.on_progress) options.on_progress(progress);
    };
    for (const auto& range : ranges) {
      const auto& file = *state_->files[range.file];
      for (std::uint64_t done = 0; done < range.bytes; done += piece) {
        if (options.stop.stop_requested()) {
          return fail(Error(ErrorCode::cancelled, "work_is_not_stopped",
                            format_text("was stopped with {} of {} bytes fetched", progress.done_bytes,
                                        progress.total_bytes))
                          .at_path(state_->opened.native()));
        }
        const std::uint64_t bytes = std::min(piece, range.bytes - done);
        HT_TRY(file.advise(range.offset + done, bytes, io::Advice::populate));
        progress.done_bytes += bytes;
        tell();
      }
    }
    tell();
    return progress.total_bytes;
  });
}

Result<std::uint64_t> Model::evict(std::string_view glob) const {
  return without_bad_alloc([&]() -> Result<std::uint64_t> {
    std::uint64_t total = 0;
    const auto stays = files_with_others(*state_->catalog, state_->paths.size(), glob);
    const auto ranges = HT_TRY(ranges_of(glob));
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const auto& range = ranges[i];
      total += range.bytes;
      const auto& file = *state_->files[range.file];
      if (stays[range.file]) {
        HT_TRY(file.forget(range.offset, range.bytes));
      } else if (i == 0 || ranges[i - 1].file != range.file) {
        // The page cache drops its larger pieces whole or not at all: all of the file at once, where nothing
        // of it stays.
        HT_TRY(file.forget(file.offset(), file.bytes().size()));
      }
    }
    return total;
  });
}

}  // namespace ht::inline v1
