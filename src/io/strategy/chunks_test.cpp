#include "io/strategy/staged.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

namespace ht::io::chunks_test {
namespace {

std::vector<Chunk> chunks_of(const std::vector<FileRange>& ranges,
                             const std::vector<std::uint64_t>& alignments, std::uint64_t chunk_bytes) {
  std::vector<Chunk> chunks;
  ChunkPlan plan(ranges, alignments, chunk_bytes);
  while (const auto chunk = plan.next()) chunks.push_back(*chunk);
  return chunks;
}

TEST(Chunks, head_and_tail_are_not_direct) {
  const std::vector<Chunk> expected{{{0, 10, 6}, false, 0, 0},
                                    {{0, 16, 32}, true, 0, 6},
                                    {{0, 48, 16}, true, 0, 38},
                                    {{0, 64, 3}, false, 0, 54}};
  EXPECT_EQ(chunks_of({{0, 10, 57}}, {16}, 32), expected);
}

TEST(Chunks, have_the_maximum_size_without_direct_reads) {
  const std::vector<Chunk> expected{{{0, 10, 32}, false, 0, 0}, {{0, 42, 25}, false, 0, 32}};
  EXPECT_EQ(chunks_of({{0, 10, 57}}, {0}, 32), expected);
}

TEST(Chunks, small_ranges_are_one_chunk_each) {
  const std::vector<Chunk> expected{{{1, 3, 5}, false, 0, 0}, {{0, 16, 16}, true, 2, 0}};
  EXPECT_EQ(chunks_of({{1, 3, 5}, {0, 7, 0}, {0, 16, 16}}, {16, 16}, 32), expected);
  EXPECT_TRUE(chunks_of({}, {16}, 32).empty());
  EXPECT_TRUE(chunks_of({{0, 5, 0}}, {16}, 32).empty());
}

RC_GTEST_PROP(Chunks, tile_the_ranges_in_order, ()) {
  std::vector<FileRange> ranges;
  for (int i = *rc::gen::inRange(0, 5); i > 0; --i) {
    ranges.push_back({*rc::gen::inRange(0U, 2U), *rc::gen::inRange<std::uint64_t>(0, 200),
                      *rc::gen::inRange<std::uint64_t>(0, 200)});
  }
  const std::vector<std::uint64_t> alignments{*rc::gen::element<std::uint64_t>(0, 1, 8, 16), 16};
  std::uint64_t position = 0;
  std::size_t range = 0;
  std::uint64_t done = 0;
  for (const auto& chunk : chunks_of(ranges, alignments, 32)) {
    while (done == ranges[range].bytes) {
      ++range;
      done = 0;
    }
    RC_ASSERT(chunk.range.file == ranges[range].file);
    RC_ASSERT(chunk.range.offset == ranges[range].offset + done);
    RC_ASSERT(chunk.range_number == range && chunk.offset_in_range == done);
    RC_ASSERT(chunk.range.bytes > 0 && chunk.range.bytes <= 32);
    const auto alignment = alignments[chunk.range.file];
    const bool may_be_direct =
        alignment != 0 && chunk.range.offset % alignment == 0 && chunk.range.bytes % alignment == 0;
    RC_ASSERT(may_be_direct >= chunk.direct);
    done += chunk.range.bytes;
    position += chunk.range.bytes;
  }
  std::uint64_t total = 0;
  for (const auto& each : ranges) total += each.bytes;
  RC_ASSERT(position == total);
}

}  // namespace
}  // namespace ht::io::chunks_test
