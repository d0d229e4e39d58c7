#include <htensor/compute/elementwise.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <string_view>
#include <vector>

#include "tensor/test_random.hpp"
#include "tensor/test_tools.hpp"

namespace ht::elementwise_test {
namespace {

using tests::between;
using tests::element_of;
using tests::fails;
using tests::must;

template <class D>
using Vector = Tensor<D, Rank<1>>;
template <class D>
using Elements = std::vector<typename D::Element>;

template <class D>
Vector<D> vector_of(const Elements<D>& values) {
  return must(Vector<D>::of(Rank<1>(values.size()), values));
}

// Returns all pairs of two elements of the list.
template <class D>
std::pair<Vector<D>, Vector<D>> all_pairs(const Elements<D>& values) {
  Elements<D> a;
  Elements<D> b;
  for (const auto x : values) {
    for (const auto y : values) {
      a.push_back(x);
      b.push_back(y);
    }
  }
  return {vector_of<D>(a), vector_of<D>(b)};
}

template <class D>
Elements<D> every_code() {
  Elements<D> values;
  for (unsigned code = 0; code < 1U << D::bits; ++code) values.push_back(element_of<D>(code));
  return values;
}

// Zeros, the limits between subnormal, normal, infinite and NaN codes, and the neighbours of these codes.
template <class D>
Elements<D> edges() {
  const auto implicit = std::uint64_t{1} << D::layout.mantissa_bits;
  const auto one = static_cast<std::uint64_t>(D::layout.bias) * implicit;
  const auto largest = D::layout.largest_code();
  Elements<D> values;
  for (const auto code :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2}, implicit - 1, implicit, implicit + 1, one - 1,
        one, one + 1, one + implicit, largest - 1, largest, largest + 1}) {
    values.push_back(element_of<D>(code));
    values.push_back(element_of<D>(code | std::uint64_t{1} << (D::bits - 1)));
  }
  return values;
}

// The reference computes in double and rounds to D. Rounding twice gives the same result as rounding once,
// because a double has more than 2p + 2 digits for each tested dtype of p digits.
template <class D, class Op>
void expect_rounded_once(Op op, const Vector<D>& a, const Vector<D>& b, const Vector<D>& result) {
  for (std::int64_t i = 0; i < a.elements(); ++i) {
    const auto x = static_cast<double>(a(i));
    const auto y = static_cast<double>(b(i));
    const typename D::Element expected(op(x, y));
    const typename D::Element actual = result(i);
    if (std::isnan(static_cast<double>(expected))) {
      ASSERT_TRUE(std::isnan(static_cast<double>(actual))) << x << " and " << y << " in " << D::name;
    } else {
      ASSERT_EQ(actual.bits(), expected.bits()) << x << " and " << y << " in " << D::name;
    }
  }
}

template <class D>
void expect_all_rounded_once(const Vector<D>& a, const Vector<D>& b) {
  expect_rounded_once(std::plus<>{}, a, b, must(a + b));
  expect_rounded_once(std::minus<>{}, a, b, must(a - b));
  expect_rounded_once(std::multiplies<>{}, a, b, must(a * b));
  expect_rounded_once(std::divides<>{}, a, b, must(a / b));
}

template <class D>
class RoundsOnce : public ::testing::Test {};
using SmallFloats = ::testing::Types<F16, BF16, F8_E4M3, F8_E5M2, F8_E4M3FNUZ>;
TYPED_TEST_SUITE(RoundsOnce, SmallFloats);

TYPED_TEST(RoundsOnce, at_the_edges) {
  const auto [a, b] = all_pairs<TypeParam>(edges<TypeParam>());
  expect_all_rounded_once(a, b);
}

TEST(Elementwise, rounds_every_pair_of_f8_e4m3_once) {
  const auto [a, b] = all_pairs<F8_E4M3>(every_code<F8_E4M3>());
  expect_all_rounded_once(a, b);
}

template <class D>
Vector<D> random_vector() {
  Elements<D> values;
  for (int i = 0; i < 40; ++i) values.push_back(element_of<D>(static_cast<std::uint64_t>(between(0, 65535))));
  return vector_of<D>(values);
}

RC_GTEST_PROP(ElementwiseProperty, rounds_any_f16_once, ()) {
  expect_all_rounded_once(random_vector<F16>(), random_vector<F16>());
  RC_ASSERT(!::testing::Test::HasFatalFailure());
}

RC_GTEST_PROP(ElementwiseProperty, rounds_any_bf16_once, ()) {
  expect_all_rounded_once(random_vector<BF16>(), random_vector<BF16>());
  RC_ASSERT(!::testing::Test::HasFatalFailure());
}

// A dtype of 13 significant bits. A product needs up to 26 bits, so a computation in float, which has 24,
// would be rounded twice: to float, then to the dtype.
struct F16_E3M12 {
  using Family = family::MiniFloat;
  using Element = SmallFloat<F16_E3M12>;
  static constexpr std::string_view name = "F16_E3M12";
  static constexpr FloatLayout layout{3, 12, 3, FloatLayout::Specials::ieee};
  static constexpr int bits = 16;
  static constexpr DTypeTag tag = user_tag(1);
  static constexpr NumberFacts number = number_facts(layout);
};

TEST(Elementwise, rounds_a_users_dtype_of_many_digits_once) {
  const auto a = vector_of<F16_E3M12>({F16_E3M12::Element(4223.0 / 4096)});
  const auto b = vector_of<F16_E3M12>({F16_E3M12::Element(8063.0 / 4096)});
  // The exact product is slightly above the midpoint of 4156/2048 and 4157/2048. Rounded to
  // a float, the product equals the midpoint.
  EXPECT_EQ(static_cast<double>(must(a * b)(0)), 4157.0 / 2048);
}

TEST(Elementwise, calculates_f32_in_float_and_f64_in_double) {
  const auto floats = vector_of<F32>({16777216.0F, 0.1F, -3.5F});
  const auto others = vector_of<F32>({1.0F, 0.2F, 0.5F});
  EXPECT_EQ(must(floats + others)(0), 16777216.0F);
  EXPECT_EQ(must(floats + others)(1), 0.1F + 0.2F);
  EXPECT_EQ(must(floats - others)(2), -4.0F);
  EXPECT_EQ(must(floats * others)(1), 0.1F * 0.2F);
  EXPECT_EQ(must(floats / others)(1), 0.1F / 0.2F);
  const auto doubles = vector_of<F64>({9007199254740992.0, 0.1});
  const auto more = vector_of<F64>({2.0, 0.3});
  EXPECT_EQ(must(doubles + more)(0), 9007199254740994.0);
  EXPECT_EQ(must(doubles - more)(1), 0.1 - 0.3);
  EXPECT_EQ(must(doubles * more)(1), 0.1 * 0.3);
  EXPECT_EQ(must(doubles / more)(1), 0.1 / 0.3);
}

TEST(Elementwise, keeps_infinities_and_nans) {
  constexpr auto infinity = std::numeric_limits<float>::infinity();
  const auto a = vector_of<F32>({infinity, infinity, std::nanf("")});
  const auto b = vector_of<F32>({1.0F, -infinity, 1.0F});
  EXPECT_EQ(must(a + b)(0), infinity);
  EXPECT_TRUE(std::isnan(must(a + b)(1)));
  EXPECT_TRUE(std::isnan(must(a * b)(2)));
}

// The exact results modulo 2^bits, in two's complement.
template <class T>
struct Wrapped {
  T sum, difference, product;
  Wrapped(T a, T b) {
    static_cast<void>(__builtin_add_overflow(a, b, &sum));
    static_cast<void>(__builtin_sub_overflow(a, b, &difference));
    static_cast<void>(__builtin_mul_overflow(a, b, &product));
  }
};

template <class D>
void expect_wrapped(const Elements<D>& values) {
  const auto [a, b] = all_pairs<D>(values);
  const auto sum = must(a + b);
  const auto difference = must(a - b);
  const auto product = must(a * b);
  for (std::int64_t i = 0; i < a.elements(); ++i) {
    const Wrapped<typename D::Element> expected(a(i), b(i));
    ASSERT_EQ(sum(i), expected.sum) << D::name << ' ' << +a(i) << " + " << +b(i);
    ASSERT_EQ(difference(i), expected.difference) << D::name << ' ' << +a(i) << " - " << +b(i);
    ASSERT_EQ(product(i), expected.product) << D::name << ' ' << +a(i) << " * " << +b(i);
  }
}

template <class D>
Elements<D> integer_edges() {
  using Limits = std::numeric_limits<typename D::Element>;
  Elements<D> values;
  for (const auto start : {Limits::min(), typename D::Element{0}, Limits::max()}) {
    for (const int step : {-2, -1, 0, 1, 2}) {
      values.push_back(static_cast<typename D::Element>(static_cast<std::uint64_t>(start) +
                                                        static_cast<std::uint64_t>(step)));
    }
  }
  return values;
}

TEST(Elementwise, wraps_integers_around) {
  expect_wrapped<I8>(every_code<I8>());
  expect_wrapped<U8>(every_code<U8>());
  expect_wrapped<I16>(integer_edges<I16>());
  expect_wrapped<U16>(integer_edges<U16>());
  expect_wrapped<I32>(integer_edges<I32>());
  expect_wrapped<U32>(integer_edges<U32>());
  expect_wrapped<I64>(integer_edges<I64>());
  expect_wrapped<U64>(integer_edges<U64>());
}

template <class D>
void expect_4_bits_wrapped() {
  const auto [a, b] = all_pairs<D>(every_code<D>());
  const auto sum = must(a + b);
  const auto difference = must(a - b);
  const auto product = must(a * b);
  for (std::int64_t i = 0; i < 256; ++i) {
    const int x = static_cast<int>(a(i));
    const int y = static_cast<int>(b(i));
    EXPECT_EQ(must(sum.at(i)).bits(), (x + y) & 15) << x << " + " << y;
    EXPECT_EQ(must(difference.at(i)).bits(), (x - y) & 15) << x << " - " << y;
    EXPECT_EQ(must(product.at(i)).bits(), (x * y) & 15) << x << " * " << y;
  }
}

TEST(Elementwise, wraps_integers_of_4_bits_around) {
  expect_4_bits_wrapped<I4>();
  expect_4_bits_wrapped<U4>();
}

TEST(Elementwise, calculates_complex_numbers) {
  const auto a = vector_of<C64>({{1, 2}});
  const auto b = vector_of<C64>({{3, -1}});
  EXPECT_EQ(must(a + b)(0), std::complex<float>(4, 1));
  EXPECT_EQ(must(a - b)(0), std::complex<float>(-2, 3));
  EXPECT_EQ(must(a * b)(0), std::complex<float>(5, 5));
}

TEST(Elementwise, accepts_strided_and_read_only_operands) {
  const auto a = must(Tensor<F32, Rank<2>>::of(Rank<2>(2, 3), {1, 2, 3, 4, 5, 6}));
  const Tensor<const F32, Rank<2>> b =
      must(must(Tensor<F32, Rank<2>>::of(Rank<2>(3, 2), {10, 20, 30, 40, 50, 60})).slice<0>(2, -1, -1))
          .transpose();
  const auto sum = must(a + b);
  EXPECT_TRUE(sum.is_contiguous());
  EXPECT_EQ(sum(0, 0), 51.0F);
  EXPECT_EQ(sum(0, 2), 13.0F);
  EXPECT_EQ(sum(1, 0), 64.0F);
  EXPECT_EQ(must(b - a)(1, 1), 35.0F);
  EXPECT_TRUE((std::same_as<decltype(must(b * b)), Tensor<F32, Rank<2>>>));
}

TEST(Elementwise, does_not_change_its_operands) {
  const auto a = vector_of<I32>({1, 2});
  const auto doubled = must(a + a);
  EXPECT_FALSE(doubled.storage() == a.storage());
  EXPECT_EQ(doubled(1), 4);
  EXPECT_EQ(a(1), 2);
}

TEST(Elementwise, keeps_the_static_extents_of_either_operand) {
  const auto left = must(Tensor<F32, Shape<2, dynamic>>::zeros(Shape<2, dynamic>(3)));
  const auto right = must(Tensor<F32, Shape<dynamic, 3>>::zeros(Shape<dynamic, 3>(2)));
  EXPECT_TRUE((std::same_as<decltype(must(left + right)), Tensor<F32, Shape<2, 3>>>));
  EXPECT_EQ(must(left + right).elements(), 6);
}

TEST(Elementwise, refuses_dynamic_shapes_that_differ) {
  const auto two = vector_of<F32>({1, 2});
  const auto three = vector_of<F32>({1, 2, 3});
  const auto known = must(Tensor<F32, Shape<3>>::zeros());
  for (const auto& result : {two + three, two - three, two * three, two / three}) {
    EXPECT_TRUE(fails(result, ErrorCode::shape_mismatch, "shapes_are_equal"));
  }
  EXPECT_TRUE(fails(two + known, ErrorCode::shape_mismatch, "shapes_are_equal"));
  EXPECT_TRUE(must(three + known).elements() == 3);
}

TEST(Elementwise, accepts_rank_0_and_empty_tensors) {
  const auto one = must(Tensor<F32, Rank<0>>::of({}, {1}));
  EXPECT_EQ(must(one + one)(), 2.0F);
  const auto empty = must(Vector<F32>::zeros());
  EXPECT_EQ(must(empty * empty).elements(), 0);
}

template <class A, class B>
concept Addable = requires(const A& a, const B& b) { a + b; };
template <class A, class B>
concept Dividable = requires(const A& a, const B& b) { a / b; };

TEST(Elementwise, is_available_for_one_dtype_and_compatible_shapes) {
  static_assert(Addable<Vector<F32>, Vector<const F32>> && !Addable<Vector<F32>, Vector<F64>>);
  static_assert(!Addable<Vector<F32>, Vector<I32>> && !Addable<Vector<Bool>, Vector<Bool>>);
  static_assert(!Addable<Tensor<F32, Shape<2>>, Tensor<F32, Shape<3>>>);
  static_assert(!Addable<Vector<F32>, Tensor<F32, Rank<2>>>);
  static_assert(Dividable<Vector<BF16>, Vector<BF16>> && !Dividable<Vector<I32>, Vector<I32>>);
  EXPECT_FALSE((Dividable<Vector<C64>, Vector<C64>>));
}

}  // namespace
}  // namespace ht::elementwise_test
