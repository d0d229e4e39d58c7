#include <htensor/values/cast.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <limits>
#include <type_traits>
#include <vector>

#include "tensor/test_tools.hpp"

namespace ht::cast_test {
namespace {

using tests::element_of;
using tests::fails;
using tests::must;

// Returns an element as a double, which represents the values of all narrow dtypes exactly.
template <class Element>
double number_of(const Element& element) {
  if constexpr (std::same_as<Element, std::complex<float>>) {
    EXPECT_EQ(element.imag(), 0.0F);
    return static_cast<double>(element.real());
  } else {
    return static_cast<double>(element);
  }
}

template <class D>
Tensor<D, Rank<1>> every_code() {
  std::vector<typename D::Element> values;
  for (unsigned code = 0; code < 1U << D::bits; ++code) values.push_back(element_of<D>(code));
  return must(Tensor<D, Rank<1>>::of(Rank<1>(values.size()), values));
}

void expect_same_number(double expected, double actual, std::string_view from, std::string_view to) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(actual)) << from << " to " << to;
  } else {
    EXPECT_EQ(actual, expected) << from << " to " << to;
    EXPECT_EQ(std::signbit(actual), std::signbit(expected)) << from << " to " << to;
  }
}

template <class From, class To>
void expect_exact_where_lossless() {
  if constexpr (LosslessTo<From, To>) {
    const auto source = every_code<From>();
    const auto eager = must(cast<To>(source));
    const auto lazy = as<To>(source);
    ASSERT_EQ(eager.shape(), source.shape());
    for (std::int64_t i = 0; i < source.elements(); ++i) {
      const auto expected = number_of(static_cast<typename From::Element>(source(i)));
      expect_same_number(expected, number_of(static_cast<typename To::Element>(eager(i))), From::name,
                         To::name);
      expect_same_number(expected, number_of(lazy(i)), From::name, To::name);
    }
  }
}

template <class From, class... To>
void expect_exact_to_all(DTypeList<To...>) {
  (expect_exact_where_lossless<From, To>(), ...);
}

template <class D>
class CastOfEveryCode : public ::testing::Test {};
using NarrowDTypes = ::testing::Types<Bool, U4, I4, F4, F6_E2M3, F6_E3M2, U8, I8, F8_E4M3, F8_E5M2,
                                      F8_E4M3FNUZ, F8_E5M2FNUZ, F8_E8M0>;
TYPED_TEST_SUITE(CastOfEveryCode, NarrowDTypes);

TYPED_TEST(CastOfEveryCode, is_exact_where_lossless) { expect_exact_to_all<TypeParam>(AllDTypes{}); }

TEST(Cast, keeps_every_value_of_bf16_and_f16_in_f32) {
  const auto brain = every_code<BF16>();
  const auto from_brain = must(cast<F32>(brain));
  const auto half = every_code<F16>();
  const auto from_half = must(upcast<F32>(half));
  for (int i = 0; i < 1 << 16; ++i) {
    expect_same_number(number_of(brain(i)), number_of(from_brain(i)), "BF16", "F32");
    expect_same_number(number_of(half(i)), number_of(from_half(i)), "F16", "F32");
  }
}

TEST(Cast, keeps_the_edges_of_wide_dtypes) {
  const auto ints = must(Tensor<I32, Rank<1>>::of(
      Rank<1>(2), {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()}));
  EXPECT_EQ(must(cast<F64>(ints))(0), -2147483648.0);
  EXPECT_EQ(must(cast<F64>(ints))(1), 2147483647.0);
  EXPECT_EQ(must(upcast<I64>(ints))(0), -2147483648);
  const auto counts = must(Tensor<U32, Rank<1>>::of(Rank<1>(1), {4294967295U}));
  EXPECT_EQ(must(cast<I64>(counts))(0), 4294967295);
  const auto floats = must(Tensor<F32, Rank<1>>::of(
      Rank<1>(2), {std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::infinity()}));
  EXPECT_EQ(must(upcast<F64>(floats))(0), static_cast<double>(std::numeric_limits<float>::denorm_min()));
  EXPECT_EQ(must(upcast<F64>(floats))(1), std::numeric_limits<double>::infinity());
}

TEST(Cast, converts_real_to_complex_with_zero_imaginary_part) {
  const auto tensor = must(Tensor<BF16, Rank<1>>::of(Rank<1>(2), {BF16::Element(1.5F), BF16::Element(-2)}));
  const auto complex = must(cast<C64>(tensor));
  EXPECT_EQ(complex(0), std::complex<float>(1.5F, 0.0F));
  EXPECT_EQ(complex(1), std::complex<float>(-2.0F, 0.0F));
  const auto floats = must(Tensor<F32, Rank<1>>::of(Rank<1>(1), {0.1F}));
  EXPECT_EQ(as<C64>(floats)(0), std::complex<float>(0.1F, 0.0F));
}

TEST(Cast, converts_every_true_byte_to_one) {
  const auto tensor = must(Tensor<Bool, Rank<1>>::of(Rank<1>(3), {false, true, Boolean::from_bits(0x80)}));
  const auto floats = must(cast<F32>(tensor));
  EXPECT_EQ(floats(0), 0.0F);
  EXPECT_EQ(floats(1), 1.0F);
  EXPECT_EQ(floats(2), 1.0F);
  EXPECT_EQ(must(cast<I4>(tensor))(2), I4::Element(1));
}

TEST(Cast, copies_to_the_same_dtype) {
  const auto tensor =
      must(Tensor<I4, Rank<1>>::of(Rank<1>(3), {I4::Element(-8), I4::Element(7), I4::Element(1)}));
  const auto same = must(upcast<I4>(tensor));
  EXPECT_FALSE(same.storage() == tensor.storage());
  EXPECT_EQ(static_cast<int>(same(0)), -8);
  EXPECT_EQ(static_cast<int>(must(cast<I4>(tensor))(1)), 7);
}

TEST(Cast, reads_through_strides_and_from_within_a_byte) {
  std::vector<U4::Element> values;
  for (int i = 0; i < 15; ++i) values.emplace_back(i);
  const auto tensor = must(Tensor<U4, Rank<2>>::of(Rank<2>(3, 5), values));
  const auto view = must(tensor.slice<1>(3, -1, -2)).transpose();
  const auto wide = must(cast<F32>(view));
  EXPECT_TRUE(wide.is_contiguous());
  EXPECT_EQ(wide.shape(), Rank<2>(2, 3));
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) {
      EXPECT_EQ(wide(i, j), static_cast<float>(5 * j + 3 - 2 * i));
      EXPECT_EQ(as<F32>(view)(i, j), wide(i, j));
    }
  }
}

TEST(Cast, views_can_be_iterated) {
  const auto tensor = must(Tensor<I8, Rank<2>>::of(Rank<2>(2, 3), {1, 2, 3, 4, 5, 6}));
  const auto view = as<F32>(tensor.transpose());
  static_assert(std::ranges::forward_range<decltype(view)>);
  EXPECT_TRUE(std::ranges::equal(view, std::vector<float>{1, 4, 2, 5, 3, 6}));
  float sum = 0;
  for (const float element : view) sum += element;
  EXPECT_EQ(sum, 21);
}

TEST(Cast, accepts_read_only_tensors_and_returns_mutable_ones) {
  const Tensor<const F16, Shape<2>> read_only =
      must(Tensor<F16, Shape<2>>::of({}, {F16::Element(1.0F), F16::Element(2.0F)}));
  EXPECT_TRUE((std::same_as<decltype(must(cast<F64>(read_only))), Tensor<F64, Shape<2>>>));
  EXPECT_TRUE((std::same_as<decltype(must(upcast<F32>(read_only))), Tensor<F32, Shape<2>>>));
  EXPECT_EQ(must(cast<F64>(read_only))(1), 2.0);
  EXPECT_EQ(as<F64>(read_only)(1), 2.0);
}

TEST(Cast, handles_rank_0_and_empty_tensors) {
  EXPECT_EQ(must(cast<F32>(must(Tensor<I8, Rank<0>>::of({}, {-5}))))(), -5.0F);
  EXPECT_EQ(as<F32>(must(Tensor<I8, Rank<0>>::of({}, {-5})))(), -5.0F);
  EXPECT_EQ(must(cast<F32>(must(Tensor<I8, Rank<2>>::zeros(Rank<2>(3, 0))))).shape(), Rank<2>(3, 0));
}

TEST(AsView, reads_later_writes) {
  const auto tensor = must(Tensor<BF16, Rank<1>>::zeros(Rank<1>(2)));
  const auto view = as<F32>(tensor);
  EXPECT_EQ(view(1), 0.0F);
  tensor(1) = BF16::Element(2.5F);
  EXPECT_EQ(view(1), 2.5F);
  EXPECT_EQ(view.stored().storage(), tensor.storage());
}

TEST(AsView, keeps_the_bytes_alive) {
  const auto view = [] { return as<F32>(must(Tensor<U8, Rank<1>>::of(Rank<1>(2), {7, 255}))); }();
  EXPECT_EQ(view(1), 255.0F);
  EXPECT_EQ(view.elements(), 2);
  EXPECT_EQ(view.shape(), Rank<1>(2));
}

TEST(AsView, checks_its_indices) {
  const auto view = as<F32>(must(Tensor<U8, Rank<2>>::zeros(Rank<2>(2, 3))));
  EXPECT_EQ(must(view.at(1, 2)), 0.0F);
  EXPECT_TRUE(fails(view.at(2, 0), ErrorCode::out_of_bounds, "index_is_within_bounds"));
  EXPECT_TRUE(fails(view.at(0, 3), ErrorCode::out_of_bounds, "index_is_within_bounds"));
  EXPECT_TRUE(fails(view.at(0, std::numeric_limits<std::uint64_t>::max()), ErrorCode::out_of_bounds,
                    "index_is_within_bounds"));
}

TEST(AsView, copy_materializes_the_values) {
  const auto tensor = must(Tensor<U8, Rank<2>>::of(Rank<2>(2, 2), {1, 2, 3, 4}));
  const auto copy = must(as<F16>(tensor.transpose()).copy());
  tensor(1, 0) = 9;
  EXPECT_EQ(static_cast<float>(copy(0, 1)), 3.0F);
}

// Whether a call compiles. The folder compile_fail tests the messages of compilers.
template <class To, class From>
concept HasUpcast = requires(const Tensor<From, Rank<1>>& tensor) { upcast<To>(tensor); };
template <class To, class From>
concept HasCast = requires(const Tensor<From, Rank<1>>& tensor) { cast<To>(tensor); };
template <class To, class From>
concept HasLazyCast = requires(const Tensor<From, Rank<1>>& tensor) { as<To>(tensor); };

TEST(Cast, is_available_exactly_if_lossless) {
  static_assert(HasUpcast<F32, F16> && HasUpcast<I64, const I8> && HasUpcast<F64, F64>);
  static_assert(!HasUpcast<F32, BF16> && !HasUpcast<F32, F64> && !HasUpcast<I16, U8>);
  static_assert(HasCast<F32, BF16> && HasCast<I16, U8> && HasCast<F16, const U8> && HasCast<F64, I32>);
  static_assert(!HasCast<F64, I64> && !HasCast<F16, BF16> && !HasCast<U8, I8> && !HasCast<F32, I32>);
  static_assert(HasLazyCast<F32, const BF16> && !HasLazyCast<F8_E4M3FNUZ, F8_E4M3>);
  EXPECT_FALSE((HasCast<F32, C64>));
}

}  // namespace
}  // namespace ht::cast_test
