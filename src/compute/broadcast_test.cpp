#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <concepts>
#include <htensor/compute/elementwise.hpp>
#include <vector>

#include "tensor/test_random.hpp"
#include "tensor/test_tools.hpp"

namespace ht::broadcast_test {
namespace {

using tests::between;
using tests::fails;
using tests::must;

using Matrix = Tensor<F32, Rank<2>>;
using Vector = Tensor<F32, Rank<1>>;

Matrix matrix(std::int64_t rows, std::int64_t columns) {
  auto result = must(Matrix::zeros(Rank<2>(rows, columns)));
  float next = 1;
  for (auto& element : result) element = next++;
  return result;
}

TEST(Broadcast, repeats_extents_of_one) {
  const auto row = must(Matrix::of(Rank<2>(1, 3), {1, 2, 3}));
  const auto repeated = must(row.broadcast(Rank<2>(2, 3)));
  EXPECT_EQ(repeated.strides()[0], 0);
  EXPECT_EQ(repeated(1, 2), 3.0F);
  const auto column = must(Matrix::of(Rank<2>(2, 1), {5, 7}));
  EXPECT_EQ(must(column.broadcast(Rank<2>(2, 3)))(1, 2), 7.0F);
  EXPECT_EQ(repeated.storage(), row.storage());
}

TEST(Broadcast, adds_outer_dimensions) {
  const auto bias = must(Vector::of(Rank<1>(3), {10, 20, 30}));
  const auto x = matrix(2, 3);
  const auto sum = must(x + must(bias.broadcast(x.shape())));
  EXPECT_EQ(sum(0, 0), 11.0F);
  EXPECT_EQ(sum(1, 2), 36.0F);
}

TEST(Broadcast, is_read_only) {
  const auto x = matrix(1, 3);
  EXPECT_TRUE((std::same_as<decltype(must(x.broadcast(Rank<2>(2, 3)))), Tensor<const F32, Rank<2>>>));
}

TEST(Broadcast, repeats_packed_elements_and_empty_tensors) {
  const auto packed = must(Tensor<U4, Rank<1>>::of(Rank<1>(1), {U4::Element(5)}));
  const auto many = must(packed.broadcast(Rank<2>(3, 4)));
  EXPECT_EQ(static_cast<int>(many(2, 3)), 5);
  EXPECT_EQ(must(packed.broadcast(Rank<1>(0))).elements(), 0);
  const auto scalar = must(Tensor<F32, Rank<0>>::of({}, {4}));
  EXPECT_EQ(must(scalar.broadcast(Rank<2>(3, 4)))(2, 3), 4.0F);
}

TEST(Broadcast, extents_are_equal_or_one) {
  const auto x = matrix(2, 3);
  for (const auto& shape : {Rank<2>(4, 3), Rank<2>(2, 1), Rank<2>(0, 3)})
    EXPECT_TRUE(fails(x.broadcast(shape), ErrorCode::shape_mismatch, "extents_are_equal_or_one"));
  const auto result = x.broadcast(Rank<2>(4, 3));
  EXPECT_NE(result.error().message().find("[2, 3] cannot be broadcast to [4, 3]"), std::string_view::npos);
  EXPECT_TRUE(fails(x.broadcast(Rank<2>(-1, 3)), ErrorCode::bad_shape, "extents_are_not_negative"));
}

template <class T, class S>
concept CanBroadcast = requires(const T& tensor, S shape) { tensor.broadcast(shape); };

TEST(Broadcast, is_available_for_compatible_static_extents) {
  static_assert(CanBroadcast<Tensor<F32, Shape<1, 3>>, Shape<4, 3>>);
  static_assert(CanBroadcast<Tensor<F32, Shape<3>>, Rank<2>>);
  static_assert(!CanBroadcast<Tensor<F32, Shape<2, 3>>, Shape<4, 3>>);
  EXPECT_FALSE((CanBroadcast<Tensor<F32, Rank<2>>, Rank<1>>));
}

RC_GTEST_PROP(BroadcastProperty, equals_a_loop_over_indices, ()) {
  const auto rows = between(0, 4);
  const auto columns = between(0, 20);
  const auto x = matrix(rows, columns);
  const auto y = matrix(between(0, 1) == 0 ? 1 : rows, between(0, 1) == 0 ? 1 : columns);
  const auto wide = must(y.broadcast(x.shape()));
  const auto difference = must(x - wide);
  const auto other = must(wide - x);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const float value = y(y.extent(0) == 1 ? 0 : i, y.extent(1) == 1 ? 0 : j);
      RC_ASSERT(difference(i, j) == x(i, j) - value);
      RC_ASSERT(other(i, j) == value - x(i, j));
    }
  }
}

TEST(Scale, multiplies_each_element) {
  const auto scaled = must(scale(matrix(2, 2), 0.5F));
  EXPECT_EQ(scaled(1, 1), 2.0F);
  const auto doubles = must(Tensor<F64, Rank<1>>::of(Rank<1>(1), {3}));
  EXPECT_EQ(must(scale(doubles, 0.1))(0), 3 * 0.1);
  const auto ints = must(Tensor<I8, Rank<1>>::of(Rank<1>(1), {100}));
  EXPECT_EQ(must(scale(ints, std::int8_t{2}))(0), -56);
  EXPECT_EQ(must(scale(matrix(0, 2), 2.0F)).elements(), 0);
}

TEST(AddInto, adds_in_place) {
  const auto x = matrix(2, 3);
  const auto* const data = x.data();
  must(add_into(x, x));
  EXPECT_EQ(x(1, 2), 12.0F);
  EXPECT_EQ(x.data(), data);
  const auto row = must(Vector::of(Rank<1>(3), {1, 1, 2}));
  must(add_into(x, must(row.broadcast(x.shape()))));
  EXPECT_EQ(x(1, 2), 14.0F);
  must(multiply_into(x, x));
  EXPECT_EQ(x(1, 2), 196.0F);
}

TEST(AddInto, writes_only_the_elements_of_a_strided_view) {
  const auto x = matrix(3, 4);
  const auto view = must(x.slice<1>(3, 0, -2)).transpose();  // columns 3 and 1
  must(add_into(view, must(matrix(1, 1).broadcast(view.shape()))));
  EXPECT_EQ(x(0, 3), 5.0F);
  EXPECT_EQ(x(2, 1), 11.0F);
  EXPECT_EQ(x(2, 2), 11.0F);
}

TEST(AddInto, refuses_shapes_that_differ) {
  EXPECT_TRUE(fails(add_into(matrix(2, 3), matrix(3, 2)), ErrorCode::shape_mismatch, "shapes_are_equal"));
  EXPECT_TRUE(
      fails(multiply_into(matrix(2, 3), matrix(3, 2)), ErrorCode::shape_mismatch, "shapes_are_equal"));
}

template <class A, class B>
concept AddableInto = requires(const A& a, const B& b) { add_into(a, b); };

TEST(AddInto, is_available_for_writable_tensors_of_one_dtype) {
  static_assert(AddableInto<Vector, Tensor<const F32, Rank<1>>>);
  static_assert(!AddableInto<Tensor<const F32, Rank<1>>, Vector>);
  EXPECT_FALSE((AddableInto<Vector, Tensor<F64, Rank<1>>>));
}

}  // namespace
}  // namespace ht::broadcast_test
