#include <htensor/tensor/shape.hpp>

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <type_traits>
#include <utility>

#include "tensor/test_tools.hpp"

namespace ht::shape_test {
namespace {

using tests::fails;
using tests::Ints;
using tests::must;

static_assert(std::is_empty_v<Shape<4, 8>> && std::is_empty_v<Rank<0>>);
static_assert(sizeof(Shape<dynamic, 8>) == 8 && sizeof(Rank<8>) == 64);
static_assert(std::is_trivially_copyable_v<Rank<3>>);

TEST(Shape, does_not_store_static_extents) {
  constexpr Shape<4, 8> shape;
  static_assert(std::is_empty_v<decltype(shape)>);
  static_assert(shape.extents() == std::array<std::int64_t, 2>{4, 8});
  static_assert(shape.elements() == 32 && decltype(shape)::rank == 2 && decltype(shape)::dynamic_rank == 0);
  EXPECT_EQ(shape.extent(0), 4);
  EXPECT_EQ(shape.extent(1), 8);
}

TEST(Shape, takes_only_its_dynamic_extents) {
  constexpr Shape<dynamic, 8, dynamic> shape(4, 2U);
  static_assert(shape.extents() == std::array<std::int64_t, 3>{4, 8, 2});
  static_assert(sizeof(shape) == 16 && decltype(shape)::dynamic_rank == 2);
  static_assert(!std::is_constructible_v<Shape<dynamic, 8>, int, int>);
  static_assert(!std::is_constructible_v<Shape<4, 8>, int, int>);
  EXPECT_EQ(shape.elements(), 64);
}

TEST(Shape, is_not_convertible_from_a_number) {
  EXPECT_FALSE((std::is_convertible_v<int, Rank<1>>));
  EXPECT_TRUE((std::is_constructible_v<Rank<1>, int>));
  EXPECT_FALSE((std::is_constructible_v<Rank<1>, double>));
}

TEST(Shape, starts_dynamic_extents_at_zero) {
  EXPECT_EQ((Shape<dynamic, 8>().extents()), (std::array<std::int64_t, 2>{0, 8}));
  EXPECT_EQ((Shape<dynamic, 8>().elements()), 0);
}

TEST(Shape, has_one_element_at_rank_0) {
  EXPECT_EQ(Rank<0>().elements(), 1);
  EXPECT_EQ(Rank<0>().extents().size(), 0U);
  EXPECT_TRUE((std::same_as<Rank<0>, Shape<>>));
}

template <int N>
void expect_rank_to_hold_its_extents() {
  Ints extents;
  for (int i = 0; i < N; ++i) extents.push_back(i + 1);
  const auto shape = must(Rank<N>::from(extents));
  const auto held = shape.extents();
  EXPECT_EQ(Ints(held.begin(), held.end()), extents);
  for (int i = 0; i < N; ++i) EXPECT_EQ(shape.extent(i), i + 1);
  EXPECT_EQ(shape, Rank<N>::assume(extents));
  static_assert(Rank<N>::rank == N && Rank<N>::dynamic_rank == N);
  static_assert(N == 0 || sizeof(Rank<N>) == 8 * N);
  static_assert(std::is_trivially_copyable_v<Rank<N>>);
}

TEST(Shape, supports_ranks_0_to_8) {
  [&]<int... Ns>(std::integer_sequence<int, Ns...>) {
    (expect_rank_to_hold_its_extents<Ns>(), ...);
  }(std::make_integer_sequence<int, 9>{});
}

template <int N>
concept HasRank = requires { typename Rank<N>; };
template <std::int64_t E>
concept HasExtent = requires { typename Shape<E>; };

TEST(Shape, rejects_invalid_ranks_and_extents_at_compile_time) {
  EXPECT_TRUE(HasRank<8>);
  EXPECT_FALSE(HasRank<9>);
  EXPECT_FALSE(HasRank<-1>);
  EXPECT_TRUE(HasExtent<dynamic>);
  EXPECT_TRUE(HasExtent<0>);
  EXPECT_FALSE(HasExtent<-2>);
}

TEST(Shape, accepts_extents_that_match_its_type) {
  EXPECT_EQ(must(Shape<dynamic, 8>::from(Ints{4, 8})), (Shape<dynamic, 8>(4)));
  EXPECT_EQ(must(Shape<4, 8>::from(Ints{4, 8})), (Shape<4, 8>()));
  EXPECT_EQ(must(Shape<>::from(Ints{})), Shape<>());
}

TEST(Shape, rejects_extents_that_contradict_its_type) {
  const auto expect_mismatch = [](const auto& result) {
    EXPECT_TRUE(fails(result, ErrorCode::shape_mismatch, "shape_matches_the_request"));
  };
  expect_mismatch(Shape<dynamic, 8>::from(Ints{4, 9}));
  expect_mismatch(Shape<4, 8>::from(Ints{8, 4}));
  expect_mismatch(Rank<2>::from(Ints{4}));
  expect_mismatch(Rank<2>::from(Ints{4, 8, 1}));
  expect_mismatch(Rank<0>::from(Ints{1}));
}

TEST(Shape, rejects_negative_and_overflowing_extents) {
  EXPECT_TRUE(fails(Rank<2>::from(Ints{4, -1}), ErrorCode::bad_shape, "extents_are_not_negative"));
  EXPECT_TRUE(fails(Rank<2>::from(Ints{std::numeric_limits<std::int64_t>::max(), 2}),
                    ErrorCode::size_overflow, "elements_fit_63_bits"));
}

TEST(Shape, equals_one_with_the_same_extents) {
  EXPECT_EQ(Rank<2>(4, 8), Rank<2>(4, 8));
  EXPECT_NE(Rank<2>(4, 8), Rank<2>(8, 4));
  EXPECT_EQ((Shape<4, 8>()), (Shape<4, 8>()));
  EXPECT_NE((Shape<dynamic, 8>(1)), (Shape<dynamic, 8>(2)));
}

TEST(Shape, fits_a_shape_with_dynamic_extents) {
  static_assert(ShapeFits<Shape<4, 8>, Shape<4, 8>>);
  static_assert(ShapeFits<Shape<4, 8>, Rank<2>>);
  static_assert(ShapeFits<Shape<4, 8>, Shape<dynamic, 8>>);
  static_assert(ShapeFits<Rank<0>, Rank<0>>);
  static_assert(!ShapeFits<Rank<2>, Shape<4, 8>>);
  static_assert(!ShapeFits<Shape<dynamic, 8>, Shape<4, dynamic>>);
  static_assert(!ShapeFits<Shape<4, 8>, Shape<4, 9>>);
  static_assert(!ShapeFits<Shape<4, 8>, Rank<3>>);
  EXPECT_FALSE((ShapeFits<Rank<2>, int>));
}

TEST(Shape, may_match_a_shape_without_contradicting_extents) {
  static_assert(ShapesMayMatch<Shape<4, 8>, Shape<4, 8>>);
  static_assert(ShapesMayMatch<Rank<2>, Shape<4, 8>>);
  static_assert(ShapesMayMatch<Shape<dynamic, 8>, Shape<4, dynamic>>);
  static_assert(!ShapesMayMatch<Shape<dynamic, 8>, Shape<4, 9>>);
  static_assert(!ShapesMayMatch<Rank<2>, Rank<3>>);
  static_assert(!ShapesMayMatch<Rank<2>, int>);
  EXPECT_TRUE((ShapesMayMatch<Rank<0>, Rank<0>>));
}

TEST(Shape, is_distinguished_from_other_types) {
  EXPECT_TRUE((IsShape<Shape<4, dynamic>>));
  EXPECT_TRUE(IsShape<Rank<8>>);
  EXPECT_FALSE((IsShape<std::array<std::int64_t, 2>>));
  EXPECT_FALSE(IsShape<const Rank<2>&>);
}

}  // namespace
}  // namespace ht::shape_test
