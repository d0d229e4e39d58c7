#include "model/nearest.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace ht::inline v1 {
namespace {

// Levenshtein's distance, given up as soon as it must exceed `limit`; then limit + 1.
std::size_t distance(std::string_view a, std::string_view b, std::size_t limit,
                     std::vector<std::size_t>& row) {
  row.resize(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    std::size_t best = row[0];
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
      best = std::min(best, row[j]);
    }
    if (best > limit) return limit + 1;
  }
  return row[b.size()];
}

}  // namespace

std::optional<std::string_view> nearest_name(const Catalog& catalog, std::string_view name) {
  // Longer than any sensible name: the answer would cost more than it helps.
  constexpr std::size_t longest = 1024;
  if (name.size() > longest) return std::nullopt;
  // Looking for a tensor that may be there or not is common, and its answer is not to wait for a suggestion.
  std::size_t steps_left = 2'000'000;
  std::optional<std::string_view> nearest;
  std::size_t limit = name.size() / 2;
  std::vector<std::size_t> row;
  for (std::size_t i = 0; i < catalog.size(); ++i) {
    const auto candidate = catalog[i].name;
    const auto apart = std::max(candidate.size(), name.size()) - std::min(candidate.size(), name.size());
    if (apart > limit) continue;
    const std::size_t steps = (name.size() + 1) * (candidate.size() + 1);
    if (steps > steps_left) break;
    steps_left -= steps;
    const auto found = distance(name, candidate, limit, row);
    if (found > limit) continue;
    nearest = candidate;
    if (found == 0) break;
    limit = found - 1;
  }
  return nearest;
}

}  // namespace ht::inline v1
