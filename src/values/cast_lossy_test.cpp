#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <htensor/values/cast.hpp>
#include <limits>
#include <vector>

#include "tensor/test_tools.hpp"

namespace ht::cast_lossy_test {
namespace {

using tests::code_of;
using tests::fails;
using tests::must;

static_assert(ReadableAs<Tensor<BF16, Rank<2>>, F32>);
static_assert(ReadableAs<Tensor<const F32, Rank<1>>, F64>);
static_assert(ReadableAs<BlockTensor<Q4_K, Rank<2>>, F32>);
static_assert(ReadableAs<BlockTensor<IQ2_XS, Rank<1>>, F64>);
static_assert(!ReadableAs<BlockTensor<Q4_K, Rank<2>>, BF16>);
static_assert(!ReadableAs<Tensor<I32, Rank<2>>, F32>);
static_assert(!ReadableAs<int, F32>);
static_assert(RoundableTo<Tensor<F64, Rank<1>>, F4>);
static_assert(!RoundableTo<Tensor<C64, Rank<1>>, F32>);
static_assert(HasEncoder<Q8_0> && !HasEncoder<IQ2_XS>);

Tensor<F32, Rank<2>> numbers(std::int64_t rows, std::int64_t columns) {
  const auto tensor = must(Tensor<F32, Rank<2>>::zeros(Rank<2>(rows, columns)));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j)
      tensor(i, j) = std::sin(static_cast<float>(i * columns + j)) * 10;
  }
  return tensor;
}

template <class T>
std::vector<float> floats(const T& values) {
  std::vector<float> result;
  for (auto&& value : values) result.push_back(static_cast<float>(static_cast<double>(value)));
  return result;
}

TEST(CastLossy, rounds_to_nearest_even_by_default) {
  const auto tensor = must(Tensor<F32, Rank<1>>::of(
      Rank<1>(4), {1.0F, 1.0F + 1.0F / 256, 1.0F + 3.0F / 256, std::numeric_limits<float>::max()}));
  const auto rounded = must(cast_lossy<BF16>(tensor));
  EXPECT_EQ(floats(rounded),
            (std::vector<float>{1.0F, 1.0F, 1.0F + 4.0F / 256, std::numeric_limits<float>::infinity()}));
  const auto clamped = must(cast_lossy<BF16>(tensor, {.saturate = true}));
  EXPECT_EQ(code_of(clamped(3)), 0x7F7FU);
  const auto down = must(cast_lossy<BF16>(tensor, {.mode = Rounding::Mode::toward_zero}));
  EXPECT_EQ(floats(down)[2], 1.0F + 2.0F / 256);
}

TEST(CastLossy, is_a_cast_where_every_value_fits) {
  const auto tensor =
      must(Tensor<BF16, Rank<1>>::of(Rank<1>(2), {BF16::Element(1.5F), BF16::Element::from_bits(0x7F80)}));
  EXPECT_EQ(floats(must(cast_lossy<F32>(tensor, {.saturate = true}))),
            (std::vector<float>{1.5F, std::numeric_limits<float>::infinity()}));
}

// Reads every second row of a transposed matrix, and packed elements that begin within a byte.
TEST(CastLossy, accepts_any_strides) {
  const auto matrix = numbers(6, 10);
  const auto view = must(matrix.transpose().slice<0>(9, -1, -2));
  const auto rounded = must(cast_lossy<F16>(view));
  const auto expected = must(cast_lossy<F16>(must(view.copy())));
  ASSERT_EQ(rounded.shape(), view.shape());
  EXPECT_EQ(floats(rounded), floats(expected));
  const auto packed = must(cast_lossy<I4>(matrix));
  const auto odd = must(packed.slice<1>(1, 10, 3));
  EXPECT_EQ(floats(must(cast<F32>(odd))), floats(must(odd.copy())));
}

TEST(CastLossy, random_bits_are_those_of_the_row_major_index) {
  const auto matrix = numbers(40, 30);
  const Rounding random{.mode = Rounding::Mode::stochastic, .seed = 4};
  const auto columns = must(matrix.transpose().copy());
  // The same values at the same indexes, with and without strides.
  EXPECT_EQ(floats(must(cast_lossy<BF16>(matrix.transpose(), random))),
            floats(must(cast_lossy<BF16>(columns, random))));
}

TEST(CastInto, fills_the_callers_elements) {
  const auto matrix = numbers(4, 6);
  const auto half = must(cast_lossy<F16>(matrix));
  const auto buffer = must(Tensor<F32, Rank<2>>::zeros(Rank<2>(8, 6)));
  const auto rows = must(buffer.slice<0>(0, 8, 2));
  must(cast_into(rows, half));
  EXPECT_EQ(floats(rows), floats(half));
  EXPECT_EQ(buffer(1, 0), 0.0F);
  const Rounding toward_zero{.mode = Rounding::Mode::toward_zero};
  const auto nearest = floats(half);
  must(cast_lossy_into(half, matrix, toward_zero));
  EXPECT_EQ(floats(half), floats(must(cast_lossy<F16>(matrix, toward_zero))));
  EXPECT_NE(floats(half), nearest);
  const auto other = must(Tensor<F32, Rank<2>>::zeros(Rank<2>(3, 6)));
  EXPECT_FALSE(cast_into(other, half));
  EXPECT_EQ(cast_into(other, half).error().code(), ErrorCode::shape_mismatch);
}

// A cast into packed elements does not change other elements that share their bytes.
TEST(CastInto, keeps_the_neighbours_of_packed_elements) {
  const auto buffer = must(Tensor<U4, Rank<1>>::zeros(Rank<1>(8)));
  for (std::int64_t i = 0; i < 8; ++i) buffer(i) = U4::Element(9);
  const auto values = must(Tensor<F32, Rank<1>>::of(Rank<1>(3), {1.0F, 2.0F, 3.0F}));
  must(cast_lossy_into(must(buffer.slice<0>(2, 5)), values));
  EXPECT_EQ(floats(buffer), (std::vector<float>{9, 9, 1, 2, 3, 9, 9, 9}));
}

TEST(Blocks, are_encoded_and_decoded) {
  const auto matrix = numbers(3, 64);
  const auto blocks = must(cast_lossy<Q8_0>(matrix));
  EXPECT_EQ(blocks.shape(), matrix.shape());
  EXPECT_EQ(blocks.bytes().size(), 3U * 2 * 34);
  const auto back = must(cast<F32>(blocks));
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < 64; ++j) EXPECT_NEAR(back(i, j), matrix(i, j), 10.0 / 127);
  }
  EXPECT_EQ(floats(must(cast<F64>(blocks))), floats(back));
  EXPECT_EQ(floats(must(cast_lossy<BF16>(blocks))), floats(must(cast_lossy<BF16>(back))));
  // Transposed rows are copied to contiguous memory before they are encoded.
  const auto strided = must(cast_lossy<Q8_0>(must(matrix.transpose().copy()).transpose()));
  EXPECT_TRUE(std::ranges::equal(strided.bytes(), blocks.bytes()));
  // Blocks can be encoded again.
  EXPECT_EQ(floats(must(cast<F32>(must(cast_lossy<Q8_0>(blocks))))), floats(back));
}

TEST(Blocks, are_encoded_from_packed_elements_that_start_within_a_byte) {
  const auto elements = must(cast_lossy<I4>(numbers(1, 65)));
  const auto row = must(elements.select<0>(0));
  const auto view = must(row.slice<0>(1, 33));
  const auto blocks = must(cast_lossy<Q8_0>(view));
  const auto of_copy = must(cast_lossy<Q8_0>(must(view.copy())));
  EXPECT_TRUE(std::ranges::equal(blocks.bytes(), of_copy.bytes()));
}

TEST(Blocks, are_read_lazily) {
  const auto blocks = must(cast_lossy<Q8_0>(numbers(2, 64)));
  const auto values = must(cast<F32>(blocks));
  const auto lazy = as<F32>(blocks);
  EXPECT_EQ(lazy.elements(), 128);
  EXPECT_EQ(floats(lazy), floats(values));
  EXPECT_EQ(must(lazy.at(1, 63)), values(1, 63));
  EXPECT_TRUE(fails(lazy.at(2, 0), ErrorCode::out_of_bounds, "index_is_within_bounds"));
  EXPECT_EQ(floats(must(as<F64>(blocks).copy())), floats(values));
}

TEST(Blocks, rows_are_whole_blocks) {
  EXPECT_TRUE(fails(cast_lossy<Q8_0>(numbers(2, 33)), ErrorCode::bad_shape, "rows_are_whole_blocks"));
}

TEST(Blocks, blocks_are_within_the_storage) {
  const auto storage = must(Storage::owned(33));
  EXPECT_TRUE(fails(BlockTensor<Q8_0, Rank<1>>::over(storage, Rank<1>(32)), ErrorCode::out_of_bounds,
                    "blocks_are_within_the_storage"));
}

TEST(Blocks, may_be_empty) {
  const auto blocks = must(cast_lossy<Q4_0>(must(Tensor<F32, Rank<2>>::zeros(Rank<2>(0, 32)))));
  EXPECT_EQ(blocks.elements(), 0);
  EXPECT_EQ(must(cast<F32>(blocks)).elements(), 0);
  EXPECT_EQ(must(blocks.slice(0, 0)).elements(), 0);
}

// A view of any strides converts like its copy.
RC_GTEST_PROP(CastLossy, equals_the_cast_of_a_copy, ()) {
  const auto rows = *rc::gen::inRange<std::int64_t>(1, 9);
  const auto columns = *rc::gen::inRange<std::int64_t>(1, 600);
  const auto step = *rc::gen::inRange<std::int64_t>(1, 4);
  const auto view = must(numbers(rows, columns).slice<1>(0, columns, step));
  RC_ASSERT(floats(must(cast_lossy<F8_E4M3>(view))) == floats(must(cast_lossy<F8_E4M3>(must(view.copy())))));
  RC_ASSERT(floats(must(cast_lossy<F6_E2M3>(view.transpose()))) ==
            floats(must(cast_lossy<F6_E2M3>(must(view.transpose().copy())))));
}

}  // namespace
}  // namespace ht::cast_lossy_test
