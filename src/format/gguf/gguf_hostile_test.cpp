// Malformed files: each rule of the format has a test of the same name.
#include <gtest/gtest.h>

#include <string>

#include "format/gguf/gguf_test_file.hpp"
#include "format/gguf/gguf_wire.hpp"

namespace ht::format_gguf::gguf_hostile_test {
namespace {

using testing::GgufFile;
using testing::parse_gguf;

constexpr std::uint32_t f32 = 0;
constexpr std::uint32_t q4_0 = 2;
constexpr std::uint32_t i8 = 24;
constexpr std::size_t counts_end = 24;

void expect_refusal(const GgufFile& file, ErrorCode code, std::string_view rule,
                    std::optional<std::uint64_t> offset, std::string_view tensor = "") {
  for (const bool allow_incomplete : {false, true}) {
    const auto parsed = parse_gguf(file, {.allow_incomplete = allow_incomplete});
    ASSERT_FALSE(parsed) << rule;
    const Error& error = parsed.error();
    EXPECT_EQ(error.code(), code) << to_string(error);
    EXPECT_EQ(error.rule(), rule);
    EXPECT_EQ(error.offset(), offset) << to_string(error);
    EXPECT_EQ(error.tensor(), tensor);
    EXPECT_FALSE(error.message().empty());
    EXPECT_FALSE(error.hint().empty()) << to_string(error);
  }
}

// A valid file: a number, a string, an array, nested arrays, and two tensors, one of them in blocks.
GgufFile good_file(std::endian order = std::endian::little) {
  GgufFile file(order);
  file.header(2, 4).pair("general.alignment", MetaType::u32, std::uint32_t{64});
  file.key("s", MetaType::string).text("text");
  file.key("a", MetaType::array).array(MetaType::string, 2).text("one").text("");
  file.key("n", MetaType::array).array(MetaType::array, 2);
  file.array(MetaType::u16, 3).number(std::uint16_t{1}).number(std::uint16_t{2}).number(std::uint16_t{3});
  file.array(MetaType::f64, 0);
  file.tensor("t", {2, 3}, f32, 0).tensor("q", {32}, q4_0, 64);
  return file.pad(64).zeros(128);
}

// A file without metadata and with one tensor; its table begins after the counts.
GgufFile one_tensor(const std::vector<std::int64_t>& dims, std::uint32_t type, std::uint64_t offset = 0) {
  GgufFile file;
  return file.header(1, 0).tensor("t", dims, type, offset).pad().zeros(256);
}

constexpr std::uint64_t at_dims = counts_end + 8 + 1 + 4;
constexpr std::uint64_t at_type = at_dims + 8;  // of a tensor of rank 1
constexpr std::uint64_t at_offset = at_type + 4;

TEST(GgufHostile, the_valid_file_is_accepted) {
  EXPECT_TRUE(parse_gguf(good_file()));
  EXPECT_TRUE(parse_gguf(good_file(std::endian::big)));
}

TEST(GgufHostile, magic_is_gguf) {
  GgufFile file;
  file.raw("FUGG").zeros(60);
  expect_refusal(file, ErrorCode::bad_magic, "magic_is_gguf", 0);
}

TEST(GgufHostile, gguf_version_is_2_or_3) {
  for (const auto order : {std::endian::little, std::endian::big}) {
    for (const std::uint32_t version : {0U, 1U, 4U, 65'535U, 0x0203'0000U, 0xFFFF'FFFFU}) {
      GgufFile file(order);
      expect_refusal(file.header(0, 0, version), ErrorCode::bad_version, "gguf_version_is_2_or_3", 4);
    }
  }
}

TEST(GgufHostile, gguf_counts_are_not_negative) {
  GgufFile tensors;
  expect_refusal(tensors.header(-1, 0), ErrorCode::bad_header, "gguf_counts_are_not_negative", 8);
  GgufFile values;
  expect_refusal(values.header(0, INT64_MIN), ErrorCode::bad_header, "gguf_counts_are_not_negative", 16);
}

TEST(GgufHostile, gguf_counts_fit_in_the_file) {
  for (const std::int64_t count : {std::int64_t{5}, std::int64_t{1} << 40, INT64_MAX}) {
    GgufFile tensors;
    expect_refusal(tensors.header(count, 0).zeros(5 * 24 - 1), ErrorCode::truncated,
                   "gguf_counts_fit_in_the_file", counts_end);
    GgufFile values;
    expect_refusal(values.header(0, count).zeros(5 * 14 - 1), ErrorCode::truncated,
                   "gguf_counts_fit_in_the_file", counts_end);
  }
  for (const auto type : {MetaType::string, MetaType::array, MetaType::u16, MetaType::f64}) {
    GgufFile array;
    array.header(0, 1).key("a", MetaType::array).array(type, std::uint64_t{1} << 30).zeros(1000);
    expect_refusal(array, ErrorCode::truncated, "gguf_counts_fit_in_the_file", counts_end + 8 + 1 + 4 + 12);
  }
}

TEST(GgufHostile, header_is_complete) {
  for (const std::size_t size : {0U, 3U, 4U, 7U, 23U}) {
    const auto file = good_file();
    const auto parsed = parse(Bytes(file.bytes()).first(size), size);
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().rule(), "header_is_complete");
    EXPECT_EQ(parsed.error().offset(), size);
  }
  GgufFile key;
  key.header(0, 1).number(std::uint64_t{1'000'000}).raw("not as long as that");
  expect_refusal(key, ErrorCode::truncated, "header_is_complete", key.size());
}

TEST(GgufHostile, a_prefix_of_any_length_is_truncated) {
  for (const auto order : {std::endian::little, std::endian::big}) {
    const auto file = good_file(order);
    const std::size_t data = file.size() - 128;
    for (std::size_t size = 0; size < file.size(); ++size) {
      // An exact copy, so that a sanitizer detects a read past its end.
      const std::vector<std::byte> cut(file.bytes().begin(),
                                       file.bytes().begin() + static_cast<std::ptrdiff_t>(size));
      const auto parsed = parse(cut, size);
      ASSERT_FALSE(parsed) << size;
      EXPECT_EQ(parsed.error().code(), ErrorCode::truncated) << size << to_string(parsed.error());
      EXPECT_EQ(parse(cut, size, {.allow_incomplete = true}).has_value(), size >= data) << size;
    }
  }
}

TEST(GgufHostile, gguf_header_is_within_the_limit) {
  const auto file = good_file();
  const auto header = [&] {
    std::uint64_t bytes = 0;
    while (!parse(file.bytes(), file.size(), {.max_header_bytes = ++bytes})) {
      const auto error = parse(file.bytes(), file.size(), {.max_header_bytes = bytes}).error();
      EXPECT_EQ(error.code(), ErrorCode::header_too_large) << to_string(error);
      EXPECT_EQ(error.rule(), "gguf_header_is_within_the_limit");
      EXPECT_FALSE(error.hint().empty());
    }
    return bytes;
  }();
  EXPECT_LE(header, file.size() - 128);
  EXPECT_GT(header, file.size() - 128 - 64);
  // The default limit is 2^28 bytes. A larger header is refused before its bytes are requested.
  GgufFile claims;
  claims.header(0, 2).key("a", MetaType::array).array(MetaType::u8, (1U << 28) - 60);
  const auto parsed = parse(claims.bytes(), std::uint64_t{1} << 40);
  EXPECT_EQ(std::get<Need>(parsed.value()).bytes, claims.size() + (1U << 28) - 60);
  GgufFile too_large;
  too_large.header(0, 2).key("a", MetaType::array).array(MetaType::u8, 1U << 28);
  const auto refused = parse(too_large.bytes(), std::uint64_t{1} << 40);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().rule(), "gguf_header_is_within_the_limit");
}

TEST(GgufHostile, gguf_strings_have_at_most_2_30_bytes) {
  for (const std::uint64_t length : {(std::uint64_t{1} << 30) + 1, std::uint64_t{1} << 63, UINT64_MAX}) {
    GgufFile key;
    expect_refusal(key.header(0, 1).number(length).zeros(100), ErrorCode::bad_header,
                   "gguf_strings_have_at_most_2_30_bytes", counts_end);
    GgufFile name;
    expect_refusal(name.header(1, 0).number(length).zeros(100), ErrorCode::bad_header,
                   "gguf_strings_have_at_most_2_30_bytes", counts_end);
    GgufFile element;
    element.header(0, 1).key("a", MetaType::array).array(MetaType::string, 2).text("one").number(length);
    expect_refusal(element.zeros(100), ErrorCode::bad_header, "gguf_strings_have_at_most_2_30_bytes",
                   counts_end + 8 + 1 + 4 + 12 + 8 + 3);
  }
}

TEST(GgufHostile, gguf_arrays_have_at_most_2_30_elements) {
  for (const std::uint64_t count : {(std::uint64_t{1} << 30) + 1, UINT64_MAX}) {
    GgufFile file;
    expect_refusal(file.header(0, 1).key("a", MetaType::array).array(MetaType::u8, count).zeros(100),
                   ErrorCode::bad_header, "gguf_arrays_have_at_most_2_30_elements",
                   counts_end + 8 + 1 + 4 + 4);
  }
}

TEST(GgufHostile, gguf_arrays_nest_at_most_8_deep) {
  for (const int depth : {8, 9}) {
    GgufFile file;
    file.header(0, 1).key("a", MetaType::array);
    for (int i = 1; i < depth; ++i) file.array(MetaType::array, 1);
    file.array(MetaType::u8, 1).number(std::uint8_t{7});
    if (depth <= 8) {
      EXPECT_TRUE(parse_gguf(file));
    } else {
      expect_refusal(file, ErrorCode::bad_header, "gguf_arrays_nest_at_most_8_deep",
                     counts_end + 8 + 1 + 4 + 8 * 12);
    }
  }
}

TEST(GgufHostile, gguf_keys_are_not_empty) {
  GgufFile file;
  expect_refusal(file.header(0, 1).pair("", MetaType::u64, std::uint64_t{1}), ErrorCode::bad_header,
                 "gguf_keys_are_not_empty", counts_end);
}

TEST(GgufHostile, gguf_keys_are_utf8) {
  GgufFile file;
  expect_refusal(file.header(0, 1).pair("\xFF", MetaType::u8, std::uint8_t{1}), ErrorCode::bad_utf8,
                 "gguf_keys_are_utf8", counts_end);
}

TEST(GgufHostile, metadata_keys_are_unique_and_the_error_names_the_key) {
  GgufFile file;
  file.header(0, 3).pair("twice", MetaType::u8, std::uint8_t{1}).pair("once", MetaType::u8, std::uint8_t{1});
  file.pair("twice", MetaType::i8, std::int8_t{1});
  expect_refusal(file, ErrorCode::duplicate_key, "metadata_keys_are_unique", std::nullopt);
  EXPECT_NE(parse_gguf(file).error().message().find("'twice'"), std::string::npos);
}

TEST(GgufHostile, two_alignments_are_reported_as_a_duplicate_key) {
  GgufFile file;
  file.header(1, 2).pair("general.alignment", MetaType::u32, std::uint32_t{64});
  file.pair("general.alignment", MetaType::u32, std::uint32_t{13}).tensor("t", {1}, f32, 3);
  expect_refusal(file.pad(64).zeros(64), ErrorCode::duplicate_key, "metadata_keys_are_unique", std::nullopt);
}

TEST(GgufHostile, gguf_value_types_are_known) {
  for (const std::uint32_t type : {13U, 255U, 256U, 0xFFFF'FFFFU}) {
    GgufFile scalar;
    expect_refusal(scalar.header(0, 1).text("k").number(type).zeros(16), ErrorCode::bad_header,
                   "gguf_value_types_are_known", counts_end + 9);
    GgufFile array;
    array.header(0, 1).key("k", MetaType::array).number(type).number(std::uint64_t{0});
    expect_refusal(array, ErrorCode::bad_header, "gguf_value_types_are_known", counts_end + 9 + 4);
  }
}

constexpr std::uint64_t at_alignment = counts_end + 8 + alignment_key.size() + 4;

TEST(GgufHostile, gguf_alignment_is_a_u32) {
  GgufFile number;
  expect_refusal(number.header(0, 1).pair("general.alignment", MetaType::i32, std::int32_t{32}),
                 ErrorCode::bad_header, "gguf_alignment_is_a_u32", at_alignment);
  GgufFile array;
  array.header(0, 1).key("general.alignment", MetaType::array).array(MetaType::u32, 1);
  expect_refusal(array.number(std::uint32_t{32}), ErrorCode::bad_header, "gguf_alignment_is_a_u32",
                 at_alignment);
}

TEST(GgufHostile, gguf_alignment_is_a_power_of_two) {
  for (const std::uint32_t alignment : {0U, 3U, 13U, 0xFFFF'FFFFU}) {
    for (const auto order : {std::endian::little, std::endian::big}) {
      GgufFile file(order);
      expect_refusal(file.header(0, 1).pair("general.alignment", MetaType::u32, alignment),
                     ErrorCode::bad_header, "gguf_alignment_is_a_power_of_two", at_alignment);
    }
  }
}

TEST(GgufHostile, gguf_names_are_utf8) {
  GgufFile file;
  expect_refusal(file.header(1, 0).tensor("\xC0\x80", {1}, f32, 0).pad().zeros(32), ErrorCode::bad_utf8,
                 "gguf_names_are_utf8", counts_end);
}

TEST(GgufHostile, gguf_names_are_unique) {
  GgufFile file;
  file.header(2, 0).tensor("same", {1}, f32, 0).tensor("same", {1}, f32, 32).pad();
  const std::uint64_t second = file.size() + 32;
  expect_refusal(file.zeros(64), ErrorCode::duplicate_tensor, "names_are_unique", second, "same");
}

TEST(GgufHostile, gguf_rank_is_at_most_4) {
  expect_refusal(one_tensor({1, 1, 1, 1, 1}, f32), ErrorCode::bad_shape, "gguf_rank_is_at_most_4",
                 at_dims - 4, "t");
  GgufFile file;
  file.header(1, 0).text("t").number(0xFFFF'FFFFU).zeros(100);
  expect_refusal(file, ErrorCode::bad_shape, "gguf_rank_is_at_most_4", at_dims - 4, "t");
}

TEST(GgufHostile, dims_are_not_negative) {
  expect_refusal(one_tensor({-1}, f32), ErrorCode::bad_shape, "dims_are_not_negative", at_dims, "t");
  expect_refusal(one_tensor({4, 4, INT64_MIN}, f32), ErrorCode::bad_shape, "dims_are_not_negative", at_dims,
                 "t");
}

TEST(GgufHostile, elements_fit_63_bits) {
  const std::int64_t large = std::int64_t{1} << 32;
  expect_refusal(one_tensor({large, large}, i8), ErrorCode::size_overflow, "elements_fit_63_bits", at_dims,
                 "t");
  // A dimension of 0 does not hide the overflow, because strides would overflow too.
  expect_refusal(one_tensor({large, large, 0}, i8), ErrorCode::size_overflow, "elements_fit_63_bits", at_dims,
                 "t");
}

TEST(GgufHostile, data_size_fits_63_bits) {
  expect_refusal(one_tensor({std::int64_t{1} << 61}, f32), ErrorCode::size_overflow, "data_size_fits_63_bits",
                 at_dims, "t");
}

TEST(GgufHostile, gguf_tensor_types_are_known) {
  for (const std::uint32_t type : {4U, 5U, 31U, 33U, 36U, 38U, 43U, 255U, 256U, 256U + 24U, 0xFFFF'FFFFU}) {
    expect_refusal(one_tensor({256}, type), ErrorCode::unsupported_encoding, "gguf_tensor_types_are_known",
                   at_type, "t");
  }
}

TEST(GgufHostile, gguf_rows_are_whole_blocks) {
  expect_refusal(one_tensor({31}, q4_0), ErrorCode::bad_shape, "gguf_rows_are_whole_blocks", at_dims, "t");
  expect_refusal(one_tensor({16, 2}, q4_0), ErrorCode::bad_shape, "gguf_rows_are_whole_blocks", at_dims, "t");
  expect_refusal(one_tensor({}, q4_0), ErrorCode::bad_shape, "gguf_rows_are_whole_blocks", at_dims, "t");
}

TEST(GgufHostile, gguf_offsets_fit_63_bits) {
  for (const std::uint64_t offset : {UINT64_MAX, std::uint64_t{1} << 63}) {
    expect_refusal(one_tensor({1}, f32, offset), ErrorCode::bad_offset, "gguf_offsets_fit_63_bits", at_offset,
                   "t");
  }
}

TEST(GgufHostile, gguf_offsets_are_multiples_of_the_alignment) {
  expect_refusal(one_tensor({1}, f32, 8), ErrorCode::misaligned,
                 "gguf_offsets_are_multiples_of_the_alignment", at_offset, "t");
  // Tensor b follows tensor a without padding.
  GgufFile file;
  file.header(2, 0).tensor("a", {4}, f32, 0).tensor("b", {1}, f32, 16).pad().zeros(64);
  expect_refusal(file, ErrorCode::misaligned, "gguf_offsets_are_multiples_of_the_alignment",
                 at_offset + 8 + at_offset - counts_end, "b");
}

TEST(GgufHostile, gguf_tensors_do_not_overlap) {
  GgufFile file;
  file.header(2, 0).tensor("a", {9}, f32, 0).tensor("b", {1}, f32, 32).pad().zeros(128);
  expect_refusal(file, ErrorCode::overlap, "gguf_tensors_do_not_overlap",
                 at_offset + 8 + at_offset - counts_end, "b");
}

TEST(GgufHostile, gguf_tensors_leave_no_gap) {
  expect_refusal(one_tensor({1}, f32, 32), ErrorCode::gap, "gguf_tensors_leave_no_gap", at_offset, "t");
  GgufFile out_of_order;
  out_of_order.header(2, 0).tensor("a", {1}, f32, 32).tensor("b", {1}, f32, 0).pad().zeros(64);
  expect_refusal(out_of_order, ErrorCode::gap, "gguf_tensors_leave_no_gap", at_offset, "a");
}

TEST(GgufHostile, gguf_data_end_fits_63_bits) {
  // The size of the data fits, but its end in the file does not.
  expect_refusal(one_tensor({INT64_MAX}, i8), ErrorCode::size_overflow, "gguf_data_end_fits_63_bits",
                 at_offset, "t");
  const std::int64_t half = std::int64_t{1} << 62;
  GgufFile two;
  two.header(2, 0).tensor("a", {half}, i8, 0).tensor("b", {half}, i8, static_cast<std::uint64_t>(half));
  expect_refusal(two.pad(), ErrorCode::size_overflow, "gguf_data_end_fits_63_bits",
                 at_offset + 8 + at_offset - counts_end, "b");
}

TEST(GgufHostile, gguf_data_begins_in_the_file) {
  GgufFile file;
  file.header(1, 0).tensor("t", {0}, f32, 0);
  ASSERT_NE(file.size() % 32, 0U);
  expect_refusal(file, ErrorCode::truncated, "gguf_data_begins_in_the_file", file.size());
  EXPECT_TRUE(parse_gguf(file.pad()));
}

TEST(GgufHostile, data_is_complete) {
  for (const std::size_t bytes : {0U, 4U, 31U, 32U, 33U}) {
    GgufFile file;
    file.header(1, 0).tensor("t", {1}, f32, 0).pad().zeros(bytes);
    EXPECT_TRUE(parse_gguf(file, {.allow_incomplete = true}));
    const auto parsed = parse_gguf(file);
    // The padding of the last tensor belongs to the data; bytes after the padding are ignored.
    ASSERT_EQ(parsed.has_value(), bytes >= 32);
    if (parsed) continue;
    EXPECT_EQ(parsed.error().code(), ErrorCode::truncated);
    EXPECT_EQ(parsed.error().rule(), "data_is_complete");
    EXPECT_EQ(parsed.error().offset(), file.size());
  }
}

TEST(GgufHostile, declared_counts_are_checked_before_use) {
  // The counts fit in a file of 2^40 bytes, but only the first bytes were read. The parser fails at the first
  // key and does not allocate memory for the counts.
  GgufFile file;
  file.header(std::int64_t{1} << 34, std::int64_t{1} << 34).zeros(100);
  const auto parsed = parse(file.bytes(), std::uint64_t{1} << 40);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().rule(), "gguf_keys_are_not_empty");
}

}  // namespace
}  // namespace ht::format_gguf::gguf_hostile_test
