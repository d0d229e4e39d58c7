#include "io/strategy/automatic.hpp"

#include <algorithm>
#include <array>

namespace ht::inline v1::io {
namespace {

// Enough samples to see whether nearly all pages are in the page cache. All pages are too many to query: for
// 4 GiB in the page cache, the query takes a third of the time that mapping these pages takes.
constexpr std::uint64_t samples = 128;
constexpr std::uint64_t sample_bytes = std::uint64_t{1} << 18;

// Unknown counts as not cached.
bool is_cached(const Facts& facts) {
  return facts.cached_bytes && *facts.cached_bytes >= facts.bytes - facts.bytes / 10;
}

// Returns the choice for data that is in memory; nullopt if pages have to be read first.
std::optional<Strategy::Choice> choose_in_memory(const Facts& facts) {
  if (facts.latency == Source::Latency::memory) {
    return Strategy::Choice{Strategy::Kind::mapped, "file_is_memory",
                            "in memory already: mapped without a copy"};
  }
  if (is_cached(facts)) {
    return Strategy::Choice{Strategy::Kind::mapped, "already_cached",
                            "already in the page cache: mapped without a copy"};
  }
  return std::nullopt;
}

Strategy::Choice choose_for_all(const Facts& facts) {
  const bool is_over = facts.bytes > facts.budget_bytes && (facts.budget_is_set || !choose_in_memory(facts));
  const bool read_exceeds_budget = std::max(facts.bytes, facts.memory_bytes) > facts.budget_bytes;
  if (is_over || (read_exceeds_budget && !facts.can_map)) {
    return {Strategy::Kind::staged, "larger_than_memory",
            "exceeds the memory budget: streamed through a ring and not kept"};
  }
  if (!facts.can_map) return {Strategy::Kind::read, "no_mapping_read", "the source cannot be mapped"};
  if (auto choice = choose_in_memory(facts)) return *std::move(choice);
  if (facts.latency == Source::Latency::far && !read_exceeds_budget) {
    return {Strategy::Kind::read, "slow_file_system",
            "on a network, user-space or unknown file system: large reads wait less often than page faults"};
  }
  // The kernel clears newly allocated memory before a read fills it; the page cache has no such cost.
  return {Strategy::Kind::mapped, "fits_into_memory", "fits into memory"};
}

Strategy::Choice choose_for_one_pass(const Facts& facts) {
  if (!facts.can_map) return {Strategy::Kind::staged, "no_mapping_streamed", "the source cannot be mapped"};
  if (auto choice = choose_in_memory(facts)) return *std::move(choice);
  return {Strategy::Kind::staged, "one_pass",
          "each byte is needed once: large reads that bypass the page cache"};
}

}  // namespace

Strategy::Choice choose(const Facts& facts) {
  if (facts.use == Strategy::Use::few && facts.can_map) {
    return {Strategy::Kind::mapped, "few_tensors",
            "few tensors are needed: pages are read when they are touched"};
  }
  Strategy::Choice choice =
      facts.use == Strategy::Use::one_pass ? choose_for_one_pass(facts) : choose_for_all(facts);
  if (!facts.cached_bytes && facts.latency != Source::Latency::memory) {
    choice.reason += "; page cache unknown (the kernel reports it to owners and writers of the file only)";
  }
  return choice;
}

std::string_view to_string(Strategy::Kind kind) noexcept {
  constexpr std::array<std::string_view, 5> names{"automatic", "mapped", "read", "staged", "external"};
  const auto number = static_cast<std::size_t>(kind);
  return number < names.size() ? names[number] : "unknown";
}

std::vector<FileRange> samples_of(std::span<const FileRange> ranges) {
  const std::uint64_t all = sum_of(ranges);
  if (all <= samples * sample_bytes) return {ranges.begin(), ranges.end()};
  std::vector<FileRange> found;
  found.reserve(samples);
  // Samples the middle of equal parts: the ends of a model are read most often.
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
  // Samples are in the order of the sources, so each source is queried once.
  std::vector<Source::CacheQuery> queries;
  for (std::size_t i = 0; i < samples_here.size();) {
    const std::uint32_t file = samples_here[i].file;
    queries.clear();
    for (; i < samples_here.size() && samples_here[i].file == file; ++i) {
      queries.push_back({.offset = samples_here[i].offset, .bytes = samples_here[i].bytes});
    }
    if (!sources[file]) continue;
    if (!sources[file]->capabilities().cache_query) return std::nullopt;
    const auto known = sources[file]->cached(queries);
    if (!known || !*known) return std::nullopt;
    for (const auto& query : queries) cached += query.cached_bytes;
  }
  const std::uint64_t sampled = sum_of(samples_here);
  return sampled == 0 ? 0 : static_cast<double>(cached) / static_cast<double>(sampled);
}

}  // namespace ht::inline v1::io
