#include "integrity/regions.hpp"

#include <gtest/gtest.h>

namespace ht::regions_test {
namespace {

constexpr std::uint64_t chunk = Seal::chunk_bytes;

Seal::Tensor tensor(std::uint32_t file, std::uint64_t offset, std::uint64_t bytes) {
  return {.name = "t", .file = file, .offset = offset, .bytes = bytes, .digest = Digest(0)};
}

std::vector<io::FileRange> ranges_of(const SealRegions& regions) {
  std::vector<io::FileRange> ranges;
  for (const auto& region : regions.all()) ranges.push_back(region.range);
  return ranges;
}

TEST(SealRegions, a_file_without_tensors_has_one_region) {
  const std::uint64_t sizes[] = {100};
  const SealRegions regions(sizes, {});
  ASSERT_EQ(regions.all().size(), 1U);
  EXPECT_EQ(regions[0].range, (io::FileRange{0, 0, 100}));
  EXPECT_EQ(regions[0].tensor, std::nullopt);
  EXPECT_EQ(regions.chunks(), 1U);
}

TEST(SealRegions, cut_a_file_where_tensors_begin_and_end) {
  const std::uint64_t sizes[] = {100, 0, 50};
  const std::vector tensors{tensor(0, 10, 20), tensor(0, 30, 5), tensor(0, 40, 60), tensor(2, 0, 50)};
  const SealRegions regions(sizes, tensors);
  const std::vector<io::FileRange> expected{{0, 0, 10}, {0, 10, 20}, {0, 30, 5},
                                            {0, 35, 5}, {0, 40, 60}, {2, 0, 50}};
  EXPECT_EQ(ranges_of(regions), expected);
  EXPECT_EQ(regions[1].tensor, 0U);
  EXPECT_EQ(regions[3].tensor, std::nullopt);
  EXPECT_EQ(regions[5].tensor, 3U);
  EXPECT_EQ(regions.of_file(0), (std::pair<std::size_t, std::size_t>(0, 5)));
  EXPECT_EQ(regions.of_file(1), (std::pair<std::size_t, std::size_t>(5, 5)));
  EXPECT_EQ(regions.of_file(2), (std::pair<std::size_t, std::size_t>(5, 6)));
  EXPECT_EQ(regions[5].first_chunk, 5U);
}

TEST(SealRegions, chunks_start_at_region_begin) {
  const std::uint64_t sizes[] = {10 + 2 * chunk + 5};
  const std::vector tensors{tensor(0, 10, 2 * chunk + 5)};
  const SealRegions regions(sizes, tensors);
  ASSERT_EQ(regions.chunks(), 4U);
  std::vector<SealChunk> chunks;
  regions.each_chunk([&](const SealChunk& each) { chunks.push_back(each); });
  ASSERT_EQ(chunks.size(), 4U);
  EXPECT_EQ(chunks[1].range, (io::FileRange{0, 10, chunk}));
  EXPECT_EQ(chunks[2].range, (io::FileRange{0, 10 + chunk, chunk}));
  EXPECT_EQ(chunks[3].range, (io::FileRange{0, 10 + 2 * chunk, 5}));
  EXPECT_EQ(regions.chunk_at(0, 9).number, 0U);
  EXPECT_EQ(regions.chunk_at(0, 10).number, 1U);
  EXPECT_EQ(regions.chunk_at(0, 9 + chunk).number, 1U);
  EXPECT_EQ(regions.chunk_at(0, 10 + chunk).number, 2U);
  EXPECT_EQ(regions.chunk_at(0, 14 + 2 * chunk).number, 3U);
}

TEST(SealRegions, shared_by_tensors_belong_to_the_first) {
  const std::uint64_t sizes[] = {100};
  const std::vector tensors{tensor(0, 20, 60), tensor(0, 0, 50), tensor(0, 20, 60), tensor(0, 5, 0)};
  const SealRegions regions(sizes, tensors);
  const std::vector<io::FileRange> expected{{0, 0, 20}, {0, 20, 30}, {0, 50, 30}, {0, 80, 20}};
  EXPECT_EQ(ranges_of(regions), expected);
  EXPECT_EQ(regions[0].tensor, 1U);
  EXPECT_EQ(regions[1].tensor, 0U);
  EXPECT_EQ(regions[2].tensor, 0U);
  EXPECT_EQ(regions[3].tensor, std::nullopt);
}

}  // namespace
}  // namespace ht::regions_test
