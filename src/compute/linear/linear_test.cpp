#include <htensor/compute/linear.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <htensor/dtype/encoding.hpp>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "tensor/test_random.hpp"
#include "tensor/test_tools.hpp"
#include "testing/users_dtype.hpp"
#include "values/targets_test.hpp"

namespace ht::linear_test {
namespace {

using tests::between;
using tests::fails;
using tests::must;

template <class D>
using Matrix = Tensor<D, Rank<2>>;
template <class D>
using Vector = Tensor<D, Rank<1>>;

template <class D = F32, class S>
Tensor<D, S> random_tensor(S shape, unsigned seed = 1) {
  std::mt19937 engine(seed);
  std::normal_distribution<typename D::Element> normal(0, 1);
  std::vector<typename D::Element> values(static_cast<std::size_t>(shape.elements()));
  for (auto& value : values) value = normal(engine);
  return must(Tensor<D, S>::of(shape, values));
}

// Compares each element with a sum in double (long double for F64). The bound is terms · eps · Σ|x · w|.
template <class Y, class X, class W>
void expect_product(const Y& y, const X& x, const W& w, const Vector<typename X::DType>* bias = nullptr) {
  using Wide = std::conditional_t<std::same_as<typename X::DType, F32>, double, long double>;
  const Wide eps = std::same_as<typename X::DType, F32> ? Wide(0x1p-24) : Wide(0x1p-53);
  ASSERT_EQ(y.extent(0), x.extent(0));
  ASSERT_EQ(y.extent(1), w.extent(0));
  for (std::int64_t b = 0; b < x.extent(0); ++b) {
    for (std::int64_t i = 0; i < w.extent(0); ++i) {
      Wide sum = 0;
      Wide magnitude = 0;
      for (std::int64_t j = 0; j < w.extent(1); ++j) {
        const Wide product = static_cast<Wide>(x(b, j)) * static_cast<Wide>(w(i, j));
        sum += product;
        magnitude += std::fabs(product);
      }
      const Wide terms = static_cast<Wide>(w.extent(1)) + (bias == nullptr ? 0 : 1);
      if (bias != nullptr) {
        sum += (*bias)(i);
        magnitude += std::fabs(static_cast<Wide>((*bias)(i)));
      }
      ASSERT_LE(std::fabs(static_cast<Wide>(y(b, i)) - sum), terms * eps * magnitude) << b << ", " << i;
    }
  }
}

template <class D>
class LinearOfDType : public ::testing::Test {};
using DTypes = ::testing::Types<F32, BF16, F16, F8_E4M3, F8_E5M2, F8_E4M3FNUZ, F8_E5M2FNUZ, F6_E2M3, F6_E3M2,
                                F4, I8, U8, I16, U16, I4, U4, Bool>;
TYPED_TEST_SUITE(LinearOfDType, DTypes);

TYPED_TEST(LinearOfDType, is_within_the_bound) {
  for (const std::int64_t columns : {8, 40, 72}) {
    const auto values = random_tensor(Rank<2>(5, columns), 3);
    const auto stored = must(cast_lossy<TypeParam>(values));
    const auto w = must(cast<F32>(stored));
    for (const std::int64_t batch : {1, 4, 7, 16, 33}) {
      const auto x = random_tensor(Rank<2>(batch, columns), 4);
      expect_product(must(linear(x, stored)), x, w);
    }
    const auto x = random_tensor<F64>(Rank<2>(3, columns), 5);
    expect_product(must(linear(x, stored)), x, must(cast<F64>(stored)));
  }
}

template <class E>
class LinearOfEncoding : public ::testing::Test {};
using Encodings = ::testing::Types<Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, MXFP4, Q4_K, Q5_K, Q6_K>;
TYPED_TEST_SUITE(LinearOfEncoding, Encodings);

TYPED_TEST(LinearOfEncoding, is_within_the_bound) {
  const auto stored = must(cast_lossy<TypeParam>(random_tensor(Rank<2>(5, 512), 3)));
  const auto w = must(cast<F32>(stored));
  for (const std::int64_t batch : {1, 3, 5, 40}) {
    const auto x = random_tensor(Rank<2>(batch, 512), 4);
    expect_product(must(linear(x, stored)), x, w);
    expect_product(must(linear(x, as<F32>(stored))), x, w);
  }
  const auto x = random_tensor<F64>(Rank<2>(2, 512), 5);
  expect_product(must(linear(x, stored)), x, must(cast<F64>(stored)));
}

template <class E>
constexpr bool has_int8_kernel = std::same_as<E, Q8_0> || std::same_as<E, Q4_0> || std::same_as<E, Q4_K> ||
                                 std::same_as<E, Q5_K> || std::same_as<E, Q6_K>;

struct Product {
  double exact = 0;
  /// The bound of linear without int8 activations.
  double bound = 0;
  /// The additional error of int8 activations: Σ over blocks of (scale / 2) · Σ|w|.
  double rounding_bound = 0;
};

// x(b, …) times row i of w, in blocks of `block` elements.
Product product_of(const Matrix<F32>& x, std::int64_t b, const Matrix<F32>& w, std::int64_t i,
                   std::int64_t block) {
  Product product;
  const std::int64_t columns = w.extent(1);
  for (std::int64_t first = 0; first < columns; first += block) {
    double largest = 0;
    double weights = 0;
    for (std::int64_t j = first; j < first + block; ++j) {
      const double term = static_cast<double>(x(b, j)) * static_cast<double>(w(i, j));
      product.exact += term;
      product.bound += static_cast<double>(columns) * 0x1p-24 * std::fabs(term);
      largest = std::max(largest, std::fabs(static_cast<double>(x(b, j))));
      weights += std::fabs(static_cast<double>(w(i, j)));
    }
    product.rounding_bound += largest / 127 / 2 * (1 + 0x1p-16) * weights;
  }
  return product;
}

TYPED_TEST(LinearOfEncoding, int8_activations_are_within_the_bound) {
  const auto stored = must(cast_lossy<TypeParam>(random_tensor(Rank<2>(5, 512), 3)));
  const auto w = must(cast<F32>(stored));
  const auto x = random_tensor(Rank<2>(3, 512), 4);
  const auto exact = must(linear(x, stored));
  const auto fast = must(linear(x, stored, {.int8_activations = true}));
  bool differs = false;
  for (std::int64_t b = 0; b < 3; ++b) {
    for (std::int64_t i = 0; i < 5; ++i) {
      const Product product = product_of(x, b, w, i, TypeParam::block_elements);
      const double bound = product.bound + (has_int8_kernel<TypeParam> ? product.rounding_bound : 0);
      EXPECT_LE(std::fabs(fast(b, i) - product.exact), bound) << TypeParam::name;
      differs = differs || fast(b, i) != exact(b, i);
    }
  }
  EXPECT_EQ(differs, has_int8_kernel<TypeParam>) << TypeParam::name;
}

TYPED_TEST(LinearOfEncoding, int8_activations_reach_the_bound) {
  if (!has_int8_kernel<TypeParam>) GTEST_SKIP() << "activations are not rounded";
  const auto stored = must(cast_lossy<TypeParam>(random_tensor(Rank<2>(1, 512), 3)));
  const auto w = must(cast<F32>(stored));
  // The scale is 1. Rounding changes each element by almost 1/2, against the sign of its weight, so the
  // errors of all products have the same sign.
  const auto x = must(Matrix<F32>::zeros(Rank<2>(1, 512)));
  for (std::int64_t j = 0; j < 512; ++j) {
    const auto whole = static_cast<float>(j * 37 % 201 - 100);
    x(0, j) = j % 32 == 0 ? 127.F : whole + (w(0, j) < 0 ? -0.499F : 0.499F);
  }
  const Product product = product_of(x, 0, w, 0, TypeParam::block_elements);
  const double error = std::fabs(must(linear(x, stored, {.int8_activations = true}))(0, 0) - product.exact);
  EXPECT_LE(error, product.bound + product.rounding_bound);
  EXPECT_GE(error, 0.9 * product.rounding_bound);
}

TEST(Linear, adds_the_bias) {
  const auto x = random_tensor(Rank<2>(3, 20));
  const auto w = random_tensor(Rank<2>(7, 20), 2);
  const auto bias = random_tensor(Rank<1>(7), 3);
  expect_product(must(linear(x, w, bias)), x, w, &bias);
  const auto plain = must(linear(x, w));
  EXPECT_EQ(must(linear(x, w, bias))(2, 6), plain(2, 6) + bias(6));
  const auto doubles = must(cast<F64>(x));
  const auto wide_bias = must(cast<F64>(bias));
  expect_product(must(linear(doubles, w, wide_bias)), doubles, must(cast<F64>(w)), &wide_bias);
}

TEST(Linear, keeps_the_outer_extents_of_x) {
  const auto w = random_tensor(Rank<2>(3, 8), 2);
  const auto line = must(linear(random_tensor(Rank<1>(8)), w));
  static_assert(std::same_as<decltype(line), const Vector<F32>>);
  EXPECT_EQ(line.shape(), Rank<1>(3));
  const auto cube = random_tensor(Rank<3>(2, 5, 8));
  const auto result = must(linear(cube, w));
  EXPECT_EQ(result.shape(), Rank<3>(2, 5, 3));
  const auto flat = must(linear(must(cube.reshape(Rank<2>(10, 8))), w));
  EXPECT_EQ(result(1, 2, 0), flat(7, 0));
  const auto known =
      must(linear(must(Tensor<F32, Shape<4, 8>>::zeros()), must(Tensor<BF16, Shape<6, 8>>::zeros())));
  static_assert(std::same_as<decltype(known), const Tensor<F32, Shape<4, 6>>>);
}

TEST(Linear, accepts_strided_and_read_only_operands) {
  const auto x = random_tensor(Rank<2>(16, 4)).transpose();
  const auto wide = random_tensor(Rank<2>(9, 32), 2);
  const auto w = must(must(wide.slice<1>(3, 19)).slice<0>(8, -1, -2));
  const auto bias = must(random_tensor(Rank<1>(10), 3).slice<0>(0, 10, 2));
  const auto plain_bias = must(bias.copy());
  expect_product(must(linear(x, w, bias)), x, w, &plain_bias);
  const Tensor<const F32, Rank<2>> read_only = w;
  expect_product(must(linear(Tensor<const F32, Rank<2>>(x), read_only)), x, w);
  // Rows with strided elements.
  const auto columns = random_tensor(Rank<2>(16, 6), 4).transpose();
  expect_product(must(linear(x, columns)), x, columns);
}

TEST(Linear, reads_packed_rows_that_begin_within_a_byte) {
  const auto stored = must(cast_lossy<I4>(random_tensor(Rank<2>(5, 9), 3)));
  const auto x = random_tensor(Rank<2>(2, 9));
  expect_product(must(linear(x, stored)), x, must(cast<F32>(stored)));
  const auto part = must(must(cast_lossy<I4>(random_tensor(Rank<2>(5, 12), 3))).slice<1>(3, 12));
  expect_product(must(linear(x, part)), x, must(cast<F32>(part)));
}

TEST(Linear, reads_a_users_dtype) {
  using user::F8_E3M4;
  std::vector<F8_E3M4::Element> values;
  values.reserve(24);
  for (int i = 0; i < 24; ++i) values.emplace_back(static_cast<float>(i) / 4 - 3);
  const auto stored = must(Matrix<F8_E3M4>::of(Rank<2>(3, 8), values));
  const auto x = random_tensor(Rank<2>(2, 8));
  expect_product(must(linear(x, stored)), x, must(cast<F32>(stored)));
}

TEST(Linear, accepts_empty_tensors) {
  const auto no_columns =
      must(linear(must(Matrix<F32>::zeros(Rank<2>(2, 0))), must(Matrix<BF16>::zeros(Rank<2>(3, 0)))));
  EXPECT_EQ(no_columns.shape(), Rank<2>(2, 3));
  EXPECT_EQ(no_columns(1, 2), 0.F);
  const auto x = random_tensor(Rank<2>(2, 8));
  EXPECT_EQ(must(linear(x, must(Matrix<F32>::zeros(Rank<2>(0, 8))))).shape(), Rank<2>(2, 0));
  const auto empty = must(Matrix<F32>::zeros(Rank<2>(0, 8)));
  EXPECT_EQ(must(linear(empty, random_tensor(Rank<2>(3, 8)))).shape(), Rank<2>(0, 3));
}

template <class T>
std::vector<float> elements_of(const T& tensor) {
  return {tensor.begin(), tensor.end()};
}

TEST(Linear, does_not_depend_on_threads_or_targets) {
  // The product is large enough for several jobs.
  const auto w = must(cast_lossy<Q4_K>(random_tensor(Rank<2>(4000, 256), 2)));
  const auto x = random_tensor(Rank<2>(3, 256));
  for (const bool int8 : {false, true}) {
    Workers single(1);
    const auto one = elements_of(must(linear(x, w, {.int8_activations = int8, .workers = &single})));
    testing::for_each_target([&](const char* target) {
      for (const std::size_t threads : {2U, 5U, 0U}) {
        Workers several(threads);
        EXPECT_EQ(elements_of(must(linear(x, w, {.int8_activations = int8, .workers = &several}))), one)
            << target << ", " << threads << " threads";
      }
    });
  }
}

TEST(Linear, inner_extents_are_equal) {
  const auto x = random_tensor(Rank<2>(2, 8));
  const auto result = linear(x, random_tensor(Rank<2>(3, 9)));
  ASSERT_TRUE(fails(result, ErrorCode::shape_mismatch, "inner_extents_are_equal"));
  EXPECT_NE(result.error().message().find("[2, 8]"), std::string::npos);
  EXPECT_NE(result.error().message().find("[3, 9]"), std::string::npos);
  const auto w = random_tensor(Rank<2>(3, 8));
  EXPECT_TRUE(fails(matmul(as<F32>(w), x), ErrorCode::shape_mismatch, "inner_extents_are_equal"));
}

TEST(Linear, bias_size_matches_the_rows) {
  const auto x = random_tensor(Rank<2>(2, 8));
  const auto w = random_tensor(Rank<2>(3, 8));
  EXPECT_TRUE(fails(linear(x, w, random_tensor(Rank<1>(4))), ErrorCode::shape_mismatch,
                    "bias_size_matches_the_rows"));
}

TEST(Linear, matmul_accepts_stored_weights_on_the_left) {
  const auto stored = must(cast_lossy<Q8_0>(random_tensor(Rank<2>(6, 64), 3)));
  const auto v = random_tensor(Rank<1>(64));
  const auto product = must(matmul(as<F32>(stored), v));
  EXPECT_EQ(elements_of(product), elements_of(must(linear(v, stored))));
  const auto x = random_tensor(Rank<2>(64, 5));
  const auto matrix = must(matmul(as<F32>(stored), x));
  EXPECT_EQ(matrix.shape(), Rank<2>(6, 5));
  EXPECT_TRUE(matrix.is_contiguous());
  expect_product(matrix.transpose(), x.transpose(), must(cast<F32>(stored)));
  const auto known =
      must(matmul(as<F64>(must(Tensor<I32, Shape<2, 3>>::zeros())), must(Tensor<F64, Shape<3, 4>>::zeros())));
  static_assert(std::same_as<decltype(known), const Tensor<F64, Shape<2, 4>>>);
}

template <class X, class W>
concept LinearCompiles = requires(const X& x, const W& w) { linear(x, w); };

TEST(Linear, is_available_for_weights_that_convert_exactly_to_the_dtype_of_x) {
  static_assert(LinearCompiles<Matrix<F32>, Matrix<BF16>> && LinearCompiles<Matrix<F64>, Matrix<I32>>);
  static_assert(!LinearCompiles<Matrix<F32>, Matrix<F64>> && !LinearCompiles<Matrix<F32>, Matrix<I32>>);
  static_assert(!LinearCompiles<Matrix<BF16>, Matrix<BF16>> && !LinearCompiles<Matrix<F32>, Vector<F32>>);
  static_assert(LinearCompiles<Matrix<F32>, AsView<F32, Matrix<BF16>>>);
  static_assert(!LinearCompiles<Matrix<F32>, AsView<F64, Matrix<BF16>>>);
  static_assert(LinearCompiles<Tensor<F32, Shape<4, 8>>, BlockTensor<Q8_0, Rank<2>>>);
  EXPECT_FALSE((LinearCompiles<Tensor<F32, Shape<4, 8>>, Tensor<BF16, Shape<6, 9>>>));
}

RC_GTEST_PROP(LinearProperty, any_extents_and_strides_are_within_the_bound, ()) {
  const std::int64_t rows = between(1, 9);
  const std::int64_t columns = between(0, 70);
  const std::int64_t batch = between(1, 36);
  const auto memory =
      random_tensor(Rank<2>(2 * rows + 1, columns + 3), static_cast<unsigned>(between(0, 1000)));
  const auto stored = must(cast_lossy<BF16>(memory));
  const auto w = must(
      must(stored.slice<1>(between(0, 3), columns + 3)).slice<0>(between(0, 1), 2 * rows, between(1, 2)));
  const auto x_memory = random_tensor(Rank<2>(w.extent(1), batch), 7);
  const auto x = between(0, 1) == 0 ? must(x_memory.transpose().copy()) : x_memory.transpose();
  expect_product(must(linear(x, w)), x, must(cast<F32>(w)));
  RC_ASSERT(!::testing::Test::HasFatalFailure());
}

TEST(Linear, batch_0_accepts_any_number_of_rows) {
  const auto row = random_tensor(Rank<2>(1, 64));
  const auto many = must(row.broadcast(Rank<2>(std::int64_t{1} << 50, 64)));
  const auto empty = must(Tensor<F32, Rank<2>>::zeros(Rank<2>(0, 64)));
  EXPECT_EQ(must(linear(empty, many)).elements(), 0);
}

TEST(Linear, multiplies_several_typed_weights_in_one_call) {
  const auto x = random_tensor(Rank<2>(2, 40));
  const std::array weights{random_tensor(Rank<2>(3, 40), 2), random_tensor(Rank<2>(7, 40), 3)};
  const auto results = must(linear(x, weights));
  for (std::size_t i = 0; i < weights.size(); ++i)
    EXPECT_TRUE(std::ranges::equal(results[i], must(linear(x, weights[i]))));
  const std::array unequal{weights[0], random_tensor(Rank<2>(7, 41), 3)};
  EXPECT_TRUE(fails(linear(x, unequal), ErrorCode::shape_mismatch, "inner_extents_are_equal"));
}

}  // namespace
}  // namespace ht::linear_test
