#include <htensor/tensor/tensor.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <concepts>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <ranges>
#include <vector>

#include "tensor/test_tools.hpp"

namespace ht::iterator_test {
namespace {

using tests::must;

using Matrix = Tensor<I32, Rank<2>>;
using Numbers = std::vector<std::int32_t>;

template <class T>
using Iterator = decltype(std::declval<const T&>().begin());

static_assert(std::forward_iterator<Iterator<Matrix>>);
static_assert(std::forward_iterator<Iterator<Tensor<const BF16, Shape<4, 8>>>>);
static_assert(std::forward_iterator<Iterator<Tensor<C64, Rank<0>>>>);
static_assert(std::forward_iterator<Iterator<Tensor<Bool, Rank<8>>>>);
static_assert(std::output_iterator<Iterator<Matrix>, std::int32_t>);
static_assert(!std::output_iterator<Iterator<Tensor<const I32, Rank<2>>>, std::int32_t>);
static_assert(std::ranges::forward_range<const Matrix> && std::ranges::common_range<const Matrix>);
static_assert(
    std::derived_from<std::iterator_traits<Iterator<Matrix>>::iterator_category, std::forward_iterator_tag>);
static_assert(std::input_iterator<Iterator<Tensor<const I4, Rank<2>>>>);

Matrix counting(std::int64_t rows, std::int64_t columns) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(rows * columns));
  std::iota(values.begin(), values.end(), 0);
  return must(Matrix::of(Rank<2>(rows, columns), values));
}

template <class T>
std::vector<std::int32_t> walked(const T& tensor) {
  return {tensor.begin(), tensor.end()};
}

TEST(Iterator, walks_in_row_major_order) { EXPECT_EQ(walked(counting(2, 3)), (Numbers{0, 1, 2, 3, 4, 5})); }

TEST(Iterator, walks_a_transposed_view_in_its_own_order) {
  EXPECT_EQ(walked(counting(2, 3).transpose()), (Numbers{0, 3, 1, 4, 2, 5}));
}

TEST(Iterator, walks_down_with_negative_strides) {
  const auto tensor = counting(2, 3);
  EXPECT_EQ(walked(must(tensor.slice<1>(2, -1, -1))), (Numbers{2, 1, 0, 5, 4, 3}));
  EXPECT_EQ(walked(must(tensor.slice<0>(1, -1, -1))), (Numbers{3, 4, 5, 0, 1, 2}));
  EXPECT_EQ(walked(must(tensor.slice<1>(2, -1, -2)).transpose()), (Numbers{2, 5, 0, 3}));
}

TEST(Iterator, walks_more_than_two_dimensions) {
  const auto cube = must(counting(4, 6).reshape(Rank<3>(2, 3, 4)));
  EXPECT_EQ(walked(must(cube.transpose<0, 2>().slice<0>(0, 4, 3))),
            (Numbers{0, 12, 4, 16, 8, 20, 3, 15, 7, 19, 11, 23}));
}

TEST(Iterator, visits_one_element_at_rank_0) {
  const auto tensor = must(Tensor<I32, Rank<0>>::of({}, {7}));
  EXPECT_EQ(walked(tensor), Numbers{7});
}

TEST(Iterator, visits_nothing_in_an_empty_tensor) {
  EXPECT_EQ(counting(0, 3).begin(), counting(0, 3).end());
  EXPECT_TRUE(walked(must(Matrix::zeros(Rank<2>(3, 0)))).empty());
}

TEST(Iterator, ignores_strides_of_extent_1) {
  // The stride of an extent of 1 is never checked, so it may be the smallest integer.
  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  const auto storage = counting(1, 3).storage();
  const auto tensor = must(Matrix::strided(storage, Rank<2>(1, 3), {least, 1}));
  EXPECT_EQ(walked(tensor), (Numbers{0, 1, 2}));
}

TEST(Iterator, writes_to_the_tensor) {
  const auto tensor = counting(2, 3);
  for (auto& element : tensor) element *= 10;
  EXPECT_EQ(tensor(1, 2), 50);
  std::ranges::fill(must(tensor.select<1>(0)), -1);
  EXPECT_EQ(walked(tensor), (Numbers{-1, 10, 20, -1, 40, 50}));
}

TEST(Iterator, is_multi_pass) {
  const auto tensor = counting(2, 3);
  auto first = tensor.begin();
  auto second = first++;
  EXPECT_EQ(*second, 0);
  EXPECT_EQ(*first, 1);
  EXPECT_NE(first, second);
  ++second;
  EXPECT_EQ(first, second);
  EXPECT_EQ(&*first, &*second);
}

TEST(Iterator, outlives_its_tensor_handle) {
  const auto tensor = counting(2, 3);
  const auto begin = [&] { return Matrix(tensor).transpose().begin(); }();
  EXPECT_EQ(*std::next(begin, 3), 4);
}

TEST(Iterator, works_with_standard_algorithms) {
  const auto tensor = counting(3, 4);
  const auto view = must(tensor.slice<1>(0, 4, 2)).transpose();
  EXPECT_EQ(std::accumulate(view.begin(), view.end(), 0), 30);
  EXPECT_EQ(std::count_if(view.begin(), view.end(), [](int x) { return x > 5; }), 3);
  EXPECT_EQ(std::distance(view.begin(), view.end()), 6);
  EXPECT_EQ(*std::max_element(view.begin(), view.end()), 10);
}

TEST(Iterator, works_with_ranges) {
  const auto tensor = counting(3, 4);
  EXPECT_EQ(std::ranges::count(tensor, 7), 1);
  EXPECT_EQ(std::ranges::distance(tensor), 12);
  EXPECT_EQ(*std::ranges::find_if(tensor, [](int x) { return x > 8; }), 9);
  EXPECT_TRUE(std::ranges::equal(tensor.transpose(), must(tensor.transpose().copy())));
  EXPECT_TRUE(std::ranges::is_sorted(tensor));
  int sum = 0;
  for (const int x : tensor | std::views::transform([](int x) { return 2 * x; }) | std::views::drop(10)) {
    sum += x;
  }
  EXPECT_EQ(sum, 42);
}

TEST(Iterator, walks_packed_elements) {
  std::vector<I4::Element> values;
  for (int i = -8; i < 7; ++i) values.emplace_back(i);
  const auto tensor = must(Tensor<I4, Rank<2>>::of(Rank<2>(3, 5), values));
  int expected = -8;
  for (auto&& element : tensor) EXPECT_EQ(static_cast<int>(element), expected++);
  const Tensor<const I4, Rank<2>> seen = tensor;
  EXPECT_EQ(std::ranges::count(seen, I4::Element(-3)), 1);
  EXPECT_TRUE(std::ranges::equal(seen, values));
}

// Returns the elements that the runs contain, and the number of runs.
template <class T>
std::pair<Numbers, int> walked_in_runs(const T& tensor) {
  Numbers numbers;
  int runs = 0;
  const auto append = [&](const detail::Run<2>& run) {
    ++runs;
    for (std::int64_t i = 0; i < run.count; ++i) {
      EXPECT_EQ(run.offsets[0] + i * run.strides[0], run.offsets[1] + i * run.strides[1]);
      numbers.push_back(tensor.data()[run.offsets[0] + i * run.strides[0]]);
    }
  };
  detail::for_each_run(tensor.shape().extents(), append, tensor.strides(), tensor.strides());
  return {numbers, runs};
}

TEST(Runs, reach_the_same_elements_as_the_iterator) {
  const auto cube = must(counting(4, 6).reshape(Rank<3>(2, 3, 4)));
  const auto expect_same = [](const auto& tensor, int runs) {
    EXPECT_EQ(walked_in_runs(tensor), std::pair(walked(tensor), runs));
    EXPECT_EQ(walked(must(tensor.copy())), walked(tensor));
  };
  expect_same(cube, 1);
  expect_same(must(cube.template slice<0>(1, -1, -1)), 2);
  expect_same(must(cube.template slice<2>(0, 4, 2)), 1);
  expect_same(must(cube.template slice<2>(1, 3)), 6);
  expect_same(must(cube.template slice<1>(0, 2)), 2);
  expect_same(must(cube.template slice<1>(1, 2)), 2);
  expect_same(cube.template transpose<0, 2>(), 12);
  expect_same(cube.template transpose<1, 2>(), 8);
  expect_same(must(cube.template slice<1>(0, 0)), 0);
  expect_same(must(Tensor<I32, Rank<0>>::of({}, {7})), 1);
  const auto one = must(Tensor<I32, Rank<1>>::of(Rank<1>(1), {7}));
  expect_same(must(Tensor<I32, Rank<2>>::strided(one.storage(), Rank<2>(3, 5), {0, 0})), 1);
}

TEST(Runs, are_as_long_as_all_views_permit) {
  int runs = 0;
  const auto count = [&](const detail::Run<2>& run) {
    ++runs;
    EXPECT_EQ(run.count, 3);
    EXPECT_EQ(run.strides[0], 1);
    EXPECT_EQ(run.strides[1], 4);
  };
  using Array = std::array<std::int64_t, 2>;
  detail::for_each_run(Array{4, 3}, count, Array{3, 1}, Array{1, 4});
  EXPECT_EQ(runs, 4);
}

TEST(Iterator, has_the_element_as_value_type_for_packed_dtypes) {
  // A vector of the values must hold numbers and not references into the tensor.
  EXPECT_TRUE((std::same_as<std::iter_value_t<Iterator<Tensor<const I4, Rank<1>>>>, I4::Element>));
  EXPECT_TRUE((std::same_as<std::iter_value_t<Iterator<Tensor<I4, Rank<1>>>>, I4::Element>));
}

}  // namespace
}  // namespace ht::iterator_test
