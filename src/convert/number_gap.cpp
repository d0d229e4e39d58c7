#include "convert/number_gap.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <htensor/dtype/packed.hpp>
#include <htensor/dtype/relations.hpp>
#include <htensor/dtype/visit.hpp>
#include <limits>
#include <span>

namespace ht::inline v1 {
namespace {

// Elements that are widened at a time: few enough to stay close by.
constexpr std::size_t most_widened = 512;

double gap_of(std::complex<float> a, std::complex<float> b) noexcept {
  return std::hypot(ht::gap_of(a.real(), b.real()), ht::gap_of(a.imag(), b.imag()));
}

// As a double would round those of 64 bits, they are subtracted first.
template <std::integral T>
double gap_of(T a, T b) noexcept {
  const auto wide_a = static_cast<std::uint64_t>(a);
  const auto wide_b = static_cast<std::uint64_t>(b);
  return static_cast<double>(a > b ? wide_a - wide_b : wide_b - wide_a);
}

template <class D>
typename D::Element element_at(Bytes bytes, std::uint64_t index) noexcept {
  if constexpr (is_packed<D>) {
    return PackedPointer<const D>(bytes.data())[static_cast<std::int64_t>(index)];
  } else {
    typename D::Element element{};
    std::memcpy(&element, bytes.data() + index * sizeof(element), sizeof(element));
    return element;
  }
}

template <class D>
double widened(typename D::Element element) noexcept {
  // A float holds these, too, and is made of them faster.
  if constexpr (IsFloating<D> && D::bits == 16) {
    return static_cast<double>(static_cast<float>(element));
  } else {
    return static_cast<double>(element);
  }
}

template <class Answer>
bool fact_of(DTypeTag dtype, Answer answer) noexcept {
  return visit_dtype(dtype, answer).value_or(false);
}

bool fits_a_double(DTypeTag dtype) noexcept {
  return fact_of(dtype, []<class D>(D) { return LosslessTo<D, F64>; });
}

void add(Gap& gap, std::uint64_t index, double distance, double tolerance) noexcept {
  gap.largest = std::max(gap.largest, distance);
  if (distance > tolerance && !gap.first_beyond) gap.first_beyond = index;
}

Result<void> widen(const Numbers& from, std::uint64_t first, std::span<double> to) {
  return visit_dtype(from.dtype, [&]<class D>(D) {
    if constexpr (LosslessTo<D, F64>) {
      for (std::size_t i = 0; i < to.size(); ++i) to[i] = widened<D>(element_at<D>(from.bytes, first + i));
    }
  });
}

// Without a branch, and so far faster, where there are but plain numbers; whether there were.
bool plain_gap(std::span<const double> a, std::span<const double> b, double& largest) noexcept {
  bool plain = true;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double distance = std::abs(a[i] - b[i]);
    largest = distance > largest ? distance : largest;
    plain = plain && !std::isnan(distance);
  }
  return plain;
}

Result<Gap> widened_gap(const Numbers& a, const Numbers& b, std::uint64_t count, double tolerance) {
  Gap gap;
  std::array<double, most_widened> room_a{};
  std::array<double, most_widened> room_b{};
  for (std::uint64_t first = 0; first < count; first += most_widened) {
    const auto some = static_cast<std::size_t>(std::min<std::uint64_t>(most_widened, count - first));
    const auto numbers_a = std::span(room_a).first(some);
    const auto numbers_b = std::span(room_b).first(some);
    HT_TRY(widen(a, first, numbers_a));
    HT_TRY(widen(b, first, numbers_b));
    double largest = 0;
    if (plain_gap(numbers_a, numbers_b, largest) && (gap.first_beyond || largest <= tolerance)) {
      gap.largest = std::max(gap.largest, largest);
      continue;
    }
    for (std::size_t i = 0; i < some; ++i)
      add(gap, first + i, ht::gap_of(numbers_a[i], numbers_b[i]), tolerance);
  }
  return gap;
}

}  // namespace

double gap_of(double a, double b) noexcept {
  if (a == b) return 0;
  if (std::isnan(a) || std::isnan(b)) {
    return std::isnan(a) && std::isnan(b) ? 0 : std::numeric_limits<double>::infinity();
  }
  return std::abs(a - b);
}

bool have_gap(DTypeTag a, DTypeTag b) noexcept {
  if (a == b) return fact_of(a, []<class D>(D) { return IsNumber<D>; });
  return fits_a_double(a) && fits_a_double(b);
}

bool is_floating(DTypeTag dtype) noexcept {
  return fact_of(dtype, []<class D>(D) { return IsFloating<D>; });
}

bool is_complex(DTypeTag dtype) noexcept {
  return fact_of(dtype, []<class D>(D) { return D::number.kind == NumberKind::complex; });
}

Result<Gap> gap_between(const Numbers& a, const Numbers& b, std::uint64_t count, double tolerance) {
  if (fits_a_double(a.dtype)) return widened_gap(a, b, count, tolerance);
  return visit_dtype(a.dtype, [&]<class D>(D) {
    Gap gap;
    if constexpr (!LosslessTo<D, F64>) {
      for (std::uint64_t i = 0; i < count; ++i) {
        add(gap, i, gap_of(element_at<D>(a.bytes, i), element_at<D>(b.bytes, i)), tolerance);
      }
    }
    return gap;
  });
}

}  // namespace ht::inline v1
