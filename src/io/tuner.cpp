#include "io/tuner.hpp"

#include <algorithm>
#include <utility>

namespace ht::inline v1::io {
namespace {

// The share of all bytes that trials may take.
constexpr std::uint64_t trial_share = 8;
// How much faster than the default another way has to be: less than that is noise.
constexpr double clear_lead = 1.25;
// Of each candidate in a round, interleaved with those of the others: one slow moment does not decide.
constexpr int turns_per_round = 2;
// No clock counts less; it keeps rates finite.
constexpr double min_seconds = 1e-9;

constexpr std::size_t half_of(std::size_t count) noexcept { return (count + 1) / 2; }

// The warm-up and all rounds from `ways` candidates down to one.
std::uint64_t trials_for(std::size_t ways) noexcept {
  std::uint64_t trials = 1;
  for (std::size_t left = ways; left > 1; left = half_of(left)) trials += turns_per_round * left;
  return trials;
}

}  // namespace

double Tuner::Candidate::rate() const noexcept {
  return static_cast<double>(bytes) / std::max(seconds, min_seconds);
}

Tuner::Tuner(std::span<const Way> ways, std::uint64_t total_bytes, std::uint64_t trial_bytes)
    : trial_bytes_(std::max<std::uint64_t>(trial_bytes, 1)) {
  const std::uint64_t most_trials = total_bytes / trial_share / trial_bytes_;
  std::size_t count = ways.size();
  while (count > 1 && trials_for(count) > most_trials) --count;
  candidates_.reserve(count);
  for (const Way& way : ways.first(count)) candidates_.push_back({.way = way});
  is_warm_ = count == 1;
}

std::optional<std::uint64_t> Tuner::trial_bytes() const noexcept {
  if (candidates_.size() == 1) return std::nullopt;
  return trial_bytes_;
}

void Tuner::record(std::uint64_t bytes, double seconds) {
  // The first trial also pays for the file's extents and for idle disks and processors.
  if (!std::exchange(is_warm_, true)) return;
  auto& candidate = candidates_[current_];
  candidate.bytes += bytes;
  candidate.seconds += std::max(seconds, 0.0);
  if (candidates_.size() == 1 || ++current_ != candidates_.size()) return;
  current_ = 0;
  if (++turns_ == turns_per_round) end_round();
}

void Tuner::end_round() {
  // The default counts for a little more than it reached. Equal ones stay in the order of the list.
  const Way preferred = candidates_.front().way;
  const auto score = [&](const Candidate& one) {
    return one.way == preferred ? one.rate() * clear_lead : one.rate();
  };
  std::vector<std::pair<double, std::size_t>> ranked;  // the best first
  ranked.reserve(candidates_.size());
  for (std::size_t i = 0; i < candidates_.size(); ++i) ranked.emplace_back(-score(candidates_[i]), i);
  std::ranges::sort(ranked);
  ranked.resize(half_of(ranked.size()));
  std::vector<Candidate> staying;
  staying.reserve(ranked.size());
  for (const auto& each : ranked) staying.push_back(candidates_[each.second]);
  candidates_ = std::move(staying);
  // The first one is what the next round compares with.
  const auto stays = std::ranges::find(candidates_, preferred, &Candidate::way);
  if (stays != candidates_.end()) std::rotate(candidates_.begin(), stays, stays + 1);
  turns_ = 0;
}

}  // namespace ht::inline v1::io
