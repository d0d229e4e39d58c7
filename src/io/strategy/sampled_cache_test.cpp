#include "io/strategy/automatic.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace ht::io::sampled_cache_test {
namespace {

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;

TEST(SampledCache, small_ranges_are_sampled_completely) {
  const std::vector<FileRange> ranges{{0, 5, mebibyte}, {1, 0, 3}};
  EXPECT_EQ(samples_of(ranges), ranges);
  EXPECT_TRUE(samples_of({}).empty());
}

TEST(SampledCache, samples_of_large_ranges_are_few_and_inside_the_range) {
  const std::vector<FileRange> ranges{
      {0, 4096, 700 * mebibyte}, {0, 900 * mebibyte, 3}, {1, 77, 1u << 30}, {3, 0, mebibyte / 2}};
  const auto samples = samples_of(ranges);
  EXPECT_LE(samples.size(), 128u);
  EXPECT_LE(sum_of(samples), 32 * mebibyte);
  std::uint64_t in_first = 0;
  for (const auto& sample : samples) {
    const bool within = std::ranges::any_of(ranges, [&](const auto& range) {
      return range.file == sample.file && range.offset <= sample.offset && end_of(sample) <= end_of(range);
    });
    EXPECT_TRUE(within) << sample.file << ' ' << sample.offset << ' ' << sample.bytes;
    if (sample.file == 0) ++in_first;
  }
  // The share of samples in file 0 is its share of the bytes: 700 of 1724 MiB.
  EXPECT_NEAR(static_cast<double>(in_first) / static_cast<double>(samples.size()), 700. / 1724., 0.02);
}

TEST(SampledCache, samples_are_evenly_spread) {
  const std::vector<FileRange> ranges{{0, 0, 4096 * mebibyte}};
  const auto samples = samples_of(ranges);
  ASSERT_EQ(samples.size(), 128u);
  for (std::size_t i = 1; i < samples.size(); ++i) {
    EXPECT_EQ(samples[i].offset - samples[i - 1].offset, 32 * mebibyte);
  }
}

}  // namespace
}  // namespace ht::io::sampled_cache_test
