#include "convert/copy/copy_parts.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace ht::copy_parts_test {
namespace {

constexpr std::uint64_t large = std::uint64_t{1} << 30;

PlannedFile::Part stored(std::uint64_t offset, std::uint64_t bytes, std::uint64_t from,
                         std::uint32_t file = 0) {
  return {.offset = offset, .bytes = bytes, .from = PartOrigin::Stored{file, from}};
}

struct Span {
  std::uint64_t offset;
  std::uint64_t bytes;
  friend bool operator==(const Span&, const Span&) = default;
};

template <class List>
std::vector<Span> spans_of(const List& list) {
  std::vector<Span> spans;
  for (const auto& each : list) spans.push_back({each.offset, each.bytes});
  return spans;
}

TEST(CopyParts, join_ranges_adjacent_in_file_and_source) {
  const PlannedFile file{.path = {},
                         .bytes = 400,
                         .header = {},
                         .parts = {stored(0, 100, 1000), stored(100, 50, 1100), stored(150, 50, 2000),
                                   stored(200, 200, 2050, 1)}};
  const std::vector<Span> expected{{0, 150}, {150, 50}, {200, 200}};
  EXPECT_EQ(spans_of(covered_parts(file)), expected);
}

TEST(CopyParts, write_small_gaps_and_skip_large_gaps) {
  const PlannedFile file{.path = {},
                         .bytes = large + 4096,
                         .header = std::vector<std::byte>(10),
                         .parts = {stored(64, 100, 0), stored(large, 50, 500)}};
  const std::vector<Span> expected{{0, 10}, {10, 54}, {64, 100}, {large, 50}, {large + 50, 4046}};
  EXPECT_EQ(spans_of(covered_parts(file)), expected);
}

TEST(CopyParts, skip_empty_ranges) {
  EXPECT_TRUE(covered_parts({}).empty());
  const PlannedFile file{.path = {}, .bytes = 8, .header = {}, .parts = {stored(0, 0, 5), stored(0, 8, 5)}};
  EXPECT_EQ(covered_parts(file).size(), 1U);
}

TEST(CopyParts, are_split_at_multiples_of_the_piece_size) {
  const std::vector<PlannedFile::Part> parts{stored(0, 150, 7), stored(150, 20, 500), stored(300, 100, 0)};
  const auto pieces = pieces_of(parts, 100);
  const std::vector<Span> expected{{0, 100}, {100, 70}, {300, 100}};
  EXPECT_EQ(spans_of(pieces), expected);
  EXPECT_EQ(pieces[1].first_part, 0U);
  EXPECT_EQ(pieces[1].parts, 2U);
  const auto slice = within(pieces[1], parts[0]);
  EXPECT_EQ(slice.offset, 100U);
  EXPECT_EQ(slice.bytes, 50U);
  EXPECT_EQ(std::get<PartOrigin::Stored>(slice.from).offset, 107U);
}

TEST(CopyParts, splats_continue_within_their_pattern) {
  PartOrigin::Repeated abc{.pattern = {std::byte{'a'}, std::byte{'b'}, std::byte{'c'}}, .pattern_bytes = 3};
  const auto rest = without_first({.offset = 0, .bytes = 10, .from = abc}, 4);
  EXPECT_EQ(std::get<PartOrigin::Repeated>(rest.from).bytes()[0], std::byte{'b'});
  EXPECT_EQ(rest.bytes, 6U);
}

// Every byte of a part is in exactly one piece, and pieces have no other bytes.
RC_GTEST_PROP(CopyParts, pieces_have_every_byte_once, ()) {
  const auto sizes = *rc::gen::container<std::vector<std::uint8_t>>(rc::gen::arbitrary<std::uint8_t>());
  const auto piece_bytes = *rc::gen::inRange<std::uint64_t>(1, 100);
  std::vector<PlannedFile::Part> parts;
  std::uint64_t at = 0;
  std::uint64_t source = 0;
  for (const auto size : sizes) {
    if (size % 3 == 0) at += size;  // a gap
    if (size != 0) parts.push_back(stored(at, size, source));
    at += size;
    source += size + 1;
  }
  std::vector<int> covered(static_cast<std::size_t>(at), 0);
  for (const auto& part : parts) {
    for (std::uint64_t i = 0; i < part.bytes; ++i) ++covered[static_cast<std::size_t>(part.offset + i)];
  }
  for (const auto& piece : pieces_of(parts, piece_bytes)) {
    RC_ASSERT(piece.offset / piece_bytes == (piece.offset + piece.bytes - 1) / piece_bytes);
    std::uint64_t next = piece.offset;
    for (std::size_t i = 0; i < piece.parts; ++i) {
      const auto& part = parts[piece.first_part + i];
      const auto slice = within(piece, part);
      RC_ASSERT(slice.offset == next);
      RC_ASSERT(std::get<PartOrigin::Stored>(slice.from).offset ==
                std::get<PartOrigin::Stored>(part.from).offset + slice.offset - part.offset);
      next += slice.bytes;
      for (std::uint64_t k = 0; k < slice.bytes; ++k) --covered[static_cast<std::size_t>(slice.offset + k)];
    }
    RC_ASSERT(next == piece.offset + piece.bytes);
  }
  RC_ASSERT(std::ranges::all_of(covered, [](int count) { return count == 0; }));
}

}  // namespace
}  // namespace ht::copy_parts_test
