#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <htensor/hash/digest.hpp>
#include <htensor/integrity/seal.hpp>

#include "testing/temporary_folder.hpp"

namespace ht::seal_format_test {
namespace {

Digest some_digest(HashAlgorithm algorithm, std::string_view of) {
  return digest(algorithm, bytes_of(of)).value();
}

// A seal of two files: one with a header, a tensor and a tail, one with a tensor only. The third tensor is a
// splat.
Seal sample(HashAlgorithm algorithm = HashAlgorithm::crc64nvme) {
  Seal seal{.algorithm = algorithm, .files = {}, .tensors = {}, .chunks = {}};
  seal.files.push_back({"model.safetensors", 100, some_digest(algorithm, "a")});
  seal.files.push_back({"more/other.bin", 50, some_digest(algorithm, "b")});
  seal.tensors.push_back({"first", 0, 10, 80, some_digest(algorithm, "c")});
  seal.tensors.push_back({"gewürz", 1, 0, 50, some_digest(algorithm, "d")});
  seal.tensors.push_back({"splat", std::nullopt, 0, 4096, some_digest(algorithm, "e")});
  for (const std::string_view text : {"1", "2", "3", "4"}) {
    const auto chunk = some_digest(algorithm, text);
    seal.chunks.insert(seal.chunks.end(), chunk.bytes().begin(), chunk.bytes().end());
  }
  return seal;
}

// Returns the seal with changed bytes and a digest that matches them, as a forger would write it.
std::vector<std::byte> forged(const std::function<void(MutableBytes)>& change) {
  auto bytes = encode_seal(sample()).value();
  change(bytes);
  store_be(MutableBytes(bytes).last(8), crc64nvme(Bytes(bytes).first(bytes.size() - 8)));
  return bytes;
}

void expect_bad(Bytes bytes, std::string_view rule) {
  const auto seal = parse_seal(bytes);
  ASSERT_FALSE(seal) << "was accepted despite the rule " << rule;
  EXPECT_EQ(seal.error().code(), ErrorCode::bad_seal);
  EXPECT_EQ(seal.error().rule(), rule) << to_string(seal.error());
  EXPECT_FALSE(seal.error().hint().empty());
}

void expect_unwritable(const std::function<void(Seal&)>& change, std::string_view rule) {
  auto seal = sample();
  change(seal);
  const auto bytes = encode_seal(seal);
  ASSERT_FALSE(bytes) << "was encoded despite the rule " << rule;
  EXPECT_EQ(bytes.error().rule(), rule) << to_string(bytes.error());
}

TEST(SealFormat, round_trips) {
  for (const auto algorithm : all_hash_algorithms) {
    const auto bytes = encode_seal(sample(algorithm)).value();
    EXPECT_EQ(parse_seal(bytes).value(), sample(algorithm)) << to_string(algorithm);
    EXPECT_EQ(encode_seal(sample(algorithm)).value(), bytes);
  }
}

TEST(SealFormat, has_the_layout_of_the_specification) {
  const auto bytes = encode_seal(sample()).value();
  const Bytes all = bytes;
  EXPECT_TRUE(std::ranges::equal(all.first(8), bytes_of(std::string_view("HTSEAL\0\0", 8))));
  EXPECT_EQ(load_le<std::uint16_t>(all.subspan(8)), 1);
  EXPECT_EQ(all[10], std::byte{1});
  EXPECT_EQ(load_le<std::uint32_t>(all.subspan(12)), 2U);
  EXPECT_EQ(load_le<std::uint64_t>(all.subspan(16)), 3U);
  EXPECT_EQ(load_le<std::uint64_t>(all.subspan(24)), 4U);
  EXPECT_EQ(load_le<std::uint64_t>(all.subspan(32)), 4194304U);
  EXPECT_EQ(load_le<std::uint64_t>(all.subspan(40)), 17U + 14 + 5 + 7 + 5);
  EXPECT_EQ(load_le<std::uint64_t>(all.subspan(48)), bytes.size());
  EXPECT_EQ(load_le<std::uint64_t>(all.subspan(64)), 100U);
  EXPECT_EQ(bytes.size(), 64U + 2 * 24 + 3 * 32 + 4 * 8 + 48 + 8);
  EXPECT_EQ(load_be<std::uint64_t>(all.last(8)), crc64nvme(all.first(bytes.size() - 8)));
}

TEST(SealFormat, detects_every_flipped_bit_of_itself) {
  for (const auto algorithm : all_hash_algorithms) {
    auto bytes = encode_seal(sample(algorithm)).value();
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      const auto flip = static_cast<std::byte>(1U << (bit % 8));
      bytes[bit / 8] ^= flip;
      const auto seal = parse_seal(bytes);
      ASSERT_FALSE(seal) << "bit " << bit;
      ASSERT_EQ(seal.error().code(), ErrorCode::bad_seal);
      bytes[bit / 8] ^= flip;
    }
  }
}

TEST(SealFormat, is_rejected_at_every_other_length) {
  auto bytes = encode_seal(sample()).value();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    ASSERT_EQ(parse_seal(Bytes(bytes).first(length)).error().code(), ErrorCode::bad_seal) << length;
  }
  bytes.emplace_back();
  expect_bad(bytes, "seal_size_matches_its_header");
}

TEST(SealFormat, seal_has_a_header) { expect_bad({}, "seal_has_a_header"); }

TEST(SealFormat, seal_has_its_magic) {
  expect_bad(forged([](MutableBytes bytes) { bytes[0] = std::byte{'X'}; }), "seal_has_its_magic");
}

TEST(SealFormat, seal_version_is_known) {
  expect_bad(forged([](MutableBytes bytes) { bytes[8] = std::byte{2}; }), "seal_version_is_known");
}

TEST(SealFormat, seal_algorithm_is_known) {
  expect_unwritable([](Seal& seal) { seal.algorithm = static_cast<HashAlgorithm>(9); },
                    "seal_algorithm_is_known");
  for (const int number : {0, 4, 255}) {
    expect_bad(forged([&](MutableBytes bytes) { bytes[10] = static_cast<std::byte>(number); }),
               "seal_algorithm_is_known");
  }
}

TEST(SealFormat, seal_size_matches_its_header) {
  expect_bad(forged([](MutableBytes bytes) { store_le(bytes.subspan(48), std::uint64_t{1} << 60); }),
             "seal_size_matches_its_header");
}

TEST(SealFormat, seal_size_matches_its_counts) {
  for (const std::size_t at : {16UL, 24UL, 40UL}) {
    for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1} << 40, UINT64_MAX, UINT64_MAX / 8}) {
      expect_bad(forged([&](MutableBytes bytes) { store_le(bytes.subspan(at), count); }),
                 "seal_size_matches_its_counts");
    }
  }
  expect_bad(forged([](MutableBytes bytes) { store_le(bytes.subspan(12), UINT32_MAX); }),
             "seal_size_matches_its_counts");
}

TEST(SealFormat, seal_digest_matches) {
  auto bytes = encode_seal(sample()).value();
  bytes[70] ^= std::byte{1};
  expect_bad(bytes, "seal_digest_matches");
}

TEST(SealFormat, seal_header_matches_its_version) {
  for (const std::size_t at : {11UL, 32UL, 56UL, 64UL + 12}) {
    expect_bad(forged([&](MutableBytes bytes) { bytes[at] ^= std::byte{1}; }),
               "seal_header_matches_its_version");
  }
}

TEST(SealFormat, seal_names_are_complete) {
  expect_bad(forged([](MutableBytes bytes) { store_le(bytes.subspan(64 + 8), std::uint32_t{1000}); }),
             "seal_names_are_complete");
}

TEST(SealFormat, seal_name_bytes_are_used) {
  expect_bad(forged([](MutableBytes bytes) { store_le(bytes.subspan(64 + 48 + 64 + 20), std::uint32_t{4}); }),
             "seal_name_bytes_are_used");
}

TEST(SealFormat, seal_names_are_utf8) {
  expect_bad(forged([](MutableBytes bytes) { bytes[64 + 48 + 96 + 32 + 31] = std::byte{0xFF}; }),
             "seal_names_are_utf8");
  for (const std::size_t tensor : {0UL, 2UL})
    expect_unwritable([&](Seal& seal) { seal.tensors[tensor].name = "\xFF"; }, "seal_names_are_utf8");
}

TEST(SealFormat, seal_digests_use_the_seal_algorithm) {
  const auto other = some_digest(HashAlgorithm::sha256, "a");
  expect_unwritable([&](Seal& seal) { seal.files[1].digest = other; }, "seal_digests_use_the_seal_algorithm");
  expect_unwritable([&](Seal& seal) { seal.tensors[2].digest = other; },
                    "seal_digests_use_the_seal_algorithm");
}

TEST(SealFormat, seal_has_a_file) {
  expect_unwritable([](Seal& seal) { seal.files.clear(); }, "seal_has_a_file");
}

TEST(SealFormat, seal_file_names_are_plain) {
  for (const std::string name : {"/etc/passwd", "../other", "a/../../b", "", "./m", "a//b", "a/./b", "b/"}) {
    expect_unwritable([&](Seal& seal) { seal.files[0].name = name; }, "seal_file_names_are_plain");
  }
}

TEST(SealFormat, seal_file_names_are_unique) {
  expect_unwritable([](Seal& seal) { seal.files[1].name = seal.files[0].name; },
                    "seal_file_names_are_unique");
}

TEST(SealFormat, seal_sizes_fit_63_bits) {
  expect_unwritable([](Seal& seal) { seal.files[0].bytes = UINT64_MAX; }, "seal_sizes_fit_63_bits");
  expect_unwritable([](Seal& seal) { seal.files[0].bytes = std::uint64_t{1} << 63; },
                    "seal_sizes_fit_63_bits");
}

TEST(SealFormat, seal_tensors_are_within_the_seal_files) {
  expect_unwritable([](Seal& seal) { seal.tensors[0].bytes = 91; }, "seal_tensors_are_within_the_seal_files");
  expect_unwritable([](Seal& seal) { seal.tensors[0].offset = UINT64_MAX; },
                    "seal_tensors_are_within_the_seal_files");
  expect_unwritable([](Seal& seal) { seal.tensors[0].file = 2; }, "seal_tensors_are_within_the_seal_files");
}

TEST(SealFormat, seal_splats_have_offset_0) {
  expect_bad(forged([](MutableBytes bytes) { store_le(bytes.subspan(64 + 48 + 64), std::uint64_t{1}); }),
             "seal_splats_have_offset_0");
  expect_unwritable([](Seal& seal) { seal.tensors[2].offset = 1; }, "seal_splats_have_offset_0");
}

TEST(SealFormat, seal_covers_every_byte) {
  for (const std::size_t bytes : {3UL * 8, 4UL * 8 + 1, 4UL * 8 + 7})
    expect_unwritable([&](Seal& seal) { seal.chunks.resize(bytes); }, "seal_covers_every_byte");
  expect_unwritable([](Seal& seal) { seal.files[0].bytes = std::uint64_t{1} << 62; },
                    "seal_covers_every_byte");
}

TEST(SealFormat, digest_of_several_files_covers_their_digests) {
  auto seal = sample();
  std::vector<std::byte> both(seal.files[0].digest.bytes().begin(), seal.files[0].digest.bytes().end());
  both.insert(both.end(), seal.files[1].digest.bytes().begin(), seal.files[1].digest.bytes().end());
  EXPECT_EQ(digest_of(seal).value(), digest(seal.algorithm, both).value());
  seal.files.pop_back();
  EXPECT_EQ(digest_of(seal).value(), seal.files[0].digest);
}

TEST(SealLocation, is_beside_a_file_and_in_the_folder_of_several) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(seal_path(folder / "m.gguf"), folder / "m.gguf.htseal");
  EXPECT_EQ(seal_path(folder.path()), folder / "model.htseal");
  EXPECT_EQ(seal_path(folder / "model.safetensors.index.json"), folder / "model.htseal");
  EXPECT_EQ(seal_path(folder / "m-00003-of-00004.gguf"), folder / "m-00001-of-00004.gguf.htseal");
  EXPECT_EQ(seal_path(folder / "m-00003-of-00004.safetensors"),
            folder / "m-00003-of-00004.safetensors.htseal");
}

TEST(SealLocation, model_is_sealed) {
  const testing::TemporaryFolder folder;
  const auto none = read_seal(folder / "m.htseal");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), ErrorCode::not_sealed);
  EXPECT_EQ(none.error().rule(), "model_is_sealed");
}

TEST(SealLocation, seal_file_size_within_limit) {
  const testing::TemporaryFolder folder;
  testing::write_file(folder / "m.htseal", "HTSEAL");
  std::filesystem::resize_file(folder / "m.htseal", (std::uint64_t{1} << 28) + 1);
  const auto huge = read_seal(folder / "m.htseal");
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error().rule(), "seal_file_size_within_limit");
}

}  // namespace
}  // namespace ht::seal_format_test
