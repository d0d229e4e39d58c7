// Arithmetic on extents and strides, in elements. Nothing here knows a dtype or touches data.
#pragma once

#include <concepts>
#include <cstdint>
#include <htensor/base/result.hpp>
#include <span>
#include <string>
#include <utility>

namespace ht::inline v1 {

/// Typed access goes up to this rank; a file may name more.
inline constexpr int max_rank = 8;

}  // namespace ht::inline v1

namespace ht::inline v1::layout {

using Extents = std::span<const std::int64_t>;

/// An index or extent of any integral type; one that has no place in 63 bits becomes the largest, which is
/// inside of no extent and which no tensor has memory for.
template <std::integral I>
[[nodiscard]] constexpr std::int64_t to_index(I number) noexcept {
  return std::in_range<std::int64_t>(number) ? static_cast<std::int64_t>(number) : INT64_MAX;
}

/// "[4, 8]"; "[]" for rank 0.
[[nodiscard]] std::string to_text(Extents extents);

/// The product of the extents. `bad_shape` for a negative one; `size_overflow` where the product of
/// those that are not zero exceeds 63 bits, so that strides can be counted even if there is no element.
[[nodiscard]] Result<std::int64_t> count_elements(Extents extents);

/// `shape_mismatch` unless each extent is the static one or the static one is dynamic (-1).
[[nodiscard]] Result<void> check_against_static(Extents extents, Extents static_extents);

/// `shape_mismatch` unless both are the same.
[[nodiscard]] Result<void> check_equal(Extents a, Extents b);

/// `out_of_bounds` unless each index lies in its extent.
[[nodiscard]] Result<void> check_index(Extents index, Extents extents);

void fill_row_major_strides(Extents extents, std::span<std::int64_t> strides) noexcept;

/// Whether the elements follow each other in row-major order with no step between them.
[[nodiscard]] bool is_row_major(Extents extents, Extents strides) noexcept;

/// The lowest and the highest element that a view reaches, relative to its first.
struct Reach {
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
};

/// `size_overflow` where it cannot be counted. A view without elements reaches nothing.
[[nodiscard]] Result<Reach> reach(Extents extents, Extents strides);

/// How many elements `begin, begin + step, …` has before `end`, which it never includes. A step
/// downwards ends at -1 at the earliest. `out_of_bounds` where it leaves [0, extent) or `end` lies on
/// the wrong side of `begin`.
[[nodiscard]] Result<std::int64_t> count_slice(std::int64_t extent, std::int64_t begin, std::int64_t end,
                                               std::int64_t step);

/// The strides under which the same elements, of at most 8 dimensions, have another shape. `shape_mismatch`
/// for another number of elements, `bad_shape` where no strides can do it and a copy would be needed.
[[nodiscard]] Result<void> reshape_strides(Extents extents, Extents strides, Extents new_extents,
                                           std::span<std::int64_t> new_strides);

/// The strides under which the elements are repeated to another shape: 0 in each dimension of extent 1 that
/// becomes another extent, and in outer dimensions that the view lacks. `shape_mismatch` where an extent is
/// neither 1 nor the new one; `bad_shape` or `size_overflow` for a new shape that cannot exist.
[[nodiscard]] Result<void> broadcast_strides(Extents extents, Extents strides, Extents new_extents,
                                             std::span<std::int64_t> new_strides);

}  // namespace ht::inline v1::layout
