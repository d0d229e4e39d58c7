#include "io/strategy/own_memory.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace ht::io::arena_layout_test {
namespace {

constexpr std::uint64_t page = 4096;

TEST(ArenaLayout, merges_adjacent_reads) {
  const std::vector<Strategy::LoadRequest> requests{
      {{0, 4096 + 64, 100}, 4}, {{0, 4096 + 192, 64}, 4}, {{1, 8, 8}, 8}, {{0, 1 << 20, 16}, 4}};
  const auto layout = lay_out(requests).value();
  const std::vector<FileRange> reads{{0, 4096 + 64, 192}, {0, 1 << 20, 16}, {1, 8, 8}};
  EXPECT_EQ(layout.reads, reads);
  EXPECT_EQ(layout.positions, (std::vector<std::uint64_t>{64, 192, 2 * page + 8, page}));
  EXPECT_EQ(layout.bytes, 2 * page + 16);
  EXPECT_EQ(layout.shared, std::vector<bool>(3));
  EXPECT_EQ(layout.read_of, (std::vector<std::size_t>{0, 0, 2, 1}));
}

TEST(ArenaLayout, reports_shared_bytes) {
  const std::vector<Strategy::LoadRequest> requests{{{0, 0, 100}, 4}, {{0, 96, 8}, 4}, {{1, 0, 100}, 4}};
  EXPECT_EQ(lay_out(requests).value().shared, (std::vector<bool>{true, false}));
}

TEST(ArenaLayout, does_not_read_large_gaps_between_small_tensors) {
  const std::vector<Strategy::LoadRequest> requests{
      {{0, 0, 64}, 4}, {{0, 16384, 64}, 4}, {{0, 32768, 64}, 4}};
  const auto layout = lay_out(requests).value();
  EXPECT_EQ(layout.reads.size(), 3U);
  EXPECT_EQ(layout.bytes, 2 * page + 64);
}

TEST(ArenaLayout, is_empty_without_ranges) {
  EXPECT_EQ(lay_out({}).value().bytes, 0U);
  const std::vector<Strategy::LoadRequest> empty{{{0, 5, 0}, 4}};
  EXPECT_EQ(lay_out(empty).value().bytes, 0U);
  EXPECT_TRUE(lay_out(empty).value().reads.empty());
}

TEST(ArenaLayout, aligns_unaligned_ranges) {
  const std::vector<Strategy::LoadRequest> requests{{{0, 13, 8}, 4}, {{0, 21, 8}, 4}};
  EXPECT_EQ(lay_out(requests).value().positions, (std::vector<std::uint64_t>{0, 64}));
}

TEST(ArenaLayout, loaded_size_fits_64_bits) {
  const std::vector<Strategy::LoadRequest> requests(5, {{0, 1, std::uint64_t{1} << 62}, 4});
  const auto layout = lay_out(requests);
  ASSERT_FALSE(layout);
  EXPECT_EQ(layout.error().code(), ErrorCode::size_overflow);
  EXPECT_EQ(layout.error().rule(), "loaded_size_fits_64_bits");
}

RC_GTEST_PROP(ArenaLayout, has_space_for_every_byte, ()) {
  std::vector<Strategy::LoadRequest> requests;
  for (int i = *rc::gen::inRange(0, 12); i > 0; --i) {
    requests.push_back({{*rc::gen::inRange(0U, 2U), *rc::gen::inRange<std::uint64_t>(0, 100'000),
                         *rc::gen::inRange<std::uint64_t>(0, 30'000)},
                        *rc::gen::element<std::uint64_t>(1, 2, 8)});
  }
  const auto layout = lay_out(requests).value();
  // Reads do not overlap in memory.
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < layout.reads.size(); ++i) {
    RC_ASSERT(layout.read_positions[i] >= end);
    end = layout.read_positions[i] + layout.reads[i].bytes;
  }
  RC_ASSERT(end == layout.bytes);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto& [range, alignment, into] = requests[i];
    if (range.bytes == 0) continue;
    RC_ASSERT(layout.positions[i] % alignment == 0);
    // One of the reads fills the position with the requested bytes.
    bool is_read = false;
    for (std::size_t k = 0; k < layout.reads.size(); ++k) {
      const auto& read = layout.reads[k];
      is_read = is_read || (read.file == range.file && read.offset <= range.offset &&
                            range.offset + range.bytes <= read.offset + read.bytes &&
                            layout.read_positions[k] + (range.offset - read.offset) == layout.positions[i]);
    }
    RC_ASSERT(is_read);
  }
}

}  // namespace
}  // namespace ht::io::arena_layout_test
