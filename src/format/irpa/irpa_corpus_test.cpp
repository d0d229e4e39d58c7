// Archives that IREE's own tools made.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "format/irpa/irpa.hpp"
#include "testing/shared_folder.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::format_irpa::irpa_corpus_test {
namespace {

using ht::testing::read_file;
using ht::testing::rows_of;

Catalog catalog_of(const std::filesystem::path& path) {
  const auto file = read_file(path);
  auto parsed = ht::parse(file, file.size());
  EXPECT_TRUE(parsed) << path << (parsed ? "" : to_string(parsed.error()));
  return std::get<Catalog>(*std::move(parsed));
}

TEST(IrpaCorpus, verdicts_match_the_reference) {
  HT_SHARED_OR_SKIP(corpus, "corpus");
  std::size_t archives = 0;
  for (const auto& row : rows_of(corpus / "expected.tsv")) {
    if (!row[0].ends_with(".irpa")) continue;
    ++archives;
    const auto file = read_file(corpus / row[0]);
    EXPECT_EQ(ht::parse(file, file.size()).has_value(), row[1] == "accept") << row[0];
    EXPECT_EQ(ht::parse(file, file.size(), {.allow_incomplete = true}).has_value(), row[2] == "accept")
        << row[0];
  }
  EXPECT_GE(archives, 5U);
}

TEST(IrpaCorpus, entries_match_iree) {
  HT_SHARED_OR_SKIP(corpus, "corpus");
  std::map<std::string, std::size_t> next;
  for (const auto& row : rows_of(corpus / "listing_irpa.tsv")) {
    const auto catalog = catalog_of(corpus / row[0]);
    const std::size_t index = next[row[0]]++;
    ASSERT_LT(index, catalog.size());
    const Entry entry = catalog[index];
    EXPECT_EQ(entry.name, row[1]);
    EXPECT_EQ(entry.bytes, std::stoull(row[4])) << row[1];
    EXPECT_EQ(entry.is_splat(), row[2] == "-") << row[1];
    if (!entry.is_splat()) {
      EXPECT_EQ(entry.offset, std::stoull(row[2])) << row[1];
      EXPECT_EQ(entry.offset + entry.bytes, std::stoull(row[3])) << row[1];
    }
  }
  for (const auto& [path, count] : next) EXPECT_EQ(catalog_of(corpus / path).size(), count) << path;
}

TEST(IrpaCorpus, encoding_matches_the_iree_builder) {
  HT_SHARED_OR_SKIP(corpus, "corpus/irpa/iree");
  for (const auto& each : std::filesystem::directory_iterator(corpus)) {
    SCOPED_TRACE(each.path());
    auto file = read_file(each.path());
    const auto catalog = catalog_of(each.path());
    const auto encoded = encode(catalog, {.describe_types = false});
    ASSERT_TRUE(encoded);
    EXPECT_EQ(encoded->file_bytes, file.size());
    ASSERT_LE(encoded->header.size(), file.size());
    EXPECT_TRUE(std::ranges::equal(encoded->header, Bytes(file).first(encoded->header.size())));
    // All bytes outside of the header and the data are zero.
    std::fill_n(file.begin(), encoded->header.size(), std::byte{0});
    for (std::size_t i = 0; i < catalog.size(); ++i) {
      const Entry entry = catalog[i];
      if (entry.is_splat()) continue;
      EXPECT_EQ(encoded->offsets[i], entry.offset) << entry.name;
      std::ranges::fill(MutableBytes(file).subspan(entry.offset, entry.bytes), std::byte{0});
    }
    EXPECT_TRUE(std::ranges::all_of(file, [](std::byte byte) { return byte == std::byte{0}; }));
  }
}

TEST(IrpaCorpus, splats_have_their_patterns) {
  HT_SHARED_OR_SKIP(mixed, "corpus/irpa/iree/mixed.irpa");
  const auto catalog = catalog_of(mixed);
  EXPECT_TRUE(std::ranges::equal(catalog[0].splat, std::vector{std::byte{0x66}}));
  EXPECT_EQ(catalog[1].splat.size(), 8U);
  EXPECT_EQ(load_le<std::uint64_t>(catalog[1].splat), 0x7fffffffffffffffU);
}

TEST(IrpaCorpus, turbine_tensors_have_their_type_and_keep_their_note) {
  HT_SHARED_OR_SKIP(turbine, "corpus/irpa/iree/tensor_saved_with_iree_turbine.irpa");
  const auto catalog = catalog_of(turbine);
  const Entry entry = catalog[0];
  EXPECT_EQ(entry.dtype, U8::tag);
  EXPECT_TRUE(std::ranges::equal(entry.dims, std::vector<std::int64_t>{4}));
  EXPECT_TRUE(entry.note.starts_with("PYTORCH:{\"type\": \"Tensor\", \"dtype\": \"uint8\"")) << entry.note;
}

}  // namespace
}  // namespace ht::format_irpa::irpa_corpus_test
