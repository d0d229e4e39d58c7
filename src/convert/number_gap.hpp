// How far apart the values of two tensors are.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/dtype/encoding.hpp>
#include <optional>

namespace ht::inline v1 {

/// Elements in this machine's byte order, at any address; blocks are whole.
struct Numbers {
  ElementType type{};
  Bytes bytes{};
};

struct Gap {
  /// The first element that is further off than the tolerance.
  std::optional<std::uint64_t> first_beyond{};
  /// The largest |a - b|.
  double largest = 0;
  /// Σ (a - b)², and Σ ab, Σ a², Σ b² of the elements that are finite in both. 0 for complex numbers.
  double squares = 0;
  double product = 0;
  double norm_a = 0;
  double norm_b = 0;
};

/// |a - b|: 0 for equal numbers and for two NaNs, infinity where only one is NaN.
[[nodiscard]] double gap_of(double a, double b) noexcept;

/// Whether there is a distance between elements of these types: both have the same dtype of numbers, or F64
/// holds every value of both.
[[nodiscard]] bool have_gap(const ElementType& a, const ElementType& b) noexcept;
/// Whether values are rounded: floating-point dtypes and block encodings.
[[nodiscard]] bool is_inexact(const ElementType& type) noexcept;

/// Of that many elements, whose types `have_gap`. `largest` is exact for integers, however wide they are;
/// complex numbers have their distance in the plane.
[[nodiscard]] Result<Gap> gap_between(const Numbers& a, const Numbers& b, std::uint64_t count,
                                      double tolerance);

}  // namespace ht::inline v1
