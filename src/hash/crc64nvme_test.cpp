#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <htensor/hash/digest.hpp>
#include <vector>

namespace ht::crc64_test {
namespace {

// The oracle: computes the CRC bit by bit, as it is defined, without code of the library.
std::uint64_t sum_bit_by_bit(Bytes bytes) {
  std::uint64_t sum = 0xFFFF'FFFF'FFFF'FFFF;
  for (const std::byte byte : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const std::uint64_t in = (std::to_integer<std::uint64_t>(byte) >> bit) & 1;
      const bool out = ((sum ^ in) & 1) != 0;
      sum >>= 1;
      if (out) sum ^= 0x9A6C'9329'AC4B'C9B5;
    }
  }
  return ~sum;
}

// Returns pseudo-random bytes, the same in every run. A regular pattern might hide an error in the tables.
std::vector<std::byte> noise(std::size_t count) {
  std::vector<std::byte> bytes(count);
  std::uint64_t state = 0x9E37'79B9'7F4A'7C15;
  for (auto& byte : bytes) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    byte = static_cast<std::byte>(state >> 32);
  }
  return bytes;
}

TEST(Crc64, has_the_published_check_value) {
  EXPECT_EQ(crc64nvme(bytes_of("123456789")), 0xAE8B'1486'0A79'9888U);
  EXPECT_EQ(sum_bit_by_bit(bytes_of("123456789")), 0xAE8B'1486'0A79'9888U);
}

TEST(Crc64, is_unchanged_by_empty_input) {
  EXPECT_EQ(crc64nvme(Bytes()), 0U);
  EXPECT_EQ(crc64nvme(Bytes(), 0x1234'5678'9ABC'DEF0), 0x1234'5678'9ABC'DEF0U);
}

TEST(Crc64, matches_the_bitwise_sum_for_every_length_and_alignment) {
  const auto contents = noise(300);
  for (std::size_t length = 0; length <= contents.size(); ++length) {
    const Bytes input = Bytes(contents).first(length);
    const std::uint64_t sum = sum_bit_by_bit(input);
    for (std::size_t misaligned = 0; misaligned < 16; ++misaligned) {
      // The buffer ends at the last byte, so that AddressSanitizer detects a read past it.
      std::vector<std::byte> buffer(misaligned);
      buffer.insert(buffer.end(), input.begin(), input.end());
      ASSERT_EQ(crc64nvme(Bytes(buffer).subspan(misaligned)), sum) << length << " at " << misaligned;
    }
  }
}

TEST(Crc64, is_correct_for_each_single_byte) {
  for (int value = 0; value < 256; ++value) {
    const std::array one{static_cast<std::byte>(value)};
    ASSERT_EQ(crc64nvme(one), sum_bit_by_bit(one)) << value;
  }
}

TEST(Crc64, continues_from_every_split) {
  const auto contents = noise(300);
  const Bytes all = contents;
  const std::uint64_t sum = crc64nvme(all);
  for (std::size_t split = 0; split <= all.size(); ++split) {
    ASSERT_EQ(crc64nvme(all.subspan(split), crc64nvme(all.first(split))), sum) << split;
  }
}

TEST(Crc64, continues_over_many_pieces) {
  const auto contents = noise(1000);
  for (std::size_t piece = 1; piece <= 40; ++piece) {
    std::uint64_t sum = 0;
    for (std::size_t at = 0; at < contents.size(); at += piece) {
      sum = crc64nvme(Bytes(contents).subspan(at, std::min(piece, contents.size() - at)), sum);
    }
    ASSERT_EQ(sum, crc64nvme(contents)) << piece;
  }
}

TEST(Crc64, finds_every_flipped_bit) {
  auto contents = noise(512);
  const std::uint64_t sum = crc64nvme(contents);
  for (std::size_t bit = 0; bit < 8 * contents.size(); ++bit) {
    const auto flip = static_cast<std::byte>(1U << (bit % 8));
    contents[bit / 8] ^= flip;
    ASSERT_NE(crc64nvme(contents), sum) << "bit " << bit;
    contents[bit / 8] ^= flip;
  }
  EXPECT_EQ(crc64nvme(contents), sum);
}

TEST(Crc64, finds_bursts_of_up_to_64_bits) {
  auto contents = noise(64);
  const auto patterns = noise(8 * 64);
  const std::uint64_t sum = crc64nvme(contents);
  for (unsigned length = 2; length <= 64; ++length) {
    const std::uint64_t inside = load_le<std::uint64_t>(Bytes(patterns).subspan(8 * (length - 1)));
    // A burst of `length` bits flips its first bit, its last bit and any bits between them.
    const std::uint64_t burst =
        (inside & (~std::uint64_t{0} >> (64 - length))) | 1 | (std::uint64_t{1} << (length - 1));
    for (std::size_t start = 0; start + length <= 8 * contents.size(); ++start) {
      auto damaged = contents;
      for (unsigned i = 0; i < length; ++i) {
        const std::size_t bit = start + i;
        if (((burst >> i) & 1) != 0) damaged[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      }
      ASSERT_NE(crc64nvme(damaged), sum) << length << " bits from " << start;
    }
  }
}

TEST(Crc64, differs_for_zeros_of_different_lengths) {
  // Leading zeros change the CRC because its initial value is all ones.
  const std::vector<std::byte> zeros(64);
  for (std::size_t length = 1; length <= zeros.size(); ++length) {
    ASSERT_NE(crc64nvme(Bytes(zeros).first(length)), crc64nvme(Bytes(zeros).first(length - 1))) << length;
  }
}

}  // namespace
}  // namespace ht::crc64_test
