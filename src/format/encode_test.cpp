#include <gtest/gtest.h>

#include <algorithm>
#include <htensor/dtype/packed.hpp>
#include <htensor/dtype/relations.hpp>
#include <htensor/format/format.hpp>
#include <vector>

#include "testing/library_types.hpp"

namespace ht::encode_test {
namespace {

std::vector<Catalog> many_catalogs() {
  std::vector<Catalog> catalogs;
  const auto add = [&](const std::vector<Entry>& entries, bool with_metadata = false) {
    CatalogBuilder builder("test");
    for (const auto& entry : entries) EXPECT_TRUE(builder.add(entry));
    if (with_metadata) {
      EXPECT_TRUE(builder.metadata().add("author", "somebody"));
    }
    catalogs.push_back(std::move(builder).build().value());
  };
  static const std::vector<std::int64_t> one_row{3};
  static const std::vector<std::int64_t> matrix{2, 256};
  static const std::vector<std::int64_t> deep(9, 1);
  static const std::vector<std::byte> pattern(4, std::byte{7});
  for (const auto& dtype : library_dtypes()) {
    for (const auto* dims : {&one_row, &matrix, &deep}) {
      add({{.name = "t", .dtype = dtype.tag, .dims = *dims, .bytes = *dense_bytes(*dims, dtype.bits)}});
    }
  }
  for (const auto& encoding : library_encodings()) {
    add({{.name = "t", .encoding = encoding.tag, .dims = matrix, .bytes = *block_bytes(matrix, encoding)}});
  }
  const Entry plain{.name = "t", .dtype = F32::tag, .dims = matrix, .bytes = 2048};
  for (const auto* name : {"", "__metadata__", "a\xFF", "a\n\"\\",
                           "a.very.long.name.that.is.longer.than.the.63.bytes.that.ggml.allows"}) {
    Entry named = plain;
    named.name = name;
    add({named});
  }
  Entry other = plain;
  other.name = "u";
  add({plain, other}, true);
  add({plain}, true);
  add({});
  Entry odd = plain;
  odd.order = ElementOrder::column_major;
  add({odd});
  odd = plain;
  odd.byte_order = ByteOrder::big;
  add({odd});
  odd = plain;
  odd.splat = pattern;
  add({odd});
  add({{.name = "t", .bytes = 5}});
  return catalogs;
}

// Compares the fields that a format must not change.
bool same(const Entry& a, const Entry& b) {
  return a.name == b.name && a.dtype == b.dtype && a.encoding == b.encoding &&
         std::ranges::equal(a.dims, b.dims) && a.order == b.order && a.byte_order == b.byte_order &&
         a.bytes == b.bytes;
}

// Encodes many catalogs in every format: each result parses to the same catalog, or the encoder refuses it.
TEST(Encode, every_catalog_round_trips_or_is_refused) {
  for (const auto& catalog : many_catalogs()) {
    for (const auto format : format_names()) {
      const auto encoded = encode(format, catalog);
      const std::string_view first = catalog.empty() ? "" : catalog[0].name;
      if (!encoded) {
        EXPECT_TRUE(encoded.error().code() == ErrorCode::would_lose ||
                    encoded.error().code() == ErrorCode::bad_utf8)
            << format << ": " << to_string(encoded.error());
        continue;
      }
      ASSERT_EQ(encoded->offsets.size(), catalog.size());
      // The start of the file, with zeros as data.
      auto file = encoded->header;
      file.resize(std::max<std::size_t>(file.size(), std::min<std::uint64_t>(encoded->file_bytes, 4096)));
      const auto parsed = parse(file, encoded->file_bytes, {.stem = first});
      ASSERT_TRUE(parsed && std::holds_alternative<Catalog>(*parsed))
          << format << ": " << (parsed ? "needs more" : to_string(parsed.error()));
      const auto& reparsed = std::get<Catalog>(*parsed);
      ASSERT_EQ(reparsed.size(), catalog.size()) << format;
      EXPECT_EQ(reparsed.metadata(), catalog.metadata()) << format;
      for (std::size_t i = 0; i < catalog.size(); ++i) EXPECT_TRUE(same(reparsed[i], catalog[i])) << format;
    }
  }
}

TEST(Encode, disk_block_size_is_a_power_of_two) {
  for (const auto format : format_names()) {
    const auto encoded =
        encode(format, std::move(CatalogBuilder(format)).build().value(), {.disk_block_bytes = 4095});
    ASSERT_FALSE(encoded);
    EXPECT_EQ(encoded.error().rule(), "disk_block_size_is_a_power_of_two") << format;
  }
}

TEST(Encode, alignment_is_a_power_of_two) {
  CatalogBuilder builder("test");
  ASSERT_TRUE(builder.add({.name = "t", .dtype = U8::tag, .bytes = 1}));
  const auto catalog = std::move(builder).build().value();
  for (const auto format : format_names()) {
    for (const std::uint64_t alignment : {3U, 48U, 100U}) {
      const auto encoded = encode(format, catalog, {.alignment = alignment});
      ASSERT_FALSE(encoded);
      EXPECT_EQ(encoded.error().code(), ErrorCode::misaligned);
      EXPECT_EQ(encoded.error().rule(), "alignment_is_a_power_of_two");
    }
  }
}

TEST(Encode, format_name_is_known) {
  const auto catalog = CatalogBuilder("test").build().value();
  const auto encoded = encode("word", catalog);
  ASSERT_FALSE(encoded);
  EXPECT_EQ(encoded.error().code(), ErrorCode::not_found);
  EXPECT_EQ(encoded.error().rule(), "format_name_is_known");
  EXPECT_NE(encoded.error().hint().find("ht"), std::string_view::npos);
}

TEST(Encode, formats_are_found_by_extension) {
  EXPECT_EQ(format_of_extension(".ht")->name, "ht");
  EXPECT_EQ(format_of_extension(".doc"), nullptr);
  EXPECT_EQ(format_of_extension(""), nullptr);
}

}  // namespace
}  // namespace ht::encode_test
