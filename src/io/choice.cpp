#include "io/choice.hpp"

#include <algorithm>

namespace ht::inline v1::io {
namespace {

bool fits(const Facts& facts) { return std::max(facts.bytes, facts.memory_bytes) <= facts.budget_bytes; }

bool is_cached(const Facts& facts) { return facts.cached_bytes >= facts.bytes / 10 * 9; }

// Where fetching page by page waits for somebody else each time, or may do so.
bool is_far(const Facts& facts) {
  return facts.file_system == FileSystem::network || facts.file_system == FileSystem::user_space ||
         facts.file_system == FileSystem::unknown;
}

Choice choose_strategy(const Facts& facts) {
  if (!facts.can_map) {
    if (facts.use == Use::one_pass || !fits(facts)) {
      return {Strategy::staged, "no_mapping_streamed",
              "The system maps no files, so they are read piece by piece."};
    }
    return {Strategy::read, "no_mapping_read", "The system maps no files, so they are read into memory."};
  }
  if (facts.file_system == FileSystem::memory) {
    return {Strategy::mapped, "file_is_memory",
            "The file lies in memory already: mapping it copies nothing."};
  }
  if (is_cached(facts)) {
    return {Strategy::mapped, "already_cached", "The page cache has it already: mapping it copies nothing."};
  }
  if (facts.use == Use::few) {
    return {Strategy::mapped, "only_a_few", "Only what is looked at is read."};
  }
  if (facts.use == Use::one_pass) {
    return {Strategy::staged, "one_pass",
            "Each byte is wanted once: large reads past the page cache are fastest."};
  }
  if (!fits(facts)) {
    return {Strategy::mapped, "larger_than_memory",
            "It does not fit into memory: mapped, the system keeps of it what is used."};
  }
  if (is_far(facts)) {
    return {Strategy::read, "far_away",
            "It lies on a network or behind a program: large reads wait less often."};
  }
  // Measured by bench/load: memory of one's own has to be cleared before it is read into, pages do not.
  return {Strategy::mapped, "near_and_fits",
          "It lies on a disk of this machine: its pages are fetched and need not be copied."};
}

}  // namespace

Choice choose(const Facts& facts) {
  Choice choice = choose_strategy(facts);
  if (!facts.cached_bytes && facts.file_system != FileSystem::memory) {
    choice.reason +=
        " How much of it is in the page cache is unknown: the kernel reports it only to users that own the "
        "file or may write to it.";
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
