// `0:4,:,-1`: a part of a tensor, spelled as in Python.
#pragma once

#include <cstdint>
#include <htensor/base/result.hpp>
#include <span>
#include <string_view>
#include <vector>

namespace ht::cli {

/// One dimension's choice: `count` elements from `begin` on, `step` apart.
struct Axis {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t step = 1;
  /// Whether a single index selects from the dimension, which the result then lacks.
  bool dropped = false;
};

/// One axis for each dimension; dimensions that the text omits are whole. Negative numbers count from the end
/// and ranges are clamped, as in Python. `out_of_bounds` for an index outside, `bad_shape` for a malformed
/// slice or one with too many parts.
[[nodiscard]] Result<std::vector<Axis>> parse_slice(std::string_view text,
                                                    std::span<const std::int64_t> dims);

}  // namespace ht::cli
