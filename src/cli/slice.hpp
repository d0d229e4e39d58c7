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
  /// Whether a single index chose it, so that the result has no such dimension.
  bool dropped = false;
};

/// One axis for each dimension; those that the text leaves out are whole. Negative numbers count from
/// the end and ranges are cut at the edges, as in Python; an index outside is `out_of_bounds`, a text
/// that is no slice or has too many parts `bad_shape`.
[[nodiscard]] Result<std::vector<Axis>> parse_slice(std::string_view text,
                                                    std::span<const std::int64_t> dims);

}  // namespace ht::cli
