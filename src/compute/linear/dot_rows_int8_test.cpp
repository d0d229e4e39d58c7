#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "compute/linear/dot_rows_test.hpp"
#include "values/targets_test.hpp"

namespace ht::dot_rows_int8_test {
namespace {

using namespace dot_rows_test;

// Elements of Q4_K and Q5_K are differences of terms that may be larger than the element. Three times the
// largest element estimates the terms of this data. It is not a bound for all blocks.
double largest_term(const Floats& row) {
  double largest = 0;
  for (const float value : row) largest = std::max(largest, std::fabs(static_cast<double>(value)));
  return 3 * largest;
}

void expect_int8_within_bound(const Problem& problem, const Floats& found) {
  const Int8Vectors rounded(problem.rows.type, problem.x.data(), problem.x_stride, problem.batch,
                            problem.rows.columns);
  const std::int64_t group = problem.rows.type.block_elements;
  const double k = static_cast<double>(problem.rows.columns);
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    for (std::int64_t r = 0; r < problem.rows.count; ++r) {
      const Floats row = decoded_row(problem.rows, r);
      const Oracle oracle = oracle_of(row, problem.vector(b));
      double bound = 0;
      double sizes = 0;
      for (std::size_t j = 0; j < row.size(); ++j) {
        const auto at = b * (problem.rows.columns / group) + static_cast<std::int64_t>(j) / group;
        const auto scale = static_cast<double>(rounded.scales[static_cast<std::size_t>(at)]);
        bound += scale / 2 * (1 + 0x1p-20) * std::fabs(static_cast<double>(row[j]));
        sizes += std::fabs(static_cast<double>(problem.vector(b)[j]));
      }
      bound += k * 0x1p-24 * largest_term(row) * sizes;
      const double value = found[static_cast<std::size_t>(b * problem.rows.count + r)];
      ASSERT_LE(std::fabs(value - oracle.sum), bound) << problem.rows.type.name << " batch " << problem.batch;
    }
  }
}

constexpr auto int8_encodings = std::array{Q8_0::tag, Q4_0::tag, Q4_K::tag, Q5_K::tag, Q6_K::tag};

TEST(DotRowsInt8, supports_five_encodings) {
  int known = 0;
  for (const ElementType& type : all_types()) known += compute::has_int8_kernel(type) ? 1 : 0;
  EXPECT_EQ(known, 5);
  for (const EncodingTag tag : int8_encodings)
    EXPECT_TRUE(compute::has_int8_kernel(type_of(*find_encoding(tag))));
}

TEST(DotRowsInt8, error_is_within_the_bound_and_targets_agree) {
  Random random;
  for (const EncodingTag tag : int8_encodings) {
    const ElementType type = type_of(*find_encoding(tag));
    for (const std::int64_t batch : {1, 2, 3, 4, 5, 6}) {
      const Problem problem(type, 3, type.block_elements * (1 + batch), batch, random, batch % 2);
      Floats first;
      testing::for_each_target([&](const char* target) {
        const Floats found = problem.solve_int8();
        if (first.empty()) first = found;
        ASSERT_EQ(found, first) << type.name << " on " << target;
        expect_int8_within_bound(problem, found);
      });
    }
  }
}

TEST(DotRowsInt8, is_exact_where_rounding_is_exact) {
  // Groups of integers from -127 to 127 that include 127 are not rounded, and all sums fit 24 bits.
  for (const EncodingTag tag : {Q8_0::tag, Q4_0::tag}) {
    const ElementType type = type_of(*find_encoding(tag));
    Random random;
    Problem problem(type, 4, 64, 3, random);
    for (std::size_t i = 0; i < problem.x.size(); ++i)
      problem.x[i] = i % 32 == 0 ? 127.F : static_cast<float>(static_cast<int>(random.bits() % 255) - 127);
    const std::uint16_t half_of_one = 0x3800;
    for (std::int64_t row = 0; row < 4; ++row) {
      for (std::int64_t block = 0; block < 2; ++block)
        std::memcpy(problem.bytes.data() + 1 + row * problem.rows.row_bytes + block * type.block_bytes,
                    &half_of_one, 2);
    }
    EXPECT_EQ(problem.solve_int8(), problem.solve()) << type.name;
  }
}

TEST(Int8Vectors, round_an_element_by_at_most_half_a_scale) {
  for (const EncodingTag tag : {Q8_0::tag, Q4_K::tag}) {
    const ElementType type = type_of(*find_encoding(tag));
    const std::size_t group = type.block_elements;
    Random random;
    Floats x = random.numbers(group * 64);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] *= std::ldexp(1.F, static_cast<int>(i / group) * 4 - 140);
    testing::for_each_target([&](const char* target) {
      const Int8Vectors rounded(type, x.data(), 0, 1, static_cast<std::int64_t>(x.size()));
      ASSERT_EQ(rounded.scales.size(), 64U);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double scale = rounded.scales[i / group];
        const double value = rounded.elements[i] * scale;
        ASSERT_LE(std::fabs(value - static_cast<double>(x[i])), scale / 2 * (1 + 0x1p-20))
            << i << " on " << target;
        ASSERT_LE(std::abs(rounded.elements[i]), 127);
      }
      for (std::size_t i = 0; i < x.size(); i += 16) {
        const auto* const first = rounded.elements.data() + i;
        ASSERT_EQ(rounded.sums[i / 16], std::accumulate(first, first + 16, 0)) << i << " on " << target;
      }
    });
  }
}

TEST(Int8Vectors, round_halves_to_even) {
  Floats x(32, 0.F);
  x[0] = 127.F;  // so that the scale is 1
  x[1] = 0.5F;
  x[2] = 1.5F;
  x[3] = -2.5F;
  x[4] = -126.5F;
  testing::for_each_target([&](const char* target) {
    const Int8Vectors rounded(type_of(*find_encoding(Q8_0::tag)), x.data(), 0, 1, 32);
    EXPECT_EQ(rounded.scales[0], 1.F) << target;
    EXPECT_EQ(rounded.elements[1], 0) << target;
    EXPECT_EQ(rounded.elements[2], 2) << target;
    EXPECT_EQ(rounded.elements[3], -2) << target;
    EXPECT_EQ(rounded.elements[4], -126) << target;
  });
}

TEST(Int8Vectors, have_scale_0_for_zeros_and_nan_for_nans_and_infinities) {
  Floats x(96, 0.F);
  x[40] = std::numeric_limits<float>::infinity();
  x[70] = std::numeric_limits<float>::quiet_NaN();
  const Int8Vectors rounded(type_of(*find_encoding(Q8_0::tag)), x.data(), 0, 1, 96);
  EXPECT_EQ(rounded.scales[0], 0.F);
  EXPECT_TRUE(std::isnan(rounded.scales[1]));
  EXPECT_TRUE(std::isnan(rounded.scales[2]));
  Random random;
  Problem problem(type_of(*find_encoding(Q8_0::tag)), 1, 96, 1, random);
  problem.x = x;
  EXPECT_TRUE(std::isnan(problem.solve_int8()[0]));
}

}  // namespace
}  // namespace ht::dot_rows_int8_test
