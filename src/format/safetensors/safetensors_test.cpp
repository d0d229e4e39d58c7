#include "format/safetensors/safetensors.hpp"

#include <gtest/gtest.h>

#include <string>

#include "format/safetensors/test_file.hpp"
#include "format/test_same_tensors.hpp"
#include "testing/library_types.hpp"

namespace ht::format_safetensors::safetensors_test {
namespace {

using testing::safetensors_file;

Catalog catalog_of(std::string_view json, std::size_t data_bytes, const ParseOptions& options = {}) {
  const auto file = safetensors_file(json, data_bytes);
  auto parsed = format_safetensors::parse(file, file.size(), options);
  EXPECT_TRUE(parsed) << to_string(parsed.error());
  return std::get<Catalog>(*parsed);
}

TEST(Safetensors, reads_tensors_in_the_order_of_the_header) {
  const std::string json =
      R"({"b":{"dtype":"F32","shape":[2,3],"data_offsets":[2,26]},"a":{"dtype":"BF16","shape":[],"data_offsets":[0,2]}})";
  const auto catalog = catalog_of(json, 26);
  EXPECT_EQ(catalog.format(), "safetensors");
  ASSERT_EQ(catalog.size(), 2U);
  EXPECT_EQ(catalog[0].name, "b");
  EXPECT_EQ(catalog[0].dtype, F32::tag);
  EXPECT_TRUE(std::ranges::equal(catalog[0].dims, std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(catalog[0].offset, 8 + json.size() + 2);
  EXPECT_EQ(catalog[0].bytes, 24U);
  EXPECT_EQ(catalog[1].name, "a");
  EXPECT_TRUE(catalog[1].dims.empty());
  EXPECT_EQ(catalog[1].offset, 8 + json.size());
}

TEST(Safetensors, supports_all_22_dtypes) {
  std::size_t count = 0;
  for (const auto& dtype : library_dtypes()) {
    const auto bytes = static_cast<std::size_t>(dtype.bits);  // eight elements
    const auto json = R"({"t":{"dtype":")" + std::string(dtype.name) + R"(","shape":[8],"data_offsets":[0,)" +
                      std::to_string(bytes) + "]}}";
    const auto file = safetensors_file(json, bytes);
    const auto parsed = parse(file, file.size());
    if (dtype.tag == I4::tag || dtype.tag == U4::tag) {
      EXPECT_FALSE(parsed) << dtype.name;
      continue;
    }
    ASSERT_TRUE(parsed) << dtype.name;
    EXPECT_EQ(std::get<Catalog>(*parsed)[0].dtype, dtype.tag);
    ++count;
  }
  EXPECT_EQ(count, 22U);
}

TEST(Safetensors, keeps_metadata) {
  const auto catalog = catalog_of(R"({"__metadata__":{"format":"pt","empty":"","\u00fc":"\n"}})", 0);
  EXPECT_TRUE(catalog.empty());
  ASSERT_EQ(catalog.metadata().size(), 3U);
  EXPECT_EQ(catalog.metadata()[0].key, "format");
  EXPECT_EQ(catalog.metadata().find("format")->text(), "pt");
  EXPECT_EQ(catalog.metadata().find("empty")->text(), "");
  EXPECT_EQ(catalog.metadata().find("ü")->text(), "\n");
  EXPECT_TRUE(catalog_of(R"({"__metadata__":null})", 0).metadata().empty());
}

TEST(Safetensors, accepts_white_space_like_the_reference_reader) {
  for (const auto* json : {"{}", "\t\n{}\r ", "{}\r \t\n", "{ }", "{}      "})
    EXPECT_TRUE(catalog_of(json, 0).empty());
  EXPECT_EQ(
      catalog_of("{ \"a\" : { \"dtype\" : \"U8\" , \"shape\" : [ 1 ] , \"data_offsets\" : [ 0 , 1 ] } }", 1)
          .size(),
      1U);
}

TEST(Safetensors, skips_unknown_fields) {
  const auto catalog = catalog_of(
      R"({"a":{"x":{"y":[1,-2.5e3,null,true,"\u00e4"]},"dtype":"U8","shape":[1],"data_offsets":[0,1],"z":""}})",
      1);
  EXPECT_EQ(catalog.size(), 1U);
}

TEST(Safetensors, names_can_be_any_json_string) {
  const auto catalog = catalog_of(
      R"({"":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a\u0000\"\\\/b":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"dt\u0079pe":{"d\u0074ype":"U8","shape":[0],"data_offsets":[0,0]}})",
      0);
  ASSERT_EQ(catalog.size(), 3U);
  EXPECT_TRUE(catalog.find(""));
  EXPECT_TRUE(catalog.find(std::string_view("a\0\"\\/b", 6)));
  EXPECT_TRUE(catalog.find("dtype"));
}

TEST(Safetensors, empty_tensors_can_be_anywhere_between_others) {
  EXPECT_EQ(
      catalog_of(
          R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"e":{"dtype":"F32","shape":[0,3],"data_offsets":[2,2]},
    "f":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
          3)
          .size(),
      4U);
}

TEST(Safetensors, sub_byte_tensors_are_counted_in_bits) {
  const auto catalog = catalog_of(
      R"({"a":{"dtype":"F4","shape":[3,2],"data_offsets":[0,3]},"b":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[3,6]}})",
      6);
  EXPECT_EQ(catalog[0].bytes, 3U);
  EXPECT_EQ(catalog[1].bytes, 3U);
}

TEST(Safetensors, a_rank_of_64_is_read) {
  std::string shape = "1";
  for (int i = 1; i < 64; ++i) shape += ",1";
  EXPECT_EQ(
      catalog_of(R"({"a":{"dtype":"U8","shape":[)" + shape + R"(],"data_offsets":[0,1]}})", 1)[0].dims.size(),
      64U);
}

TEST(Safetensors, user_dtype_is_read_if_passed) {
  const std::vector<DTypeInfo> users{{user_tag(1), "F24", 24}};
  const auto catalog =
      catalog_of(R"({"a":{"dtype":"F24","shape":[2],"data_offsets":[0,6]}})", 6, {.dtypes = users});
  EXPECT_EQ(catalog[0].dtype, user_tag(1));
}

TEST(Safetensors, limit_on_the_header_can_be_set) {
  const auto file = safetensors_file("{" + std::string(500, ' ') + "}");
  EXPECT_TRUE(parse(file, file.size()));
  EXPECT_FALSE(parse(file, file.size(), {.max_header_bytes = 501}));
  EXPECT_TRUE(parse(file, file.size(), {.max_header_bytes = 502}));
}

TEST(Safetensors, requests_the_header_and_parser_padding) {
  const auto file = safetensors_file(R"({"a":{"dtype":"U8","shape":[1000],"data_offsets":[0,1000]}})", 1000);
  const auto first = parse(Bytes(file).first(7), file.size());
  EXPECT_EQ(std::get<Need>(*first).bytes, 8U);
  const auto second = parse(Bytes(file).first(8), file.size());
  const auto need = std::get<Need>(*second);
  EXPECT_EQ(need.offset, 0U);
  EXPECT_LT(need.bytes, 200U);
  EXPECT_EQ(std::get<Catalog>(*parse(Bytes(file).first(need.bytes), file.size())).size(), 1U);
}

TEST(Safetensors, requests_the_whole_header_of_the_largest_file) {
  std::vector<std::byte> length(8);
  store_le(MutableBytes(length), UINT64_MAX - 8);
  const auto requested = parse(length, UINT64_MAX, {.max_header_bytes = UINT64_MAX});
  ASSERT_TRUE(requested);
  EXPECT_EQ(std::get<Need>(*requested).bytes, UINT64_MAX);
}

TEST(Safetensors, is_recognized_by_its_length_and_brace) {
  const auto file = safetensors_file("{}");
  EXPECT_TRUE(looks_like(file, file.size()));
  EXPECT_TRUE(looks_like(Bytes(file).first(8), 8));                           // ends after the length
  EXPECT_TRUE(looks_like(bytes_of("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF{"), 9));  // a length beyond the file
  EXPECT_FALSE(looks_like(bytes_of("{\"ab\": {\"c\":1}}"), 15));  // text: the brace is at byte 8 by chance
  EXPECT_FALSE(looks_like(std::vector<std::byte>(64), 64));
  EXPECT_FALSE(looks_like(bytes_of("1234567"), 7));
  // The first bytes of gzip from a pipe and of a tar of a folder are plausible lengths.
  std::vector<std::byte> gzip(512);
  gzip[0] = std::byte{0x1F};
  gzip[1] = std::byte{0x8B};
  gzip[2] = std::byte{0x08};
  EXPECT_FALSE(looks_like(gzip, 1 << 30));
  EXPECT_EQ(ht::parse(gzip, 1 << 30).error().rule(), "file_is_not_gzip");
  std::vector<std::byte> tar(512);
  tar[0] = std::byte{'.'};
  tar[1] = std::byte{'/'};
  std::ranges::copy(bytes_of("ustar"), tar.begin() + 257);
  EXPECT_EQ(ht::parse(tar, 1 << 30).error().rule(), "file_is_not_a_tar_archive");
}

TEST(Safetensors, encodes_to_the_bytes_of_the_reference_writer) {
  const std::string json =
      R"({"__metadata__":{"format":"pt"},"a\n":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[],"data_offsets":[8,9]}})";
  const auto padded = json + std::string(8 - json.size() % 8, ' ');
  const auto catalog = catalog_of(padded, 9);
  const auto encoded = encode(catalog).value();
  EXPECT_EQ(encoded.header, safetensors_file(padded));
  EXPECT_EQ(encoded.file_bytes, 8 + padded.size() + 9);
  EXPECT_EQ(encoded.offsets,
            (std::vector<std::optional<std::uint64_t>>{8 + padded.size(), 8 + padded.size() + 8}));
}

TEST(Safetensors, data_begins_at_the_requested_alignment) {
  const auto catalog = catalog_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1);
  const auto encoded = encode(catalog, {.alignment = 4096}).value();
  EXPECT_EQ(encoded.offsets[0], 4096U);
  const auto parsed = parse(encoded.header, encoded.file_bytes);
  ASSERT_TRUE(parsed) << to_string(parsed.error());
  EXPECT_TRUE(testing::same_tensors(std::get<Catalog>(*parsed), catalog));
}

TEST(Safetensors, safetensors_metadata_values_are_strings) {
  CatalogBuilder builder("gguf");
  const std::byte one{1};
  EXPECT_TRUE(builder.metadata().add("n", MetaValue(MetaType::u8, std::span(&one, 1))));
  const auto encoded = encode(std::move(builder).build().value());
  ASSERT_FALSE(encoded);
  EXPECT_EQ(encoded.error().code(), ErrorCode::would_lose);
  EXPECT_EQ(encoded.error().rule(), "safetensors_metadata_values_are_strings");
}

TEST(Safetensors, empty_metadata_is_encoded_on_request) {
  const auto header_of = [](bool has_tensor) {
    CatalogBuilder builder("safetensors");
    const std::int64_t dims[] = {1};
    EXPECT_TRUE(!has_tensor || builder.add({.name = "t", .dtype = U8::tag, .dims = dims, .bytes = 1}));
    return encode(std::move(builder).build().value(), {.empty_metadata = true}).value().header;
  };
  EXPECT_EQ(header_of(false), safetensors_file(R"({"__metadata__":{}}     )"));
  EXPECT_EQ(header_of(true),
            safetensors_file(R"({"__metadata__":{},"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}} )"));
}

TEST(Safetensors, safetensors_has_the_dtype) {
  for (const auto tag : {I4::tag, user_tag(3)}) {
    CatalogBuilder builder("ht");
    ASSERT_TRUE(builder.add({.name = "t", .dtype = tag, .bytes = 1}));
    const auto encoded = encode(std::move(builder).build().value());
    ASSERT_FALSE(encoded);
    EXPECT_EQ(encoded.error().code(), ErrorCode::would_lose);
    EXPECT_EQ(encoded.error().rule(), "safetensors_has_the_dtype");
  }
}

Error refusal(const Entry& entry, const EncodeOptions& layout = {}) {
  CatalogBuilder builder("irpa");
  EXPECT_TRUE(builder.add(entry));
  const auto encoded = encode(std::move(builder).build().value(), layout);
  return encoded ? Error(ErrorCode::internal) : encoded.error();
}

TEST(Safetensors, safetensors_strings_are_utf8) {
  const auto error = refusal({.name = "a\xFF", .dtype = U8::tag, .bytes = 1});
  EXPECT_EQ(error.code(), ErrorCode::would_lose);
  EXPECT_EQ(error.rule(), "safetensors_strings_are_utf8");
  for (const bool in_key : {false, true}) {
    CatalogBuilder builder("gguf");
    EXPECT_TRUE(builder.metadata().add(in_key ? "\xFF" : "k", in_key ? "v" : "\xFF"));
    EXPECT_EQ(encode(std::move(builder).build().value()).error().rule(), "safetensors_strings_are_utf8");
  }
}

TEST(Safetensors, safetensors_name_is_not_reserved) {
  const auto error = refusal({.name = "__metadata__", .dtype = U8::tag, .bytes = 1});
  EXPECT_EQ(error.code(), ErrorCode::would_lose);
  EXPECT_EQ(error.rule(), "safetensors_name_is_not_reserved");
}

TEST(Safetensors, safetensors_has_whole_bytes) {
  const std::vector<std::int64_t> dims{3};
  const auto error = refusal({.name = "a", .dtype = F4::tag, .dims = dims, .bytes = 2});
  EXPECT_EQ(error.code(), ErrorCode::would_lose);
  EXPECT_EQ(error.rule(), "safetensors_has_whole_bytes");
  EXPECT_EQ(refusal({.name = "a", .dtype = F32::tag, .dims = dims, .bytes = 2}).code(),
            ErrorCode::size_mismatch);
}

TEST(Safetensors, safetensors_carries_at_most_64_dims) {
  const std::vector<std::int64_t> dims(65, 1);
  const auto error = refusal({.name = "a", .dtype = U8::tag, .dims = dims, .bytes = 1});
  EXPECT_EQ(error.code(), ErrorCode::would_lose);
  EXPECT_EQ(error.rule(), "safetensors_carries_at_most_64_dims");
  EXPECT_EQ(error.tensor(), "a");
}

TEST(Safetensors, safetensors_header_can_be_read) {
  const auto error =
      refusal({.name = "a", .dtype = U8::tag, .bytes = 1}, {.alignment = std::uint64_t{1} << 40});
  EXPECT_EQ(error.code(), ErrorCode::header_too_large);
  EXPECT_EQ(error.rule(), "safetensors_header_can_be_read");
  // The size of the header is that of its JSON, without the 8 bytes before it.
  EXPECT_EQ(error.message(), "header would have 1099511627768 bytes but readers accept at most 100000000");
}

}  // namespace
}  // namespace ht::format_safetensors::safetensors_test
