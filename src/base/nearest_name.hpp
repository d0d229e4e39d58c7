// Suggestions for an unknown name: "did you mean 'output.weight'?".
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace ht::inline v1 {

/// Finds the candidate with the smallest edit distance (insertions, deletions and replacements of bytes) to a
/// name; of several, the first. Ignores candidates at a distance over half of the name's length. The name and
/// the candidates must outlive the object.
class NearestName {
 public:
  explicit NearestName(std::string_view name) noexcept;

  /// Compares one more candidate. Returns false if further calls have no effect: the distance is 0, or all
  /// comparisons together have reached their cost limit of some milliseconds.
  bool consider(std::string_view candidate);

  [[nodiscard]] std::optional<std::string_view> found() const noexcept { return found_; }

 private:
  /// The edit distance, or `limit_` + 1 as soon as it must exceed `limit_`.
  [[nodiscard]] std::size_t distance_to(std::string_view candidate);

  std::string_view name_;
  std::size_t limit_;  // the largest distance that would be an improvement
  std::size_t steps_left_;
  std::optional<std::string_view> found_;
  std::vector<std::size_t> row_;
};

}  // namespace ht::inline v1
