#include <htensor/tensor/tensor.hpp>

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <type_traits>
#include <vector>

#include "tensor/test_tools.hpp"

namespace ht::tensor_dtypes_test {
namespace {

using tests::code_of;
using tests::element_of;
using tests::fails;
using tests::must;
using tests::nth_code;

template <class D>
class EveryDType : public ::testing::Test {};

template <class List>
struct TypesOf;
template <class... Ds>
struct TypesOf<DTypeList<Ds...>> {
  using type = ::testing::Types<Ds...>;
};

// Names each test after the dtype instead of its number in the list.
struct DTypeName {
  template <class D>
  static std::string GetName(int) {
    return std::string(D::name);
  }
};

TYPED_TEST_SUITE(EveryDType, typename TypesOf<AllDTypes>::type, DTypeName);

TYPED_TEST(EveryDType, is_created_filled_and_read) {
  using D = TypeParam;
  const auto tensor = must(Tensor<D, Rank<2>>::zeros(Rank<2>(3, 5)));
  for (const auto& element : tensor) {
    EXPECT_EQ(code_of(static_cast<typename D::Element>(element)), 0U);
  }
  for (int i = 0; i < 15; ++i) tensor(i / 5, i % 5) = element_of<D>(nth_code(i));
  const Tensor<const D, Rank<2>> seen = tensor;
  for (int i = 0; i < 15; ++i) {
    const auto expected = code_of(element_of<D>(nth_code(i)));
    EXPECT_EQ(code_of(static_cast<typename D::Element>(tensor(i / 5, i % 5))), expected);
    EXPECT_EQ(code_of(static_cast<typename D::Element>(seen(i / 5, i % 5))), expected);
    EXPECT_EQ(code_of(must(seen.at(i / 5, i % 5))), expected);
  }
}

TYPED_TEST(EveryDType, needs_the_bytes_of_its_width) {
  using D = TypeParam;
  const auto tensor = must(Tensor<D, Shape<3>>::zeros());
  EXPECT_EQ(must(tensor.bytes()).size(), static_cast<std::size_t>((3 * D::bits + 7) / 8));
}

TYPED_TEST(EveryDType, is_copied_in_order_from_any_view) {
  using D = TypeParam;
  std::vector<typename D::Element> values;
  for (int i = 0; i < 15; ++i) values.push_back(element_of<D>(nth_code(i)));
  const auto tensor = must(Tensor<D, Rank<2>>::of(Rank<2>(3, 5), values));
  const auto copy = must(must(tensor.template slice<1>(4, -1, -2)).transpose().copy());
  ASSERT_EQ(copy.shape(), Rank<2>(3, 3));
  ASSERT_TRUE(copy.is_contiguous());
  for (int row = 0; row < 3; ++row) {
    for (int column = 0; column < 3; ++column) {
      EXPECT_EQ(code_of(must(copy.at(column, row))), code_of(must(tensor.at(row, 4 - 2 * column))));
    }
  }
}

template <class D>
Tensor<D, Rank<1>> counting(int elements) {
  std::vector<typename D::Element> values;
  for (int i = 0; i < elements; ++i) values.push_back(element_of<D>(static_cast<std::uint64_t>(i)));
  return must(Tensor<D, Rank<1>>::of(Rank<1>(elements), values));
}

TEST(PackedTensor, packs_from_the_lowest_bit_of_the_first_byte) {
  const auto three_nibbles = counting<U4>(3);
  const auto nibbles = must(three_nibbles.bytes());
  EXPECT_EQ(nibbles[0], std::byte{0x10});
  EXPECT_EQ(nibbles[1], std::byte{0x02});
  // Elements 0, 1, 2 of 6 bits: 000000, 000001, 000010 from the lowest bit up.
  const auto three_sixes = counting<F6_E2M3>(3);
  const auto six_bit_bytes = must(three_sixes.bytes());
  EXPECT_EQ(six_bit_bytes[0], std::byte{0x40});
  EXPECT_EQ(six_bit_bytes[1], std::byte{0x20});
  EXPECT_EQ(six_bit_bytes[2], std::byte{0x00});
}

template <class D>
void expect_slice_from_within_a_byte() {
  const auto tensor = counting<D>(13);
  const auto part = must(tensor.template slice<0>(3, 10));
  EXPECT_TRUE(part.is_contiguous());
  for (int i = 0; i < 7; ++i) EXPECT_EQ(must(part.at(i)).bits(), i + 3);
  // The slice does not start on a byte boundary, so `bytes` fails. Its copy starts on one.
  EXPECT_TRUE(fails(part.bytes(), ErrorCode::bad_state, "elements_are_contiguous"));
  const auto copy = must(part.copy());
  EXPECT_EQ(must(copy.bytes()).size(), static_cast<std::size_t>((7 * D::bits + 7) / 8));
  // Writes do not change the neighbours that share bytes with the slice.
  for (auto&& element : part) element = element_of<D>(15);
  EXPECT_EQ(must(tensor.at(2)).bits(), 2);
  EXPECT_EQ(must(tensor.at(3)).bits(), 15);
  EXPECT_EQ(must(tensor.at(9)).bits(), 15);
  EXPECT_EQ(must(tensor.at(10)).bits(), 10);
}

TEST(PackedTensor, slices_from_within_a_byte) {
  expect_slice_from_within_a_byte<F4>();
  expect_slice_from_within_a_byte<I4>();
  expect_slice_from_within_a_byte<F6_E2M3>();
  expect_slice_from_within_a_byte<F6_E3M2>();
}

TEST(PackedTensor, has_bytes_if_a_slice_starts_on_a_byte_boundary) {
  const auto tensor = counting<U4>(8);
  const auto part = must(tensor.slice<0>(2, 8));
  EXPECT_EQ(must(part.bytes()).data(), must(tensor.bytes()).data() + 1);
}

template <class D>
void expect_transposed() {
  const auto matrix = must(counting<D>(15).reshape(Rank<2>(3, 5)));
  const auto transposed = matrix.transpose();
  for (int i = 0; i < 15; ++i) EXPECT_EQ(must(transposed.at(i % 5, i / 5)).bits(), i);
  const auto dense = must(transposed.contiguous());
  EXPECT_FALSE(dense.storage() == matrix.storage());
  EXPECT_EQ(must(dense.at(1, 0)).bits(), 1);
  EXPECT_EQ(must(dense.reshape(Rank<1>(15)))(1), element_of<D>(5));
}

TEST(PackedTensor, transposes_elements_that_share_bytes) {
  expect_transposed<F4>();
  expect_transposed<I4>();
  expect_transposed<F6_E2M3>();
}

TEST(PackedTensor, steps_back_with_a_negative_stride) {
  const auto storage = counting<U4>(8).storage();
  const auto backwards = must(Tensor<const U4, Rank<1>>::strided(storage, Rank<1>(5), {-1}, 2));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(must(backwards.at(i)).bits(), 4 - i);
}

TEST(PackedTensor, assigns_elements_to_each_other) {
  const auto tensor = counting<I4>(4);
  tensor(0) = tensor(3);
  EXPECT_EQ(must(tensor.at(0)).bits(), 3);
  // Assignment through a reference changes the element in the tensor.
  const auto last = tensor(3);
  last = I4::Element(-1);
  EXPECT_EQ(static_cast<int>(tensor(3)), -1);
}

TEST(PackedTensor, compares_elements_with_each_other) {
  constexpr bool compares = []<class T>(std::type_identity<T>) {
    return requires(T tensor) { tensor(0) == tensor(1); };
  }(std::type_identity<Tensor<I4, Rank<1>>>{});
  EXPECT_TRUE(compares) << "the comparison is not found for references";
}

TEST(PackedTensor, reads_only_by_value_when_it_is_read_only) {
  EXPECT_TRUE((std::same_as<decltype(std::declval<Tensor<const I4, Rank<1>>>()(0)), I4::Element>));
}

}  // namespace
}  // namespace ht::tensor_dtypes_test
