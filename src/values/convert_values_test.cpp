#include "values/convert_values.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <htensor/dtype/relations.hpp>
#include <htensor/dtype/scalar.hpp>
#include <htensor/values/cast.hpp>
#include <limits>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "tensor/test_tools.hpp"
#include "values/targets_test.hpp"

namespace ht::convert_values_test {
namespace {

using detail::element_type_of;
using detail::NumberClass;
using detail::Parts;
using tests::code_of;
using tests::element_of;
using tests::must;
using values::Conversion;
using values::convert_values;

// The result of the slow reference, which rounds the exact number once to a code of another dtype.
struct Rounded {
  std::uint64_t code = 0;
  bool is_exact = false;
};

// Returns `significand` / 2^shift, rounded toward zero or to nearest even.
std::uint64_t shift_right(std::uint64_t significand, int shift, Rounding::Mode mode, bool& is_exact) {
  is_exact = true;
  if (shift <= 0) return significand << -shift;
  const std::uint64_t quotient = shift > 63 ? 0 : significand >> shift;
  const std::uint64_t rest = shift > 63 ? significand : significand - (quotient << shift);
  is_exact = rest == 0;
  if (mode == Rounding::Mode::toward_zero || shift > 64) return quotient;
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  return quotient + (rest > half || (rest == half && quotient % 2 == 1) ? 1 : 0);
}

Rounded reference_float(const FloatLayout& layout, Parts parts, const Rounding& rounding) {
  const std::uint64_t largest = layout.largest_code();
  const std::uint64_t sign =
      parts.negative ? std::uint64_t{1} << (layout.exponent_bits + layout.mantissa_bits) : 0;
  const std::uint64_t beyond =
      layout.specials == FloatLayout::Specials::none || rounding.saturate ? largest : largest + 1;
  const auto signed_code = [&](std::uint64_t code) {
    if (layout.specials == FloatLayout::Specials::scale) return code;
    if (layout.specials == FloatLayout::Specials::nan_at_minus_zero && (code == 0 || code > largest))
      return code;
    return code | sign;
  };
  if (parts.number_class == NumberClass::nan) return {detail::compose(layout, parts), true};
  if (layout.specials == FloatLayout::Specials::scale && parts.negative &&
      (parts.significand != 0 || parts.number_class == NumberClass::infinite)) {
    return {largest + 1, true};
  }
  if (parts.number_class == NumberClass::infinite) return {signed_code(beyond), true};
  if (parts.significand == 0) return {signed_code(0), true};
  const int lowest = layout.lowest_exponent();
  const int top = 63 - std::countl_zero(parts.significand) + parts.exponent;
  const int unit = std::max(top - layout.mantissa_bits, lowest);
  Rounded result;
  const auto units = shift_right(parts.significand, unit - parts.exponent, rounding.mode, result.is_exact);
  std::uint64_t code = (static_cast<std::uint64_t>(unit - lowest) << layout.mantissa_bits) + units;
  if (layout.specials == FloatLayout::Specials::scale) code -= code > 0 ? 1 : 0;
  if (code > largest) code = rounding.mode == Rounding::Mode::toward_zero ? largest : beyond;
  result.code = signed_code(code);
  return result;
}

Rounded reference_integer(int bits, bool has_sign, Parts parts, const Rounding& rounding) {
  const std::uint64_t highest = ~std::uint64_t{0} >> (64 - (has_sign ? bits - 1 : bits));
  if (parts.number_class == NumberClass::nan) return {0, true};
  Rounded result{0, true};
  std::uint64_t magnitude = ~std::uint64_t{0};
  const bool is_huge =
      parts.number_class == NumberClass::infinite ||
      (parts.significand != 0 && 64 - std::countl_zero(parts.significand) + parts.exponent > 64);
  if (!is_huge) magnitude = shift_right(parts.significand, -parts.exponent, rounding.mode, result.is_exact);
  if (parts.negative) {
    const std::uint64_t max_magnitude = has_sign ? highest + 1 : 0;
    result.code = (0 - std::min(magnitude, max_magnitude)) & (~std::uint64_t{0} >> (64 - bits));
  } else {
    result.code = std::min(magnitude, highest);
  }
  return result;
}

// A dtype known at run time, so that pairs of dtypes need no template instantiations.
struct Kind {
  ElementType type;
  std::optional<FloatLayout> layout{};
  bool has_sign = false;
  std::vector<std::byte> (*pack)(const std::vector<std::uint64_t>& codes) = nullptr;
  std::vector<std::uint64_t> (*unpack)(const std::vector<std::byte>& bytes, std::size_t count) = nullptr;

  friend void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.type.name; }
  [[nodiscard]] int bits() const { return type.bits; }
  [[nodiscard]] bool is_bool() const { return type.dtype == Bool::tag; }
  [[nodiscard]] std::uint64_t mask() const { return ~std::uint64_t{0} >> (64 - type.bits); }
};

template <class D>
Kind kind_of() {
  Kind kind{.type = element_type_of<D>()};
  if constexpr (IsFloating<D>) kind.layout = D::layout;
  kind.has_sign = D::number.largest_negative.significand != 0;
  kind.pack = [](const std::vector<std::uint64_t>& codes) {
    std::vector<std::byte> bytes((codes.size() * D::bits + 7) / 8);
    const auto elements = detail::elements_at<D>(bytes.data());
    for (std::size_t i = 0; i < codes.size(); ++i)
      elements[static_cast<std::int64_t>(i)] = element_of<D>(codes[i]);
    return bytes;
  };
  kind.unpack = [](const std::vector<std::byte>& bytes, std::size_t count) {
    std::vector<std::uint64_t> codes(count);
    const auto elements = detail::elements_at<const D>(bytes.data());
    for (std::size_t i = 0; i < count; ++i)
      codes[i] = code_of(static_cast<typename D::Element>(elements[static_cast<std::int64_t>(i)]));
    return codes;
  };
  return kind;
}

template <class... Ds>
std::vector<Kind> kinds_of(DTypeList<Ds...>) {
  std::vector<Kind> kinds;
  const auto add = [&]<class D>(D) {
    if constexpr (LibraryReal<D>) kinds.push_back(kind_of<D>());
  };
  (add(Ds{}), ...);
  return kinds;
}

// All real dtypes.
const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = kinds_of(AllDTypes{});
  return all;
}

Parts parts_of(const Kind& from, std::uint64_t code) {
  if (from.layout) return detail::decompose(*from.layout, code);
  if (from.is_bool()) return {.significand = code != 0 ? 1U : 0U};
  if (!from.has_sign) return detail::decompose(code);
  // Sign extension.
  const int unused = 64 - from.bits();
  return detail::decompose(static_cast<std::int64_t>(code << unused) >> unused);
}

Rounded reference(const Kind& from, const Kind& to, std::uint64_t code, const Rounding& rounding) {
  const Parts parts = parts_of(from, code);
  if (to.is_bool())
    return {parts.number_class != NumberClass::finite || parts.significand != 0 ? 1U : 0U, true};
  if (to.layout) return reference_float(*to.layout, parts, rounding);
  return reference_integer(to.bits(), to.has_sign, parts, rounding);
}

// Returns all codes of a narrow dtype, or the edge cases and random codes of a wide one.
std::vector<std::uint64_t> codes_to_try(const Kind& kind) {
  std::vector<std::uint64_t> codes;
  if (kind.bits() <= 16) {
    for (std::uint64_t code = 0; code < std::uint64_t{1} << kind.bits(); ++code) codes.push_back(code);
    return codes;
  }
  std::mt19937_64 random(static_cast<unsigned>(kind.bits()));
  const auto add_with_neighbours = [&](std::uint64_t code) {
    for (const std::uint64_t near : {code - 1, code, code + 1}) codes.push_back(near);
  };
  for (int bit = 0; bit < kind.bits(); ++bit) {
    add_with_neighbours(std::uint64_t{1} << bit);
    add_with_neighbours(~std::uint64_t{0} << bit);
    add_with_neighbours(~(std::uint64_t{1} << bit));
  }
  // The values of dtypes of at most 8 bits, and the ties between them, are values of F16 or BF16. Tries every
  // seventh value of F16 and BF16, its neighbours, and a number of slightly larger magnitude.
  for (std::uint64_t code = 0; kind.layout && code < 1U << 16; code += 7) {
    for (const double value :
         {static_cast<double>(F16::Element::from_bits(static_cast<std::uint16_t>(code))),
          static_cast<double>(BF16::Element::from_bits(static_cast<std::uint16_t>(code)))}) {
      const std::uint64_t bits = kind.bits() == 32 ? std::bit_cast<std::uint32_t>(static_cast<float>(value))
                                                   : std::bit_cast<std::uint64_t>(value);
      add_with_neighbours(bits);
      codes.push_back(bits | random() % (std::uint64_t{1} << (kind.layout->mantissa_bits - 7)));
    }
  }
  for (int i = 0; i < 20000; ++i)
    codes.push_back(random() >> (random() % static_cast<unsigned>(kind.bits())));
  for (auto& code : codes) code &= kind.mask();
  return codes;
}

std::vector<std::uint64_t> converted(const Kind& from, const Kind& to,
                                     const std::vector<std::uint64_t>& codes, const Rounding& rounding) {
  const auto stored = from.pack(codes);
  std::vector<std::byte> into((codes.size() * static_cast<std::size_t>(to.bits()) + 7) / 8);
  convert_values({from.type, to.type, rounding}, stored.data(), into.data(),
                 static_cast<std::int64_t>(codes.size()));
  return to.unpack(into, codes.size());
}

// NaN codes are compared as a class, because their payloads may differ in dtypes with several NaNs.
bool is_nan(const Kind& kind, std::uint64_t code) {
  return kind.layout && parts_of(kind, code).number_class == NumberClass::nan;
}

void expect_reference(const Kind& from, const Kind& to, const std::vector<std::uint64_t>& codes,
                      const Rounding& rounding) {
  const auto found = converted(from, to, codes, rounding);
  // Rounding has no effect on a lossless conversion.
  const Rounding effective = values::is_lossless(from.type, to.type) ? Rounding{} : rounding;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const auto expected = reference(from, to, codes[i], effective).code;
    if (is_nan(to, expected) && is_nan(to, found[i])) continue;
    ASSERT_EQ(found[i], expected) << from.type.name << " 0x" << std::hex << codes[i] << " to " << to.type.name
                                  << " by mode " << static_cast<int>(rounding.mode) << " saturate "
                                  << rounding.saturate;
  }
}

class ConvertFrom : public ::testing::TestWithParam<Kind> {
 protected:
  static void expect_reference_for_all(const Rounding& rounding) {
    const Kind& from = GetParam();
    const auto codes = codes_to_try(from);
    for (const auto& to : kinds()) {
      if (to.type.dtype != from.type.dtype) expect_reference(from, to, codes, rounding);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(DTypes, ConvertFrom, ::testing::ValuesIn(kinds()),
                         [](const auto& each) { return std::string(each.param.type.name); });

TEST_P(ConvertFrom, rounds_to_nearest_even_into_every_dtype) { expect_reference_for_all({}); }
TEST_P(ConvertFrom, rounds_toward_zero_into_every_dtype) {
  expect_reference_for_all({.mode = Rounding::Mode::toward_zero});
}
TEST_P(ConvertFrom, saturates_into_every_dtype) {
  expect_reference_for_all({.saturate = true});
  expect_reference_for_all({.mode = Rounding::Mode::toward_zero, .saturate = true});
}

// A stochastic result is one of the two neighbouring values. Exact values do not change.
template <class From, class To>
void expect_neighbours() {
  const Kind from = kind_of<From>();
  const Kind to = kind_of<To>();
  const auto codes = codes_to_try(from);
  const auto found = converted(from, to, codes, {.mode = Rounding::Mode::stochastic, .seed = 3});
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const auto below = reference(from, to, codes[i], {.mode = Rounding::Mode::toward_zero});
    if (is_nan(to, below.code)) continue;
    // Codes of floats increase with the magnitude; codes of negative integers decrease with it.
    const bool counts_down = !to.layout && parts_of(from, codes[i]).negative;
    const std::uint64_t above = (below.code + (counts_down ? ~std::uint64_t{0} : 1)) & to.mask();
    // Values beyond the largest one overflow, as in rounding to nearest.
    const auto nearest = reference(from, to, codes[i], {}).code;
    ASSERT_TRUE(found[i] == below.code || found[i] == nearest || (!below.is_exact && found[i] == above))
        << From::name << " 0x" << std::hex << codes[i] << " to " << To::name << " is " << found[i];
  }
}

TEST(ConvertValues, rounds_at_random_to_a_neighbour) {
  expect_neighbours<F32, BF16>();
  expect_neighbours<F32, F16>();
  expect_neighbours<F32, F8_E4M3>();
  expect_neighbours<F64, F32>();
  expect_neighbours<F16, F4>();
  expect_neighbours<F32, I8>();
  expect_neighbours<U64, F64>();
}

TEST(ConvertValues, rounds_at_random_without_bias) {
  const auto mean_of = [](float value, const ElementType& to, auto read) {
    constexpr int count = 1 << 16;
    const std::vector<float> values(count, value);
    std::vector<std::byte> into(static_cast<std::size_t>(count) * 4);
    convert_values({element_type_of<F32>(), to, {.mode = Rounding::Mode::stochastic, .seed = 5}},
                   reinterpret_cast<const std::byte*>(values.data()), into.data(), count);
    double sum = 0;
    for (int i = 0; i < count; ++i) sum += read(into.data(), i);
    return sum / count;
  };
  const auto read_bf16 = [](const std::byte* at, int i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, at + 2 * i, 2);
    return static_cast<double>(BF16::Element::from_bits(bits));
  };
  const auto read_i8 = [](const std::byte* at, int i) {
    return static_cast<double>(std::to_integer<std::int8_t>(at[i]));
  };
  const auto read_e4m3 = [](const std::byte* at, int i) {
    return static_cast<double>(F8_E4M3::Element::from_bits(std::to_integer<std::uint8_t>(at[i])));
  };
  // 65,536 draws: four standard deviations are less than 1/128 of a unit.
  EXPECT_NEAR(mean_of(1.0F + 0.3F / 128, element_type_of<BF16>(), read_bf16), 1.0 + 0.3 / 128,
              1.0 / 128 / 128);
  EXPECT_NEAR(mean_of(2.25F, element_type_of<I8>(), read_i8), 2.25, 1.0 / 128);
  EXPECT_NEAR(mean_of(-2.25F, element_type_of<I8>(), read_i8), -2.25, 1.0 / 128);
  // A quarter of the smallest subnormal is rounded up to it in one of four cases.
  EXPECT_NEAR(mean_of(0x1p-11F, element_type_of<F8_E4M3>(), read_e4m3), 0x1p-11, 0x1p-9 / 128);
}

TEST(ConvertValues, random_bits_depend_only_on_seed_and_index) {
  // Large enough for a conversion in three parallel pieces.
  constexpr std::int64_t count = (std::int64_t{1} << 19) + 5;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1.0F + static_cast<float>(i) * 1e-5F;
  const auto* const stored = reinterpret_cast<const std::byte*>(values.data());
  const Conversion conversion{
      element_type_of<F32>(), element_type_of<BF16>(), {Rounding::Mode::stochastic, false, 9}};
  std::vector<std::byte> whole(2 * count);
  std::vector<std::byte> parts(2 * count);
  convert_values(conversion, stored, whole.data(), count);
  for (std::int64_t at = 0; at < count;) {
    const std::int64_t in_part = std::min<std::int64_t>(at % 700 + 1, count - at);
    convert_values(conversion, stored + at * 4, parts.data() + at * 2, in_part,
                   static_cast<std::uint64_t>(at));
    at += in_part;
  }
  EXPECT_EQ(whole, parts);
  std::vector<std::byte> parallel(2 * count);
  must(values::convert_in_parallel(conversion, stored, parallel.data(), count));
  EXPECT_EQ(whole, parallel);
  std::vector<std::byte> other(2 * count);
  convert_values({conversion.from, conversion.to, {Rounding::Mode::stochastic, false, 10}}, stored,
                 other.data(), count);
  EXPECT_NE(whole, other);
}

// Runs conversions of every kind of kernel on every target of this processor.
TEST(ConvertValues, is_the_same_on_every_processor) {
  const auto all = [] {
    std::vector<std::uint64_t> results;
    const auto add = [&]<class From, class To>(From, To) {
      for (const auto mode :
           {Rounding::Mode::nearest_even, Rounding::Mode::toward_zero, Rounding::Mode::stochastic}) {
        const Kind from = kind_of<From>();
        const auto found = converted(from, kind_of<To>(), codes_to_try(from), {.mode = mode, .seed = 1});
        results.insert(results.end(), found.begin(), found.end());
      }
    };
    add(F32{}, BF16{});
    add(F32{}, F16{});
    add(F32{}, F8_E4M3{});
    add(F32{}, F8_E5M2FNUZ{});
    add(F32{}, F6_E2M3{});
    add(F64{}, F32{});
    add(F64{}, F8_E8M0{});
    add(F16{}, F64{});
    add(F8_E5M2{}, F32{});
    add(I16{}, F32{});
    add(F32{}, I16{});
    return results;
  };
  const auto expected = all();
  int targets = 0;
  testing::for_each_target([&](const char* target) {
    EXPECT_TRUE(expected == all()) << target;
    ++targets;
  });
  EXPECT_GE(targets, 1);
}

TEST(ConvertValues, parallel_conversion_equals_serial_conversion) {
  const std::int64_t count = (std::int64_t{1} << 18) * 3 + 5;
  std::vector<std::byte> stored(static_cast<std::size_t>(count) * 2 + 1);
  std::mt19937 random(4);
  for (auto& byte : stored) byte = static_cast<std::byte>(random());
  const auto expect_same = [&](const ElementType& to, std::size_t offset) {
    const Conversion conversion{element_type_of<F16>(), to, {}};
    const auto bytes = static_cast<std::size_t>(values::stored_bytes(to, count));
    std::vector<std::byte> serial(bytes);
    std::vector<std::byte> parallel(bytes + 64);
    convert_values(conversion, stored.data() + 1, serial.data(), count);
    must(values::convert_in_parallel(conversion, stored.data() + 1, parallel.data() + offset, count));
    EXPECT_EQ(std::memcmp(serial.data(), parallel.data() + offset, bytes), 0) << to.name;
  };
  for (const std::size_t offset : {0U, 1U, 16U}) {
    expect_same(element_type_of<F32>(), offset);
    expect_same(element_type_of<BF16>(), offset);
    expect_same(element_type_of<F6_E3M2>(), offset);
  }
}

TEST(ConvertValues, reports_the_supported_conversions) {
  const ElementType unknown{};
  EXPECT_TRUE(values::can_convert(element_type_of<F32>(), element_type_of<Bool>()));
  EXPECT_TRUE(values::can_convert(element_type_of<I64>(), element_type_of<C64>()));
  EXPECT_TRUE(values::can_convert(element_type_of<C64>(), element_type_of<C64>()));
  EXPECT_FALSE(values::can_convert(element_type_of<C64>(), element_type_of<F32>()));
  EXPECT_FALSE(values::can_convert(unknown, element_type_of<F32>()));
  EXPECT_TRUE(values::can_convert(element_type_of<IQ2_XS>(), element_type_of<BF16>()));
  EXPECT_TRUE(values::can_convert(element_type_of<Q4_K>(), element_type_of<Q8_0>()));
  EXPECT_FALSE(values::can_convert(element_type_of<F32>(), element_type_of<IQ2_XS>()));
  EXPECT_TRUE(values::is_lossless(element_type_of<Q4_K>(), element_type_of<F32>()));
  EXPECT_FALSE(values::is_lossless(element_type_of<Q4_K>(), element_type_of<BF16>()));
  EXPECT_FALSE(values::is_lossless(element_type_of<F32>(), element_type_of<Q8_0>()));
  EXPECT_TRUE(values::is_lossless(element_type_of<Q4_K>(), element_type_of<Q4_K>()));
}

TEST(ConvertValues, decodes_and_encodes_blocks) {
  std::vector<float> values(512);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  std::vector<std::byte> blocks(544);
  convert_values({element_type_of<F32>(), element_type_of<Q8_0>(), {}},
                 reinterpret_cast<const std::byte*>(values.data()), blocks.data(), 512);
  std::vector<double> doubles(512);
  convert_values({element_type_of<Q8_0>(), element_type_of<F64>(), {}}, blocks.data(),
                 reinterpret_cast<std::byte*>(doubles.data()), 512);
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(doubles[i], static_cast<double>(values[i]), 0.005);
}

}  // namespace
}  // namespace ht::convert_values_test
