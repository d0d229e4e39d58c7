// All steps by which a user defines a dtype, outside of the library's namespace.
#include <gtest/gtest.h>

#include <cmath>
#include <htensor/dtype/device.hpp>
#include <htensor/dtype/packed.hpp>
#include <htensor/dtype/relations.hpp>
#include <limits>
#include <string>

#include "testing/users_dtype.hpp"

namespace {

using user::F8_E3M4;

// A 6-bit signed integer that joins the library's family.
struct I6 {
  using Family = ht::family::Int;
  using Element = ht::SmallInt<I6>;
  static constexpr std::string_view name = "I6";
  static constexpr int bits = 6;
  static constexpr ht::DTypeTag tag = ht::user_tag(1);
  static constexpr ht::NumberFacts number = ht::integer_facts(6, true);
};

// Elements that are not numbers.
struct Color {
  struct Family {};
  using Element = std::uint32_t;
  static constexpr std::string_view name = "COLOR";
  static constexpr int bits = 32;
  static constexpr ht::DTypeTag tag = ht::user_tag(63);
};

using Mine = F8_E3M4::Element;

double decode_by_spec(unsigned code) {
  const double sign = code < 0x80 ? 1 : -1;
  const int field = static_cast<int>((code >> 4) & 7);
  const unsigned fraction = code & 15;
  if (field == 7) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  return sign * (field == 0 ? std::ldexp(fraction, -6) : std::ldexp(16 + fraction, field - 7));
}

TEST(UsersDType, is_a_dtype_of_its_kind) {
  EXPECT_TRUE((ht::IsDType<F8_E3M4> && ht::IsFloating<F8_E3M4>));
  EXPECT_TRUE((ht::IsIntegral<I6> && ht::IsArithmetic<I6>));
  EXPECT_TRUE(ht::IsDType<Color>);
  EXPECT_FALSE((ht::IsNumber<Color> || ht::IsArithmetic<Color>));
}

TEST(UsersDType, is_ordered_among_library_dtypes) {
  EXPECT_TRUE((ht::LosslessTo<F8_E3M4, ht::F16> && ht::LosslessTo<F8_E3M4, ht::BF16>));
  EXPECT_TRUE((ht::LosslessTo<ht::U4, F8_E3M4> && ht::LosslessTo<ht::F6_E2M3, F8_E3M4>));
  EXPECT_FALSE((ht::LosslessTo<F8_E3M4, ht::F8_E4M3>)) << "F8_E4M3 has one digit less";
  EXPECT_FALSE((ht::LosslessTo<ht::F6_E3M2, F8_E3M4>)) << "F8_E3M4 ends at 15.5, before 28";
  EXPECT_FALSE((ht::UpcastableTo<F8_E3M4, ht::F16>)) << "F16 is in another family";
  EXPECT_TRUE((ht::UpcastableTo<F8_E3M4, F8_E3M4>));
  EXPECT_TRUE((ht::UpcastableTo<ht::I4, I6> && ht::UpcastableTo<I6, ht::I8>));
  EXPECT_FALSE((ht::UpcastableTo<ht::U4, I6>));
}

TEST(UsersDType, is_lossless_only_to_itself_without_numbers) {
  EXPECT_TRUE((ht::LosslessTo<Color, Color>));
  EXPECT_FALSE((ht::LosslessTo<Color, ht::U32> || ht::LosslessTo<ht::U32, Color>));
  EXPECT_TRUE((std::same_as<ht::Common<Color, Color>, Color>));
  EXPECT_FALSE((ht::HaveCommon<Color, ht::U32>));
}

TEST(UsersDType, has_a_common_dtype_with_library_dtypes) {
  EXPECT_TRUE((std::same_as<ht::Common<F8_E3M4>, F8_E3M4>));
  EXPECT_TRUE((std::same_as<ht::Common<F8_E3M4, ht::F8_E4M3>, ht::F16>));
  EXPECT_TRUE((std::same_as<ht::Common<ht::F32, F8_E3M4>, ht::F32>));
  // F8_E3M4 is not in the library's list. Common returns it as the argument that holds the other one.
  EXPECT_TRUE((std::same_as<ht::Common<F8_E3M4, ht::U4>, F8_E3M4>));
  EXPECT_TRUE((std::same_as<ht::Common<ht::U4, F8_E3M4>, F8_E3M4>));
  EXPECT_TRUE((std::same_as<ht::Common<ht::U4, I6, ht::I4>, I6>));
  EXPECT_TRUE((std::same_as<ht::Common<I6, F8_E3M4>, ht::F16>));
}

TEST(UsersDType, decodes_and_encodes_by_its_layout) {
  for (unsigned code = 0; code < 256; ++code) {
    const auto value = static_cast<double>(Mine::from_bits(static_cast<std::uint8_t>(code)));
    const double expected = decode_by_spec(code);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value)) << code;
      EXPECT_TRUE(std::isnan(static_cast<double>(Mine(expected)))) << code;
    } else {
      EXPECT_EQ(value, expected) << code;
      EXPECT_EQ(Mine(expected).bits(), code);
      EXPECT_EQ(Mine(static_cast<float>(expected)).bits(), code);
    }
  }
}

TEST(UsersDType, rounds_to_nearest_even) {
  for (unsigned code = 0; code < 0x6F; ++code) {
    const double middle = (decode_by_spec(code) + decode_by_spec(code + 1)) / 2;
    EXPECT_EQ(Mine(middle).bits(), code % 2 == 0 ? code : code + 1);
    EXPECT_EQ(Mine(std::nextafter(middle, 0.0)).bits(), code);
    EXPECT_EQ(Mine(std::nextafter(middle, 100.0)).bits(), code + 1);
  }
  EXPECT_EQ(Mine(15.5).bits(), 0x6FU);
  EXPECT_EQ(Mine(15.75).bits(), 0x70U) << "infinity";
  EXPECT_EQ(Mine(-1000).bits(), 0xF0U);
}

TEST(UsersDType, converts_to_library_dtypes_explicitly) {
  EXPECT_FALSE((std::is_convertible_v<Mine, float> || std::is_convertible_v<Mine, ht::F16::Element>));
  const auto half = static_cast<ht::F16::Element>(Mine(1.0625));
  EXPECT_EQ(static_cast<float>(half), 1.0625F);
  EXPECT_EQ(static_cast<double>(static_cast<Mine>(ht::BF16::Element(2.5))), 2.5);
  EXPECT_TRUE((std::same_as<ht::DTypeOf<Mine>, F8_E3M4>));
  EXPECT_EQ(sizeof(Mine), 1U);
}

TEST(UsersDType, converts_implicitly_within_its_family) {
  EXPECT_TRUE((std::is_convertible_v<I6::Element, std::int8_t> && std::is_convertible_v<I6::Element, int>));
  EXPECT_FALSE((std::is_convertible_v<I6::Element, float>));
  const int value = I6::Element(-40);
  EXPECT_EQ(value, -32);
  EXPECT_EQ(int{I6::Element(30.5)}, 30);
}

TEST(UsersDType, is_packed_if_narrower_than_a_byte) {
  std::byte bytes[6]{};
  const ht::ElementPointer<I6> pointer(bytes);
  for (int i = 0; i < 8; ++i) pointer[i] = I6::Element(4 * i - 16);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(static_cast<int>(pointer[i]), 4 * i - 16) << i;
  EXPECT_TRUE((std::same_as<ht::ElementPointer<const F8_E3M4>, const Mine*>));
}

TEST(UsersDType, is_visited_if_passed) {
  const auto name_of = [](auto dtype) { return decltype(dtype)::name; };
  EXPECT_EQ((ht::visit_dtype<F8_E3M4, I6, Color>(F8_E3M4::tag, name_of).value()), "F8_E3M4");
  EXPECT_EQ((ht::visit_dtype<F8_E3M4, I6, Color>(I6::tag, name_of).value()), "I6");
  EXPECT_EQ((ht::visit_dtype<F8_E3M4, I6, Color>(Color::tag, name_of).value()), "COLOR");
  EXPECT_EQ((ht::visit_dtype<F8_E3M4, I6, Color>(ht::BF16::tag, name_of).value()), "BF16");
  EXPECT_EQ((ht::visit_dtype<I6>(F8_E3M4::tag, name_of).error().code()), ht::ErrorCode::bad_dtype);
}

TEST(UsersDType, is_found_at_run_time_if_passed) {
  const ht::DTypeInfo users[] = {ht::dtype_info<F8_E3M4>(), ht::dtype_info<Color>()};
  EXPECT_EQ(ht::find_dtype(ht::user_tag(63), users), ht::dtype_info<Color>());
  EXPECT_EQ(ht::find_dtype("F8_E3M4", users)->bits, 8);
  EXPECT_EQ(ht::find_dtype("I6", users), std::nullopt);
}

}  // namespace
