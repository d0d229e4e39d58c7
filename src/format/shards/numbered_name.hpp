// Files that are parts of one model by their names: `model-00002-of-00004.safetensors`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ht::inline v1 {

struct NumberedName {
  std::string stem;
  /// From 1 to `count`.
  std::uint32_t number = 0;
  std::uint32_t count = 0;
  /// With its dot.
  std::string extension;

  /// The name of another part.
  [[nodiscard]] std::string of(std::uint32_t other) const;
  /// The names of all parts, in order.
  [[nodiscard]] std::vector<std::string> all() const;
  friend bool operator==(const NumberedName&, const NumberedName&) = default;
};

/// Nothing where a file name, without its folder, is not of the pattern.
[[nodiscard]] std::optional<NumberedName> parse_numbered_name(std::string_view file_name);

}  // namespace ht::inline v1
