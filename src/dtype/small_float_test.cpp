#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <htensor/dtype/scalar.hpp>
#include <limits>
#include <vector>

namespace ht::small_float_test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// A format as its specification states it: OCP's FP8, FP6, FP4 and MX, the FNUZ paper, IEEE 754 and BF16.
constexpr unsigned none = 0x10000;
struct FormatSpec {
  std::string_view name;
  int exponent_bits;
  int mantissa_bits;
  int bias;
  unsigned infinity = none;   // the code of +infinity
  unsigned first_nan = none;  // this and all larger codes below the sign bit are NaN
  unsigned lone_nan = none;   // the only code that is NaN
  bool has_sign = true;
};

constexpr FormatSpec format_specs[] = {
    {"F4", 2, 1, 1},
    {"F6_E2M3", 2, 3, 1},
    {"F6_E3M2", 3, 2, 3},
    {"F8_E4M3", 4, 3, 7, none, 0x7F},
    {"F8_E5M2", 5, 2, 15, 0x7C, 0x7D},
    {"F8_E8M0", 8, 0, 127, none, 0xFF, none, false},
    {"F8_E4M3FNUZ", 4, 3, 8, none, none, 0x80},
    {"F8_E5M2FNUZ", 5, 2, 16, none, none, 0x80},
    {"F16", 5, 10, 15, 0x7C00, 0x7C01},
    {"BF16", 8, 7, 127, 0x7F80, 0x7F81},
};
template <class D>
constexpr FormatSpec spec_of = *std::ranges::find(format_specs, D::name, &FormatSpec::name);

template <class D>
constexpr unsigned sign_bit =
    spec_of<D>.has_sign ? 1U << (spec_of<D>.exponent_bits + spec_of<D>.mantissa_bits) : 0x100;
template <class D>
constexpr unsigned codes = spec_of<D>.has_sign ? 2 * sign_bit<D> : 0x100;

template <class D>
double decode_by_spec(unsigned code) {
  constexpr FormatSpec spec = spec_of<D>;
  const unsigned magnitude = code & (sign_bit<D> - 1);
  if (code == spec.lone_nan || magnitude >= spec.first_nan) return nan;
  const double sign = magnitude == code ? 1.0 : -1.0;
  if (magnitude == spec.infinity) return sign * infinity;
  if (!spec.has_sign) return std::ldexp(1.0, static_cast<int>(code) - spec.bias);
  const int field = static_cast<int>(magnitude >> spec.mantissa_bits);
  const unsigned fraction = magnitude & ((1U << spec.mantissa_bits) - 1);
  const double significand = std::ldexp(fraction, -spec.mantissa_bits);
  return sign * (field == 0 ? std::ldexp(significand, 1 - spec.bias)
                            : std::ldexp(1 + significand, field - spec.bias));
}

// The largest code without a sign whose value is finite.
template <class D>
unsigned largest_code() {
  unsigned code = sign_bit<D> - 1;
  while (!std::isfinite(decode_by_spec<D>(code))) --code;
  return code;
}

template <class D>
typename D::Element element(unsigned code) {
  return D::Element::from_bits(static_cast<typename D::Element::Bits>(code));
}

template <class D, class T>
unsigned code_of(T value) {
  return typename D::Element(value).bits();
}

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

template <class D>
class Small : public ::testing::Test {};
using SmallFloats =
    ::testing::Types<F4, F6_E2M3, F6_E3M2, F8_E4M3, F8_E5M2, F8_E8M0, F8_E4M3FNUZ, F8_E5M2FNUZ, F16, BF16>;
struct Names {
  template <class D>
  static std::string GetName(int) {
    return std::string(D::name);
  }
};
TYPED_TEST_SUITE(Small, SmallFloats, Names);

TYPED_TEST(Small, every_code_decodes_as_specified) {
  for (unsigned code = 0; code < codes<TypeParam>; ++code) {
    const auto value = element<TypeParam>(code);
    const double expected = decode_by_spec<TypeParam>(code);
    ASSERT_TRUE(same(static_cast<double>(value), expected)) << code << " is not " << expected;
    ASSERT_TRUE(same(static_cast<double>(static_cast<float>(value)), expected))
        << code << " is not " << expected;
  }
}

TYPED_TEST(Small, every_decoded_value_encodes_to_its_code) {
  for (unsigned code = 0; code < codes<TypeParam>; ++code) {
    const double value = decode_by_spec<TypeParam>(code);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(decode_by_spec<TypeParam>(code_of<TypeParam>(value)))) << code;
    } else {
      ASSERT_EQ(code_of<TypeParam>(value), code);
      ASSERT_EQ(code_of<TypeParam>(static_cast<float>(value)), code);
    }
  }
}

// Tests the midpoint of every two neighbouring values, and the numbers next to it. T represents it exactly.
template <class D, class T>
void expect_nearest_even() {
  // Without a negative zero, -0 becomes +0. Without a sign, negative numbers become NaN.
  const auto negative = [](unsigned code) -> unsigned {
    if (!spec_of<D>.has_sign) return 0xFF;
    return code == 0 && spec_of<D>.lone_nan == sign_bit<D> ? 0 : code | sign_bit<D>;
  };
  for (unsigned code = 0; code < largest_code<D>(); ++code) {
    const double exact = (decode_by_spec<D>(code) + decode_by_spec<D>(code + 1)) / 2;
    const T middle = static_cast<T>(exact);
    ASSERT_EQ(static_cast<double>(middle), exact);
    // Powers of two without a mantissa have no even significand; IEEE 754 then selects the larger value.
    const bool goes_up = code % 2 == 1 || spec_of<D>.mantissa_bits == 0;
    const T below = std::nextafter(middle, T{0});
    const T above = std::nextafter(middle, std::numeric_limits<T>::infinity());
    ASSERT_EQ(code_of<D>(middle), goes_up ? code + 1 : code) << exact;
    ASSERT_EQ(code_of<D>(below), code) << below;
    ASSERT_EQ(code_of<D>(above), code + 1) << above;
    ASSERT_EQ(code_of<D>(-middle), negative(goes_up ? code + 1 : code)) << -exact;
    ASSERT_EQ(code_of<D>(-below), negative(code)) << -below;
    ASSERT_EQ(code_of<D>(-above), negative(code + 1)) << -above;
  }
}

TYPED_TEST(Small, double_rounds_to_nearest_even) { expect_nearest_even<TypeParam, double>(); }

TYPED_TEST(Small, float_rounds_to_nearest_even) { expect_nearest_even<TypeParam, float>(); }

// Tests overflow: the midpoint above the largest value, and everything above the midpoint.
template <class D>
void expect_overflow(double largest, double midpoint, unsigned at_midpoint, unsigned beyond) {
  const bool overflows_to_nan = std::isnan(decode_by_spec<D>(beyond));
  const auto negative = [&](unsigned code) {
    return overflows_to_nan && spec_of<D>.lone_nan == code ? code : code | sign_bit<D>;
  };
  const unsigned largest_finite = largest_code<D>();
  EXPECT_EQ(decode_by_spec<D>(largest_finite), largest);
  EXPECT_EQ(code_of<D>(std::nextafter(midpoint, 0.0)), largest_finite);
  EXPECT_EQ(code_of<D>(midpoint), at_midpoint);
  for (const double value : {std::nextafter(midpoint, infinity), 2 * largest, 1e300, infinity}) {
    EXPECT_EQ(code_of<D>(value), beyond) << value;
    EXPECT_EQ(code_of<D>(-value), negative(beyond)) << -value;
  }
  EXPECT_EQ(code_of<D>(std::numeric_limits<float>::infinity()), beyond);
  EXPECT_EQ(code_of<D>(-midpoint), negative(at_midpoint));
}

TEST(SmallFloat, overflow_is_infinity_if_the_dtype_has_it) {
  expect_overflow<F16>(65504, 65520, 0x7C00, 0x7C00);
  expect_overflow<BF16>(0x1.FEp127, 0x1.FFp127, 0x7F80, 0x7F80);
  expect_overflow<F8_E5M2>(57344, 61440, 0x7C, 0x7C);
}

TEST(SmallFloat, overflow_is_nan_if_the_dtype_has_no_infinity) {
  expect_overflow<F8_E4M3>(448, 464, 0x7E, 0x7F);
  expect_overflow<F8_E4M3FNUZ>(240, 248, 0x80, 0x80);
  expect_overflow<F8_E5M2FNUZ>(57344, 61440, 0x80, 0x80);
}

TEST(SmallFloat, overflow_saturates_without_infinity_and_nan) {
  expect_overflow<F4>(6, 7, 0x7, 0x7);
  expect_overflow<F6_E2M3>(7.5, 7.75, 0x1F, 0x1F);
  expect_overflow<F6_E3M2>(28, 30, 0x1F, 0x1F);
}

TEST(SmallFloat, a_scale_has_no_zero_no_sign_and_no_infinity) {
  using Scale = F8_E8M0;
  for (const double tiny : {0.0, -0.0, 1e-300, 0x1p-128, 0x1.8p-128, 0x1p-127}) {
    EXPECT_EQ(code_of<Scale>(tiny), 0U) << tiny;
    EXPECT_EQ(code_of<Scale>(static_cast<float>(tiny)), 0U) << tiny;
  }
  EXPECT_EQ(code_of<Scale>(0), 0U);
  for (const double negative : {-1e-300, -0x1p-127, -1.0, -1e300, -infinity}) {
    EXPECT_EQ(code_of<Scale>(negative), 0xFFU) << negative;
  }
  EXPECT_EQ(code_of<Scale>(-1), 0xFFU);
  EXPECT_EQ(code_of<Scale>(std::nextafter(0x1.8p127, 0.0)), 0xFEU);
  for (const double large : {0x1.8p127, 0x1p128, infinity}) EXPECT_EQ(code_of<Scale>(large), 0xFFU) << large;
}

TEST(SmallFloat, nan_becomes_quiet_and_keeps_its_sign) {
  const float signalling = std::bit_cast<float>(0x7F80'0001U);
  EXPECT_EQ(code_of<F16>(nan), 0x7E00U);
  EXPECT_EQ(code_of<F16>(-nan), 0xFE00U);
  EXPECT_EQ(code_of<F16>(signalling), 0x7E00U);
  EXPECT_EQ(code_of<BF16>(nan), 0x7FC0U);
  EXPECT_EQ(code_of<BF16>(-nan), 0xFFC0U);
  EXPECT_EQ(code_of<BF16>(signalling), 0x7FC0U);
  EXPECT_EQ(code_of<F8_E5M2>(nan), 0x7EU);
  EXPECT_EQ(code_of<F8_E5M2>(-nan), 0xFEU);
  EXPECT_EQ(code_of<F8_E4M3>(nan), 0x7FU);
  EXPECT_EQ(code_of<F8_E4M3>(-nan), 0xFFU);
  // Formats with a single NaN or without NaN cannot store the sign of a NaN.
  for (const double either : {nan, -nan}) {
    EXPECT_EQ(code_of<F8_E4M3FNUZ>(either), 0x80U);
    EXPECT_EQ(code_of<F8_E5M2FNUZ>(either), 0x80U);
    EXPECT_EQ(code_of<F8_E8M0>(either), 0xFFU);
    EXPECT_EQ(code_of<F4>(either), 0x7U);
    EXPECT_EQ(code_of<F6_E2M3>(either), 0x1FU);
    EXPECT_EQ(code_of<F6_E3M2>(either), 0x1FU);
  }
}

TEST(SmallFloat, nan_keeps_its_sign_and_payload_when_widened) {
  EXPECT_EQ(std::bit_cast<std::uint32_t>(static_cast<float>(element<F16>(0xFE81))), 0xFFD0'2000U);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(static_cast<float>(element<BF16>(0xFFC1))), 0xFFC1'0000U);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(static_cast<double>(element<BF16>(0x7FC1))), 0x7FF8'2000'0000'0000U);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(static_cast<float>(element<F8_E5M2>(0xFF))), 0xFFE0'0000U);
}

TEST(SmallFloat, fnuz_has_no_minus_zero) {
  EXPECT_EQ(code_of<F8_E4M3FNUZ>(-0.0), 0U);
  EXPECT_EQ(code_of<F8_E5M2FNUZ>(-0.0F), 0U);
  EXPECT_EQ(code_of<F8_E4M3FNUZ>(-1e-30), 0U);
}

// Rounds a double just above a tie of D. As a float it equals the tie, so rounding twice is detected.
template <class D>
void expect_rounded_once(double tie) {
  const double above = tie + tie * 0x1p-40;
  const auto by_two_steps = code_of<D>(static_cast<float>(above));
  EXPECT_EQ(code_of<D>(above), code_of<D>(tie) + 1) << D::name;
  EXPECT_EQ(by_two_steps, code_of<D>(tie)) << D::name << " shows no double rounding here";
}

TEST(SmallFloat, a_double_is_rounded_once) {
  expect_rounded_once<BF16>(1 + 0x1p-8);
  expect_rounded_once<F16>(1 + 0x1p-11);
  expect_rounded_once<F8_E4M3>(1 + 0x1p-4);
  expect_rounded_once<F8_E5M2>(1 + 0x1p-3);
  expect_rounded_once<F8_E4M3FNUZ>(1 + 0x1p-4);
  expect_rounded_once<F6_E3M2>(1 + 0x1p-3);
  expect_rounded_once<F4>(1.25);
  // A tie between subnormals.
  expect_rounded_once<F16>(0x1p-25 + 0x1p-23);
}

TEST(SmallFloat, an_integer_is_rounded_once) {
  // One above a tie of BF16: the number has more digits than a double, which would round it to the tie.
  constexpr std::int64_t tie = (std::int64_t{1} << 62) + (std::int64_t{1} << 54);
  EXPECT_EQ(code_of<BF16>(tie + 1), code_of<BF16>(0x1.02p62));
  EXPECT_EQ(code_of<BF16>(static_cast<double>(tie + 1)), code_of<BF16>(0x1p62)) << "no double rounding here";
  EXPECT_EQ(code_of<BF16>(-tie - 1), code_of<BF16>(-0x1.02p62));
  EXPECT_EQ(code_of<BF16>(std::uint64_t{1} << 63 | std::uint64_t{1} << 55 | 1), code_of<BF16>(0x1.02p63));
  EXPECT_EQ(code_of<BF16>((std::int64_t{1} << 53) + 1), code_of<BF16>(0x1p53));
  EXPECT_EQ(code_of<BF16>(std::numeric_limits<std::uint64_t>::max()), code_of<BF16>(0x1p64));
  EXPECT_EQ(code_of<BF16>(std::numeric_limits<std::int64_t>::min()), code_of<BF16>(-0x1p63));
  EXPECT_EQ(code_of<F16>((std::int64_t{1} << 53) + 1), 0x7C00U);
  EXPECT_EQ(code_of<F16>(std::numeric_limits<std::int64_t>::min()), 0xFC00U);
}

TEST(SmallFloat, an_integer_is_rounded_to_one_bit) {
  // F8_E8M0 keeps one bit of 64, which needs the widest shift.
  constexpr std::uint64_t tie = std::uint64_t{3} << 62;
  EXPECT_EQ(code_of<F8_E8M0>(std::uint64_t{1} << 63), 127U + 63);
  EXPECT_EQ(code_of<F8_E8M0>(tie - 1), 127U + 63);
  EXPECT_EQ(code_of<F8_E8M0>(tie), 127U + 64);
  EXPECT_EQ(code_of<F8_E8M0>(std::numeric_limits<std::uint64_t>::max()), 127U + 64);
}

TEST(ShiftRightRounded, is_correct_at_the_word_width) {
  constexpr std::uint64_t half = std::uint64_t{1} << 63;
  EXPECT_EQ(detail::shift_right_rounded(half - 1, 64), 0U);
  EXPECT_EQ(detail::shift_right_rounded(half, 64), 0U) << "a tie, and 0 is even";
  EXPECT_EQ(detail::shift_right_rounded(half + 1, 64), 1U);
  EXPECT_EQ(detail::shift_right_rounded(~std::uint64_t{0}, 65), 0U);
  EXPECT_EQ(detail::shift_right_rounded(~std::uint64_t{0}, 63), 2U);
  EXPECT_EQ(detail::shift_right_rounded(~std::uint64_t{0}, 0), ~std::uint64_t{0});
  EXPECT_EQ(detail::shift_right_rounded(1, -63), half);
}

TYPED_TEST(Small, every_16_bit_integer_rounds_as_a_double_does) {
  for (int value = -70000; value <= 70000; ++value) {
    ASSERT_EQ(code_of<TypeParam>(value), code_of<TypeParam>(static_cast<double>(value))) << value;
  }
}

template <class D, class... Others>
void expect_same_as_through_double() {
  for (unsigned code = 0; code < codes<D>; ++code) {
    const auto value = element<D>(code);
    const auto wide = static_cast<double>(value);
    // A conversion to the same type is a copy, which does not change a signalling NaN.
    const bool all_same = ((std::same_as<D, Others> ||
                            static_cast<typename Others::Element>(value).bits() == code_of<Others>(wide)) &&
                           ...);
    ASSERT_TRUE(all_same) << D::name << " " << code;
  }
}

TYPED_TEST(Small, another_small_float_is_rounded_once) {
  // A double represents the values of all small floats exactly, so the conversion to double does not round.
  expect_same_as_through_double<TypeParam, F4, F6_E2M3, F6_E3M2, F8_E4M3, F8_E5M2, F8_E8M0, F8_E4M3FNUZ,
                                F8_E5M2FNUZ, F16, BF16>();
}

#ifdef __FLT16_MAX__
TEST(SmallFloat, f16_matches_the_compiler) {
  for (unsigned code = 0; code < 0x10000; ++code) {
    const auto native = static_cast<double>(std::bit_cast<_Float16>(static_cast<std::uint16_t>(code)));
    ASSERT_TRUE(same(static_cast<double>(element<F16>(code)), native)) << code;
  }
}
#endif

TEST(SmallFloat, compares_by_value) {
  EXPECT_TRUE(element<F16>(0x8000) == element<F16>(0x0000));
  EXPECT_FALSE(element<F16>(0x7E00) == element<F16>(0x7E00));
  EXPECT_TRUE(F8_E4M3::Element(-2) < F8_E4M3::Element(1));
  EXPECT_EQ(element<BF16>(0x7FC0) <=> BF16::Element(1), std::partial_ordering::unordered);
}

}  // namespace
}  // namespace ht::small_float_test
