// Search for scales and offsets of block encoders by least squares, for eight rows at a time. A row is a
// block, or a part of a block with its own scale.
//
// For given codes, least squares gives the best scale. For a given scale, rounding gives the best codes. The
// search starts from several guesses of the scale, computes their codes, fits a scale to the codes, and keeps
// the scale with the smallest error.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ht::inline v1::fitting {

// Adding this constant rounds to the nearest integer, ties to even, for magnitudes below 2^22. The low bits
// of the sum are that integer.
inline constexpr float rounding_constant = 0x1.8p23F;

using Quad [[gnu::vector_size(16)]] = float;

// Eight independent numbers: results do not depend on the register width.
struct Eight {
  static constexpr int size = 8;

  Quad low{};
  Quad high{};

  Eight() = default;
  Eight(Quad low_half, Quad high_half) : low(low_half), high(high_half) {}
  explicit Eight(float value) : low{value, value, value, value}, high(low) {}
  explicit Eight(const float* values) {
    std::memcpy(&low, values, sizeof low);
    std::memcpy(&high, values + 4, sizeof high);
  }

  float operator[](int number) const { return number < 4 ? low[number] : high[number - 4]; }

  friend Eight operator+(Eight a, Eight b) { return {a.low + b.low, a.high + b.high}; }
  friend Eight operator-(Eight a, Eight b) { return {a.low - b.low, a.high - b.high}; }
  friend Eight operator*(Eight a, Eight b) { return {a.low * b.low, a.high * b.high}; }
  friend Eight operator/(Eight a, Eight b) { return {a.low / b.low, a.high / b.high}; }
  Eight& operator+=(Eight other) { return *this = *this + other; }
};

// `yes` where a < b, `no` elsewhere.
inline Eight where_less(Eight a, Eight b, Eight yes, Eight no) {
  return {a.low < b.low ? yes.low : no.low, a.high < b.high ? yes.high : no.high};
}
// Like minps and maxps: returns `b` if either is NaN.
inline Eight smaller(Eight a, Eight b) {
  return {a.low < b.low ? a.low : b.low, a.high < b.high ? a.high : b.high};
}
inline Eight larger(Eight a, Eight b) {
  return {a.low > b.low ? a.low : b.low, a.high > b.high ? a.high : b.high};
}
inline Eight magnitude(Eight a) { return larger(a, Eight() - a); }
inline Eight inverse_of(Eight a) { return where_less(Eight(), magnitude(a), Eight(1.0F) / a, Eight()); }
inline Eight clamped(Eight a, int lowest, int highest) {
  return larger(smaller(a, Eight(static_cast<float>(highest))), Eight(static_cast<float>(lowest)));
}
inline Eight code_of(Eight exact, int lowest, int highest) {
  return (clamped(exact, lowest, highest) + Eight(rounding_constant)) - Eight(rounding_constant);
}
inline float largest_of(Eight a) {
  float largest = a[0];
  for (int i = 1; i < Eight::size; ++i) largest = std::max(largest, a[i]);
  return largest;
}
// Stores the bits of the eight numbers in order.
inline void put_bits(Eight a, std::int32_t* to) {
  std::memcpy(to, &a.low, sizeof a.low);
  std::memcpy(to + 4, &a.high, sizeof a.high);
}

// The two integers around a number: a fitted scale or min, divided by the F16 factor of its block. A number
// within 1/16 of an integer yields this integer twice, because the distance may come from the rounding of the
// factor alone. This rounding changes a number up to 127 by less than 1/16, unless the factor is subnormal.
struct Neighbours {
  Eight low;
  Eight high;
};
inline Neighbours neighbours_of(Eight exact, int lowest, int highest) {
  return {code_of(exact - Eight(0.4375F), lowest, highest), code_of(exact + Eight(0.4375F), lowest, highest)};
}

// The elements of eight rows, stored by rows and by columns. Computations on all rows iterate over the
// columns.
template <int Elements>
struct Grid {
  alignas(16) float elements[Eight::size * Elements];
  alignas(16) float columns[Elements][Eight::size];

  [[nodiscard]] float* row(int number) { return elements + std::ptrdiff_t{Elements} * number; }
  Eight operator[](int element) const { return Eight(columns[element]); }

  void set_columns() {
    for (int i = 0; i < Elements; ++i)
      for (int number = 0; number < Eight::size; ++number) columns[i][number] = row(number)[i];
  }
};

// The scale of each row for codes from -Limit to Limit - 1.
template <int Limit, int Elements>
Eight fit_scale(const Grid<Elements>& x) {
  Eight extreme;
  for (int i = 0; i < Elements; ++i) extreme = where_less(magnitude(extreme), magnitude(x[i]), x[i], extreme);
  const Eight inverse_extreme = inverse_of(extreme);
  Eight best_gain;
  Eight best_scale;
  const auto try_inverse = [&](Eight inverse) {
    Eight xq;
    Eight qq;
    for (int i = 0; i < Elements; ++i) {
      const Eight q = code_of(x[i] * inverse, -Limit, Limit - 1);
      xq += x[i] * q;
      qq += q * q;
    }
    const Eight scale = xq / qq;
    // By how much these codes reduce the sum of squared errors. NaN, for a row of zeros, is never the best.
    const Eight gain = xq * scale;
    best_scale = where_less(best_gain, gain, scale, best_scale);
    best_gain = larger(gain, best_gain);
  };
  // Guesses map the extreme element to or near the lowest code, because there is one more negative code.
  constexpr int first_guess = Limit * 15 / 16 - 1;
  constexpr float last_guess = Limit * 17.0F / 16;
  for (float guess = first_guess; guess <= last_guess; guess += 0.5F)
    try_inverse(Eight(-guess) * inverse_extreme);
  return best_scale;
}

// The values of codes in each row: offset + step * code.
struct Line {
  Eight step;
  Eight offset;
};

// Initial guesses for a line: the number of steps by which the lowest element of a row is below code 0, and
// by which the highest is above the highest code.
struct LineGuess {
  float below;
  float above;
};
inline constexpr LineGuess line_guesses[]{{0, 0}, {0.5F, 0.5F}, {0, 1}, {1, 0}, {0, 0.5F}, {0.5F, 0}};

// Fits the line of each row for codes from 0 to Highest. The offset is at most `limit`.
template <int Highest, int Elements>
Line fit_line(const Grid<Elements>& x, Eight limit) {
  const Eight n(static_cast<float>(Elements));
  Eight low = x[0];
  Eight high = x[0];
  for (int i = 1; i < Elements; ++i) {
    low = smaller(x[i], low);
    high = larger(x[i], high);
  }
  // Elements and offsets are relative to the base, so that a small range far from zero keeps its precision.
  const Eight base = smaller(low, limit);
  const Eight max_offset = limit - base;
  Eight y_sum;
  for (int i = 0; i < Elements; ++i) y_sum += x[i] - base;
  Eight best_gain;
  Line best;
  const auto try_line = [&](Eight inverse, Eight start) {
    Eight q_sum;
    Eight qq;
    Eight yq;
    for (int i = 0; i < Elements; ++i) {
      const Eight y = x[i] - base;
      const Eight q = code_of((y - start) * inverse, 0, Highest);
      q_sum += q;
      qq += q * q;
      yq += y * q;
    }
    // The spread is 0 if all codes are equal: many lines then fit equally well, and the offset becomes
    // `max_offset`.
    const Eight spread = n * qq - q_sum * q_sum;
    const Eight free_step = (n * yq - y_sum * q_sum) / spread;
    const Eight free_offset = where_less(Eight(), spread, (y_sum - free_step * q_sum) / n, max_offset);
    const Eight offset = smaller(free_offset, max_offset);
    const Eight step = where_less(free_offset, max_offset, free_step, (yq - max_offset * q_sum) / qq);
    const Eight gain =
        offset * (y_sum + y_sum - n * offset) + step * (yq + yq - (offset + offset) * q_sum - step * qq);
    best.step = where_less(best_gain, gain, step, best.step);
    best.offset = where_less(best_gain, gain, offset, best.offset);
    best_gain = larger(gain, best_gain);
  };
  for (const auto [below, above] : line_guesses) {
    const Eight step = (high - base) / Eight(static_cast<float>(Highest) + below + above);
    try_line(inverse_of(step), Eight(below) * step);
  }
  best.offset += base;
  return best;
}

// Fits the steps of the lines by least squares, with unchanged offsets.
template <int Highest, int Elements>
Eight refit_step(const Grid<Elements>& x, const Line& line) {
  const Eight inverse = inverse_of(line.step);
  Eight yq;
  Eight qq;
  for (int i = 0; i < Elements; ++i) {
    const Eight y = x[i] - line.offset;
    const Eight q = code_of(y * inverse, 0, Highest);
    yq += y * q;
    qq += q * q;
  }
  return where_less(Eight(), qq, yq / qq, line.step);
}

// The sum of squared errors in each row.
template <int Lowest, int Highest, int Elements>
Eight error_of(const Grid<Elements>& x, const Line& line) {
  const Eight inverse = inverse_of(line.step);
  Eight error;
  for (int i = 0; i < Elements; ++i) {
    const Eight y = x[i] - line.offset;
    const Eight rest = y - line.step * code_of(y * inverse, Lowest, Highest);
    error += rest * rest;
  }
  return error;
}

}  // namespace ht::inline v1::fitting
