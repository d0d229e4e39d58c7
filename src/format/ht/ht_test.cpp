#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <htensor/dtype/packed.hpp>
#include <htensor/hash/digest.hpp>
#include <vector>

#include "format/ht/ht.hpp"
#include "format/test_same_tensors.hpp"
#include "testing/library_types.hpp"

namespace ht::format_ht::ht_test {
namespace {

Header header_of(DTypeInfo dtype, std::vector<std::int64_t> dims) { return make_header(dtype, dims).value(); }

TEST(HtFormat, header_has_the_bytes_of_the_specification) {
  Header header = header_of(dtype_info<BF16>(), {3, 5});
  header.payload_crc = 0x1122334455667788;
  const auto bytes = encode(header);
  std::array<std::uint8_t, header_bytes> expected{'H', 'T', 'E', 'N', 'S', 'O', 'R', 0};
  expected[8] = 1;     // version
  expected[10] = 13;   // BF16
  expected[11] = 2;    // rank
  expected[12] = 1;    // flags: payload checksum
  expected[16] = 128;  // data offset
  expected[24] = 30;   // data bytes
  expected[32] = 3;
  expected[40] = 5;
  for (std::size_t i = 0; i < 8; ++i) expected[96 + i] = static_cast<std::uint8_t>(0x88 - 0x11 * i);
  const auto sum = crc64nvme(std::as_bytes(std::span(expected)).first(120));
  for (std::size_t i = 0; i < 8; ++i) expected[120 + i] = static_cast<std::uint8_t>(sum >> (8 * i));
  EXPECT_TRUE(std::ranges::equal(bytes, std::as_bytes(std::span(expected))));
}

TEST(HtFormat, rank_0_has_one_element) {
  const Header header = header_of(dtype_info<F64>(), {});
  EXPECT_EQ(header.data_bytes, 8U);
  EXPECT_EQ(decode(encode(header)), header);
}

TEST(HtFormat, zero_dimension_has_no_data) {
  const Header header = header_of(dtype_info<F32>(), {4, 0, 7});
  EXPECT_EQ(header.data_bytes, 0U);
  const auto parsed = parse(encode(header), header_bytes, {.stem = "empty"});
  ASSERT_TRUE(parsed);
  EXPECT_EQ(std::get<Catalog>(*parsed)[0].bytes, 0U);
}

TEST(HtFormat, sub_byte_data_is_rounded_up_to_bytes) {
  EXPECT_EQ(header_of(dtype_info<F4>(), {3}).data_bytes, 2U);
  EXPECT_EQ(header_of(dtype_info<F6_E2M3>(), {3}).data_bytes, 3U);
  EXPECT_EQ(header_of(dtype_info<I4>(), {1}).data_bytes, 1U);
}

TEST(HtFormat, tensor_is_named_by_the_stem) {
  const Header header = header_of(dtype_info<U8>(), {2});
  const auto parsed = parse(encode(header), header_bytes + 2, {.stem = "weights"});
  ASSERT_TRUE(parsed);
  const auto& catalog = std::get<Catalog>(*parsed);
  EXPECT_EQ(catalog.format(), "ht");
  EXPECT_EQ(catalog[0].name, "weights");
  EXPECT_EQ(catalog[0].offset, 128U);
  EXPECT_EQ(catalog[0].bytes, 2U);
}

TEST(HtFormat, user_tags_are_read_if_passed) {
  const DTypeInfo mine{user_tag(5), "F24", 24};
  const auto bytes = encode(header_of(mine, {8}));
  EXPECT_EQ(decode(bytes).error().code(), ErrorCode::bad_dtype);
  const std::array user_dtypes{mine};
  const auto header = decode(bytes, user_dtypes);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->data_bytes, 24U);
}

Catalog catalog_of(const std::vector<Entry>& entries) {
  CatalogBuilder builder("ht");
  for (const auto& entry : entries) EXPECT_TRUE(builder.add(entry));
  return std::move(builder).build().value();
}

TEST(HtFormat, catalog_of_one_tensor_encodes) {
  const std::vector<std::int64_t> dims{3, 5};
  const auto catalog =
      catalog_of({{.name = "t", .dtype = BF16::tag, .dims = dims, .offset = 7, .bytes = 30}});
  const auto encoded = encode(catalog, {.alignment = 4096});
  ASSERT_TRUE(encoded);
  EXPECT_EQ(encoded->offsets, std::vector<std::optional<std::uint64_t>>{4096});
  EXPECT_EQ(encoded->file_bytes, 4096U + 30);
  const auto parsed = parse(encoded->header, encoded->file_bytes, {.stem = "t"});
  ASSERT_TRUE(parsed);
  EXPECT_TRUE(testing::same_tensors(std::get<Catalog>(*parsed), catalog));
}

TEST(HtFormat, ht_holds_one_tensor) {
  for (const auto& entries : {std::vector<Entry>{}, std::vector<Entry>{{.name = "a"}, {.name = "b"}}}) {
    const auto encoded = encode(catalog_of(entries), {});
    ASSERT_FALSE(encoded);
    EXPECT_EQ(encoded.error().code(), ErrorCode::would_lose);
    EXPECT_EQ(encoded.error().rule(), "ht_holds_one_tensor");
  }
}

TEST(HtFormat, ht_carries_at_most_8_dimensions) {
  const std::vector<std::int64_t> dims(9, 1);
  const auto encoded = encode(catalog_of({{.name = "t", .dtype = U8::tag, .dims = dims, .bytes = 1}}), {});
  ASSERT_FALSE(encoded);
  EXPECT_EQ(encoded.error().code(), ErrorCode::would_lose);
  EXPECT_EQ(encoded.error().rule(), "ht_carries_at_most_8_dimensions");
}

TEST(HtFormat, encoded_size_fits_64_bits) {
  // The library does not know the width of a user's dtype.
  const auto encoded = encode(catalog_of({{.name = "t", .dtype = user_tag(3), .bytes = UINT64_MAX}}), {});
  ASSERT_FALSE(encoded);
  EXPECT_EQ(encoded.error().code(), ErrorCode::size_overflow);
  EXPECT_EQ(encoded.error().rule(), "encoded_size_fits_64_bits");
}

TEST(HtFormat, data_size_matches_the_shape) {
  const std::vector<std::int64_t> dims{3};
  for (const std::uint64_t bytes : std::array<std::uint64_t, 5>{0, 5, 11, 13, UINT64_MAX}) {
    const auto encoded =
        encode(catalog_of({{.name = "t", .dtype = F32::tag, .dims = dims, .bytes = bytes}}), {});
    ASSERT_FALSE(encoded) << bytes;
    EXPECT_EQ(encoded.error().code(), ErrorCode::size_mismatch);
    EXPECT_EQ(encoded.error().rule(), "data_size_matches_the_shape");
  }
}

// Any valid header: a dtype, dims whose product fits, an aligned offset, with or without a checksum.
rc::Gen<Header> any_header() {
  return rc::gen::exec([] {
    const auto infos = library_dtypes();
    const auto dtype = infos[*rc::gen::inRange<std::size_t>(0, infos.size())];
    const auto rank = *rc::gen::inRange<std::size_t>(0, 9);
    std::vector<std::int64_t> dims;
    for (std::size_t i = 0; i < rank; ++i) {
      dims.push_back(*rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << *rc::gen::inRange(1, 40)));
      if (!dense_bytes(dims, dtype.bits)) dims.back() = 1;
    }
    Header header = make_header(dtype, dims).value();
    header.data_offset = 64 * *rc::gen::inRange<std::uint64_t>(2, std::uint64_t{1} << 40);
    if (*rc::gen::arbitrary<bool>()) header.payload_crc = *rc::gen::arbitrary<std::uint64_t>();
    return header;
  });
}

TEST(HtFormat, header_round_trips_for_10000_random_headers) {
  // A fixed seed, so that a failure can be reproduced.
  rc::detail::TestParams params;
  params.maxSuccess = 10'000;
  params.seed = 20261115;
  const auto result = rc::detail::checkTestable(
      [] {
        const Header header = *any_header();
        const auto bytes = encode(header);
        const auto decoded = decode(bytes);
        RC_ASSERT(decoded.has_value());
        RC_ASSERT(*decoded == header);
        RC_ASSERT(encode(*decoded) == bytes);
      },
      rc::detail::TestMetadata(), params);
  ASSERT_TRUE(result.template is<rc::detail::SuccessResult>()) << result;
}

}  // namespace
}  // namespace ht::format_ht::ht_test
