#include "io/choice.hpp"

#include <algorithm>

namespace ht::inline v1::io {
namespace {

bool exceeds(const Facts& facts, std::uint64_t bytes) { return bytes > facts.budget_bytes; }

// Unknown is not cached.
bool is_cached(const Facts& facts) {
  return facts.cached_bytes && *facts.cached_bytes >= facts.bytes / 10 * 9;
}

// Where each fault waits for a network or another process, or may do so.
bool is_far(const Facts& facts) {
  return facts.file_system == FileSystem::network || facts.file_system == FileSystem::user_space ||
         facts.file_system == FileSystem::unknown;
}

// Nothing where the pages have to be read first.
std::optional<Choice> choose_in_memory(const Facts& facts) {
  if (facts.file_system == FileSystem::memory) {
    return Choice{Strategy::mapped, "file_is_memory", "the file system is in memory: mapped without a copy"};
  }
  if (is_cached(facts)) {
    return Choice{Strategy::mapped, "already_cached", "already in the page cache: mapped without a copy"};
  }
  return std::nullopt;
}

Choice choose_for_all(const Facts& facts) {
  const bool is_over = exceeds(facts, facts.bytes) && (facts.budget_is_set || !choose_in_memory(facts));
  const bool cannot_read = exceeds(facts, std::max(facts.bytes, facts.memory_bytes));
  if (is_over || (cannot_read && !facts.can_map)) {
    return {Strategy::staged, "larger_than_memory",
            "exceeds the memory budget: streamed through a ring and not kept"};
  }
  if (!facts.can_map) return {Strategy::read, "no_mapping_read", "the system cannot map files"};
  if (auto choice = choose_in_memory(facts)) return *std::move(choice);
  if (is_far(facts) && !cannot_read) {
    return {Strategy::read, "far_away",
            "on a network, user-space or unknown file system: large reads wait less often than page faults"};
  }
  // Own memory has to be cleared before it is read into; pages of the page cache do not.
  return {Strategy::mapped, "near_and_fits", "fits into memory"};
}

Choice choose_for_one_pass(const Facts& facts) {
  if (!facts.can_map) return {Strategy::staged, "no_mapping_streamed", "the system cannot map files"};
  if (auto choice = choose_in_memory(facts)) return *std::move(choice);
  return {Strategy::staged, "one_pass", "each byte is needed once: large reads past the page cache"};
}

}  // namespace

Choice choose(const Facts& facts) {
  if (facts.use == Use::few && facts.can_map) {
    return {Strategy::mapped, "only_a_few", "few tensors are needed: pages are read when they are touched"};
  }
  Choice choice = facts.use == Use::one_pass ? choose_for_one_pass(facts) : choose_for_all(facts);
  if (!facts.cached_bytes && facts.file_system != FileSystem::memory) {
    choice.reason += "; page cache unknown (the kernel reports it to owners and writers of the file only)";
  }
  return choice;
}

std::string_view to_string(Strategy strategy) noexcept {
  switch (strategy) {
    case Strategy::automatic: return "automatic";
    case Strategy::mapped: return "mapped";
    case Strategy::read: return "read";
    case Strategy::staged: return "staged";
    case Strategy::external: return "external";
  }
  return "unknown";
}

}  // namespace ht::inline v1::io
