#include "cli/elements.hpp"

#include <gtest/gtest.h>

#include <array>

namespace ht::cli {
namespace {

// The elements from the first on, with a space between.
std::string elements(const Entry& entry, Bytes raw, std::int64_t count) {
  const auto storage = raw.empty() ? Storage() : Storage::borrowed_read_only(raw).value();
  const auto append = element_appender(entry, storage, false).value();
  fmt::memory_buffer out;
  for (std::int64_t i = 0; i < count; ++i) {
    if (i > 0) out.push_back(' ');
    append(out, i);
  }
  return fmt::to_string(out);
}

TEST(Elements, misaligned_and_big_endian_ones_are_read) {
  const std::array<std::int64_t, 1> dims{2};
  alignas(8) const std::array<std::byte, 9> bytes{std::byte{9}, std::byte{0}, std::byte{1}, std::byte{2},
                                                  std::byte{3}};
  Entry entry{.name = "a", .dtype = U16::tag, .dims = dims, .bytes = 4};
  EXPECT_EQ(elements(entry, Bytes(bytes).subspan(1, 4), 2), "256 770");
  entry.byte_order = ByteOrder::big;
  EXPECT_EQ(elements(entry, Bytes(bytes).subspan(1, 4), 2), "1 515");
}

TEST(Elements, complex_numbers_are_turned_round_by_halves) {
  const std::array<std::int64_t, 1> dims{1};
  // 1 and 2 as big-endian F32.
  const std::array<std::byte, 8> bytes{std::byte{0x3F}, std::byte{0x80}, {}, {}, std::byte{0x40}, {}, {}, {}};
  const Entry entry{.name = "a", .dtype = C64::tag, .dims = dims, .byte_order = ByteOrder::big, .bytes = 8};
  EXPECT_EQ(elements(entry, bytes, 1), "(1,2)");
}

TEST(Elements, splats_of_any_size_cost_their_pattern) {
  const std::array<std::int64_t, 1> dims{std::int64_t{1} << 50};
  const std::array<std::byte, 2> pattern{std::byte{1}, std::byte{2}};
  Entry entry{.name = "a", .dtype = U8::tag, .dims = dims, .bytes = std::uint64_t{1} << 50, .splat = pattern};
  EXPECT_EQ(elements(entry, {}, 5), "1 2 1 2 1");
  // An element is made of two patterns.
  entry.dtype = U32::tag;
  EXPECT_EQ(elements(entry, {}, 2), "33620481 33620481");
  // A splat's pattern is never turned round.
  entry.byte_order = ByteOrder::big;
  EXPECT_EQ(elements(entry, {}, 1), "33620481");
}

TEST(Elements, packed_splats_repeat_after_whole_elements) {
  const std::array<std::int64_t, 1> dims{64};
  const std::array<std::byte, 1> pattern{std::byte{0x21}};
  const Entry nibbles{.name = "a", .dtype = U4::tag, .dims = dims, .bytes = 32, .splat = pattern};
  EXPECT_EQ(elements(nibbles, {}, 5), "1 2 1 2 1");
  const std::array<std::byte, 16> zeros{};
  const Entry six{.name = "a", .dtype = F6_E2M3::tag, .dims = dims, .bytes = 48, .splat = zeros};
  EXPECT_EQ(elements(six, {}, 3), "0 0 0");
}

}  // namespace
}  // namespace ht::cli
