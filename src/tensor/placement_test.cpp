#include <htensor/tensor/storage.hpp>

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "tensor/test_tools.hpp"

namespace ht::placement_test {
namespace {

using tests::fails;
using tests::Ints;
using tests::must;

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();

// Checks placements of F32 elements in 64 writable bytes. Each test varies some of the parameters.
class Placement : public ::testing::Test {
 protected:
  [[nodiscard]] Result<void> check(const Ints& extents, const Ints& strides, std::uint64_t offset,
                                   int bits = 32, std::uint64_t alignment = 4) const {
    return placement::check({.storage = storage_,
                             .extents = extents,
                             .strides = strides,
                             .offset = offset,
                             .bits = bits,
                             .alignment = alignment,
                             .writes = true});
  }

  void expect_outside(const Result<void>& result) const {
    EXPECT_TRUE(fails(result, ErrorCode::out_of_bounds, "elements_are_within_the_storage"));
  }

  Storage storage_ = must(Storage::owned(64));
};

TEST_F(Placement, accepts_elements_that_fill_the_storage) {
  EXPECT_TRUE(check({16}, {1}, 0));
  EXPECT_TRUE(check({2, 8}, {8, 1}, 0));
  EXPECT_TRUE(check({8, 2}, {1, 8}, 0));
  EXPECT_TRUE(check({}, {}, 60));
}

TEST_F(Placement, accepts_elements_down_to_the_first_byte) {
  EXPECT_TRUE(check({16}, {-1}, 60));
  EXPECT_TRUE(check({2, 8}, {-8, 1}, 32));
  EXPECT_TRUE(check({2, 8}, {8, -1}, 28));
}

// Returns the offsets of the first touched byte and of the first byte after the touched range.
template <class D>
std::array<std::int64_t, 2> touched(const Storage& storage, std::uint64_t offset, const Ints& extents,
                                    const Ints& strides) {
  const auto data = placement::element_pointer<D>(storage, offset);
  const Bytes bytes = must(placement::touched_bytes<D>(data, extents, strides));
  const auto begin = bytes.empty() ? 0 : bytes.data() - storage.bytes().data();
  return {begin, begin + std::ssize(bytes)};
}

TEST_F(Placement, touches_the_bytes_from_the_lowest_to_the_highest_element) {
  using Range = std::array<std::int64_t, 2>;
  EXPECT_EQ(touched<F32>(storage_, 8, {2, 3}, {3, 1}), (Range{8, 32}));
  EXPECT_EQ(touched<const F32>(storage_, 8, {3, 2}, {1, 3}), (Range{8, 32}));
  EXPECT_EQ(touched<F32>(storage_, 8, {2}, {5}), (Range{8, 32}));
  EXPECT_EQ(touched<F32>(storage_, 28, {3, 2}, {-2, 1}), (Range{12, 36}));
  EXPECT_EQ(touched<F32>(storage_, 60, {}, {}), (Range{60, 64}));
  EXPECT_EQ(touched<F32>(storage_, 64, {2, 0}, {most, most}), (Range{0, 0}));
  EXPECT_EQ(touched<const U4>(storage_, 8, {3}, {1}), (Range{8, 10}));
  EXPECT_EQ(touched<U4>(storage_, 8, {3}, {-1}), (Range{7, 9}));
  EXPECT_EQ(touched<U4>(storage_, 8, {2}, {2}), (Range{8, 10}));
  // The second element has bits 6 to 11.
  const auto second = placement::element_pointer<F6_E2M3>(storage_, 8) + 1;
  EXPECT_EQ((placement::bytes_between<F6_E2M3>(second, {0, 0}).size()), 2U);
  EXPECT_EQ((placement::bytes_between<F6_E2M3>(second, {2, 2}).size()), 1U);
}

TEST_F(Placement, elements_are_within_the_storage) {
  // Beyond the last byte.
  expect_outside(check({17}, {1}, 0));
  expect_outside(check({16}, {1}, 4));
  expect_outside(check({3, 8}, {8, 1}, 0));
  expect_outside(check({2}, {16}, 0));
  expect_outside(check({}, {}, 64));
  // Before the first byte.
  expect_outside(check({2}, {-1}, 0));
  expect_outside(check({16}, {-1}, 56));
  expect_outside(check({2, 8}, {-8, 1}, 28));
  // The largest distances that an offset can represent.
  expect_outside(check({2}, {most}, 0));
  expect_outside(check({2}, {least}, 60));
}

TEST_F(Placement, refuses_an_offset_beyond_the_end) {
  expect_outside(check({1}, {1}, 68));
  expect_outside(check({1}, {1}, std::numeric_limits<std::uint64_t>::max() - 3));
  expect_outside(check({0}, {1}, 68));
}

TEST_F(Placement, refuses_any_element_of_an_empty_storage) {
  storage_ = must(Storage::owned(0));
  expect_outside(check({1}, {1}, 0));
  EXPECT_TRUE(check({0}, {1}, 0));
}

TEST_F(Placement, accepts_any_strides_without_elements) {
  EXPECT_TRUE(check({0}, {1}, 0));
  EXPECT_TRUE(check({0}, {1}, 64));
  EXPECT_TRUE(check({5, 0}, {most, least}, 0));
}

TEST_F(Placement, elements_are_aligned) {
  for (const std::uint64_t offset : {1U, 2U, 3U, 6U}) {
    const auto refused = check({1}, {1}, offset);
    EXPECT_TRUE(fails(refused, ErrorCode::misaligned, "elements_are_aligned"));
    EXPECT_FALSE(refused.error().hint().empty());
  }
  EXPECT_TRUE(fails(check({1}, {1}, 4, 64, 8), ErrorCode::misaligned, "elements_are_aligned"));
  EXPECT_TRUE(check({1}, {1}, 3, 8, 1));
}

TEST_F(Placement, aligns_the_address_and_not_the_offset) {
  alignas(8) std::array<std::byte, 16> bytes{};
  storage_ = must(Storage::borrowed(MutableBytes(bytes).subspan(1)));
  EXPECT_TRUE(check({1}, {1}, 3));
  EXPECT_TRUE(fails(check({1}, {1}, 4), ErrorCode::misaligned, "elements_are_aligned"));
}

TEST_F(Placement, refuses_to_write_to_read_only_bytes) {
  const std::array<std::byte, 16> bytes{};
  storage_ = must(Storage::borrowed_read_only(Bytes(bytes)));
  EXPECT_TRUE(fails(check({1}, {1}, 0, 8, 1), ErrorCode::bad_state, "storage_is_writable"));
  EXPECT_TRUE(placement::check({.storage = storage_,
                                .extents = Ints{16},
                                .strides = Ints{1},
                                .offset = 0,
                                .bits = 8,
                                .alignment = 1,
                                .writes = false}));
}

TEST_F(Placement, storage_is_in_host_memory) {
  storage_ = must(Storage::on_device(nullptr, {.device = "card", .bytes = 64}));
  const Ints extents{16};
  const Ints strides{1};
  for (const bool writes : {false, true}) {
    placement::ElementPlacement placed{.storage = storage_,
                                       .extents = extents,
                                       .strides = strides,
                                       .offset = 0,
                                       .bits = 32,
                                       .alignment = 4,
                                       .writes = writes};
    const auto refused = placement::check(placed);
    EXPECT_TRUE(fails(refused, ErrorCode::bad_state, "storage_is_in_host_memory"));
    EXPECT_EQ(refused.error().hint(), "copy the tensor with to_host");
    placed.on_device = true;
    EXPECT_TRUE(placement::check(placed));
  }
}

TEST_F(Placement, rejects_invalid_shapes) {
  EXPECT_TRUE(fails(check({-1}, {1}, 0), ErrorCode::bad_shape, "extents_are_not_negative"));
  EXPECT_TRUE(fails(check({most, 2}, {2, 1}, 0), ErrorCode::size_overflow, "elements_fit_63_bits"));
  EXPECT_TRUE(fails(check({most}, {0}, 0), ErrorCode::size_overflow, "bytes_fit_63_bits"));
  EXPECT_TRUE(fails(check({3}, {most}, 0), ErrorCode::size_overflow, "strides_fit_63_bits"));
}

TEST_F(Placement, counts_the_bits_of_packed_elements) {
  // 64 bytes are 128 elements of 4 bits, or 85 of 6 bits with two bits to spare.
  EXPECT_TRUE(check({128}, {1}, 0, 4, 1));
  expect_outside(check({129}, {1}, 0, 4, 1));
  EXPECT_TRUE(check({85}, {1}, 0, 6, 1));
  expect_outside(check({86}, {1}, 0, 6, 1));
  // Backwards: the byte before the offset holds two elements of 4 bits, but not a third one.
  EXPECT_TRUE(check({3}, {-1}, 1, 4, 1));
  expect_outside(check({4}, {-1}, 1, 4, 1));
}

TEST_F(Placement, accepts_overlapping_elements) { EXPECT_TRUE(check({1000, 16}, {0, 1}, 0)); }

TEST(DenseBytes, rounds_packed_elements_up_to_whole_bytes) {
  EXPECT_EQ(must(placement::dense_bytes(Ints{3, 5}, 32)), 60U);
  EXPECT_EQ(must(placement::dense_bytes(Ints{3}, 4)), 2U);
  EXPECT_EQ(must(placement::dense_bytes(Ints{3}, 6)), 3U);
  EXPECT_EQ(must(placement::dense_bytes(Ints{}, 6)), 1U);
  EXPECT_EQ(must(placement::dense_bytes(Ints{4, 0}, 64)), 0U);
}

TEST(DenseBytes, bytes_fit_63_bits) {
  EXPECT_EQ(must(placement::dense_bytes(Ints{most}, 8)), static_cast<std::uint64_t>(most));
  // The number of bits overflows, the number of bytes does not.
  EXPECT_EQ(must(placement::dense_bytes(Ints{most}, 4)), std::uint64_t{1} << 62);
  for (const int bits : {16, 32, 64}) {
    EXPECT_TRUE(
        fails(placement::dense_bytes(Ints{most}, bits), ErrorCode::size_overflow, "bytes_fit_63_bits"));
  }
  EXPECT_TRUE(fails(placement::dense_bytes(Ints{std::int64_t{1} << 61}, 32), ErrorCode::size_overflow,
                    "bytes_fit_63_bits"));
}

TEST(DenseBytes, reports_invalid_shapes) {
  EXPECT_TRUE(fails(placement::dense_bytes(Ints{-1}, 8), ErrorCode::bad_shape, "extents_are_not_negative"));
}

TEST(ValueCount, values_match_the_shape) {
  EXPECT_TRUE(placement::check_value_count(Ints{2, 3}, 6));
  EXPECT_TRUE(placement::check_value_count(Ints{}, 1));
  EXPECT_TRUE(placement::check_value_count(Ints{0}, 0));
  for (const std::uint64_t values : {std::uint64_t{5}, std::uint64_t{7}, std::uint64_t{0} - 6}) {
    EXPECT_TRUE(fails(placement::check_value_count(Ints{2, 3}, values), ErrorCode::size_mismatch,
                      "values_match_the_shape"));
  }
}

TEST(DenseView, elements_are_contiguous) {
  const std::array<float, 6> floats{};
  const auto view = [&](const Ints& extents, const Ints& strides) {
    return placement::dense_view<const F32>(floats.data(), extents, strides);
  };
  EXPECT_EQ(must(view({2, 3}, {3, 1})).size(), 24U);
  const auto refused = view({3, 2}, {1, 3});
  EXPECT_TRUE(fails(refused, ErrorCode::bad_state, "elements_are_contiguous"));
  EXPECT_EQ(refused.error().hint(), "call copy() first");
  EXPECT_TRUE(fails(view({2}, {-1}), ErrorCode::bad_state, "elements_are_contiguous"));
  EXPECT_TRUE(must(view({2, 0}, {-1, 7})).empty());
}

TEST(ToIndex, maps_values_beyond_63_bits_to_an_invalid_index) {
  EXPECT_EQ(layout::to_index(7U), 7);
  EXPECT_EQ(layout::to_index(std::int8_t{-3}), -3);
  EXPECT_EQ(layout::to_index(static_cast<std::uint64_t>(most)), most);
  EXPECT_EQ(layout::to_index(static_cast<std::uint64_t>(most) + 1), most);
  EXPECT_EQ(layout::to_index(std::numeric_limits<std::uint64_t>::max()), most);
}

}  // namespace
}  // namespace ht::placement_test
