#include <gtest/gtest.h>

#include <fstream>
#include <htensor/dtype/dtypes.hpp>
#include <htensor/dtype/encoding.hpp>
#include <htensor/dtype/relations.hpp>
#include <sstream>
#include <vector>

#include "testing/library_types.hpp"
#include "testing/shared_folder.hpp"

namespace ht::encoding_test {
namespace {

static_assert(IsEncoding<Q4_K>);
static_assert(!IsEncoding<const Q4_K>);
static_assert(!IsEncoding<int>);
static_assert(!IsEncoding<Encoding>);
static_assert(Q4_K::tag == static_cast<EncodingTag>(12));
static_assert(Q4_K::block_elements == 256 && Q4_K::block_bytes == 144 && Q4_K::name == "Q4_K");

TEST(Encoding, finds_block_encodings_by_number_and_name) {
  const auto by_name = find_encoding("Q4_K");
  ASSERT_TRUE(by_name);
  EXPECT_EQ(by_name, find_encoding(static_cast<EncodingTag>(12)));
  EXPECT_EQ(by_name->block_elements, 256U);
  EXPECT_EQ(by_name->block_bytes, 144U);
  EXPECT_EQ(library_encodings().size(), 27U);
}

TEST(Encoding, dense_and_unknown_numbers_are_not_found) {
  for (const int number : {0, 1, 4, 5, 24, 30, 31, 32, 33, 36, 37, 38, 43, 255}) {
    EXPECT_FALSE(find_encoding(static_cast<EncodingTag>(number))) << number;
  }
  EXPECT_FALSE(find_encoding("F32"));
  EXPECT_FALSE(find_encoding(""));
}

TEST(Encoding, counts_the_bytes_of_whole_blocks) {
  const auto q8_0 = find_encoding("Q8_0").value();
  EXPECT_EQ(block_bytes(std::vector<std::int64_t>{3, 64}, q8_0), 3U * 2 * 34);
  EXPECT_EQ(block_bytes(std::vector<std::int64_t>{3, 0}, q8_0), 0U);
  EXPECT_EQ(block_bytes(std::vector<std::int64_t>{32, 3}, q8_0), std::nullopt);
  EXPECT_EQ(block_bytes({}, q8_0), std::nullopt);
  EXPECT_EQ(block_bytes(std::vector<std::int64_t>{std::int64_t{1} << 62, 32}, q8_0), std::nullopt);
  EXPECT_EQ(block_bytes(std::vector<std::int64_t>{std::int64_t{1} << 57, 32}, q8_0),
            (std::uint64_t{1} << 57) * 34);
  EXPECT_EQ(block_bytes(std::vector<std::int64_t>{std::int64_t{1} << 58, 32}, q8_0), std::nullopt);
}

TEST(Encoding, matches_the_list_of_ggml_types) {
  HT_SHARED_OR_SKIP(list, "formats/ggml_types.tsv");
  std::ifstream file(list);
  std::string line;
  std::size_t blocks = 0;
  while (std::getline(file, line)) {
    std::istringstream row(line);
    int number = 0;
    std::string name;
    std::uint32_t elements = 0;
    std::uint32_t bytes = 0;
    if (!(row >> number >> name >> elements >> bytes)) continue;
    if (elements == 1) {
      EXPECT_EQ(find_dtype(name).value_or(DTypeInfo{}).bits, static_cast<int>(bytes) * 8) << name;
      continue;
    }
    ++blocks;
    const auto encoding = find_encoding(static_cast<EncodingTag>(number));
    ASSERT_TRUE(encoding) << name;
    EXPECT_EQ(encoding->name, name);
    EXPECT_EQ(encoding->block_elements, elements) << name;
    EXPECT_EQ(encoding->block_bytes, bytes) << name;
  }
  EXPECT_EQ(blocks, library_encodings().size());
}

TEST(Encoding, visit_encoding_agrees_with_find_encoding) {
  const auto encodings = library_encodings();
  EXPECT_EQ(encodings.size(), static_cast<std::size_t>(AllEncodings::size));
  for (const Encoding& encoding : encodings) {
    int calls = 0;
    const bool found = visit_encoding(encoding.tag, [&](auto e) {
      using E = decltype(e);
      ++calls;
      EXPECT_EQ(E::tag, encoding.tag);
      EXPECT_EQ(E::name, encoding.name);
      EXPECT_EQ(static_cast<std::uint32_t>(E::block_elements), encoding.block_elements);
      EXPECT_EQ(static_cast<std::uint32_t>(E::block_bytes), encoding.block_bytes);
    });
    EXPECT_TRUE(found) << encoding.name;
    EXPECT_EQ(calls, 1) << encoding.name;
  }
}

TEST(Encoding, dense_and_unknown_tags_are_not_visited) {
  for (int tag = 0; tag <= UINT8_MAX; ++tag) {
    const auto encoding = static_cast<EncodingTag>(tag);
    bool called = false;
    EXPECT_EQ(visit_encoding(encoding, [&](auto) { called = true; }), find_encoding(encoding).has_value());
    EXPECT_EQ(called, find_encoding(encoding).has_value()) << tag;
  }
}

}  // namespace
}  // namespace ht::encoding_test
