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
#include "values/blocks/decode_reference.hpp"
#include "values/targets_test.hpp"

namespace ht::dot_rows_int8_test {
namespace {

using namespace dot_rows_test;

// An element as two terms, exact in double: element = product - offset, where product is scale · q.
struct Terms {
  double product;
  double offset;
  [[nodiscard]] double element() const { return product - offset; }
};

Terms terms_of(const ElementType& type, const std::uint8_t* block, std::size_t i) {
  const auto half = [&](std::size_t at) { return static_cast<double>(reference::half_at(block + at)); };
  if (type.encoding == Q8_0::tag) return {half(0) * static_cast<std::int8_t>(block[2 + i]), 0};
  if (type.encoding == Q4_0::tag) {
    const int q = i < 16 ? block[2 + i] & 15 : block[2 + i - 16] >> 4;
    return {half(0) * (q - 8), 0};
  }
  if (type.encoding == Q6_K::tag) {
    const std::uint8_t byte = block[64 * (i / 128) + i % 64];
    const int low = i % 128 < 64 ? byte & 15 : byte >> 4;
    const int high = (block[128 + 32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32))) & 3;
    const double scale = half(208) * static_cast<std::int8_t>(block[192 + i / 16]);
    return {scale * (low | (high << 4)), scale * 32};
  }
  const bool is_q5 = type.encoding == Q5_K::tag;
  const auto [scale, offset] = reference::k_scale(block + 4, static_cast<int>(i / 32));
  const std::uint8_t byte = block[(is_q5 ? 48 : 16) + 32 * (i / 64) + i % 32];
  const int low = i % 64 < 32 ? byte & 15 : byte >> 4;
  const int high = is_q5 ? (block[16 + i % 32] >> (i / 32)) & 1 : 0;
  return {half(0) * scale * (low + 16 * high), half(2) * offset};
}

std::vector<Terms> terms_of_row(const WeightRows& rows, std::int64_t row) {
  const auto* const stored = reinterpret_cast<const std::uint8_t*>(rows.first + row * rows.row_bytes);
  const std::size_t in_block = rows.type.block_elements;
  std::vector<Terms> terms;
  for (std::size_t j = 0; j < static_cast<std::size_t>(rows.columns); ++j)
    terms.push_back(terms_of(rows.type, stored + j / in_block * rows.type.block_bytes, j % in_block));
  return terms;
}

// The bound of dot_rows.hpp. The difference from the exact product with the rounded vector x' is at most
// k · eps · Σ(|w_scale · q| + |offset|) · |x'|. The difference from the exact product with x is larger by at
// most (1 + 2^-16) · Σ (x_scale / 2) · |element|.
void expect_int8_within_bound(const Problem& problem, const Floats& found) {
  const Int8Vectors rounded(problem.rows.type, problem.x.data(), problem.x_stride, problem.batch,
                            problem.rows.columns);
  const auto columns = static_cast<std::size_t>(problem.rows.columns);
  const auto in_block = static_cast<std::size_t>(rounded.block_elements);
  for (std::int64_t r = 0; r < problem.rows.count; ++r) {
    const std::vector<Terms> row = terms_of_row(problem.rows, r);
    const Floats decoded = decoded_row(problem.rows, r);
    for (std::int64_t b = 0; b < problem.batch; ++b) {
      double sum = 0;
      double sum_of_rounded = 0;
      double magnitude = 0;
      double rounding = 0;
      for (std::size_t j = 0; j < columns; ++j) {
        const std::size_t at = static_cast<std::size_t>(b) * columns + j;
        const auto x_scale = static_cast<double>(rounded.scales[at / in_block]);
        const double x = rounded.elements[at] * x_scale;
        const double element = row[j].element();
        const double size = std::fabs(row[j].product) + std::fabs(row[j].offset);
        ASSERT_LE(std::fabs(element - static_cast<double>(decoded[j])), 3 * 0x1p-24 * size) << j;
        sum += element * static_cast<double>(problem.vector(b)[j]);
        sum_of_rounded += element * x;
        magnitude += size * std::fabs(x);
        rounding += x_scale / 2 * (1 + 0x1p-16) * std::fabs(element);
      }
      const double value = found[static_cast<std::size_t>(b * problem.rows.count + r)];
      const double bound = static_cast<double>(columns) * 0x1p-24 * magnitude;
      ASSERT_LE(std::fabs(value - sum_of_rounded), bound) << problem.rows.type.name << " batch " << b;
      ASSERT_LE(std::fabs(value - sum), bound + rounding) << problem.rows.type.name << " batch " << b;
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

TEST(DotRowsInt8, error_of_terms_that_cancel_is_within_the_bound) {
  // scale · q and the offset of each element are 15, so all elements are 0. The two sums are rounded before
  // they are subtracted, so the result need not be 0.
  Random random;
  const ElementType type = type_of(*find_encoding(Q4_K::tag));
  Problem problem(type, 1, 256, 64, random);
  std::byte* const block = problem.bytes.data() + 1;
  const std::uint16_t halves[2] = {0x4200, 0x3C00};  // d = 3, dmin = 1
  std::memcpy(block, halves, sizeof halves);
  const std::uint8_t scales[12] = {1, 1, 1, 1, 15, 15, 15, 15, 0xF1, 0xF1, 0xF1, 0xF1};
  std::memcpy(block + 4, scales, sizeof scales);
  std::memset(block + 16, 0x55, 128);  // q = 5
  for (const Terms& terms : terms_of_row(problem.rows, 0)) {
    ASSERT_EQ(terms.product, 15);
    ASSERT_EQ(terms.offset, 15);
  }
  testing::for_each_target([&](const char* target) {
    const Floats found = problem.solve_int8();
    expect_int8_within_bound(problem, found);
    EXPECT_TRUE(std::ranges::any_of(found, [](float value) { return value != 0.F; })) << target;
  });
}

TEST(DotRowsInt8, is_exact_where_rounding_is_exact) {
  // Blocks of integers from -127 to 127 that include 127 are not rounded, and all sums fit 24 bits.
  for (const EncodingTag tag : {Q8_0::tag, Q4_0::tag}) {
    const ElementType type = type_of(*find_encoding(tag));
    Random random;
    Problem problem(type, 4, 64, 3, random);
    for (std::size_t i = 0; i < problem.x.size(); ++i)
      problem.x[i] = i % 32 == 0 ? 127.F : static_cast<float>(static_cast<int>(random.bits() % 255) - 127);
    const std::uint16_t f16_code_of_0_5 = 0x3800;
    for (std::int64_t row = 0; row < 4; ++row) {
      for (std::int64_t block = 0; block < 2; ++block)
        std::memcpy(problem.bytes.data() + 1 + row * problem.rows.row_bytes + block * type.block_bytes,
                    &f16_code_of_0_5, 2);
    }
    EXPECT_EQ(problem.solve_int8(), problem.solve()) << type.name;
  }
}

TEST(Int8Vectors, round_an_element_by_at_most_half_a_scale) {
  for (const EncodingTag tag : {Q8_0::tag, Q4_K::tag}) {
    const ElementType type = type_of(*find_encoding(tag));
    const std::size_t in_block = type.block_elements;
    Random random;
    Floats x = random.numbers(in_block * 64);
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] *= std::ldexp(1.F, static_cast<int>(i / in_block) * 4 - 140);
    testing::for_each_target([&](const char* target) {
      const Int8Vectors rounded(type, x.data(), 0, 1, static_cast<std::int64_t>(x.size()));
      ASSERT_EQ(rounded.scales.size(), 64U);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double scale = rounded.scales[i / in_block];
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
