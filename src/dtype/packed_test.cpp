#include <gtest/gtest.h>

#include <htensor/dtype/packed.hpp>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace ht::packed_test {
namespace {

// Memory as single bits, least significant bit of the first byte first: the oracle of packed loads and
// stores.
using Bits = std::vector<bool>;

Bits bits_of(const std::byte* bytes, std::size_t count) {
  Bits bits;
  for (std::size_t i = 0; i < 8 * count; ++i) {
    bits.push_back(((std::to_integer<unsigned>(bytes[i / 8]) >> (i % 8)) & 1) != 0);
  }
  return bits;
}

unsigned read(const Bits& bits, std::size_t element, std::size_t width) {
  unsigned value = 0;
  for (std::size_t i = 0; i < width; ++i) value |= (bits[element * width + i] ? 1U : 0U) << i;
  return value;
}

void write(Bits& bits, std::size_t element, std::size_t width, unsigned value) {
  for (std::size_t i = 0; i < width; ++i) bits[element * width + i] = ((value >> i) & 1) != 0;
}

// A heap buffer of the exact size, so that AddressSanitizer detects an access past its end.
struct Buffer {
  explicit Buffer(std::size_t elements, int bits)
      : size(static_cast<std::size_t>(*bytes_for(elements, bits))), bytes(new std::byte[size]) {
    std::uint64_t state = 0x2545'F491'4F6C'DD1D;
    for (std::size_t i = 0; i < size; ++i) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      bytes[i] = static_cast<std::byte>(state >> 56);
    }
  }
  std::size_t size;
  std::unique_ptr<std::byte[]> bytes;
};

template <class D>
class Packed : public ::testing::Test {
 public:
  static constexpr std::size_t width = D::bits;
  static typename D::Element element(unsigned code) {
    return D::Element::from_bits(static_cast<std::uint8_t>(code));
  }
};
using PackedDTypes = ::testing::Types<I4, U4, F4, F6_E2M3, F6_E3M2>;
struct Names {
  template <class D>
  static std::string GetName(int) {
    return std::string(D::name);
  }
};
TYPED_TEST_SUITE(Packed, PackedDTypes, Names);

TYPED_TEST(Packed, loads_the_bits_at_every_start) {
  using Fixture = Packed<TypeParam>;
  for (std::size_t elements = 1; elements <= 17; ++elements) {
    const Buffer buffer(elements, TypeParam::bits);
    const Bits model = bits_of(buffer.bytes.get(), buffer.size);
    for (std::size_t start = 0; start < elements; ++start) {
      const detail::PackedPointer<const TypeParam> pointer(buffer.bytes.get(),
                                                           static_cast<std::int64_t>(start));
      for (std::size_t i = 0; start + i < elements; ++i) {
        ASSERT_EQ(pointer[static_cast<std::int64_t>(i)].bits(), read(model, start + i, Fixture::width))
            << start << " + " << i << " of " << elements;
      }
    }
  }
}

TYPED_TEST(Packed, stores_only_into_its_own_bits) {
  using Fixture = Packed<TypeParam>;
  constexpr std::size_t elements = 11;
  for (std::size_t i = 0; i < elements; ++i) {
    for (unsigned code = 0; code < (1U << Fixture::width); ++code) {
      const Buffer buffer(elements, TypeParam::bits);
      Bits model = bits_of(buffer.bytes.get(), buffer.size);
      write(model, i, Fixture::width, code);
      const detail::PackedPointer<TypeParam> pointer(buffer.bytes.get());
      pointer[static_cast<std::int64_t>(i)] = Fixture::element(code);
      // The model includes the padding bits after the last element.
      ASSERT_EQ(bits_of(buffer.bytes.get(), buffer.size), model) << i << " = " << code;
    }
  }
}

TYPED_TEST(Packed, stored_values_are_loaded_back) {
  using Fixture = Packed<TypeParam>;
  constexpr std::int64_t elements = 1 << Fixture::width;
  const Buffer buffer(elements, TypeParam::bits);
  const detail::PackedPointer<TypeParam> pointer(buffer.bytes.get());
  // Stores in descending order, so that a store beyond its own bits damages an element stored before.
  for (std::int64_t i = elements - 1; i >= 0; --i) pointer[i] = Fixture::element(static_cast<unsigned>(i));
  const detail::PackedPointer<const TypeParam> read_only = pointer;
  for (std::int64_t i = 0; i < elements; ++i) ASSERT_EQ(read_only[i].bits(), static_cast<unsigned>(i));
}

TYPED_TEST(Packed, a_reference_reads_and_assigns_the_element) {
  using Fixture = Packed<TypeParam>;
  using Element = typename TypeParam::Element;
  const Buffer buffer(8, TypeParam::bits);
  const detail::PackedPointer<TypeParam> pointer(buffer.bytes.get());
  pointer[1] = Fixture::element(1);
  pointer[2] = Fixture::element(5);
  pointer[1] = pointer[2];
  const Element read_back = pointer[1];
  EXPECT_EQ(read_back.bits(), 5U);
  EXPECT_EQ(static_cast<float>(pointer[2]), static_cast<float>(Fixture::element(5)));
  auto reference = pointer[3];
  reference = Fixture::element(2);
  reference = pointer[2];
  EXPECT_EQ(static_cast<Element>(pointer[3]).bits(), 5U);
  *pointer = Fixture::element(3);
  EXPECT_EQ(static_cast<Element>(*pointer).bits(), 3U);
  EXPECT_EQ(static_cast<Element>(pointer[1]).bits(), 5U);
}

TYPED_TEST(Packed, pointers_count_in_elements) {
  const Buffer buffer(24, TypeParam::bits);
  const detail::PackedPointer<const TypeParam> start(buffer.bytes.get());
  const Bits model = bits_of(buffer.bytes.get(), buffer.size);
  for (std::int64_t i = 0; i < 24; ++i) {
    const auto pointer = start + i;
    EXPECT_EQ((*pointer).bits(), read(model, static_cast<std::size_t>(i), Packed<TypeParam>::width));
    EXPECT_EQ(pointer, (detail::PackedPointer<const TypeParam>(buffer.bytes.get(), i)));
    EXPECT_EQ(pointer == start, i == 0);
    // Offsets may be negative if they lead to an existing element.
    EXPECT_EQ(pointer + -i, start);
    EXPECT_EQ(pointer[-i].bits(), start[0].bits());
    const std::int64_t bit = i * TypeParam::bits;
    EXPECT_EQ(pointer.address(), bit % 8 == 0 ? buffer.bytes.get() + bit / 8 : nullptr) << i;
  }
}

TYPED_TEST(Packed, a_default_pointer_is_null) {
  const detail::PackedPointer<TypeParam> nowhere;
  EXPECT_EQ(nowhere.address(), nullptr);
  EXPECT_EQ((nowhere + 8).address(), nullptr);
  EXPECT_EQ(nowhere, detail::PackedPointer<TypeParam>(nullptr));
}

TYPED_TEST(Packed, is_constexpr) {
  constexpr unsigned found = [] {
    std::byte bytes[8]{};
    const detail::PackedPointer<TypeParam> pointer(bytes);
    pointer[5] = TypeParam::Element::from_bits(9);
    return unsigned{static_cast<typename TypeParam::Element>(pointer[5]).bits()};
  }();
  EXPECT_EQ(found, 9U);
}

TEST(ElementPointer, is_plain_for_whole_bytes_and_packed_for_sub_byte_dtypes) {
  EXPECT_TRUE((std::same_as<ElementPointer<F32>, float*>));
  EXPECT_TRUE((std::same_as<ElementPointer<const F32>, const float*>));
  EXPECT_TRUE((std::same_as<ElementPointer<const BF16>, const SmallFloat<BF16>*>));
  EXPECT_TRUE((std::same_as<ElementPointer<F8_E8M0>, SmallFloat<F8_E8M0>*>));
  EXPECT_TRUE((std::same_as<ElementPointer<F4>, detail::PackedPointer<F4>>));
  EXPECT_TRUE((std::same_as<ElementPointer<const I4>, detail::PackedPointer<const I4>>));
}

TEST(ElementPointer, converts_from_mutable_to_const_only) {
  EXPECT_TRUE((std::is_convertible_v<detail::PackedPointer<F4>, detail::PackedPointer<const F4>>));
  EXPECT_FALSE((std::is_constructible_v<detail::PackedPointer<F4>, detail::PackedPointer<const F4>>));
  EXPECT_FALSE((std::is_constructible_v<detail::PackedPointer<F4>, const std::byte*>));
}

TEST(BytesFor, is_the_bits_rounded_up) {
  for (const int bits : {4, 6, 8, 16, 32, 64}) {
    for (std::uint64_t elements = 0; elements <= 100; ++elements) {
      const std::uint64_t expected = (elements * static_cast<std::uint64_t>(bits) + 7) / 8;
      ASSERT_EQ(bytes_for(elements, bits), expected) << elements << " of " << bits;
    }
  }
}

TEST(BytesFor, counts_up_to_the_maximum) {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  constexpr auto two_to = [](int n) { return std::uint64_t{1} << n; };
  // The bytes of 2^64 - 1 elements of up to 8 bits fit 64 bits, although the number of bits does not.
  EXPECT_EQ(bytes_for(most, 4), two_to(63));
  EXPECT_EQ(bytes_for(most, 6), two_to(63) + two_to(62));
  EXPECT_EQ(bytes_for(most, 8), most);
  EXPECT_EQ(bytes_for(two_to(61), 8), two_to(61));
  EXPECT_EQ(bytes_for(two_to(61) - 1, 64), most - 7);
  EXPECT_EQ(bytes_for(two_to(61), 64), std::nullopt);
  EXPECT_EQ(bytes_for(two_to(61) + 1, 64), std::nullopt);
  EXPECT_EQ(bytes_for(two_to(62) - 1, 32), most - 3);
  EXPECT_EQ(bytes_for(two_to(62), 32), std::nullopt);
  EXPECT_EQ(bytes_for(two_to(63) - 1, 16), most - 1);
  EXPECT_EQ(bytes_for(two_to(63), 16), std::nullopt);
  for (const int bits : {16, 32, 64}) EXPECT_EQ(bytes_for(most, bits), std::nullopt) << bits;
}

TEST(PackedPlace, does_not_overflow_at_the_last_index) {
  constexpr std::int64_t last = std::numeric_limits<std::int64_t>::max();
  // The index is 7 modulo 8, so the element is the last in its group of eight.
  EXPECT_EQ(detail::packed_place<F4>(last).byte, (std::uint64_t{1} << 62) - 1);
  EXPECT_EQ(detail::packed_place<F4>(last).shift, 4U);
  EXPECT_EQ(detail::packed_place<F6_E2M3>(last).byte, ((std::uint64_t{1} << 60) - 1) * 6 + 5);
  EXPECT_EQ(detail::packed_place<F6_E2M3>(last).shift, 2U);
}

}  // namespace
}  // namespace ht::packed_test
