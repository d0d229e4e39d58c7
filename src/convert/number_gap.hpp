// How far apart the elements of two tensors of numbers are.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/dtype/facts.hpp>
#include <optional>

namespace ht::inline v1 {

/// Dense elements in this machine's byte order, at any address.
struct Numbers {
  DTypeTag dtype = DTypeTag::invalid;
  Bytes bytes{};
};

struct Gap {
  /// The first element that is further off than the tolerance.
  std::optional<std::uint64_t> first_beyond{};
  double largest = 0;
};

/// |a - b|: 0 for what is equal and for two NaNs, infinity where one alone is a NaN.
[[nodiscard]] double gap_of(double a, double b) noexcept;

/// Whether there is a distance between elements of these dtypes: both are the same, or a double holds every
/// value of both.
[[nodiscard]] bool have_gap(DTypeTag a, DTypeTag b) noexcept;
[[nodiscard]] bool is_floating(DTypeTag dtype) noexcept;
[[nodiscard]] bool is_complex(DTypeTag dtype) noexcept;

/// Of that many elements, whose dtypes `have_gap`. Integers are subtracted exactly, however wide they are,
/// and complex numbers in their plane.
[[nodiscard]] Result<Gap> gap_between(const Numbers& a, const Numbers& b, std::uint64_t count,
                                      double tolerance);

}  // namespace ht::inline v1
