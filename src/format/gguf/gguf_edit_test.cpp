#include <gtest/gtest.h>

#include <htensor/format/metadata.hpp>

#include "format/gguf/gguf_test_file.hpp"

namespace ht::format_gguf::gguf_edit_test {
namespace {

using testing::all_values;
using testing::GgufFile;
using testing::parse_gguf;

// A file with one string and a tensor of 64 bytes.
GgufFile with_text(const std::string& text, std::endian order = std::endian::little,
                   std::optional<std::uint32_t> alignment = std::nullopt, std::uint32_t version = 3) {
  GgufFile file(order);
  file.header(1, alignment ? 2 : 1, version);
  if (alignment) file.pair("general.alignment", MetaType::u32, *alignment);
  file.key("text", MetaType::string).text(text);
  return file.tensor("t", {16}, 0, 0).pad(alignment.value_or(32)).zeros(64);
}

struct EditedFile {
  Catalog catalog;
  std::vector<std::byte> header;
  std::uint64_t replaced_bytes = 0;
};

Result<EditedFile> after(const std::vector<std::byte>& file, const std::vector<MetadataEdit>& edits,
                         bool grow = false) {
  const auto catalog = std::get<Catalog>(parse(file, file.size()).value());
  const auto metadata = HT_TRY(apply_edits(catalog.metadata(), edits));
  auto header = HT_TRY(edit({file, file.size(), catalog, metadata, grow}));
  EXPECT_TRUE(catalog.empty() || header.replaced_bytes == catalog[0].offset);
  auto parsed = parse(header.bytes, header.bytes.size() + file.size() - header.replaced_bytes);
  EXPECT_TRUE(parsed) << to_string(parsed.error());
  auto now = std::get<Catalog>(*std::move(parsed));
  EXPECT_EQ(now.size(), catalog.size());
  if (!now.empty()) {
    EXPECT_EQ(now[0].offset, header.bytes.size());
    EXPECT_EQ(now[0].byte_order, catalog[0].byte_order);
    EXPECT_EQ(now[0].name, catalog[0].name);
  }
  return EditedFile{std::move(now), std::move(header.bytes), header.replaced_bytes};
}

// Returns the metadata without the padding value.
Metadata without_padding(const Metadata& metadata) {
  Metadata out;
  for (const auto& item : metadata) {
    if (item.key == pad_key) continue;
    EXPECT_TRUE(out.add(item.key, item.value));
  }
  EXPECT_TRUE(out.index());
  return out;
}

TEST(GgufEdit, keeps_everything_else_byte_for_byte) {
  for (const auto order : {std::endian::little, std::endian::big}) {
    const auto file = all_values(order);
    const auto now = after(file.bytes(), {{.key = "u32", .value = "17"}}).value();
    EXPECT_EQ(now.header.size(), now.replaced_bytes);
    EXPECT_EQ(now.catalog.metadata().find("u32")->unsigned_integer(), 17U);
    auto expected = file.bytes();
    expected.resize(now.replaced_bytes);
    std::size_t differences = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) differences += expected[i] == now.header[i] ? 0 : 1;
    EXPECT_LE(differences, 4U);
    // The reverse edit restores the bytes of the file.
    auto whole = file.bytes();
    std::ranges::copy(now.header, whole.begin());
    EXPECT_EQ(after(whole, {{.key = "u32", .value = "4000000000"}})->header, expected);
  }
}

TEST(GgufEdit, pads_a_shorter_header_and_reuses_the_padding) {
  for (const auto order : {std::endian::little, std::endian::big}) {
    for (std::size_t length = 0; length <= 200; ++length) {
      const auto file = with_text(std::string(200, 'x'), order);
      const auto now = after(file.bytes(), {{.key = "text", .value = std::string(length, 'y')}}).value();
      ASSERT_EQ(now.header.size(), now.replaced_bytes) << length;
      EXPECT_EQ(now.catalog.metadata().find("text")->text(), std::string(length, 'y'));
      auto whole = file.bytes();
      std::ranges::copy(now.header, whole.begin());
      const auto restored = after(whole, {{.key = "text", .value = std::string(200, 'x')}}).value();
      EXPECT_TRUE(std::ranges::equal(restored.header, Bytes(file.bytes()).first(restored.header.size())))
          << length;
    }
  }
}

TEST(GgufEdit, metadata_fits_the_padding) {
  const auto file = with_text(std::string(10, 'x'));
  const auto old = parse_gguf(file).value();
  // Magic, version and counts; the value; the tensor in the table.
  const std::size_t used = 24 + (8 + 4 + 4 + 8 + 10) + (8 + 1 + 4 + 8 + 4 + 8);
  const std::size_t room = old[0].offset - used;
  EXPECT_EQ(after(file.bytes(), {{.key = "text", .value = std::string(10 + room, 'y')}})->header.size(),
            old[0].offset);
  const std::vector<MetadataEdit> longer{{.key = "text", .value = std::string(11 + room, 'y')}};
  const auto refused = after(file.bytes(), longer);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::header_too_large);
  EXPECT_EQ(refused.error().rule(), "metadata_fits_the_padding");
  EXPECT_NE(refused.error().message().find("before the data"), std::string_view::npos);
  const auto grown = after(file.bytes(), longer, true).value();
  EXPECT_EQ(grown.header.size(), old[0].offset + 4096);
  EXPECT_GE(grown.catalog.metadata().find(pad_key)->text()->size(), 900U);
  EXPECT_EQ(without_padding(grown.catalog.metadata()).size(), 1U);
}

TEST(GgufEdit, header_can_be_padded) {
  // The alignment is smaller than the shortest padding value.
  const auto file = with_text(std::string(40, 'x'), std::endian::little, 8);
  const std::vector<MetadataEdit> shorter{{.key = "text", .value = std::string(24, 'y')}};
  const auto refused = after(file.bytes(), shorter);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::misaligned);
  EXPECT_EQ(refused.error().rule(), "header_can_be_padded");
  EXPECT_EQ(after(file.bytes(), shorter, true)->catalog.metadata().find("text")->text()->size(), 24U);
  EXPECT_TRUE(after(file.bytes(), {{.key = "text", .value = std::string(39, 'y')}}));
  EXPECT_TRUE(after(file.bytes(), {{.key = "text", .value = ""}}));
}

TEST(GgufEdit, edits_keep_the_layout) {
  const auto plain = with_text(std::string(100, 'x'));
  const auto aligned = with_text(std::string(100, 'x'), std::endian::little, 64);
  const MetadataEdit::Type u32{MetaType::u32};
  const auto rule = [](const GgufFile& file, const MetadataEdit& edit) {
    const auto refused = after(file.bytes(), {{.key = "text", .value = ""}, edit}, true);
    return refused ? "" : std::string(refused.error().rule());
  };
  for (const auto& edit : {MetadataEdit{.key = "general.alignment", .value = "32", .type = u32},
                           MetadataEdit{.key = "split.no", .value = "0", .type = u32},
                           MetadataEdit{.key = "htensor.pad", .value = " "}}) {
    EXPECT_EQ(rule(plain, edit), "edits_keep_the_layout") << edit.key;
  }
  EXPECT_EQ(rule(aligned, {.key = "general.alignment"}), "edits_keep_the_layout");
  EXPECT_EQ(rule(aligned, {.key = "general.alignment", .value = "128"}), "edits_keep_the_layout");
  EXPECT_EQ(rule(aligned, {.key = "general.alignment", .value = "64"}), "") << "the value is unchanged";
  auto padded = plain.bytes();
  std::ranges::copy(after(padded, {{.key = "text", .value = ""}}).value().header, padded.begin());
  const auto removed = after(padded, {{.key = std::string(pad_key)}});
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().rule(), "edits_keep_the_layout");
}

TEST(GgufEdit, padding_key_is_unused) {
  GgufFile file;
  file.header(1, 2).key(pad_key, MetaType::string).text("mine");
  file.key("text", MetaType::string).text(std::string(100, 'x'));
  file.tensor("t", {16}, 0, 0).pad().zeros(64);
  for (const bool grow : {false, true}) {
    const auto refused = after(file.bytes(), {{.key = "text"}}, grow);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), ErrorCode::duplicate_key);
    EXPECT_EQ(refused.error().rule(), "padding_key_is_unused");
    EXPECT_EQ(refused.error().hint(), "remove the key: htensor meta FILE rm htensor.pad");
    const auto padded = after(file.bytes(), {{.key = "text"}, {.key = std::string(pad_key)}}, grow);
    ASSERT_TRUE(padded) << to_string(padded.error());
    EXPECT_TRUE(without_padding(padded->catalog.metadata()).empty());
  }
  EXPECT_EQ(after(file.bytes(), {{.key = "text", .value = std::string(90, 'y')}})
                ->catalog.metadata()
                .find(pad_key)
                ->text(),
            "mine");
}

TEST(GgufEdit, keeps_the_version) {
  const auto file = with_text("x", std::endian::big, std::nullopt, 2);
  const auto now = after(file.bytes(), {{.key = "text", .value = "y"}}).value();
  EXPECT_EQ(load_be<std::uint32_t>(Bytes(now.header).subspan(4)), 2U);
}

TEST(GgufEdit, header_without_tensors_can_grow) {
  GgufFile file;
  file.header(0, 1).key("text", MetaType::string).text("x");
  const auto longer = after(file.bytes(), {{.key = "text", .value = std::string(100, 'y')}}).value();
  EXPECT_EQ(longer.catalog.metadata().find("text")->text()->size(), 100U);
  EXPECT_TRUE(after(longer.header, {{.key = "text", .value = "z"}}));
  EXPECT_TRUE(after(GgufFile().header(0, 0).bytes(), {{.key = "text", .value = "x"}}));
}

TEST(GgufEdit, refuses_values_that_gguf_cannot_store) {
  const auto file = with_text(std::string(100, 'x'));
  for (const auto* const key : {"", "\xFF"}) {
    EXPECT_EQ(after(file.bytes(), {{.key = key, .value = "v"}}, true).error().rule(),
              "gguf_can_store_the_value");
  }
  EXPECT_EQ(after(file.bytes(), {{.key = "k", .value = "\xFF"}}, true)->catalog.metadata().find("k")->text(),
            "\xFF");
}

TEST(GgufEdit, edit_sees_the_whole_header) {
  const auto file = with_text("x").bytes();
  const auto catalog = std::get<Catalog>(parse(file, file.size()).value());
  for (const std::size_t seen : {0U, 3U, 7U, 23U, 40U}) {
    const auto refused = edit({Bytes(file).first(seen), file.size(), catalog, catalog.metadata(), false});
    ASSERT_FALSE(refused) << seen;
    EXPECT_EQ(refused.error().code(), ErrorCode::internal);
    EXPECT_EQ(refused.error().rule(), "edit_sees_the_whole_header");
  }
}

}  // namespace
}  // namespace ht::format_gguf::gguf_edit_test
