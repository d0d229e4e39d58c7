#include "hash/crc64nvme_kernels.hpp"

#include <gtest/gtest.h>

#include <array>
#include <htensor/hash/digest.hpp>
#include <latch>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace ht::crc64_kernels_test {
namespace {

std::vector<std::byte> noise(std::size_t count) {
  std::mt19937_64 random(1);
  std::vector<std::byte> bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// Runs the tests for every kernel that this processor supports. The table kernel is the first.
class Crc64Kernels : public ::testing::TestWithParam<crc64::Kernel> {
 protected:
  static std::uint64_t sum(Bytes bytes, std::uint64_t before = 0) {
    return ~GetParam().function(bytes.data(), bytes.size(), ~before);
  }
  static std::uint64_t table_sum(Bytes bytes, std::uint64_t before = 0) {
    return ~crc64::by_table(bytes.data(), bytes.size(), ~before);
  }
};

TEST_P(Crc64Kernels, has_the_published_check_value) {
  EXPECT_EQ(sum(bytes_of("123456789")), 0xAE8B'1486'0A79'9888U);
}

TEST_P(Crc64Kernels, matches_the_table_for_empty_input_and_each_single_byte) {
  EXPECT_EQ(sum({}), 0U);
  for (int value = 0; value < 256; ++value) {
    const std::array one{static_cast<std::byte>(value)};
    ASSERT_EQ(sum(one), table_sum(one)) << value;
  }
}

TEST_P(Crc64Kernels, matches_the_table_for_all_lengths_and_alignments) {
  // The table kernel is slow, and short lengths cover it: it processes at most eight bytes per step.
  const std::size_t max_length = GetParam().function == crc64::by_table ? 512 : 4096;
  const auto contents = noise(max_length + 64);
  for (std::size_t misaligned = 0; misaligned < 64; ++misaligned) {
    const Bytes from = Bytes(contents).subspan(misaligned);
    std::uint64_t expected = 0;
    for (std::size_t length = 0; length <= max_length; ++length) {
      if (length > 0) expected = table_sum(from.subspan(length - 1, 1), expected);
      ASSERT_EQ(sum(from.first(length)), expected) << length << " bytes at " << misaligned;
    }
  }
}

TEST_P(Crc64Kernels, reads_nothing_beyond_the_end) {
  // The buffer has the exact size, so that AddressSanitizer detects a read past its end.
  for (std::size_t length = 0; length <= 600; ++length) {
    const auto exact = noise(length);
    ASSERT_EQ(sum(exact), table_sum(exact)) << length;
  }
}

TEST_P(Crc64Kernels, continues_from_every_split) {
  const auto contents = noise(1500);
  const Bytes all = contents;
  const std::uint64_t expected = table_sum(all);
  for (std::size_t split = 0; split <= all.size(); ++split) {
    ASSERT_EQ(sum(all.subspan(split), sum(all.first(split))), expected) << split;
  }
}

TEST_P(Crc64Kernels, matches_the_table_for_long_input) {
  const auto contents = noise(3'000'017);
  EXPECT_EQ(sum(contents), table_sum(contents));
}

TEST_P(Crc64Kernels, is_used_while_it_is_installed) {
  const crc64::KernelOverride kernel_override(GetParam());
  EXPECT_EQ(crc64nvme_kernel(), GetParam().name);
  EXPECT_EQ(crc64nvme(bytes_of("123456789")), 0xAE8B'1486'0A79'9888U);
}

INSTANTIATE_TEST_SUITE_P(Supported, Crc64Kernels, ::testing::ValuesIn(crc64::supported_kernels()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Crc64, uses_the_fastest_supported_kernel) {
  EXPECT_EQ(crc64nvme_kernel(), crc64::supported_kernels().back().name);
  EXPECT_EQ(crc64::supported_kernels().front().name, "table");
}

TEST(Crc64, finds_every_flipped_bit_of_64_kib) {
  auto contents = noise(65536);
  const Bytes all = contents;
  const std::uint64_t sum = crc64nvme(all);
  // Only the block that contains the bit is hashed again. The CRCs of all other bytes are constant.
  constexpr std::size_t block = 1024;
  for (std::size_t begin = 0; begin < contents.size(); begin += block) {
    const std::size_t after_bytes = contents.size() - begin - block;
    const std::uint64_t before = crc64nvme(all.first(begin));
    const std::uint64_t after = crc64nvme(all.last(after_bytes));
    const auto whole = [&] {
      return crc64nvme_combine(crc64nvme(all.subspan(begin, block), before), after, after_bytes);
    };
    ASSERT_EQ(whole(), sum);
    for (std::size_t bit = 8 * begin; bit < 8 * (begin + block); ++bit) {
      const auto flip = static_cast<std::byte>(1U << (bit % 8));
      contents[bit / 8] ^= flip;
      ASSERT_NE(whole(), sum) << "bit " << bit;
      contents[bit / 8] ^= flip;
    }
  }
}

TEST(Crc64, finds_a_hundred_thousand_double_bit_errors) {
  auto contents = noise(16384);
  const std::uint64_t sum = crc64nvme(contents);
  std::mt19937_64 random(7);
  const auto flip = [&](std::size_t bit) { contents[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8)); };
  for (int i = 0; i < 100'000; ++i) {
    const std::size_t first = random() % (8 * contents.size());
    const std::size_t second = (first + 1 + random() % (8 * contents.size() - 1)) % (8 * contents.size());
    flip(first);
    flip(second);
    ASSERT_NE(crc64nvme(contents), sum) << first << " and " << second;
    flip(first);
    flip(second);
  }
}

TEST(Crc64, is_combined_from_the_sums_of_two_pieces) {
  const auto contents = noise(2000);
  const Bytes all = contents;
  for (std::size_t split = 0; split <= all.size(); ++split) {
    const auto first = crc64nvme(all.first(split));
    const auto second = crc64nvme(all.subspan(split));
    ASSERT_EQ(crc64nvme_combine(first, second, all.size() - split), crc64nvme(all)) << split;
  }
}

TEST(Crc64, is_combined_for_sizes_larger_than_memory) {
  // Builds the CRC of 2^62 zeros by doubling and appends the zeros in one step.
  const std::array<std::byte, 1> zero{};
  std::uint64_t zeros = crc64nvme(zero);
  for (int k = 0; k < 62; ++k) zeros = crc64nvme_combine(zeros, zeros, std::uint64_t{1} << k);
  const auto head = crc64nvme(bytes_of("head"));
  const auto whole = crc64nvme_combine(head, zeros, std::uint64_t{1} << 62);
  // Appends the same number of zeros in two steps.
  auto half = crc64nvme(zero);
  for (int k = 0; k < 61; ++k) half = crc64nvme_combine(half, half, std::uint64_t{1} << k);
  const std::uint64_t bytes = std::uint64_t{1} << 61;
  EXPECT_EQ(crc64nvme_combine(crc64nvme_combine(head, half, bytes), half, bytes), whole);
}

TEST(Crc64, many_threads_may_select_the_kernel_at_once) {
  const auto contents = noise(10'000);
  // Computed without selecting a kernel. ctest runs each test in its own process, so that no kernel is
  // selected when the threads start.
  const std::uint64_t expected = ~crc64::by_table(contents.data(), contents.size(), ~std::uint64_t{0});
  std::vector<std::uint64_t> sums(8);
  {
    std::latch start(8);
    std::vector<std::jthread> threads;
    threads.reserve(sums.size());
    for (auto& sum : sums) {
      threads.emplace_back([&] {
        start.arrive_and_wait();
        sum = crc64nvme(contents);
      });
    }
  }
  for (const auto sum : sums) EXPECT_EQ(sum, expected);
}

TEST(Crc64Math, powers_of_x_are_products) {
  for (std::uint64_t n = 0; n < 200; ++n) {
    EXPECT_EQ(crc64::times_x(crc64::power_of_x(n)), crc64::power_of_x(n + 1));
  }
  EXPECT_EQ(crc64::multiply(crc64::power_of_x(1000), crc64::power_of_x(234)), crc64::power_of_x(1234));
  EXPECT_EQ(crc64::zero_byte_factors[5], crc64::power_of_x(8 * 32));
}

}  // namespace
}  // namespace ht::crc64_kernels_test
