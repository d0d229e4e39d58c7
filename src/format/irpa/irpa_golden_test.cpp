// An archive written by hand, byte by byte, from the description of the format. Parsing it returns its
// entries, and encoding the entries returns its bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <string>
#include <vector>

#include "format/irpa/irpa.hpp"

namespace ht::format_irpa::irpa_golden_test {
namespace {

struct Row {
  std::size_t offset;
  std::string_view hex;
};

// Rows that are left out are zero; the file has 4096 bytes.
constexpr std::array golden_rows = std::to_array<Row>({
    // The header: magic, version 0.0, 88 bytes, without a next header and without flags.
    // 0x020: 3 entries; the segments of entries, metadata and storage, each an offset and a length.
    {0x000, "49 52 50 41 00 00 00 00  58 00 00 00 00 00 00 00"},
    {0x020, "03 00 00 00 00 00 00 00  60 00 00 00 00 00 00 00"},
    {0x030, "fc 00 00 00 00 00 00 00  5c 01 00 00 00 00 00 00"},
    {0x040, "46 00 00 00 00 00 00 00  c0 01 00 00 00 00 00 00"},
    {0x050, "45 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00"},
    // The splat "zero": 85 bytes, kind 1, its name, its 32 bytes, a pattern of 4 bytes.
    {0x060, "55 00 00 00 00 00 00 00  01 00 00 00 00 00 00 00"},
    {0x070, "00 00 00 00 00 00 00 00  00 00 00 00 04 00 00 00"},
    {0x090, "00 00 00 00 00 00 00 00  00 00 00 00 20 00 00 00"},
    {0x0a0, "00 00 00 00 00 00 80 3f  00 00 00 00 00 00 00 00"},
    {0x0b0, "00 00 00 00 04 00 00 00  00 00 00 00 00 00 00 00"},
    // "w": 76 bytes, kind 2, its name and metadata, an alignment of 64, 16 bytes of the storage.
    {0x0c0, "4c 00 00 00 00 00 00 00  02 00 00 00 00 00 00 00"},
    {0x0d0, "00 00 00 00 04 00 00 00  00 00 00 00 01 00 00 00"},
    {0x0e0, "00 00 00 00 05 00 00 00  00 00 00 00 40 00 00 00"},
    {0x0f0, "00 00 00 00 40 00 00 00  00 00 00 00 00 00 00 00"},
    {0x100, "00 00 00 00 10 00 00 00  00 00 00 00 00 00 00 00"},
    // "b": 5 bytes, 64 bytes after the start of the storage.
    {0x110, "4c 00 00 00 00 00 00 00  02 00 00 00 00 00 00 00"},
    {0x120, "00 00 00 00 45 00 00 00  00 00 00 00 01 00 00 00"},
    {0x140, "00 00 00 00 40 00 00 00  00 00 00 00 40 00 00 00"},
    // The names and the metadata, one after another.
    {0x150, "00 00 00 00 05 00 00 00  00 00 00 00 7a 65 72 6f"},
    {0x160, "77 54 45 4e 53 4f 52 76  30 3a 7b 22 74 79 70 65"},
    {0x170, "22 3a 20 22 54 65 6e 73  6f 72 22 2c 20 22 64 74"},
    {0x180, "79 70 65 22 3a 20 22 66  6c 6f 61 74 33 32 22 2c"},
    {0x190, "20 22 73 68 61 70 65 22  3a 20 5b 32 2c 20 32 5d"},
    {0x1a0, "7d 62 00 00 00 00 00 00  00 00 00 00 00 00 00 00"},
    // The storage, whose length is not padded.
    {0x1c0, "00 00 80 3f 00 00 00 40  00 00 40 40 00 00 80 40"},
    {0x200, "68 65 6c 6c 6f 00 00 00  00 00 00 00 00 00 00 00"},
});

std::vector<std::byte> golden() {
  std::vector<std::byte> file(4096);
  for (const auto& [offset, hex] : golden_rows) {
    std::size_t at = offset;
    for (std::size_t i = 0; i + 1 < hex.size(); ++i) {
      if (hex[i] == ' ') continue;
      unsigned value = 0;
      std::from_chars(hex.data() + i, hex.data() + i + 2, value, 16);
      file[at++] = static_cast<std::byte>(value);
      ++i;
    }
  }
  return file;
}

Catalog catalog_of(Bytes file) {
  auto parsed = parse(file, file.size());
  EXPECT_TRUE(parsed) << (parsed ? "" : to_string(parsed.error()));
  return std::get<Catalog>(*std::move(parsed));
}

TEST(IrpaGolden, entries_are_read) {
  const auto catalog = catalog_of(golden());
  ASSERT_EQ(catalog.size(), 3U);
  EXPECT_EQ(catalog[0].name, "zero");
  EXPECT_EQ(catalog[0].bytes, 32U);
  ASSERT_EQ(catalog[0].splat.size(), 4U);
  EXPECT_EQ(load_le<std::uint32_t>(catalog[0].splat), 0x3f800000U);
  EXPECT_FALSE(catalog[0].is_typed());
  EXPECT_EQ(catalog[1].name, "w");
  EXPECT_EQ(catalog[1].dtype, F32::tag);
  EXPECT_TRUE(std::ranges::equal(catalog[1].dims, std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(catalog[1].offset, 0x1c0U);
  EXPECT_EQ(catalog[1].bytes, 16U);
  EXPECT_EQ(catalog[2].name, "b");
  EXPECT_EQ(catalog[2].offset, 0x200U);
  EXPECT_EQ(catalog[2].bytes, 5U);
}

TEST(IrpaGolden, entries_are_written) {
  auto file = golden();
  const auto catalog = catalog_of(file);
  const auto encoded = encode(catalog, {}).value();
  EXPECT_EQ(encoded.file_bytes, 4096U);
  EXPECT_EQ(encoded.offsets[1], 0x1c0U);
  EXPECT_EQ(encoded.offsets[2], 0x200U);
  EXPECT_TRUE(std::ranges::equal(encoded.header, Bytes(file).first(encoded.header.size())));
  // All bytes after the header that are not data are zero.
  std::fill_n(file.begin(), encoded.header.size(), std::byte{0});
  for (const Entry& entry : catalog) {
    if (entry.is_splat()) continue;
    std::ranges::fill(MutableBytes(file).subspan(entry.offset, entry.bytes), std::byte{0});
  }
  EXPECT_TRUE(std::ranges::all_of(file, [](std::byte byte) { return byte == std::byte{0}; }));
}

TEST(IrpaGolden, data_is_at_the_offsets_of_the_entries) {
  const auto file = golden();
  const auto catalog = catalog_of(file);
  EXPECT_EQ(load_le<float>(Bytes(file).subspan(catalog[1].offset + 12)), 4.0F);
  const Bytes text = Bytes(file).subspan(catalog[2].offset, 5);
  EXPECT_TRUE(std::ranges::equal(text, bytes_of("hello")));
}

TEST(IrpaGolden, empty_archive_is_a_header) {
  std::vector<std::byte> file(4096);
  const auto start = bytes_of(std::string_view("IRPA\0\0\0\0X\0\0\0\0\0\0\0", 16));
  std::ranges::copy(start, file.begin());
  EXPECT_EQ(catalog_of(file).size(), 0U);
}

}  // namespace
}  // namespace ht::format_irpa::irpa_golden_test
