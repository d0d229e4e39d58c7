#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <htensor/hash/digest.hpp>
#include <vector>

namespace ht::digest_test {
namespace {

std::string hex(HashAlgorithm algorithm, std::string_view text) {
  const auto found = digest(algorithm, bytes_of(text));
  return found ? to_hex(*found) : to_string(found.error());
}

TEST(Digest, matches_published_values) {
  EXPECT_EQ(hex(HashAlgorithm::crc64nvme, "123456789"), "ae8b14860a799888");
  EXPECT_EQ(hex(HashAlgorithm::sha256, "abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(HashAlgorithm::sha256, ""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  // The published digest of an empty input with seed 0.
  EXPECT_EQ(hex(HashAlgorithm::xxh3_128, ""), "99aa06d3014798d86001c324468d497f");
}

TEST(Digest, base64_matches_object_stores) {
  EXPECT_EQ(to_base64(Digest(0xAE8B'1486'0A79'9888U)), "rosUhgp5mIg=");
  EXPECT_EQ(to_base64(Digest(0)), "AAAAAAAAAAA=");
  // Digests of 16 and 32 bytes, which need two and one characters of padding.
  EXPECT_EQ(to_base64(digest(HashAlgorithm::xxh3_128, {}).value()), "maoG0wFHmNhgAcMkRo1Jfw==");
  EXPECT_EQ(to_base64(digest(HashAlgorithm::sha256, {}).value()),
            "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
}

TEST(Digest, has_the_size_of_its_algorithm) {
  for (const auto algorithm : all_hash_algorithms) {
    const auto of_empty_input = digest(algorithm, {}).value();
    EXPECT_EQ(of_empty_input.bytes().size(), digest_bytes(algorithm));
    EXPECT_EQ(hash_algorithm_named(to_string(algorithm)), algorithm);
  }
  EXPECT_EQ(hash_algorithm_named("md5"), std::nullopt);
}

TEST(Digest, differs_if_algorithm_or_bytes_differ) {
  EXPECT_EQ(Digest(5), Digest(5));
  EXPECT_NE(Digest(5), Digest(6));
  std::array<std::byte, 32> zeros{};
  EXPECT_NE(Digest(HashAlgorithm::crc64nvme, zeros), Digest(HashAlgorithm::xxh3_128, zeros));
}

TEST(Hasher, returns_the_digest_of_all_pieces_and_resets) {
  std::vector<std::byte> contents(5000);
  for (std::size_t i = 0; i < contents.size(); ++i) contents[i] = static_cast<std::byte>(i * i >> 3);
  for (const auto algorithm : all_hash_algorithms) {
    const auto expected = digest(algorithm, contents).value();
    auto hasher = Hasher::make(algorithm).value();
    for (const std::size_t piece : {1UL, 7UL, 64UL, 1000UL, 5000UL}) {
      for (std::size_t at = 0; at < contents.size(); at += piece) {
        hasher.update(Bytes(contents).subspan(at, std::min(piece, contents.size() - at)));
        hasher.update({});
      }
      EXPECT_EQ(hasher.finish(), expected) << to_string(algorithm) << " in pieces of " << piece;
    }
  }
}

TEST(Hasher, hash_algorithm_is_known) {
  const auto unknown = Hasher::make(static_cast<HashAlgorithm>(9));
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().rule(), "hash_algorithm_is_known");
}

}  // namespace
}  // namespace ht::digest_test
