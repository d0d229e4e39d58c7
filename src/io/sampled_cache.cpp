#include "io/sampled_cache.hpp"

#include <algorithm>

namespace ht::inline v1::io {
namespace {

// Enough to see whether nearly all pages are resident. Asking about each page of 4 GiB takes a third of the
// time that mapping its resident pages takes.
constexpr std::uint64_t samples = 128;
constexpr std::uint64_t sample_bytes = std::uint64_t{1} << 18;

}  // namespace

std::vector<FileRange> samples_of(std::span<const FileRange> ranges) {
  const std::uint64_t all = sum_of(ranges);
  if (all <= samples * sample_bytes) return {ranges.begin(), ranges.end()};
  std::vector<FileRange> found;
  found.reserve(samples);
  // From the middle of equal parts: the ends of a model are read most often.
  const std::uint64_t part = all / samples;
  std::uint64_t next = (part - sample_bytes) / 2;
  std::uint64_t before = 0;
  for (const auto& range : ranges) {
    for (; next - before < range.bytes && found.size() < samples; next += part) {
      const std::uint64_t skipped = next - before;
      found.push_back({range.file, range.offset + skipped, std::min(sample_bytes, range.bytes - skipped)});
    }
    before += range.bytes;
  }
  return found;
}

std::optional<double> cached_share(const Sources& sources, std::span<const FileRange> ranges) {
  const auto samples_here = samples_of(ranges);
  std::uint64_t cached = 0;
  // Samples are in the order of the sources, so each source is asked once.
  std::vector<CacheQuery> queries;
  for (std::size_t i = 0; i < samples_here.size();) {
    const std::uint32_t file = samples_here[i].file;
    queries.clear();
    for (; i < samples_here.size() && samples_here[i].file == file; ++i) {
      queries.push_back({.offset = samples_here[i].offset, .bytes = samples_here[i].bytes});
    }
    if (!sources[file]) continue;
    const auto known = sources[file]->cached(queries);
    if (!known || !*known) return std::nullopt;
    for (const auto& query : queries) cached += query.cached_bytes;
  }
  const std::uint64_t asked = sum_of(samples_here);
  return asked == 0 ? 0 : static_cast<double>(cached) / static_cast<double>(asked);
}

}  // namespace ht::inline v1::io
