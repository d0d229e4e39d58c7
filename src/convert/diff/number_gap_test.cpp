#include "convert/diff/number_gap.hpp"

#include <gtest/gtest.h>

#include <htensor/dtype/relations.hpp>
#include <limits>
#include <vector>

#include "testing/library_types.hpp"

namespace ht::number_gap_test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

ElementType type_of(const DTypeInfo& dtype) {
  return {.dtype = dtype.tag, .name = dtype.name, .bits = dtype.bits};
}

template <class D>
ElementType type() {
  return type_of(dtype_info<D>());
}

TEST(NumberGap, is_the_difference_of_two_numbers) {
  EXPECT_EQ(distance_of(1, 3.5), 2.5);
  EXPECT_EQ(distance_of(3.5, 1), 2.5);
  EXPECT_EQ(distance_of(0.0, -0.0), 0);
  EXPECT_EQ(distance_of(nan, -nan), 0);
  EXPECT_EQ(distance_of(nan, 0), infinity);
  EXPECT_EQ(distance_of(infinity, nan), infinity);
  EXPECT_EQ(distance_of(infinity, infinity), 0);
  EXPECT_EQ(distance_of(infinity, -infinity), infinity);
  EXPECT_EQ(distance_of(-infinity, 1e308), infinity);
}

TEST(NumberGap, exists_for_equal_dtypes_and_dtypes_that_fit_a_double) {
  for (const auto& a : library_dtypes()) {
    EXPECT_TRUE(have_distance(type_of(a), type_of(a))) << a.name;
    const auto fits = [](DTypeTag tag) { return tag != I64::tag && tag != U64::tag && tag != C64::tag; };
    for (const auto& b : library_dtypes()) {
      EXPECT_EQ(have_distance(type_of(a), type_of(b)), a.tag == b.tag || (fits(a.tag) && fits(b.tag)))
          << a.name << b.name;
    }
    EXPECT_EQ(is_inexact(type_of(a)), a.name[0] == 'F' || a.name == "BF16") << a.name;
  }
  const ElementType users{.dtype = user_tag(0), .name = "X", .bits = 8};
  EXPECT_FALSE(have_distance(users, users));
  EXPECT_FALSE(have_distance(users, type<F32>()));
  EXPECT_FALSE(is_inexact({}));
  for (const auto& encoding : library_encodings()) {
    const auto blocks = detail::element_type_of(encoding);
    EXPECT_TRUE(have_distance(blocks, type<F32>())) << encoding.name;
    EXPECT_TRUE(is_inexact(blocks)) << encoding.name;
  }
}

// Compares each code of the narrow dtypes with itself and with zero.
TEST(NumberGap, is_zero_for_equal_values_of_every_dtype_and_positive_for_others) {
  std::vector<std::byte> codes(4096);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::byte>(i * 37 + i / 256);
  for (const auto& dtype : library_dtypes()) {
    const auto count = codes.size() * 8 / static_cast<std::size_t>(dtype.bits);
    const Numbers numbers{type_of(dtype), codes};
    const auto same = gap_between(numbers, numbers, count, 0).value();
    EXPECT_EQ(same.largest, 0) << dtype.name;
    EXPECT_FALSE(same.first_beyond) << dtype.name;
    const std::vector<std::byte> zeros(codes.size());
    const auto far = gap_between(numbers, {type_of(dtype), zeros}, count, 0).value();
    EXPECT_GT(far.largest, 0) << dtype.name;
    EXPECT_TRUE(far.first_beyond) << dtype.name;
    EXPECT_FALSE(gap_between(numbers, {type_of(dtype), zeros}, count, infinity).value().first_beyond)
        << dtype.name;
  }
}

TEST(NumberGap, reports_the_first_element_beyond_the_tolerance_and_the_largest_gap) {
  std::vector<float> a(3000, 1);
  std::vector<float> b(3000, 1);
  b[700] = 1.5F;
  b[1500] = 3;
  b[2999] = 2.5F;
  const auto gap = gap_between({type<F32>(), std::as_bytes(std::span(a))},
                               {type<F32>(), std::as_bytes(std::span(b))}, a.size(), 1)
                       .value();
  EXPECT_EQ(gap.first_beyond, 1500U);
  EXPECT_EQ(gap.largest, 2);
}

TEST(NumberGap, subtracts_wide_integers_exactly) {
  const std::uint64_t a[] = {UINT64_MAX, 0};
  const std::uint64_t b[] = {UINT64_MAX - 1, 0};
  EXPECT_EQ(gap_between({type<U64>(), std::as_bytes(std::span(a))},
                        {type<U64>(), std::as_bytes(std::span(b))}, 2, 0)
                .value()
                .largest,
            1);
  const std::int64_t low[] = {INT64_MIN};
  const std::int64_t high[] = {INT64_MAX};
  EXPECT_EQ(gap_between({type<I64>(), std::as_bytes(std::span(low))},
                        {type<I64>(), std::as_bytes(std::span(high))}, 1, 0)
                .value()
                .largest,
            static_cast<double>(UINT64_MAX));
}

// F64 does not hold 2^53 + 1, and the nearest F64 is 2^53.
TEST(NumberGap, rounds_the_distance_of_integers_up_so_that_it_exceeds_the_tolerance) {
  const std::int64_t zero[] = {0};
  const auto gap = [&](std::int64_t number, double tolerance) {
    const std::int64_t numbers[] = {number};
    return gap_between({type<I64>(), std::as_bytes(std::span(numbers))},
                       {type<I64>(), std::as_bytes(std::span(zero))}, 1, tolerance)
        .value();
  };
  const std::int64_t odd = (std::int64_t{1} << 53) + 1;
  EXPECT_EQ(gap(odd, 0x1p53).first_beyond, 0U);
  EXPECT_EQ(gap(-odd, 0x1p53).first_beyond, 0U);
  EXPECT_EQ(gap(odd, 0x1p53).largest, 0x1p53 + 2);
  EXPECT_FALSE(gap(odd, 0x1p53 + 2).first_beyond);
  EXPECT_FALSE(gap(odd - 1, 0x1p53).first_beyond);
  EXPECT_EQ(gap(odd - 1, 0x1p53).largest, 0x1p53);
  EXPECT_EQ(gap(INT64_MAX, 0).largest, 0x1p63);
}

TEST(NumberGap, elements_may_be_unaligned) {
  std::vector<std::byte> bytes(17);
  store_le(MutableBytes(bytes).subspan(1), 2.0);
  store_le(MutableBytes(bytes).subspan(9), 5.0);
  const double even[] = {2, 4};
  const auto gap =
      gap_between({type<F64>(), Bytes(bytes).subspan(1)}, {type<F64>(), std::as_bytes(std::span(even))}, 2, 0)
          .value();
  EXPECT_EQ(gap.first_beyond, 1U);
  EXPECT_EQ(gap.largest, 1);
}

}  // namespace
}  // namespace ht::number_gap_test
