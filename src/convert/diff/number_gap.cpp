#include "convert/diff/number_gap.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <htensor/dtype/relations.hpp>
#include <htensor/dtype/scalar.hpp>
#include <limits>
#include <span>

#include "values/convert_kernels.hpp"
#include "values/convert_values.hpp"

namespace ht::inline v1 {
namespace {

double distance_of(std::complex<float> a, std::complex<float> b) noexcept {
  return std::hypot(ht::distance_of(static_cast<double>(a.real()), static_cast<double>(b.real())),
                    ht::distance_of(static_cast<double>(a.imag()), static_cast<double>(b.imag())));
}

// The smallest F64 that is not less than the number. It exceeds a tolerance exactly if the number does.
double rounded_up(std::uint64_t number) noexcept {
  const auto nearest = static_cast<double>(number);
  const bool is_rounded_down = nearest < 0x1p64 && static_cast<std::uint64_t>(nearest) < number;
  return is_rounded_down ? std::nextafter(nearest, std::numeric_limits<double>::infinity()) : nearest;
}

// Subtracts before converting to F64, which would round 64-bit integers.
template <std::integral T>
double distance_of(T a, T b) noexcept {
  const auto wide_a = static_cast<std::uint64_t>(a);
  const auto wide_b = static_cast<std::uint64_t>(b);
  return rounded_up(a > b ? wide_a - wide_b : wide_b - wide_a);
}

template <class Element>
Element element_at(Bytes bytes, std::uint64_t index) noexcept {
  Element element{};
  std::memcpy(&element, bytes.data() + index * sizeof(element), sizeof(element));
  return element;
}

bool fits_f64(const ElementType& type) noexcept {
  return type.is_block_encoded()
             ? values::reads_as_f32(type)
             : visit_dtype(type.dtype, []<class D>(D) { return LosslessTo<D, F64>; }).value_or(false);
}

void add_distance(Gap& gap, std::uint64_t index, double distance, double tolerance) noexcept {
  gap.largest = std::max(gap.largest, distance);
  gap.squares += distance * distance;
  if (distance > tolerance && !gap.first_beyond) gap.first_beyond = index;
}

void add_finite(Gap& gap, double a, double b) noexcept {
  if (!std::isfinite(a) || !std::isfinite(b)) return;
  gap.product += a * b;
  gap.norm_a += a * a;
  gap.norm_b += b * b;
}

// Adds a strip of finite numbers without branches. Returns false and adds nothing if a number is not finite,
// or if the strip has the first element beyond the tolerance.
bool add_plain(Gap& gap, std::span<const double> a, std::span<const double> b, double tolerance) noexcept {
  Gap strip;
  double scale = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double distance = std::abs(a[i] - b[i]);
    strip.largest = distance > strip.largest ? distance : strip.largest;
    strip.squares += distance * distance;
    strip.product += a[i] * b[i];
    strip.norm_a += a[i] * a[i];
    strip.norm_b += b[i] * b[i];
    scale += std::abs(a[i]) + std::abs(b[i]);
  }
  if (!std::isfinite(scale) || (strip.largest > tolerance && !gap.first_beyond)) return false;
  gap.largest = std::max(gap.largest, strip.largest);
  gap.squares += strip.squares;
  gap.product += strip.product;
  gap.norm_a += strip.norm_a;
  gap.norm_b += strip.norm_b;
  return true;
}

Gap gap_of_values(const Numbers& a, const Numbers& b, std::uint64_t count, double tolerance) {
  constexpr auto strip = static_cast<std::uint64_t>(values::strip_elements);
  Gap gap;
  std::array<double, strip> buffer_a;
  std::array<double, strip> buffer_b;
  const auto read = [](const Numbers& from, std::uint64_t first, std::span<double> into) {
    const std::byte* const stored =
        from.bytes.data() + values::stored_bytes(from.type, static_cast<std::int64_t>(first));
    values::read_f64(from.type, stored, into.data(), static_cast<std::int64_t>(into.size()));
  };
  for (std::uint64_t first = 0; first < count; first += strip) {
    const auto strip_count = static_cast<std::size_t>(std::min(strip, count - first));
    const auto values_a = std::span(buffer_a).first(strip_count);
    const auto values_b = std::span(buffer_b).first(strip_count);
    read(a, first, values_a);
    read(b, first, values_b);
    if (add_plain(gap, values_a, values_b, tolerance)) continue;
    for (std::size_t i = 0; i < strip_count; ++i) {
      add_distance(gap, first + i, ht::distance_of(values_a[i], values_b[i]), tolerance);
      add_finite(gap, values_a[i], values_b[i]);
    }
  }
  return gap;
}

}  // namespace

double distance_of(double a, double b) noexcept {
  if (a == b) return 0;
  if (std::isnan(a) || std::isnan(b)) {
    return std::isnan(a) && std::isnan(b) ? 0 : std::numeric_limits<double>::infinity();
  }
  return std::abs(a - b);
}

bool have_distance(const ElementType& a, const ElementType& b) noexcept {
  if (a == b && a.is_dense())
    return visit_dtype(a.dtype, []<class D>(D) { return IsNumber<D>; }).value_or(false);
  return fits_f64(a) && fits_f64(b);
}

bool is_inexact(const ElementType& type) noexcept {
  return type.is_block_encoded() ||
         visit_dtype(type.dtype, []<class D>(D) { return IsFloating<D>; }).value_or(false);
}

Result<Gap> gap_between(const Numbers& a, const Numbers& b, std::uint64_t count, double tolerance) {
  if (fits_f64(a.type)) return gap_of_values(a, b, count, tolerance);
  return visit_dtype(a.type.dtype, [&]<class D>(D) {
    Gap gap;
    if constexpr (!LosslessTo<D, F64>) {
      using Element = typename D::Element;
      for (std::uint64_t i = 0; i < count; ++i) {
        const auto element_a = element_at<Element>(a.bytes, i);
        const auto element_b = element_at<Element>(b.bytes, i);
        add_distance(gap, i, distance_of(element_a, element_b), tolerance);
        if constexpr (std::integral<Element>)
          add_finite(gap, static_cast<double>(element_a), static_cast<double>(element_b));
      }
    }
    return gap;
  });
}

}  // namespace ht::inline v1
