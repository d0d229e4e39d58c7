#include <htensor/compute/embedding.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <string_view>
#include <vector>

#include "compute/nn/nn_test.hpp"
#include "testing/users_dtype.hpp"

namespace ht::embedding_test {
namespace {

using tests::fails;
using tests::must;
using tests::nth_code;
using tests::random_tensor;
using tests::same_bits;

const std::vector<std::int32_t> ids{3, 0, 3, 4};

/// Compares each row with the same row of the cast table.
template <class To, class W>
void expect_rows(const W& table, const Tensor<To, Rank<2>>& all) {
  const auto rows = must(embedding<To>(table, ids));
  ASSERT_EQ(rows.shape(), Rank<2>(4, all.extent(1)));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    EXPECT_TRUE(
        same_bits(must(rows.template slice<0>(at, at + 1)), must(all.template slice<0>(ids[i], ids[i] + 1))));
  }
}

template <class D>
Tensor<D, Rank<2>> table_of(std::int64_t columns) {
  auto table = must(Tensor<D, Rank<2>>::zeros(Rank<2>(5, columns)));
  std::int64_t next = 0;
  for (auto&& element : table) {
    element = static_cast<typename D::Element>(
        static_cast<float>(static_cast<int>(nth_code(next++) % 13) - (IsFloating<D> ? 6 : 0)));
  }
  return table;
}

template <class D>
void expect_dense() {
  for (const std::int64_t columns : {7, 64}) {
    const auto table = table_of<D>(columns);
    if constexpr (LosslessTo<D, F32>) {
      expect_rows<F32>(table, must(cast<F32>(table)));
      expect_rows<F32>(as<F32>(table), must(cast<F32>(table)));
    }
    expect_rows<F64>(table, must(cast<F64>(table)));
    // Rows with gaps between them, and rows with strided elements.
    const auto part = must(table.template slice<1>(1, columns - 1));
    expect_rows<F64>(part, must(cast<F64>(part)));
    const auto reversed_columns = must(table.template slice<1>(columns - 1, -1, -2));
    expect_rows<F64>(reversed_columns, must(cast<F64>(reversed_columns)));
    const auto reversed_rows = must(table.template slice<0>(4, -1, -1));
    expect_rows<F64>(reversed_rows, must(cast<F64>(reversed_rows)));
  }
}

TEST(Embedding, gathers_rows_of_dense_dtypes) {
  expect_dense<F32>();
  expect_dense<F64>();
  expect_dense<F16>();
  expect_dense<BF16>();
  expect_dense<F8_E4M3>();
  expect_dense<U8>();
  expect_dense<U4>();
}

template <class E>
void expect_blocks(std::int64_t columns) {
  const auto table = must(cast_lossy<E>(random_tensor<F32>(Rank<2>(5, columns), 1)));
  expect_rows<F32>(table, must(cast<F32>(table)));
  expect_rows<F64>(as<F64>(table), must(cast<F64>(table)));
}

TEST(Embedding, gathers_rows_of_block_encodings) {
  expect_blocks<Q8_0>(32);
  expect_blocks<Q4_0>(96);
  expect_blocks<Q4_K>(512);
  expect_blocks<Q6_K>(256);
}

TEST(Embedding, accepts_64_bit_ids_and_many_ids) {
  const auto table = random_tensor<F32>(Rank<2>(5, 257), 2);
  std::vector<std::int64_t> many;
  many.reserve(1000);
  for (std::int64_t i = 0; i < 1000; ++i) many.push_back(i * 7 % 5);
  const auto rows = must(embedding(table, many));
  for (std::int64_t i = 0; i < 1000; ++i)
    ASSERT_EQ(rows(i, 256), table(many[static_cast<std::size_t>(i)], 256));
}

TEST(Embedding, accepts_empty_tensors) {
  const auto table = random_tensor<F32>(Rank<2>(5, 8), 2);
  EXPECT_EQ(must(embedding(table, std::vector<std::int32_t>())).shape(), Rank<2>(0, 8));
  EXPECT_EQ(must(embedding(random_tensor<F32>(Rank<2>(5, 0), 1), ids)).shape(), Rank<2>(4, 0));
}

TEST(Embedding, id_is_a_row_of_the_table) {
  const auto table = random_tensor<F32>(Rank<2>(5, 8), 2);
  for (const std::int32_t id : {5, -1}) {
    EXPECT_TRUE(fails(embedding(table, std::vector<std::int32_t>{0, id}), ErrorCode::out_of_bounds,
                      "id_is_a_row_of_the_table"));
    EXPECT_TRUE(fails(embedding(table, std::vector<std::int64_t>{id}), ErrorCode::out_of_bounds,
                      "id_is_a_row_of_the_table"));
  }
  const auto failed = embedding(table, std::vector<std::int32_t>{0, 7});
  EXPECT_EQ(failed.error().message(), "id 7 at index 1 is outside the table of 5 rows");
  EXPECT_TRUE(fails(embedding(random_tensor<F32>(Rank<2>(0, 8), 1), ids), ErrorCode::out_of_bounds,
                    "id_is_a_row_of_the_table"));
}

TEST(Embedding, gathers_rows_of_a_users_dtype) {
  const auto table = table_of<user::F8_E3M4>(9);
  expect_rows<F32>(table, must(cast<F32>(table)));
}

template <class T>
concept HasEmbedding = requires(const T& table) { embedding(table, ids); };

TEST(Embedding, is_available_where_f32_holds_every_value) {
  static_assert(HasEmbedding<Tensor<BF16, Rank<2>>> && HasEmbedding<BlockTensor<Q4_K, Rank<2>>>);
  static_assert(!HasEmbedding<Tensor<F64, Rank<2>>> && !HasEmbedding<Tensor<F32, Rank<1>>>);
  EXPECT_FALSE(HasEmbedding<std::vector<float>>);
}

}  // namespace
}  // namespace ht::embedding_test
