#include "convert/copy/copy_checksums.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <htensor/hash/digest.hpp>
#include <random>

namespace ht::copy_checksums_test {
namespace {

TEST(CopyChecksums, do_not_depend_on_the_order_of_the_pieces) {
  std::mt19937 random(1);
  std::vector<std::byte> bytes(5000);
  for (auto& each : bytes) each = static_cast<std::byte>(random());
  const Bytes all(bytes);
  const std::vector<std::uint64_t> cuts{0, 100, 101, 3000};
  CopyChecksums sums(cuts);
  for (const std::size_t at : {4000U, 50U, 0U, 2500U}) {
    const std::size_t end = at == 0 ? 50 : at == 50 ? 2500 : at == 2500 ? 4000 : 5000;
    sums.add_bytes(at, all.subspan(at, end - at));
  }
  EXPECT_EQ(sums.sum_of(0, 5000), crc64nvme(all));
  EXPECT_EQ(sums.sum_of(0, 100), crc64nvme(all.first(100)));
  EXPECT_EQ(sums.sum_of(100, 1), crc64nvme(all.subspan(100, 1)));
  EXPECT_EQ(sums.sum_of(101, 2899), crc64nvme(all.subspan(101, 2899)));
  EXPECT_EQ(sums.sum_of(3000, 2000), crc64nvme(all.subspan(3000)));
  EXPECT_EQ(sums.sum_of(3000, 0), crc64nvme({}));
  const std::vector<std::byte> other(100, std::byte{7});
  sums.replace(0, other);
  EXPECT_EQ(sums.sum_of(0, 100), crc64nvme(other));
}

TEST(CopyChecksums, cuts_may_repeat_and_have_any_order) {
  constexpr std::size_t piece_bytes = 200;
  constexpr std::size_t pieces = 40;
  std::mt19937 random(1);
  std::vector<std::byte> bytes(pieces * piece_bytes);
  for (auto& each : bytes) each = static_cast<std::byte>(random());
  const Bytes all(bytes);
  std::vector<std::size_t> order(pieces);
  for (std::size_t i = 0; i < pieces; ++i) order[i] = i;
  for (int round = 0; round < 20; ++round) {
    std::ranges::shuffle(order, random);
    CopyChecksums sums({0, 128, 128, 128, 4000});
    for (const auto i : order) sums.add_bytes(i * piece_bytes, all.subspan(i * piece_bytes, piece_bytes));
    EXPECT_EQ(sums.sum_of(0, 128), crc64nvme(all.first(128)));
    EXPECT_EQ(sums.sum_of(128, 3872), crc64nvme(all.subspan(128, 3872)));
    EXPECT_EQ(sums.sum_of(4000, 4000), crc64nvme(all.subspan(4000)));
    EXPECT_EQ(sums.sum_of(128, 0), crc64nvme({}));
  }
  CopyChecksums sums({300, 0, 128, 300});
  sums.add_bytes(0, all);
  EXPECT_EQ(sums.sum_of(128, 172), crc64nvme(all.subspan(128, 172)));
}

TEST(CopyChecksums, include_zeros) {
  const std::vector<std::byte> zeros(10'000);
  for (const std::size_t count : {1U, 2U, 3U, 64U, 1000U, 4095U, 9000U}) {
    CopyChecksums sums({0, 100, 1100, 2100, 3100});
    sums.add_bytes(0, Bytes(zeros).first(50));
    sums.add_zeros(50, count);
    EXPECT_EQ(sums.sum_of(0, 50 + count), crc64nvme(Bytes(zeros).first(50 + count)));
  }
  CopyChecksums sums({0});
  sums.add_zeros(0, UINT64_MAX);  // any number of zeros is fast
  sums.add_zeros(0, 0);
}

TEST(CopyChecksums, checksummed_ranges_were_copied) {
  CopyChecksums sums({});
  sums.add_bytes(0, std::vector<std::byte>(10));
  EXPECT_EQ(sums.sum_of(0, 11).error().rule(), "checksummed_ranges_were_copied");
  EXPECT_EQ(sums.sum_of(1, 9).error().rule(), "checksummed_ranges_were_copied");
}

}  // namespace
}  // namespace ht::copy_checksums_test
