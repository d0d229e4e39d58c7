#include <gtest/gtest.h>

#include <cmath>
#include <htensor/dtype/scalar.hpp>
#include <limits>

namespace ht::scalar_test {
namespace {

static_assert(sizeof(SmallFloat<F16>) == 2 && sizeof(SmallFloat<BF16>) == 2);
static_assert(sizeof(SmallFloat<F8_E4M3>) == 1 && sizeof(SmallFloat<F4>) == 1);
static_assert(sizeof(SmallInt<I4>) == 1 && sizeof(Boolean) == 1 && sizeof(C64::Element) == 8);
// Elements are copied as bytes.
template <class T>
constexpr bool is_copied_as_bytes = std::is_trivially_copyable_v<T> && std::is_standard_layout_v<T>;
static_assert(is_copied_as_bytes<SmallFloat<BF16>> && is_copied_as_bytes<SmallInt<I4>> &&
              is_copied_as_bytes<Boolean>);

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

template <class D>
void expect_small_integers(int lowest, int highest) {
  using Small = typename D::Element;
  for (unsigned code = 0; code < 16; ++code) {
    const int expected = lowest < 0 && code >= 8 ? static_cast<int>(code) - 16 : static_cast<int>(code);
    const auto value = Small::from_bits(static_cast<std::uint8_t>(code));
    EXPECT_EQ(static_cast<int>(value), expected);
    EXPECT_EQ(static_cast<double>(value), expected);
    EXPECT_EQ(Small(expected).bits(), code);
    EXPECT_EQ(Small::from_bits(static_cast<std::uint8_t>(code | 0xA0)).bits(), code);
  }
  for (int quarters = -80; quarters <= 80; ++quarters) {
    const double value = quarters / 4.0;
    // std::nearbyint rounds halves to even, as the library must.
    const auto expected = std::clamp(static_cast<int>(std::nearbyint(value)), lowest, highest);
    EXPECT_EQ(static_cast<int>(Small(value)), expected) << value;
    EXPECT_EQ(static_cast<int>(Small(static_cast<float>(value))), expected) << value;
    EXPECT_EQ(static_cast<int>(Small(quarters)), std::clamp(quarters, lowest, highest)) << quarters;
  }
  for (const double huge : {1e300, infinity}) {
    EXPECT_EQ(static_cast<int>(Small(huge)), highest);
    EXPECT_EQ(static_cast<int>(Small(-huge)), lowest);
  }
  EXPECT_EQ(static_cast<int>(Small(nan)), 0);
  EXPECT_EQ(static_cast<int>(Small(-nan)), 0);
  EXPECT_EQ(static_cast<int>(Small(5e-324)), 0);
  EXPECT_EQ(static_cast<int>(Small(-0.0)), 0);
  EXPECT_EQ(static_cast<int>(Small(std::numeric_limits<std::uint64_t>::max())), highest);
  EXPECT_EQ(static_cast<int>(Small(std::numeric_limits<std::int64_t>::min())), lowest);
  EXPECT_TRUE(Small(1) < Small(2) && Small(lowest) < Small(highest) && Small(3) == Small(3));
}

TEST(SmallInt, i4_rounds_to_even_and_saturates) { expect_small_integers<I4>(-8, 7); }

TEST(SmallInt, u4_rounds_to_even_and_saturates) { expect_small_integers<U4>(0, 15); }

TEST(Boolean, any_nonzero_byte_is_true) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto value = Boolean::from_bits(static_cast<std::uint8_t>(byte));
    EXPECT_EQ(static_cast<bool>(value), byte != 0) << byte;
    EXPECT_EQ(value.bits(), byte);
  }
  EXPECT_EQ(Boolean(true).bits(), 1);
  EXPECT_EQ(Boolean(false).bits(), 0);
  EXPECT_EQ(Boolean(256).bits(), 1);
  EXPECT_EQ(Boolean(-0.0).bits(), 0);
  EXPECT_EQ(Boolean(1e-300).bits(), 1);
  EXPECT_EQ(Boolean(nan).bits(), 1);
  EXPECT_EQ(Boolean().bits(), 0);
}

template <class A, class B>
void expect_implicit_iff_upcastable() {
  using From = typename A::Element;
  using To = typename B::Element;
  EXPECT_EQ((std::is_convertible_v<From, To>), (UpcastableTo<A, B>)) << A::name << " to " << B::name;
}
template <class A, class... Bs>
void expect_implicit_from(DTypeList<Bs...>) {
  (expect_implicit_iff_upcastable<A, Bs>(), ...);
}
template <class... As>
void expect_implicit_from_each() {
  (expect_implicit_from<As>(AllDTypes{}), ...);
}

TEST(Conversion, small_elements_convert_implicitly_iff_upcastable) {
  expect_implicit_from_each<F4, F6_E2M3, F6_E3M2, F8_E4M3, F8_E5M2, F8_E8M0, F8_E4M3FNUZ, F8_E5M2FNUZ, F16,
                            BF16, I4, U4>();
}

TEST(Conversion, bool_converts_implicitly_iff_upcastable) {
  expect_implicit_from_each<Bool>();
  EXPECT_TRUE((std::is_convertible_v<Boolean, bool> && std::is_convertible_v<bool, Boolean>));
}

TEST(Conversion, small_elements_are_created_explicitly) {
  static_assert(std::is_convertible_v<F16::Element, float> && std::is_convertible_v<F16::Element, double>);
  static_assert(!std::is_convertible_v<BF16::Element, float> &&
                std::is_constructible_v<float, BF16::Element>);
  static_assert(std::is_convertible_v<F4::Element, F6_E2M3::Element>);
  static_assert(!std::is_convertible_v<F16::Element, BF16::Element>);
  static_assert(std::is_constructible_v<BF16::Element, F16::Element>);
  static_assert(std::is_convertible_v<I4::Element, int> && !std::is_convertible_v<U4::Element, int>);
  EXPECT_FALSE((std::is_convertible_v<float, F16::Element> || std::is_convertible_v<double, BF16::Element>));
  EXPECT_FALSE((std::is_convertible_v<int, I4::Element> || std::is_convertible_v<int, Boolean>));
  EXPECT_TRUE((std::is_constructible_v<F16::Element, float> && std::is_constructible_v<I4::Element, double>));
}

template <class Element>
void expect_plain(std::size_t bytes) {
  EXPECT_EQ(sizeof(Element), bytes);
  EXPECT_EQ(alignof(Element), bytes);
  EXPECT_TRUE(std::is_trivially_copyable_v<Element> && std::is_standard_layout_v<Element>);
  EXPECT_TRUE(std::is_trivially_destructible_v<Element> && std::is_nothrow_default_constructible_v<Element>);
}

TEST(Elements, consist_of_their_stored_bits) {
  expect_plain<F16::Element>(2);
  expect_plain<BF16::Element>(2);
  expect_plain<F8_E4M3::Element>(1);
  expect_plain<F6_E2M3::Element>(1);
  expect_plain<F4::Element>(1);
  expect_plain<I4::Element>(1);
  expect_plain<Boolean>(1);
  EXPECT_EQ(sizeof(C64::Element), 8U);
  EXPECT_TRUE((std::same_as<F32::Element, float> && std::same_as<F64::Element, double>));
  EXPECT_TRUE((std::same_as<I8::Element, std::int8_t> && std::same_as<U64::Element, std::uint64_t>));
}

template <class... Ds>
constexpr bool elements_map_to_their_dtypes(DTypeList<Ds...>) {
  return (std::same_as<DTypeOf<typename Ds::Element>, Ds> && ...);
}

TEST(Elements, map_to_their_dtype) { EXPECT_TRUE(elements_map_to_their_dtypes(AllDTypes{})); }

TEST(Elements, convert_in_constant_expressions) {
  constexpr float third = F16::Element(1.0 / 3.0);
  constexpr auto narrow = static_cast<F8_E4M3::Element>(F16::Element(3.3));
  EXPECT_EQ(third, 0x1.554p-2F);
  EXPECT_EQ(static_cast<float>(narrow), 3.25F);
}

}  // namespace
}  // namespace ht::scalar_test
