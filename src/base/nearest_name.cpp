
#include <algorithm>
#include <numeric>

#include "base/nearest_name.hpp"

namespace ht::inline v1 {
namespace {

// Longer names are not compared: the cost exceeds the value of a suggestion.
constexpr std::size_t max_name_bytes = 1024;
// Limits the cost: looking up a tensor that may be missing is common and must stay fast.
constexpr std::size_t max_steps = 2'000'000;

}  // namespace

NearestName::NearestName(std::string_view name) noexcept
    : name_(name), limit_(name.size() / 2), steps_left_(name.size() > max_name_bytes ? 0 : max_steps) {}

bool NearestName::consider(std::string_view candidate) {
  const std::size_t longer = std::max(candidate.size(), name_.size());
  if (longer - std::min(candidate.size(), name_.size()) > limit_) return steps_left_ != 0;
  const std::size_t steps = (name_.size() + 1) * (candidate.size() + 1);
  if (steps > steps_left_) {
    steps_left_ = 0;
    return false;
  }
  steps_left_ -= steps;
  const auto distance = distance_to(candidate);
  if (distance > limit_) return true;
  found_ = candidate;
  if (distance == 0) steps_left_ = 0;
  limit_ = distance - (distance == 0 ? 0 : 1);
  return distance != 0;
}

// Levenshtein's algorithm with one row.
std::size_t NearestName::distance_to(std::string_view candidate) {
  row_.resize(candidate.size() + 1);
  std::iota(row_.begin(), row_.end(), std::size_t{0});
  for (std::size_t i = 1; i <= name_.size(); ++i) {
    std::size_t diagonal = row_[0];
    row_[0] = i;
    std::size_t best = row_[0];
    for (std::size_t j = 1; j <= candidate.size(); ++j) {
      const std::size_t replaced = diagonal + (name_[i - 1] == candidate[j - 1] ? 0 : 1);
      diagonal = row_[j];
      row_[j] = std::min({row_[j] + 1, row_[j - 1] + 1, replaced});
      best = std::min(best, row_[j]);
    }
    if (best > limit_) return limit_ + 1;
  }
  return row_[candidate.size()];
}

}  // namespace ht::inline v1
