// The name that was probably meant where a name is unknown: "did you mean 'output.weight'?".
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace ht::inline v1 {

/// Finds the candidate with the smallest edit distance (insertions, deletions and replacements of bytes) to a
/// name; the first of several. Candidates further away than half of the name's length do not count. Views
/// have to outlive this.
class NearestName {
 public:
  explicit NearestName(std::string_view name) noexcept;

  /// Compares one more candidate. False once further candidates are not compared: the distance is 0, or all
  /// of them together would take more than some milliseconds.
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
