// The numeric distance between the values of two tensors.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/dtype/encoding.hpp>
#include <optional>

namespace ht::inline v1 {

/// Elements in native byte order, at any address; blocks are complete.
struct Numbers {
  ElementType type{};
  Bytes bytes{};
};

/// The largest distance between the elements of two tensors, and sums over all elements.
struct Gap {
  /// The first element whose distance exceeds the tolerance.
  std::optional<std::uint64_t> first_beyond{};
  /// The largest |a - b|. A distance that F64 does not hold is rounded: up for integers, otherwise to
  /// nearest.
  double largest = 0;
  /// Σ (a - b)² of all elements.
  double squares = 0;
  /// Σ ab, Σ a², Σ b² of the elements that are finite in both; 0 for complex numbers.
  double product = 0;
  double norm_a = 0;
  double norm_b = 0;
};

/// |a - b|: 0 for equal numbers and for two NaNs, infinity where only one is NaN.
[[nodiscard]] double distance_of(double a, double b) noexcept;

/// Whether elements of these types have a distance: both have the same numeric dtype, or F64 holds every
/// value of both.
[[nodiscard]] bool have_distance(const ElementType& a, const ElementType& b) noexcept;
/// Whether values are rounded: floating-point dtypes and block encodings.
[[nodiscard]] bool is_inexact(const ElementType& type) noexcept;

/// The gap between `count` elements of types for which `have_distance` is true. Integers of any width are
/// compared exactly with the tolerance. The distance of complex numbers is their distance in the plane.
[[nodiscard]] Result<Gap> gap_between(const Numbers& a, const Numbers& b, std::uint64_t count,
                                      double tolerance);

}  // namespace ht::inline v1
