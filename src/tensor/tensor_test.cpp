#include <htensor/tensor/tensor.hpp>

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

#include "tensor/test_tools.hpp"

namespace ht::tensor_test {
namespace {

using tests::fails;
using tests::must;

using Matrix = Tensor<F32, Rank<2>>;
using ReadOnlyMatrix = Tensor<const F32, Rank<2>>;

Matrix counting(std::int64_t rows, std::int64_t columns) {
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  std::iota(values.begin(), values.end(), 0.0F);
  return must(Matrix::of(Rank<2>(rows, columns), values));
}

static_assert(sizeof(Tensor<F32, Shape<4, 8>>) == 24 + 16);
static_assert(sizeof(Tensor<F32, Rank<2>>) == 24 + 32);
static_assert(std::is_nothrow_move_constructible_v<Tensor<const BF16, Rank<8>>>);
static_assert(std::is_convertible_v<Tensor<F32, Rank<2>>, Tensor<const F32, Rank<2>>>);
static_assert(!std::is_convertible_v<Tensor<const F32, Rank<2>>, Tensor<F32, Rank<2>>>);
static_assert(std::is_convertible_v<Tensor<F32, Shape<4, 8>>, Tensor<F32, Rank<2>>>);
static_assert(!std::is_convertible_v<Tensor<F32, Rank<2>>, Tensor<F32, Shape<4, 8>>>);
static_assert(sizeof(Tensor<F32, Rank<0>>) <= 32);
static_assert(sizeof(Tensor<I4, Shape<4>>) == 16 + 16 + 8);
static_assert(std::is_copy_constructible_v<Matrix> && std::is_copy_assignable_v<Matrix>);
static_assert(std::is_nothrow_move_constructible_v<Matrix> && std::is_nothrow_move_assignable_v<Matrix>);
static_assert(!std::is_default_constructible_v<Matrix>, "there is no default constructor");
static_assert(std::same_as<decltype(std::declval<Matrix>()(0, 0)), float&>);
static_assert(std::same_as<decltype(std::declval<ReadOnlyMatrix>()(0, 0)), const float&>);

TEST(Tensor, starts_with_zeros) {
  const auto tensor = must(Tensor<F32, Shape<2, 3>>::zeros());
  EXPECT_EQ(tensor.elements(), 6);
  for (const float element : tensor) EXPECT_EQ(element, 0.0F);
  EXPECT_EQ(must(Matrix::zeros(Rank<2>(4, 5))).shape(), Rank<2>(4, 5));
}

TEST(Tensor, has_its_elements_in_row_major_order) {
  const auto tensor = must(Matrix::of(Rank<2>(2, 3), {1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(tensor(0, 0), 1.0F);
  EXPECT_EQ(tensor(0, 2), 3.0F);
  EXPECT_EQ(tensor(1, 0), 4.0F);
  EXPECT_EQ(tensor(1, 2), 6.0F);
  EXPECT_EQ(tensor.strides(), (std::array<std::int64_t, 2>{3, 1}));
  EXPECT_EQ(tensor.extent(1), 3);
}

TEST(Tensor, needs_one_value_per_element) {
  EXPECT_TRUE(
      fails(Matrix::of(Rank<2>(2, 3), {1, 2, 3, 4, 5}), ErrorCode::size_mismatch, "values_match_the_shape"));
  EXPECT_TRUE(fails(Matrix::of(Rank<2>(2, 3), std::vector<float>(7)), ErrorCode::size_mismatch,
                    "values_match_the_shape"));
  EXPECT_EQ(must(Matrix::of(Rank<2>(0, 3), {})).elements(), 0);
}

TEST(Tensor, counts_the_values_before_allocating) {
  // The shape needs 4 EiB, but the error is about the number of values, not about memory.
  EXPECT_TRUE(fails(Matrix::of(Rank<2>(std::int64_t{1} << 30, std::int64_t{1} << 30), {1}),
                    ErrorCode::size_mismatch, "values_match_the_shape"));
}

TEST(Tensor, rejects_invalid_shapes) {
  EXPECT_TRUE(fails(Matrix::zeros(Rank<2>(-1, 3)), ErrorCode::bad_shape, "extents_are_not_negative"));
  EXPECT_TRUE(fails(Matrix::zeros(Rank<2>(std::numeric_limits<std::uint64_t>::max(), 1)),
                    ErrorCode::size_overflow, "bytes_fit_63_bits"));
  constexpr std::int64_t two_to_40 = std::int64_t{1} << 40;
  EXPECT_TRUE(fails(Tensor<F32, Rank<3>>::zeros(Rank<3>(0, two_to_40, two_to_40)), ErrorCode::size_overflow,
                    "elements_fit_63_bits"));
  EXPECT_TRUE(fails(Matrix::zeros(Rank<2>(std::int64_t{1} << 31, std::int64_t{1} << 31)),
                    ErrorCode::size_overflow, "bytes_fit_63_bits"));
  EXPECT_TRUE(fails(Matrix::zeros(Rank<2>(std::int64_t{1} << 29, std::int64_t{1} << 29)),
                    ErrorCode::out_of_memory, "out_of_memory"));
}

TEST(Tensor, is_indexed_by_any_integral_type) {
  const auto tensor = counting(2, 3);
  EXPECT_EQ(tensor(std::uint8_t{1}, 2L), 5.0F);
  EXPECT_EQ(must(tensor.at(std::size_t{1}, std::int16_t{1})), 4.0F);
}

TEST(Tensor, reports_out_of_bounds_for_each_dimension) {
  const auto tensor = counting(2, 3);
  const auto expect_outside = [&](auto row, auto column) {
    EXPECT_TRUE(fails(tensor.at(row, column), ErrorCode::out_of_bounds, "index_is_within_bounds"));
  };
  expect_outside(2, 0);
  expect_outside(0, 3);
  expect_outside(-1, 0);
  expect_outside(0, -1);
  // Unsigned indices that a truncation or a conversion to a signed type could bring into range.
  expect_outside(std::numeric_limits<std::uint64_t>::max(), 0);
  expect_outside(0, std::uint64_t{1} << 63);
  expect_outside(0, (std::uint64_t{1} << 32) + 1);
  expect_outside(std::numeric_limits<std::int64_t>::min(), 0);
  EXPECT_EQ(must(tensor.at(1, 2)), 5.0F);
}

#ifndef NDEBUG
TEST(TensorDeathTest, asserts_its_indices_in_debug_builds) {
  const auto tensor = counting(2, 3);
  EXPECT_DEATH(static_cast<void>(tensor(2, 0)), "check_index");
}
#endif

TEST(Tensor, has_one_element_at_rank_0) {
  const auto tensor = must(Tensor<F32, Rank<0>>::of({}, {7}));
  EXPECT_EQ(tensor.elements(), 1);
  EXPECT_EQ(tensor(), 7.0F);
  EXPECT_EQ(must(tensor.at()), 7.0F);
  EXPECT_EQ(must(tensor.bytes()).size(), 4U);
  EXPECT_EQ(must(tensor.reshape<Shape<1, 1>>())(0, 0), 7.0F);
}

TEST(Tensor, may_have_zero_elements) {
  const auto tensor = must(Matrix::zeros(Rank<2>(3, 0)));
  EXPECT_EQ(tensor.elements(), 0);
  EXPECT_TRUE(tensor.is_contiguous());
  EXPECT_TRUE(must(tensor.bytes()).empty());
  EXPECT_TRUE(fails(tensor.at(0, 0), ErrorCode::out_of_bounds, "index_is_within_bounds"));
  EXPECT_EQ(must(tensor.select<0>(2)).elements(), 0);
  EXPECT_EQ(must(tensor.slice<0>(1, 3)).shape(), Rank<2>(2, 0));
  EXPECT_EQ(tensor.transpose().shape(), Rank<2>(0, 3));
  EXPECT_EQ(must(tensor.copy()).shape(), Rank<2>(3, 0));
  EXPECT_EQ(must(tensor.reshape(Rank<2>(0, 99))).shape(), Rank<2>(0, 99));
}

TEST(Tensor, slices_an_empty_range_with_any_strides) {
  // Strides that no element uses are not checked, so no offset may be computed from them.
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  const auto tensor = must(Matrix::strided(must(Storage::owned(4)), Rank<2>(0, 10), {1, most}));
  EXPECT_EQ(must(tensor.slice<1>(0, 10, 2)).shape(), Rank<2>(0, 5));
  EXPECT_EQ(must(tensor.select<1>(9)).shape(), Rank<1>(0));
}

TEST(Tensor, writes_through_every_handle) {
  const auto tensor = counting(2, 3);
  const auto column = must(tensor.select<1>(1));
  column(1) = 40.0F;
  EXPECT_EQ(tensor(1, 1), 40.0F);
  tensor.transpose()(2, 0) = 20.0F;
  EXPECT_EQ(tensor(0, 2), 20.0F);
  const ReadOnlyMatrix seen = tensor;
  tensor(0, 0) = -1.0F;
  EXPECT_EQ(seen(0, 0), -1.0F);
}

TEST(Tensor, keeps_its_bytes_alive_by_itself) {
  const auto row = [] { return must(counting(2, 3).select<0>(1)); }();
  EXPECT_EQ(row(0), 3.0F);
  EXPECT_EQ(row(2), 5.0F);
}

TEST(Tensor, select_checks_its_index) {
  const auto tensor = counting(2, 3);
  EXPECT_TRUE(fails(tensor.select<0>(2), ErrorCode::out_of_bounds, "index_is_within_bounds"));
  EXPECT_TRUE(fails(tensor.select<1>(-1), ErrorCode::out_of_bounds, "index_is_within_bounds"));
}

TEST(Tensor, slice_checks_its_bounds) {
  const auto tensor = counting(2, 3);
  EXPECT_TRUE(fails(tensor.slice<1>(0, 4), ErrorCode::out_of_bounds, "slice_is_within_bounds"));
  EXPECT_TRUE(fails(tensor.slice<1>(0, 3, 0), ErrorCode::out_of_bounds, "slice_step_is_valid"));
  EXPECT_EQ(must(tensor.slice<1>(3, 3)).shape(), Rank<2>(2, 0));
}

TEST(Tensor, slices_downwards_with_a_negative_step) {
  const auto reversed = must(counting(2, 3).slice<1>(2, -1, -1));
  EXPECT_EQ(reversed.shape(), Rank<2>(2, 3));
  EXPECT_EQ(reversed(0, 0), 2.0F);
  EXPECT_EQ(reversed(1, 2), 3.0F);
  EXPECT_EQ(must(reversed.slice<1>(2, -1, -2))(1, 1), 5.0F);
}

TEST(Tensor, views_keep_static_extents_in_the_type) {
  using Known = Tensor<F32, Shape<2, 3, 4>>;
  const auto tensor = must(Known::zeros());
  EXPECT_TRUE((std::same_as<decltype(must(tensor.select<1>(0))), Tensor<F32, Shape<2, 4>>>));
  EXPECT_TRUE((std::same_as<decltype(must(tensor.slice<1>(0, 1))), Tensor<F32, Shape<2, dynamic, 4>>>));
  EXPECT_TRUE((std::same_as<decltype(tensor.transpose<0, 2>()), Tensor<F32, Shape<4, 3, 2>>>));
  EXPECT_TRUE((std::same_as<decltype(tensor.transpose()), Tensor<F32, Shape<2, 4, 3>>>));
}

TEST(Tensor, converts_to_another_type_of_the_same_shape) {
  const auto tensor = counting(2, 3);
  const auto known = must(tensor.with_shape<Shape<2, 3>>());
  EXPECT_EQ(known(1, 2), 5.0F);
  EXPECT_EQ(known.storage(), tensor.storage());
  const Matrix dynamic_again = known;
  EXPECT_EQ(dynamic_again.shape(), Rank<2>(2, 3));
  EXPECT_TRUE(
      fails(tensor.with_shape<Shape<2, 4>>(), ErrorCode::shape_mismatch, "shape_matches_the_request"));
}

TEST(Tensor, reshapes_only_without_a_copy) {
  const auto tensor = counting(4, 6);
  const auto split = must(tensor.reshape<Shape<2, 2, 6>>());
  EXPECT_EQ(split(1, 0, 0), 12.0F);
  EXPECT_EQ(split.storage(), tensor.storage());
  EXPECT_TRUE(
      fails(tensor.reshape(Rank<1>(25)), ErrorCode::shape_mismatch, "reshape_keeps_the_element_count"));
  EXPECT_TRUE(fails(tensor.transpose().reshape(Rank<1>(24)), ErrorCode::bad_shape, "reshape_needs_no_copy"));
}

TEST(Tensor, contiguous_copies_only_strided_views) {
  const auto tensor = counting(2, 3);
  EXPECT_EQ(must(tensor.contiguous()).storage(), tensor.storage());
  const auto transposed = tensor.transpose();
  EXPECT_FALSE(transposed.is_contiguous());
  const auto dense = must(transposed.contiguous());
  EXPECT_TRUE(dense.is_contiguous());
  EXPECT_FALSE(dense.storage() == tensor.storage());
  EXPECT_EQ(dense(2, 1), 5.0F);
  // The result for a read-only tensor is read-only, whether it was copied or not.
  const ReadOnlyMatrix seen = transposed;
  EXPECT_TRUE((std::same_as<decltype(must(seen.contiguous())), ReadOnlyMatrix>));
  EXPECT_EQ(must(seen.contiguous())(2, 1), 5.0F);
}

TEST(Tensor, copy_allocates_its_own_memory) {
  const ReadOnlyMatrix seen = counting(2, 3).transpose();
  const Matrix copy = must(seen.copy());
  copy(0, 1) = 9.0F;
  EXPECT_EQ(seen(0, 1), 3.0F);
  EXPECT_TRUE(copy.is_contiguous());
  EXPECT_EQ(copy(2, 1), 5.0F);
}

TEST(Tensor, has_bytes_only_if_contiguous) {
  const auto tensor = counting(2, 3);
  const auto bytes = must(tensor.bytes());
  EXPECT_EQ(bytes.size(), 24U);
  EXPECT_EQ(load_le<float>(bytes.subspan(20)), 5.0F);
  const auto row = must(tensor.select<0>(1));
  EXPECT_EQ(must(row.bytes()).data(), bytes.data() + 12);
  const auto transposed = tensor.transpose();
  EXPECT_TRUE(fails(transposed.bytes(), ErrorCode::bad_state, "elements_are_contiguous"));
}

TEST(Tensor, wraps_existing_bytes) {
  alignas(4) std::array<std::byte, 16> bytes{};
  const auto storage = must(Storage::borrowed(MutableBytes(bytes)));
  const auto tensor = must(Tensor<I16, Rank<1>>::over(storage, Rank<1>(4), 8));
  tensor(0) = 0x0201;
  EXPECT_EQ(bytes[8], std::byte{1});
  EXPECT_EQ(bytes[9], std::byte{2});
  EXPECT_TRUE(fails(Tensor<I16, Rank<1>>::over(storage, Rank<1>(5), 8), ErrorCode::out_of_bounds,
                    "elements_are_within_the_storage"));
  EXPECT_TRUE(fails(Tensor<I16, Rank<1>>::over(storage, Rank<1>(1), 7), ErrorCode::misaligned,
                    "elements_are_aligned"));
  EXPECT_TRUE(fails(Tensor<I16, Rank<1>>::over(storage, Rank<1>(-1)), ErrorCode::bad_shape,
                    "extents_are_not_negative"));
}

TEST(Tensor, is_read_only_over_read_only_bytes) {
  alignas(4) const std::array<std::byte, 16> bytes{};
  const auto storage = must(Storage::borrowed_read_only(Bytes(bytes)));
  EXPECT_TRUE(fails(Matrix::over(storage, Rank<2>(2, 2)), ErrorCode::bad_state, "storage_is_writable"));
  EXPECT_EQ(must(ReadOnlyMatrix::over(storage, Rank<2>(2, 2)))(1, 1), 0.0F);
}

TEST(Tensor, takes_strides_in_elements_and_of_either_sign) {
  const auto storage = counting(2, 3).storage();
  const auto backwards = must(Tensor<F32, Rank<1>>::strided(storage, Rank<1>(3), {-2}, 20));
  EXPECT_EQ(backwards(0), 5.0F);
  EXPECT_EQ(backwards(2), 1.0F);
  const auto repeated = must(Tensor<F32, Rank<2>>::strided(storage, Rank<2>(100, 2), {0, 1}, 4));
  EXPECT_EQ(repeated(99, 1), 2.0F);
  EXPECT_TRUE(fails(Tensor<F32, Rank<1>>::strided(storage, Rank<1>(4), {-2}, 20), ErrorCode::out_of_bounds,
                    "elements_are_within_the_storage"));
}

TEST(Tensor, converts_only_to_less_static_types) {
  using Known = Tensor<F32, Shape<2, 3>>;
  EXPECT_TRUE((std::is_convertible_v<Known, Tensor<const F32, Rank<2>>>));
  EXPECT_TRUE((std::is_convertible_v<Tensor<const F32, Shape<2, 3>>, Tensor<const F32, Shape<dynamic, 3>>>));
  EXPECT_FALSE((std::is_constructible_v<Known, Matrix>));
  EXPECT_FALSE((std::is_constructible_v<Matrix, ReadOnlyMatrix>));
  EXPECT_FALSE((std::is_constructible_v<Tensor<const F32, Shape<2, 4>>, Known>));
  EXPECT_FALSE((std::is_constructible_v<Tensor<F64, Rank<2>>, Matrix>));
  EXPECT_FALSE((std::is_constructible_v<Matrix, Tensor<F64, Rank<2>>>));
}

}  // namespace
}  // namespace ht::tensor_test
