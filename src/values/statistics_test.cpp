#include <htensor/values/statistics.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <stop_token>
#include <vector>

#include "tensor/test_tools.hpp"
#include "values/targets_test.hpp"

namespace ht::statistics_test {
namespace {

using tests::fails;
using tests::must;

template <class D>
Tensor<D, Rank<1>> tensor_of(const std::vector<typename D::Element>& values) {
  return must(Tensor<D, Rank<1>>::of(Rank<1>(static_cast<std::int64_t>(values.size())), values));
}

std::vector<float> noise(std::size_t count, float offset) {
  std::mt19937 random(7);
  std::vector<float> values(count);
  for (auto& value : values) value = offset + static_cast<float>(random() % 20001) / 10000.0F - 1.0F;
  return values;
}

TEST(Statistics, match_a_plain_loop) {
  for (const std::size_t count : {1U, 15U, 16U, 17U, 1023U, 1024U, 1025U, 400000U}) {
    const auto values = noise(count, 0.25F);
    const auto found = must(statistics(tensor_of<F32>(values)));
    long double sum = 0;
    long double squares = 0;
    for (const float value : values) {
      sum += value;
      squares += static_cast<long double>(value) * value;
    }
    const auto n = static_cast<long double>(count);
    long double deviations = 0;
    for (const float value : values) deviations += (value - sum / n) * (value - sum / n);
    const auto min = std::ranges::min_element(values);
    const auto max = std::ranges::max_element(values);
    EXPECT_EQ(found.count, count);
    EXPECT_EQ(found.min, static_cast<double>(*min));
    EXPECT_EQ(found.max, static_cast<double>(*max));
    EXPECT_EQ(found.argmin, static_cast<std::uint64_t>(min - values.begin()));
    EXPECT_EQ(found.argmax, static_cast<std::uint64_t>(max - values.begin()));
    EXPECT_NEAR(found.sum, static_cast<double>(sum), 1e-13 * static_cast<double>(n));
    EXPECT_NEAR(found.norm(), static_cast<double>(std::sqrt(squares)), 1e-13 * found.norm());
    EXPECT_NEAR(found.standard_deviation(), static_cast<double>(std::sqrt(deviations / n)), 1e-9);
    EXPECT_EQ(found.zeros, static_cast<std::uint64_t>(std::ranges::count(values, 0.0F)));
  }
}

TEST(Statistics, keep_a_small_deviation_from_a_large_mean) {
  std::vector<float> values(5000, 1.0e6F);
  for (std::size_t i = 0; i < values.size(); i += 2) values[i] += 0.125F;
  EXPECT_NEAR(must(statistics(tensor_of<F32>(values))).standard_deviation(), 0.0625, 1e-12);
}

TEST(Statistics, count_and_exclude_special_values) {
  auto values = noise(3000, 0.0F);
  std::ranges::fill(values, 2.0F);
  values[3] = std::numeric_limits<float>::quiet_NaN();
  values[1500] = -std::numeric_limits<float>::infinity();
  values[1501] = std::numeric_limits<float>::infinity();
  values[2000] = std::numeric_limits<float>::denorm_min();
  values[2999] = -0.0F;
  const auto found = must(statistics(tensor_of<F32>(values)));
  EXPECT_EQ(found.nans, 1U);
  EXPECT_EQ(found.infinities, 2U);
  EXPECT_EQ(found.subnormals, 1U);
  EXPECT_EQ(found.zeros, 1U);
  EXPECT_EQ(found.finite_count(), 2997U);
  EXPECT_EQ(found.max, 2.0);
  EXPECT_EQ(found.argmax, 0U);
  EXPECT_EQ(found.min, 0.0);
  EXPECT_EQ(found.argmin, 2999U);
  EXPECT_EQ(found.sum, 2.0 * 2995 + static_cast<double>(std::numeric_limits<float>::denorm_min()));
}

TEST(Statistics, have_no_extremes_without_a_finite_value) {
  const auto empty = must(statistics(tensor_of<F32>({})));
  EXPECT_EQ(empty.count, 0U);
  EXPECT_TRUE(std::isnan(empty.min));
  EXPECT_TRUE(std::isnan(empty.mean()));
  EXPECT_EQ(empty.norm(), 0.0);
  const auto nan = must(statistics(tensor_of<F32>({std::numeric_limits<float>::quiet_NaN()})));
  EXPECT_EQ(nan.nans, 1U);
  EXPECT_TRUE(std::isnan(nan.max));
  EXPECT_TRUE(std::isnan(nan.standard_deviation()));
}

TEST(Statistics, count_subnormals_of_the_stored_dtype) {
  const auto half =
      must(statistics(tensor_of<F16>({F16::Element::from_bits(0x0001), F16::Element::from_bits(0x83FF),
                                      F16::Element::from_bits(0x0400), F16::Element::from_bits(0)})));
  EXPECT_EQ(half.subnormals, 2U);
  EXPECT_EQ(half.zeros, 1U);
  const auto mini =
      must(statistics(tensor_of<F8_E4M3>({F8_E4M3::Element::from_bits(7), F8_E4M3::Element::from_bits(8)})));
  EXPECT_EQ(mini.subnormals, 1U);
  const auto whole = must(statistics(tensor_of<I8>({0, 1, -1})));
  EXPECT_EQ(whole.subnormals, 0U);
  EXPECT_EQ(whole.zeros, 1U);
}

TEST(Statistics, read_every_real_dtype) {
  const auto check = []<class D>(D) {
    if constexpr (LibraryReal<D>) {
      const auto tensor = must(Tensor<D, Rank<2>>::zeros(Rank<2>(3, 40)));
      for (std::int64_t i = 0; i < 40; ++i) tensor(1, i) = tests::element_of<D>(1);
      const double one = static_cast<double>(static_cast<typename D::Element>(tensor(1, 0)));
      const double zero = static_cast<double>(static_cast<typename D::Element>(tensor(0, 0)));
      const auto found = must(statistics(tensor));
      EXPECT_EQ(found.count, 120U) << D::name;
      EXPECT_EQ(found.max, std::max(one, zero)) << D::name;
      EXPECT_EQ(found.min, std::min(one, zero)) << D::name;
      EXPECT_EQ(found.argmax, 40U) << D::name;
      // A strided view has the same values.
      EXPECT_EQ(must(statistics(tensor.transpose())).sum, found.sum) << D::name;
    }
  };
  const auto all = [&]<class... Ds>(DTypeList<Ds...>) { (check(Ds{}), ...); };
  all(AllDTypes{});
}

// Compares the sums with those of a plain loop, within the bounds that the header states.
template <class T>
void expect_sums_within_bounds(const T& tensor, double error_of_groups) {
  const auto found = must(statistics(tensor));
  const auto values = must(cast<F64>(tensor));
  long double sum = 0;
  long double magnitudes = 0;
  long double squares = 0;
  for (const double value : values) {
    sum += value;
    magnitudes += std::abs(value);
    squares += static_cast<long double>(value) * value;
  }
  const auto count = static_cast<double>(values.elements());
  const double factor = (260 + std::log2(count)) * 0x1p-53;
  EXPECT_LE(std::abs(found.sum - static_cast<double>(sum)),
            (factor + 3 * error_of_groups) * static_cast<double>(magnitudes));
  const auto norm = static_cast<double>(std::sqrt(squares));
  EXPECT_LE(std::abs(found.norm() - norm), (factor + 4 * error_of_groups) * norm);
  const auto mean = static_cast<double>(sum) / count;
  long double deviations = 0;
  for (const double value : values) deviations += (value - mean) * static_cast<long double>(value - mean);
  const double deviation = std::sqrt(static_cast<double>(deviations) / count);
  EXPECT_NEAR(found.standard_deviation(), deviation, 1e-5 * deviation);
}

TEST(Statistics, have_sums_within_the_stated_bounds) {
  for (const float offset : {0.0F, 0.25F, 40.0F, -1000.0F}) {
    for (const std::size_t count : {64U, 100U, 4096U, 4097U, 50000U}) {
      SCOPED_TRACE(count);
      const auto wide = tensor_of<F32>(noise(count, offset));
      expect_sums_within_bounds(wide, 0);
      expect_sums_within_bounds(must(cast_lossy<BF16>(wide)), 0x1p-24);
      expect_sums_within_bounds(must(cast_lossy<F16>(wide)), 0x1p-24);
      expect_sums_within_bounds(must(cast_lossy<F8_E4M3>(wide, {.saturate = true})), 0x1p-24);
    }
    expect_sums_within_bounds(must(cast_lossy<Q8_0>(tensor_of<F32>(noise(4096, offset)))), 0x1p-24);
  }
}

// If all values have one sign, the minimum or maximum is read from another bit pattern.
TEST(Statistics, find_extremes_of_one_sign) {
  for (const float sign : {1.0F, -1.0F}) {
    auto values = noise(5000, 3.0F);
    for (auto& value : values) value *= sign;
    const auto bf16 = must(cast_lossy<BF16>(tensor_of<F32>(values)));
    const auto expected = must(cast<F32>(bf16));
    const auto found = must(statistics(bf16));
    EXPECT_EQ(found.min, static_cast<double>(*std::ranges::min_element(expected)));
    EXPECT_EQ(found.max, static_cast<double>(*std::ranges::max_element(expected)));
    EXPECT_EQ(found.argmin, static_cast<std::uint64_t>(
                                std::distance(expected.begin(), std::ranges::min_element(expected))));
    EXPECT_EQ(found.argmax, static_cast<std::uint64_t>(
                                std::distance(expected.begin(), std::ranges::max_element(expected))));
  }
}

TEST(Statistics, keep_squares_beyond_the_range_of_f32) {
  const std::vector<float> huge(5000, 0x1p100F);
  const std::vector<float> tiny(5000, 0x1p-100F);
  for (const auto& values : {huge, tiny}) {
    const auto found = must(statistics(must(cast_lossy<BF16>(tensor_of<F32>(values)))));
    const double square = static_cast<double>(values[0]) * static_cast<double>(values[0]);
    EXPECT_EQ(found.sum_of_squares, 5000 * square);
    EXPECT_EQ(found.standard_deviation(), 0);
  }
}

TEST(Statistics, count_zeros_and_subnormals_of_narrow_dtypes) {
  auto values = noise(9000, 0.0F);
  for (std::size_t i = 0; i < values.size(); i += 100) values[i] = i % 200 == 0 ? 0.0F : -0.0F;
  values[4097] = 0x1p-130F;
  const auto found = must(statistics(must(cast_lossy<BF16>(tensor_of<F32>(values)))));
  EXPECT_EQ(found.zeros, static_cast<std::uint64_t>(std::ranges::count(values, 0.0F)));
  EXPECT_EQ(found.subnormals, 1U);
}

TEST(Statistics, equal_the_statistics_of_a_copy) {
  const auto values = noise(40000, 0.1F);
  const auto matrix = must(Tensor<F32, Rank<2>>::of(Rank<2>(100, 400), values));
  const auto view = must(matrix.slice<1>(399, -1, -3)).transpose();
  const auto copy = must(view.copy());
  const auto of_view = must(statistics(view));
  const auto of_copy = must(statistics(copy));
  EXPECT_EQ(of_view.sum, of_copy.sum);
  EXPECT_EQ(of_view.sum_of_squares, of_copy.sum_of_squares);
  EXPECT_EQ(of_view.argmax, of_copy.argmax);
  const Histogram::Range range{.low = -1, .high = 1, .bins = 7};
  EXPECT_EQ(must(histogram(view, range)).counts, must(histogram(copy, range)).counts);
}

template <class T>
void expect_same_on_every_target(const T& tensor) {
  const auto expected = must(statistics(tensor));
  testing::for_each_target([&](const char* target) {
    SCOPED_TRACE(target);
    const auto found = must(statistics(tensor));
    EXPECT_EQ(found.sum, expected.sum);
    EXPECT_EQ(found.sum_of_squares, expected.sum_of_squares);
    EXPECT_EQ(found.squared_deviations, expected.squared_deviations);
    EXPECT_EQ(found.min, expected.min);
    EXPECT_EQ(found.argmin, expected.argmin);
    EXPECT_EQ(found.max, expected.max);
    EXPECT_EQ(found.zeros, expected.zeros);
  });
}

TEST(Statistics, are_the_same_on_every_processor) {
  const auto wide = tensor_of<F32>(noise(300001, 0.1F));
  expect_same_on_every_target(wide);
  expect_same_on_every_target(must(cast_lossy<BF16>(wide)));
  expect_same_on_every_target(must(cast_lossy<F16>(wide)));
  expect_same_on_every_target(must(cast_lossy<I8>(wide)));
}

// Blocks of random bytes, except that d and dmin are drawn from `halves`.
BlockTensor<Q4_K, Rank<1>> q4_k_blocks(std::int64_t count, const std::vector<std::uint16_t>& halves) {
  std::mt19937 random(11);
  const auto bytes = static_cast<std::uint64_t>(count * Q4_K::block_bytes);
  auto storage = must(Storage::owned(bytes));
  const auto into = must(storage.writable_bytes());
  for (auto& byte : into) byte = static_cast<std::byte>(random());
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const std::uint16_t both[2] = {halves[random() % halves.size()], halves[random() % halves.size()]};
    std::memcpy(into.data() + i * Q4_K::block_bytes, both, sizeof both);
  }
  return must(BlockTensor<Q4_K, Rank<1>>::over(storage, Rank<1>(count * Q4_K::block_elements)));
}

void expect_statistics_of_elements(const BlockTensor<Q4_K, Rank<1>>& blocks) {
  const auto found = must(statistics(blocks));
  const auto expected = must(statistics(must(cast<F32>(blocks))));
  EXPECT_EQ(found.count, expected.count);
  EXPECT_EQ(found.zeros, expected.zeros);
  EXPECT_EQ(found.subnormals, expected.subnormals);
  EXPECT_EQ(found.nans, expected.nans);
  EXPECT_EQ(found.infinities, expected.infinities);
  EXPECT_EQ(found.min, expected.min);
  EXPECT_EQ(found.max, expected.max);
  EXPECT_EQ(found.argmin, expected.argmin);
  EXPECT_EQ(found.argmax, expected.argmax);
  EXPECT_NEAR(found.standard_deviation(), expected.standard_deviation(),
              1e-5 * expected.standard_deviation());
}

TEST(Statistics, q4_k_blocks_have_the_statistics_of_their_elements) {
  const std::vector<std::uint16_t> usual = {0x2000, 0x2345, 0x1fff, 0x2801};
  const std::vector<std::uint16_t> signs = {0x2000, 0xA123, 0x0001, 0x8003};
  const std::vector<std::uint16_t> zeros = {0x0000, 0x8000, 0x3C00};
  const std::vector<std::uint16_t> equal = {0x3C00};
  // 1200 blocks are more than one read, 16 blocks are one call of the kernel, 1 and 7 are less.
  for (const std::int64_t count : {1, 7, 16, 1200}) {
    SCOPED_TRACE(count);
    for (const auto& halves : {usual, signs, zeros, equal}) {
      const auto blocks = q4_k_blocks(count, halves);
      expect_statistics_of_elements(blocks);
      expect_sums_within_bounds(blocks, 0x1p-24);
      expect_same_on_every_target(blocks);
    }
    expect_statistics_of_elements(q4_k_blocks(count, {0x2000, 0x2000, 0x2000, 0x7C00, 0x2000, 0xFE01}));
  }
}

TEST(Statistics, wide_integers_are_rounded_to_nearest) {
  const auto found =
      must(statistics(tensor_of<U64>({std::numeric_limits<std::uint64_t>::max(), (1ULL << 53) + 1})));
  EXPECT_EQ(found.max, 0x1p64);
  EXPECT_EQ(found.min, 0x1p53);
}

TEST(Statistics, have_no_negative_zero) {
  EXPECT_FALSE(std::signbit(must(statistics(tensor_of<F32>({0.0F, -0.0F, 1.0F}))).min));
}

TEST(Statistics, stop_on_request) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(fails(statistics(tensor_of<F32>(noise(500000, 0)), {.stop = stop.get_token()}),
                    ErrorCode::cancelled, "work_is_completed"));
}

TEST(Statistics, ignore_a_stop_request_after_the_last_piece_is_read) {
  const auto values = noise(1000, 0);
  std::stop_source stop;
  const detail::ReadValues read = [&](std::int64_t first, std::int64_t, std::size_t,
                                      const std::function<void(const std::byte*)>& use) -> Result<void> {
    stop.request_stop();
    use(reinterpret_cast<const std::byte*>(values.data() + first));
    return {};
  };
  const auto found =
      detail::compute_statistics(detail::element_type_of<F32>(), 1000, read, {.stop = stop.get_token()});
  EXPECT_EQ(must(found).count, 1000U);
}

TEST(Statistics, report_progress_to_the_end) {
  std::uint64_t last = 0;
  must(statistics(tensor_of<F32>(noise(500000, 0)),
                  {.on_progress = [&](const Progress& p) { last = p.done_bytes; }}));
  EXPECT_EQ(last, 2000000U);
}

TEST(Histogram, counts_values_by_intervals) {
  const auto tensor =
      tensor_of<F32>({0.0F, 0.1F, 0.5F, 0.99F, 1.0F, -0.1F, 2.0F, std::numeric_limits<float>::quiet_NaN(),
                      std::numeric_limits<float>::infinity()});
  const auto found = must(histogram(tensor, {.low = 0, .high = 1, .bins = 2}));
  EXPECT_EQ(found.counts, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(found.below, 1U);
  EXPECT_EQ(found.above, 2U);
  EXPECT_EQ(found.nans, 1U);
}

TEST(Histogram, puts_equal_values_into_the_first_interval) {
  const auto found = must(histogram(tensor_of<F32>({3.0F, 3.0F}), {.low = 3, .high = 3, .bins = 4}));
  EXPECT_EQ(found.counts, (std::vector<std::uint64_t>{2, 0, 0, 0}));
}

// Ranges whose width exceeds the largest number, or that are too narrow for a finite scale factor.
TEST(Histogram, takes_the_widest_and_the_narrowest_range) {
  constexpr double huge = 1.7e308;
  const auto wide =
      must(histogram(tensor_of<F64>({-huge, 0, huge}), {.low = -huge, .high = huge, .bins = 4}));
  EXPECT_EQ(wide.counts, (std::vector<std::uint64_t>{1, 0, 1, 1}));
  constexpr double tiny = std::numeric_limits<double>::denorm_min();
  const auto narrow = must(histogram(tensor_of<F64>({0, tiny, tiny}), {.low = 0, .high = tiny, .bins = 20}));
  EXPECT_EQ(narrow.counts.front(), 1U);
  EXPECT_EQ(narrow.counts.back(), 2U);
}

TEST(Histogram, histogram_has_a_range) {
  const auto tensor = tensor_of<F32>({1.0F});
  EXPECT_TRUE(fails(histogram(tensor, {.bins = 0}), ErrorCode::bad_shape, "histogram_has_a_range"));
  EXPECT_TRUE(fails(histogram(tensor, {.low = 2, .high = 1}), ErrorCode::bad_shape, "histogram_has_a_range"));
  EXPECT_TRUE(fails(histogram(tensor, {.low = std::nan(""), .high = 1}), ErrorCode::bad_shape,
                    "histogram_has_a_range"));
}

}  // namespace
}  // namespace ht::statistics_test
