#include "load/load_checks.hpp"

#include <algorithm>
#include <functional>
#include <vector>

#include "base/format_text.hpp"

namespace ht::inline v1 {
namespace {

constexpr std::uint64_t page_bytes = 4096;
constexpr std::uint64_t least_chunk_bytes = 65536;

}  // namespace

Result<io::StagedOptions> ring_within(const LoadOptions& options) {
  io::StagedOptions ring{.chunks = options.chunks, .chunk_bytes = options.chunk_bytes};
  const std::uint64_t budget = options.budget_bytes;
  if (budget == 0 || ring.chunks <= budget / ring.chunk_bytes) return ring;
  ring.chunks = static_cast<std::uint32_t>(std::max<std::uint64_t>(budget / ring.chunk_bytes, 2));
  ring.chunk_bytes = std::min(ring.chunk_bytes, budget / ring.chunks / page_bytes * page_bytes);
  if (ring.chunk_bytes >= std::min(least_chunk_bytes, options.chunk_bytes)) return ring;
  return fail(Error(ErrorCode::budget_too_small, "ring_fits_into_the_budget",
                    format_text("a budget of {} bytes is too small for the read buffers; 0 bytes were loaded",
                                budget))
                  .with_hint(format_text("use a budget of {} bytes or more", 2 * least_chunk_bytes)));
}

Result<void> check_apart(std::span<const Target> targets) {
  std::vector<MutableBytes> places;
  for (const auto& target : targets) {
    if (!target.into.empty()) places.push_back(target.into);
  }
  std::ranges::sort(places, std::less<>(), [](MutableBytes place) { return place.data(); });
  for (std::size_t i = 1; i < places.size(); ++i) {
    if (places[i - 1].data() + places[i - 1].size() <= places[i].data()) continue;
    return fail(Error(ErrorCode::overlap, "targets_are_apart", "two targets overlap in memory")
                    .with_hint("give each tensor its own memory"));
  }
  return {};
}

}  // namespace ht::inline v1
