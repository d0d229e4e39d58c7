// Arithmetic on extents and strides, in elements. Independent of dtypes and of data.
#pragma once

#include <concepts>
#include <cstdint>
#include <htensor/base/result.hpp>
#include <span>
#include <string>
#include <utility>

namespace ht::inline v1 {

/// The maximum rank of typed tensors. Files may have tensors of higher rank.
inline constexpr int max_rank = 8;

}  // namespace ht::inline v1

namespace ht::inline v1::layout {

using Extents = std::span<const std::int64_t>;

/// Converts an index or extent of any integral type. A number outside of int64_t becomes INT64_MAX, which
/// fails every bounds check and every allocation.
template <std::integral I>
[[nodiscard]] constexpr std::int64_t to_index(I number) noexcept {
  return std::in_range<std::int64_t>(number) ? static_cast<std::int64_t>(number) : INT64_MAX;
}

/// "[4, 8]"; "[]" for rank 0.
[[nodiscard]] std::string to_text(Extents extents);

/// The product of the extents. `bad_shape` for a negative extent. `size_overflow` if the product of the
/// nonzero extents exceeds 63 bits, so that strides never overflow, even without elements.
[[nodiscard]] Result<std::int64_t> count_elements(Extents extents);

/// `shape_mismatch` unless each extent equals its static extent, or that is dynamic (-1).
[[nodiscard]] Result<void> check_against_static(Extents extents, Extents static_extents);

/// `shape_mismatch` unless both shapes are equal.
[[nodiscard]] Result<void> check_equal(Extents a, Extents b);

/// `out_of_bounds` unless each index is in [0, extent).
[[nodiscard]] Result<void> check_index(Extents index, Extents extents);

void fill_row_major_strides(Extents extents, std::span<std::int64_t> strides) noexcept;

/// Whether the elements are contiguous in row-major order.
[[nodiscard]] bool is_row_major(Extents extents, Extents strides) noexcept;

/// The lowest and the highest offset of an element of a view, relative to element (0, 0, …).
struct Reach {
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
};

/// The reach of a view; {0, 0} for a view without elements. `size_overflow` if an offset exceeds 63 bits.
[[nodiscard]] Result<Reach> reach(Extents extents, Extents strides);

/// The number of indices `begin, begin + step, …` before `end`, excluding `end`. For a negative step, `end`
/// is -1 or more. `out_of_bounds` if an index is outside [0, extent), `end` is on the wrong side of `begin`,
/// or the step is 0.
[[nodiscard]] Result<std::int64_t> count_slice(std::int64_t extent, std::int64_t begin, std::int64_t end,
                                               std::int64_t step);

/// Computes the strides that give the same elements a new shape, for at most 8 dimensions. `shape_mismatch`
/// if the number of elements differs, `bad_shape` if the new shape needs a copy.
[[nodiscard]] Result<void> reshape_strides(Extents extents, Extents strides, Extents new_extents,
                                           std::span<std::int64_t> new_strides);

/// Computes the strides that repeat the elements to a new shape: 0 in each dimension that grows from extent
/// 1, and in added outer dimensions. `shape_mismatch` if an extent is neither 1 nor the new extent;
/// `bad_shape` or `size_overflow` if the new shape is invalid.
[[nodiscard]] Result<void> broadcast_strides(Extents extents, Extents strides, Extents new_extents,
                                             std::span<std::int64_t> new_strides);

}  // namespace ht::inline v1::layout
