#include <gtest/gtest.h>

#include <algorithm>
#include <htensor/base/bytes.hpp>
#include <limits>
#include <vector>

namespace ht::bytes_test {
namespace {

// Values whose bytes all differ, which reveals a byte in the wrong place, and the limits of the type.
template <class T>
std::vector<T> samples() {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_floating_point_v<T>) {
    return {T{0}, -T{0}, T(1.2345678901234567), T(-3.0e-20), Limits::max(), Limits::denorm_min()};
  } else {
    return {T{0}, T{1}, static_cast<T>(0xF1E2D3C4B5A69788), Limits::min(), Limits::max()};
  }
}

// The oracle of loads and stores: computes the bytes of a number by shifts, the least significant byte first.
template <class T>
std::vector<std::byte> little_endian_bytes(T value) {
  std::uint64_t bits = 0;
  if constexpr (std::same_as<T, float>) {
    bits = std::bit_cast<std::uint32_t>(value);
  } else if constexpr (std::same_as<T, double>) {
    bits = std::bit_cast<std::uint64_t>(value);
  } else {
    bits = static_cast<std::uint64_t>(value);
  }
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes.push_back(static_cast<std::byte>(bits >> (8 * i)));
  return bytes;
}

template <class T>
class BytesOf : public ::testing::Test {};
using WireNumbers = ::testing::Types<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t,
                                     std::uint32_t, std::int64_t, std::uint64_t, float, double>;
TYPED_TEST_SUITE(BytesOf, WireNumbers);

TYPED_TEST(BytesOf, a_number_is_loaded_from_any_address_in_either_byte_order) {
  for (const TypeParam value : samples<TypeParam>()) {
    const auto little = little_endian_bytes(value);
    for (std::size_t at = 0; at < 16; ++at) {
      // A heap buffer of the exact size, so that AddressSanitizer detects a read past its end.
      std::vector<std::byte> buffer(at);
      buffer.insert(buffer.end(), little.begin(), little.end());
      EXPECT_EQ(little_endian_bytes(load_le<TypeParam>(Bytes(buffer).subspan(at))), little) << at;
      std::reverse(buffer.begin() + static_cast<std::ptrdiff_t>(at), buffer.end());
      EXPECT_EQ(little_endian_bytes(load_be<TypeParam>(Bytes(buffer).subspan(at))), little) << at;
    }
  }
}

TYPED_TEST(BytesOf, a_store_changes_only_its_own_bytes) {
  constexpr auto untouched = std::byte{0x5A};
  for (const TypeParam value : samples<TypeParam>()) {
    for (std::size_t at = 0; at < 16; ++at) {
      auto expected = std::vector<std::byte>(at, untouched);
      const auto little = little_endian_bytes(value);
      expected.insert(expected.end(), little.begin(), little.end());
      expected.resize(32, untouched);
      std::vector<std::byte> buffer(32, untouched);
      store_le(MutableBytes(buffer).subspan(at), value);
      EXPECT_EQ(buffer, expected) << at;

      const auto first = expected.begin() + static_cast<std::ptrdiff_t>(at);
      std::reverse(first, first + static_cast<std::ptrdiff_t>(sizeof(TypeParam)));
      store_be(MutableBytes(buffer).subspan(at), value);
      EXPECT_EQ(buffer, expected) << at;
    }
  }
}

TEST(Bytes, byte_order_is_as_named) {
  const auto bytes = bytes_of("\x01\x02\x03\x04\x05\x06\x07\x08");
  EXPECT_EQ(load_le<std::uint16_t>(bytes), 0x0201);
  EXPECT_EQ(load_be<std::uint16_t>(bytes), 0x0102);
  EXPECT_EQ(load_le<std::uint32_t>(bytes), 0x04030201U);
  EXPECT_EQ(load_be<std::uint32_t>(bytes), 0x01020304U);
  EXPECT_EQ(load_le<std::uint64_t>(bytes), 0x0807060504030201U);
  EXPECT_EQ(load_be<std::uint64_t>(bytes), 0x0102030405060708U);
  EXPECT_EQ((load<std::uint16_t, std::endian::little>(bytes)), 0x0201);
  EXPECT_EQ((load<std::uint16_t, std::endian::big>(bytes)), 0x0102);
}

TEST(Bytes, bytes_of_a_text_refer_to_the_text) {
  constexpr std::string_view text("a\0\xFF", 3);
  const Bytes bytes = bytes_of(text);
  ASSERT_EQ(bytes.size(), 3U);
  EXPECT_EQ(static_cast<const void*>(bytes.data()), static_cast<const void*>(text.data()));
  EXPECT_EQ(bytes[1], std::byte{0});
  EXPECT_EQ(bytes[2], std::byte{0xFF});
  EXPECT_TRUE(bytes_of("").empty());
}

TEST(Bytes, a_part_is_returned_if_it_is_in_range) {
  const std::vector<std::byte> buffer(10);
  for (std::uint64_t offset = 0; offset <= 12; ++offset) {
    for (std::uint64_t count = 0; count <= 12; ++count) {
      const auto found = part(buffer, offset, count);
      ASSERT_EQ(found.has_value(), offset + count <= 10) << offset << " + " << count;
      if (found) {
        EXPECT_EQ(found->data(), buffer.data() + offset);
        EXPECT_EQ(found->size(), count);
      }
    }
  }
}

TEST(Bytes, a_part_whose_end_overflows_is_nullopt) {
  const std::vector<std::byte> buffer(10);
  constexpr std::uint64_t max = std::numeric_limits<std::uint64_t>::max();
  EXPECT_FALSE(part(buffer, max, 1));
  EXPECT_FALSE(part(buffer, 1, max));
  EXPECT_FALSE(part(buffer, max, max));
  EXPECT_FALSE(part(buffer, 5, max - 4));
  EXPECT_FALSE(part(buffer, max - 4, 5));
}

TEST(Bytes, an_empty_span_has_only_the_empty_part) {
  EXPECT_TRUE(part(Bytes(), 0, 0).has_value());
  EXPECT_FALSE(part(Bytes(), 0, 1).has_value());
  EXPECT_FALSE(part(Bytes(), 1, 0).has_value());
}

TEST(Bytes, only_numbers_of_up_to_eight_bytes_are_supported) {
  EXPECT_TRUE(WireNumber<std::uint8_t>);
  EXPECT_TRUE(WireNumber<double>);
  EXPECT_FALSE(WireNumber<bool>);
  EXPECT_FALSE(WireNumber<std::byte>);
  EXPECT_EQ(WireNumber<long double>, sizeof(long double) <= 8);
}

}  // namespace
}  // namespace ht::bytes_test
