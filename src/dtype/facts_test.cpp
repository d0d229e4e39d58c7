#include <gtest/gtest.h>

#include <cmath>
#include <htensor/dtype/dtypes.hpp>
#include <limits>

namespace ht::facts_test {
namespace {

double number(NumberFacts::Magnitude magnitude) {
  return std::ldexp(static_cast<double>(magnitude.significand), magnitude.exponent);
}

TEST(Magnitude, is_ordered_by_value_not_representation) {
  // The numbers are small, so that double is an exact oracle for every pair.
  for (std::uint64_t a = 0; a <= 17; ++a) {
    for (std::uint64_t b = 0; b <= 17; ++b) {
      for (int exponent = -6; exponent <= 6; ++exponent) {
        const NumberFacts::Magnitude left{a, exponent};
        const NumberFacts::Magnitude right{b, 1};
        ASSERT_EQ(left < right, number(left) < number(right)) << a << "," << exponent << " " << b;
        ASSERT_EQ(left == right, number(left) == number(right)) << a << "," << exponent << " " << b;
        ASSERT_EQ(right < left, number(right) < number(left)) << a << "," << exponent << " " << b;
      }
    }
  }
}

TEST(Magnitude, is_exact_beyond_double_precision) {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  EXPECT_LT((NumberFacts::Magnitude{most, 0}), (NumberFacts::Magnitude{1, 64}));
  EXPECT_GT((NumberFacts::Magnitude{most, 0}), (NumberFacts::Magnitude{most - 1, 0}));
  EXPECT_EQ((NumberFacts::Magnitude{most - 1, 0}), (NumberFacts::Magnitude{most >> 1, 1}));
  EXPECT_EQ((NumberFacts::Magnitude{1, 1000}), (NumberFacts::Magnitude{std::uint64_t{1} << 63, 937}));
}

TEST(Magnitude, has_one_zero) {
  EXPECT_EQ((NumberFacts::Magnitude{0, 100}), (NumberFacts::Magnitude{0, -100}));
  EXPECT_LT((NumberFacts::Magnitude{0, 100}), (NumberFacts::Magnitude{1, -2000}));
  EXPECT_GT((NumberFacts::Magnitude{1, -2000}), (NumberFacts::Magnitude{0, 100}));
}

TEST(UserTag, is_one_of_192_to_255) {
  static_assert(user_tag(0) == static_cast<DTypeTag>(192));
  static_assert(user_tag(63) == static_cast<DTypeTag>(255));
  EXPECT_EQ(first_user_tag, 192);
  EXPECT_EQ(static_cast<int>(DTypeTag::invalid), 0);
}

template <class D, class Native>
void expect_integer_facts() {
  using Limits = std::numeric_limits<Native>;
  const NumberFacts facts = D::number;
  EXPECT_EQ(facts.kind, NumberFacts::Kind::integer) << D::name;
  EXPECT_EQ(facts.digits, Limits::digits) << D::name;
  EXPECT_EQ(facts.lowest_exponent, 0) << D::name;
  EXPECT_EQ(facts.largest, (NumberFacts::Magnitude{static_cast<std::uint64_t>(Limits::max()), 0})) << D::name;
  const auto largest_negative = std::uint64_t{0} - static_cast<std::uint64_t>(Limits::min());
  EXPECT_EQ(facts.largest_negative, (NumberFacts::Magnitude{largest_negative, 0})) << D::name;
  EXPECT_TRUE(facts.has_zero) << D::name;
  EXPECT_FALSE(facts.has_negative_zero) << D::name;
}

TEST(Facts, integers_match_the_native_types) {
  expect_integer_facts<I8, std::int8_t>();
  expect_integer_facts<U8, std::uint8_t>();
  expect_integer_facts<I16, std::int16_t>();
  expect_integer_facts<U16, std::uint16_t>();
  expect_integer_facts<I32, std::int32_t>();
  expect_integer_facts<U32, std::uint32_t>();
  expect_integer_facts<I64, std::int64_t>();
  expect_integer_facts<U64, std::uint64_t>();
}

TEST(Facts, integers_of_4_bits_go_from_minus_8_to_7_and_0_to_15) {
  EXPECT_EQ(I4::number.largest, (NumberFacts::Magnitude{7, 0}));
  EXPECT_EQ(I4::number.largest_negative, (NumberFacts::Magnitude{8, 0}));
  EXPECT_EQ(U4::number.largest, (NumberFacts::Magnitude{15, 0}));
  EXPECT_EQ(U4::number.largest_negative, (NumberFacts::Magnitude{0, 0}));
}

TEST(Facts, bool_is_zero_or_one) {
  EXPECT_EQ(Bool::number.kind, NumberFacts::Kind::boolean);
  EXPECT_EQ(Bool::number.largest, (NumberFacts::Magnitude{1, 0}));
  EXPECT_EQ(Bool::number.largest_negative, (NumberFacts::Magnitude{0, 0}));
  EXPECT_FALSE(Bool::number.has_negative_zero);
}

// The values that the specification of a format states.
struct Published {
  double largest;
  double smallest;
  int digits;
  bool has_sign = true;
  bool has_zero = true;
  bool has_negative_zero = true;
};

template <class D>
void expect_published(const Published& expected) {
  const NumberFacts facts = D::number;
  EXPECT_EQ(facts.kind, NumberFacts::Kind::floating) << D::name;
  EXPECT_EQ(number(facts.largest), expected.largest) << D::name;
  EXPECT_EQ(number(facts.largest_negative), expected.has_sign ? expected.largest : 0.0) << D::name;
  EXPECT_EQ(std::ldexp(1.0, facts.lowest_exponent), expected.smallest) << D::name;
  EXPECT_EQ(facts.digits, expected.digits) << D::name;
  EXPECT_EQ(facts.has_zero, expected.has_zero) << D::name;
  EXPECT_EQ(facts.has_negative_zero, expected.has_negative_zero) << D::name;
}

TEST(Facts, floating_point_matches_published_values) {
  using Single = std::numeric_limits<float>;
  using Double = std::numeric_limits<double>;
  expect_published<F4>({6.0, 0.5, 2});
  expect_published<F6_E2M3>({7.5, 0.125, 4});
  expect_published<F6_E3M2>({28.0, 0.0625, 3});
  expect_published<F8_E4M3>({448.0, 0x1p-9, 4});
  expect_published<F8_E5M2>({57344.0, 0x1p-16, 3});
  expect_published<F8_E4M3FNUZ>({240.0, 0x1p-10, 4, true, true, false});
  expect_published<F8_E5M2FNUZ>({57344.0, 0x1p-17, 3, true, true, false});
  expect_published<F8_E8M0>({0x1p127, 0x1p-127, 1, false, false, false});
  expect_published<F16>({65504.0, 0x1p-24, 11});
  expect_published<BF16>({0x1.FEp127, 0x1p-133, 8});
  expect_published<F32>({Single::max(), Single::denorm_min(), Single::digits});
  expect_published<F64>({Double::max(), Double::denorm_min(), Double::digits});
}

TEST(Facts, complex_numbers_match_their_parts) {
  EXPECT_EQ(C64::number.kind, NumberFacts::Kind::complex);
  EXPECT_EQ(C64::number.digits, F32::number.digits);
  EXPECT_EQ(C64::number.largest, F32::number.largest);
}

TEST(Facts, narrowing_any_fact_loses_values) {
  const NumberFacts full = number_facts({5, 10, 15, FloatLayout::Specials::ieee});
  EXPECT_TRUE(holds_every_value(full, full));
  const auto lacks = [&](auto change) {
    NumberFacts less = full;
    change(less);
    return !holds_every_value(less, full) && holds_every_value(full, less);
  };
  EXPECT_TRUE(lacks([](NumberFacts& f) { f.digits = 10; }));
  EXPECT_TRUE(lacks([](NumberFacts& f) { f.lowest_exponent += 1; }));
  EXPECT_TRUE(lacks([](NumberFacts& f) { f.largest = {65503, 0}; }));
  EXPECT_TRUE(lacks([](NumberFacts& f) { f.largest_negative = {65503, 0}; }));
  EXPECT_TRUE(lacks([](NumberFacts& f) { f.has_zero = false; }));
  EXPECT_TRUE(lacks([](NumberFacts& f) { f.has_negative_zero = false; }));
  NumberFacts complex = full;
  complex.kind = NumberFacts::Kind::complex;
  EXPECT_TRUE(holds_every_value(complex, full));
  EXPECT_FALSE(holds_every_value(full, complex));
}

template <class D>
void expect_layout_fills_the_width() {
  EXPECT_EQ(D::layout.bits(), D::bits) << D::name;
}

template <class... Ds>
void expect_layouts_fill_their_widths() {
  (expect_layout_fills_the_width<Ds>(), ...);
}

TEST(Layout, fills_the_width_of_its_dtype) {
  expect_layouts_fill_their_widths<F4, F6_E2M3, F6_E3M2, F8_E4M3, F8_E5M2, F8_E8M0, F8_E4M3FNUZ, F8_E5M2FNUZ,
                                   F16, BF16, F32, F64>();
}

TEST(Layout, magnitudes_increase_with_the_code) {
  for (const FloatLayout layout : {F4::layout, F6_E2M3::layout, F6_E3M2::layout, F8_E4M3::layout,
                                   F8_E5M2::layout, F8_E8M0::layout, F16::layout, BF16::layout}) {
    for (std::uint64_t code = 0; code < layout.largest_code(); ++code) {
      ASSERT_LT(layout.magnitude(code), layout.magnitude(code + 1)) << code;
    }
  }
}

}  // namespace
}  // namespace ht::facts_test
