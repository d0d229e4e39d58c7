#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

#include "format/gguf/gguf_test_file.hpp"
#include "format/test_same_tensors.hpp"
#include "testing/library_types.hpp"

namespace ht::format_gguf::gguf_encode_test {
namespace {

using testing::all_values;
using testing::GgufFile;
using testing::parse_gguf;

Catalog catalog_of(const std::vector<Entry>& entries, const std::vector<Metadata::Item>& values = {}) {
  CatalogBuilder builder("gguf");
  for (const auto& entry : entries) EXPECT_TRUE(builder.add(entry));
  for (const auto& [key, value] : values) EXPECT_TRUE(builder.metadata().add(key, value));
  return std::move(builder).build().value();
}

std::string_view rule_of_encoding(const Catalog& catalog, const EncodeOptions& layout = {},
                                  ErrorCode code = ErrorCode::would_lose) {
  static std::string rule;
  const auto encoded = encode(catalog, layout);
  if (encoded) return "it was encoded";
  EXPECT_EQ(encoded.error().code(), code) << to_string(encoded.error());
  rule = encoded.error().rule();
  return rule;
}

Catalog parsed_again(const EncodedFile& encoded) {
  auto parsed = parse(encoded.header, encoded.file_bytes);
  EXPECT_TRUE(parsed) << to_string(parsed.error());
  return std::get<Catalog>(std::move(parsed).value());
}

TEST(GgufEncode, both_byte_orders_round_trip_exactly) {
  for (const auto order : {std::endian::little, std::endian::big}) {
    const auto file = all_values(order);
    const auto encoded = encode(parse_gguf(file).value(), {});
    ASSERT_TRUE(encoded) << to_string(encoded.error());
    EXPECT_TRUE(std::ranges::equal(encoded->header, Bytes(file.bytes()).first(encoded->header.size())));
    EXPECT_EQ(encoded->file_bytes, file.size());
    EXPECT_EQ(encoded->offsets, std::vector<std::optional<std::uint64_t>>{file.size() - 32});
  }
}

TEST(GgufEncode, file_is_padded_after_the_last_tensor) {
  const std::vector<std::int64_t> dims{3};
  const auto catalog = catalog_of({{.name = "a", .dtype = F32::tag, .dims = dims, .bytes = 12},
                                   {.name = "b", .dtype = BF16::tag, .dims = dims, .bytes = 6}});
  const auto encoded = encode(catalog, {}).value();
  EXPECT_EQ(*encoded.offsets[0] % 32, 0U);
  EXPECT_EQ(encoded.offsets[1], *encoded.offsets[0] + 32);
  EXPECT_EQ(encoded.file_bytes, *encoded.offsets[1] + 32);
  EXPECT_TRUE(testing::same_tensors(parsed_again(encoded), catalog));
}

TEST(GgufEncode, splats_take_space_like_data) {
  const std::vector<std::int64_t> dims{100};
  const std::array pattern{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  const auto encoded =
      encode(catalog_of({{.name = "a", .dtype = F32::tag, .dims = dims, .bytes = 400, .splat = pattern},
                         {.name = "b", .dtype = F32::tag, .dims = dims, .bytes = 400}}),
             {})
          .value();
  EXPECT_EQ(encoded.offsets[1], *encoded.offsets[0] + 416);
  EXPECT_EQ(parsed_again(encoded)[0].bytes, 400U);
}

TEST(GgufEncode, alignment_of_the_layout_is_written_to_the_metadata) {
  const std::vector<std::int64_t> dims{1};
  const std::vector<Entry> entries{{.name = "a", .dtype = F32::tag, .dims = dims, .bytes = 4},
                                   {.name = "b", .dtype = F32::tag, .dims = dims, .bytes = 4}};
  std::array<std::byte, 4> bytes{};
  store_le(MutableBytes(bytes), std::uint32_t{64});
  const Metadata::Item stored_alignment{alignment_key, MetaValue(MetaType::u32, bytes)};
  for (const auto& catalog : {catalog_of(entries), catalog_of(entries, {stored_alignment})}) {
    for (const std::uint64_t alignment : {8U, 32U, 64U, 4096U}) {
      const auto encoded = encode(catalog, {.alignment = alignment}).value();
      EXPECT_EQ(encoded.offsets[1], *encoded.offsets[0] + alignment);
      const auto reparsed = parsed_again(encoded);
      EXPECT_EQ(reparsed[1].offset, encoded.offsets[1]);
      const auto stored = reparsed.metadata().find(alignment_key);
      EXPECT_EQ(stored ? stored->unsigned_integer() : 32, alignment);
      EXPECT_EQ(encode(reparsed, {})->header, encoded.header);
    }
  }
  // The default alignment is not written.
  EXPECT_TRUE(parsed_again(encode(catalog_of(entries), {.alignment = 32}).value()).metadata().empty());
}

TEST(GgufEncode, alignment_of_the_metadata_is_kept) {
  std::array<std::byte, 4> bytes{};
  store_le(MutableBytes(bytes), std::uint32_t{4096});
  const std::vector<std::int64_t> dims{1};
  const auto catalog = catalog_of({{.name = "a", .dtype = F32::tag, .dims = dims, .bytes = 4}},
                                  {{alignment_key, MetaValue(MetaType::u32, bytes)}});
  const auto encoded = encode(catalog, {}).value();
  EXPECT_EQ(encoded.offsets[0], 4096U);
  EXPECT_TRUE(testing::same_tensors(parsed_again(encoded), catalog));
}

TEST(GgufEncode, gguf_alignment_fits_32_bits) {
  for (const std::uint64_t alignment : {std::uint64_t{3}, std::uint64_t{1} << 32}) {
    EXPECT_EQ(rule_of_encoding(catalog_of({}), {.alignment = alignment}, ErrorCode::misaligned),
              "gguf_alignment_fits_32_bits");
  }
}

TEST(GgufEncode, gguf_alignment_key_is_a_u32_power_of_two) {
  std::array<std::byte, 4> thirteen{};
  store_le(MutableBytes(thirteen), std::uint32_t{13});
  CatalogBuilder text("safetensors");
  EXPECT_TRUE(text.metadata().add(alignment_key, "left"));
  for (const auto& catalog : {std::move(text).build().value(),
                              catalog_of({}, {{alignment_key, MetaValue(MetaType::u32, thirteen)}})}) {
    EXPECT_EQ(rule_of_encoding(catalog), "gguf_alignment_key_is_a_u32_power_of_two");
    EXPECT_EQ(rule_of_encoding(catalog, {.alignment = 64}), "gguf_alignment_key_is_a_u32_power_of_two");
  }
}

TEST(GgufEncode, gguf_has_one_byte_order) {
  EXPECT_EQ(rule_of_encoding(
                catalog_of({{.name = "a", .dtype = F32::tag, .bytes = 4},
                            {.name = "b", .dtype = F32::tag, .byte_order = ByteOrder::big, .bytes = 4}})),
            "gguf_has_one_byte_order");
}

TEST(GgufEncode, gguf_has_the_dtype) {
  for (const auto& dtype : library_dtypes()) {
    static constexpr std::array known{F32::tag, F16::tag, BF16::tag, F64::tag,
                                      I8::tag,  I16::tag, I32::tag,  I64::tag};
    const std::vector<std::int64_t> dims{8};
    const auto bytes = static_cast<std::uint64_t>(dtype.bits);
    const auto catalog = catalog_of({{.name = "t", .dtype = dtype.tag, .dims = dims, .bytes = bytes}});
    if (std::ranges::find(known, dtype.tag) != known.end()) {
      EXPECT_TRUE(encode(catalog, {})) << dtype.name;
    } else {
      EXPECT_EQ(rule_of_encoding(catalog), "gguf_has_the_dtype") << dtype.name;
    }
  }
  EXPECT_EQ(rule_of_encoding(catalog_of({{.name = "t", .encoding = static_cast<EncodingTag>(24)}})),
            "gguf_has_the_dtype");
}

TEST(GgufEncode, unsupported_tensor_features_are_refused) {
  const std::vector<std::int64_t> dims{2, 2};
  EXPECT_EQ(rule_of_encoding(catalog_of({{.name = "t", .bytes = 4}})), "format_carries_untyped_bytes");
  EXPECT_EQ(rule_of_encoding(catalog_of({{.name = "t",
                                          .dtype = F32::tag,
                                          .dims = dims,
                                          .order = ElementOrder::column_major,
                                          .bytes = 16}})),
            "format_carries_the_order");
  EXPECT_EQ(rule_of_encoding(
                catalog_of({{.name = "t", .dtype = F32::tag, .dims = dims, .bytes = 16, .note = "note"}})),
            "format_carries_the_note");
}

TEST(GgufEncode, gguf_carries_at_most_4_dimensions) {
  const std::vector<std::int64_t> dims{1, 1, 1, 1, 1};
  EXPECT_EQ(rule_of_encoding(catalog_of({{.name = "t", .dtype = F32::tag, .dims = dims, .bytes = 4}})),
            "gguf_carries_at_most_4_dimensions");
}

TEST(GgufEncode, names_must_be_utf8) {
  EXPECT_EQ(rule_of_encoding(catalog_of({{.name = "\xFF", .dtype = F32::tag, .bytes = 4}}), {},
                             ErrorCode::bad_utf8),
            "gguf_names_are_utf8");
}

TEST(GgufEncode, data_size_matches_the_shape) {
  EXPECT_EQ(rule_of_encoding(catalog_of({{.name = "t", .dtype = F32::tag, .bytes = 5}}), {},
                             ErrorCode::size_mismatch),
            "data_size_matches_the_shape");
}

TEST(GgufEncode, gguf_can_store_the_value) {
  const std::array zero{std::byte{0}};
  const MetaValue byte(MetaType::u8, zero);
  EXPECT_EQ(rule_of_encoding(catalog_of({}, {{"", byte}})), "gguf_can_store_the_value");
  EXPECT_EQ(rule_of_encoding(catalog_of({}, {{"\xFF", byte}})), "gguf_can_store_the_value");
  GgufFile nested;
  for (int i = 0; i < 9; ++i) nested.array(MetaType::array, i == 8 ? 0 : 1);
  EXPECT_EQ(rule_of_encoding(catalog_of({}, {{"deep", MetaValue(MetaType::array, nested.bytes())}})),
            "gguf_can_store_the_value");
}

TEST(GgufEncode, encoded_size_fits_63_bits) {
  const std::vector<std::int64_t> dims{std::int64_t{1} << 62};
  const auto bytes = std::uint64_t{1} << 62;
  EXPECT_EQ(rule_of_encoding(catalog_of({{.name = "a", .dtype = I8::tag, .dims = dims, .bytes = bytes},
                                         {.name = "b", .dtype = I8::tag, .dims = dims, .bytes = bytes}}),
                             {}, ErrorCode::size_overflow),
            "encoded_size_fits_63_bits");
}

}  // namespace
}  // namespace ht::format_gguf::gguf_encode_test
