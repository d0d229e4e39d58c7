#include "io/choice.hpp"

#include <algorithm>

namespace ht::inline v1::io {
namespace {

bool exceeds(const Facts& facts, std::uint64_t bytes) { return bytes > facts.budget_bytes; }

// Unknown is not cached.
bool is_cached(const Facts& facts) {
  return facts.cached_bytes && *facts.cached_bytes >= facts.bytes / 10 * 9;
}

// nullopt where pages have to be read first.
std::optional<Choice> choose_in_memory(const Facts& facts) {
  if (facts.latency == Latency::memory) {
    return Choice{StrategyKind::mapped, "file_is_memory", "in memory already: mapped without a copy"};
  }
  if (is_cached(facts)) {
    return Choice{StrategyKind::mapped, "already_cached", "already in the page cache: mapped without a copy"};
  }
  return std::nullopt;
}

Choice choose_for_all(const Facts& facts) {
  const bool is_over = exceeds(facts, facts.bytes) && (facts.budget_is_set || !choose_in_memory(facts));
  const bool cannot_read = exceeds(facts, std::max(facts.bytes, facts.memory_bytes));
  if (is_over || (cannot_read && !facts.can_map)) {
    return {StrategyKind::staged, "larger_than_memory",
            "exceeds the memory budget: streamed through a ring and not kept"};
  }
  if (!facts.can_map) return {StrategyKind::read, "no_mapping_read", "the source cannot be mapped"};
  if (auto choice = choose_in_memory(facts)) return *std::move(choice);
  if (facts.latency == Latency::far && !cannot_read) {
    return {StrategyKind::read, "far_away",
            "on a network, user-space or unknown file system: large reads wait less often than page faults"};
  }
  // Own memory has to be cleared before it is read into; pages of the page cache do not.
  return {StrategyKind::mapped, "near_and_fits", "fits into memory"};
}

Choice choose_for_one_pass(const Facts& facts) {
  if (!facts.can_map) return {StrategyKind::staged, "no_mapping_streamed", "the source cannot be mapped"};
  if (auto choice = choose_in_memory(facts)) return *std::move(choice);
  return {StrategyKind::staged, "one_pass", "each byte is needed once: large reads past the page cache"};
}

}  // namespace

Choice choose(const Facts& facts) {
  if (facts.use == Use::few && facts.can_map) {
    return {StrategyKind::mapped, "only_a_few",
            "few tensors are needed: pages are read when they are touched"};
  }
  Choice choice = facts.use == Use::one_pass ? choose_for_one_pass(facts) : choose_for_all(facts);
  if (!facts.cached_bytes && facts.latency != Latency::memory) {
    choice.reason += "; page cache unknown (the kernel reports it to owners and writers of the file only)";
  }
  return choice;
}

std::string_view to_string(StrategyKind kind) noexcept {
  switch (kind) {
    case StrategyKind::automatic: return "automatic";
    case StrategyKind::mapped: return "mapped";
    case StrategyKind::read: return "read";
    case StrategyKind::staged: return "staged";
    case StrategyKind::external: return "external";
  }
  return "unknown";
}

}  // namespace ht::inline v1::io
