#include "integrity/seal_format.hpp"

#include <gtest/gtest.h>

#include <array>

namespace ht::seal_size_test {
namespace {

constexpr std::uint64_t tebibyte = std::uint64_t{1} << 40;

Catalog catalog_of_splats(int count) {
  CatalogBuilder builder("test");
  const std::array pattern{std::byte{1}};
  for (int i = 0; i < count; ++i) {
    EXPECT_TRUE(builder.add(
        {.name = "tensor" + std::to_string(i), .dtype = DTypeTag::invalid, .bytes = 1, .splat = pattern}));
  }
  return std::move(builder).build().value();
}

TEST(SealSize, equals_the_size_of_the_encoded_seal) {
  for (const auto algorithm : all_hash_algorithms) {
    const auto empty_digest = digest(algorithm, {});
    if (!empty_digest) continue;  // this build lacks the algorithm
    const Seal seal{.algorithm = algorithm,
                    .files = {{"file", 10, *empty_digest}},
                    .tensors = {{"a", 0, 0, 4, *empty_digest}, {"splat", std::nullopt, 0, 4, *empty_digest}},
                    .chunks = std::vector<std::byte>(2 * digest_bytes(algorithm))};
    EXPECT_EQ(SealCounts::of(seal).seal_bytes(algorithm), encode_seal(seal)->size());
  }
}

TEST(SealSize, seal_size_within_limit) {
  const auto catalog = catalog_of_splats(3);
  const std::array<std::string, 1> names{"file"};
  const auto check = [&](HashAlgorithm algorithm, std::uint64_t bytes) {
    return check_seal_size(algorithm, catalog, std::array{bytes}, names);
  };
  EXPECT_TRUE(check(HashAlgorithm::crc64nvme, 127 * tebibyte));
  EXPECT_TRUE(check(HashAlgorithm::sha256, 31 * tebibyte));
  auto refused = check(HashAlgorithm::sha256, 32 * tebibyte);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::header_too_large);
  EXPECT_EQ(refused.error().rule(), "seal_size_within_limit");
  EXPECT_EQ(
      refused.error().message(),
      "the seal would have 268435793 bytes, with digests of 8388608 chunks and 3 tensors, but the limit "
      "is 268435456 bytes");
  EXPECT_EQ(refused.error().hint(), "use --algorithm crc64nvme, whose digests have 8 bytes");
  refused = check(HashAlgorithm::crc64nvme, 128 * tebibyte);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().hint(), "divide the model into several folders and seal each of them");
  EXPECT_FALSE(check_seal_size(HashAlgorithm::crc64nvme, {.chunks = UINT64_MAX}));
}

TEST(SealSize, a_seal_that_no_reader_accepts_is_not_encoded) {
  Seal seal{
      .algorithm = HashAlgorithm::crc64nvme, .files = {{"file", 0, Digest(0)}}, .tensors = {}, .chunks = {}};
  seal.tensors.push_back({std::string(Seal::max_bytes, 'n'), std::nullopt, 0, 0, Digest(0)});
  const auto encoded = encode_seal(seal);
  ASSERT_FALSE(encoded);
  EXPECT_EQ(encoded.error().rule(), "seal_size_within_limit");
}

}  // namespace
}  // namespace ht::seal_size_test
