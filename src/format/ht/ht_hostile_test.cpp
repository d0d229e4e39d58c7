// Malformed files: each rule of spec/ht-format.md has a test of the same name.
#include <gtest/gtest.h>

#include <functional>
#include <htensor/hash/digest.hpp>
#include <vector>

#include "format/ht/ht.hpp"

namespace ht::format_ht::ht_hostile_test {
namespace {

constexpr std::uint64_t data_bytes = 24;

std::vector<std::byte> good_file() {
  const std::vector<std::int64_t> dims{2, 3};
  const auto header = encode(make_header(dtype_info<F32>(), dims).value());
  std::vector<std::byte> file(header.begin(), header.end());
  file.resize(header_bytes + data_bytes);
  return file;
}

// Changes a field of a good file, updates the header's checksum, and returns the error of the parser.
template <class T>
Error error_with(std::size_t at, T value) {
  auto file = good_file();
  store_le(MutableBytes(file).subspan(at), value);
  store_le(MutableBytes(file).subspan(120), crc64nvme(Bytes(file).first(120)));
  auto parsed = parse(file, file.size());
  if (parsed) return Error(ErrorCode::internal, "test_expects_an_error", "it parsed");
  return std::move(parsed).error();
}

void expect_refusal(const Error& error, ErrorCode code, std::string_view rule, std::uint64_t offset) {
  EXPECT_EQ(error.code(), code) << to_string(error);
  EXPECT_EQ(error.rule(), rule);
  EXPECT_EQ(error.offset(), offset);
  EXPECT_FALSE(error.message().empty());
  EXPECT_FALSE(error.hint().empty()) << to_string(error);
}

TEST(HtHostile, the_valid_file_is_accepted) { EXPECT_TRUE(parse(good_file(), good_file().size())); }

TEST(HtHostile, magic_is_htensor) {
  expect_refusal(error_with<std::uint8_t>(6, 'X'), ErrorCode::bad_magic, "magic_is_htensor", 0);
}

TEST(HtHostile, header_checksum_matches) {
  auto file = good_file();
  file[40] ^= std::byte{1};
  expect_refusal(parse(file, file.size()).error(), ErrorCode::checksum_mismatch, "header_checksum_matches",
                 120);
}

TEST(HtHostile, version_is_1) {
  for (const int version : {0, 2, 256, 65535}) {
    expect_refusal(error_with(8, static_cast<std::uint16_t>(version)), ErrorCode::bad_version, "version_is_1",
                   8);
  }
}

TEST(HtHostile, dtype_tag_is_known_to_the_parser) {
  for (const int tag : {0, 25, 100, 191, 192, 255}) {
    expect_refusal(error_with(10, static_cast<std::uint8_t>(tag)), ErrorCode::bad_dtype, "dtype_tag_is_known",
                   10);
  }
}

TEST(HtHostile, rank_is_at_most_8) {
  for (const int rank : {9, 10, 255}) {
    expect_refusal(error_with(11, static_cast<std::uint8_t>(rank)), ErrorCode::bad_shape, "rank_is_at_most_8",
                   11);
  }
  const std::vector<std::int64_t> nine(9, 1);
  EXPECT_EQ(make_header(dtype_info<F32>(), nine).error().rule(), "rank_is_at_most_8");
}

TEST(HtHostile, unknown_flags_are_zero) {
  for (int bit = 1; bit < 32; ++bit) {
    expect_refusal(error_with(12, std::uint32_t{1} << bit), ErrorCode::bad_header, "unknown_flags_are_zero",
                   12);
  }
}

TEST(HtHostile, payload_checksum_requires_its_flag) {
  expect_refusal(error_with(96, std::uint64_t{1}), ErrorCode::bad_header,
                 "payload_checksum_requires_its_flag", 96);
}

TEST(HtHostile, reserved_fields_are_zero) {
  expect_refusal(error_with(104, std::uint64_t{1}), ErrorCode::bad_header, "reserved_fields_are_zero", 104);
  expect_refusal(error_with(112, std::uint64_t{1} << 63), ErrorCode::bad_header, "reserved_fields_are_zero",
                 112);
}

TEST(HtHostile, unused_dims_are_zero) {
  for (std::size_t i = 2; i < 8; ++i) {
    expect_refusal(error_with(32 + 8 * i, std::uint64_t{1}), ErrorCode::bad_shape, "unused_dims_are_zero",
                   32 + 8 * i);
  }
}

TEST(HtHostile, dims_fit_63_bits) {
  for (const std::uint64_t dim : {std::uint64_t{1} << 63, UINT64_MAX}) {
    expect_refusal(error_with(40, dim), ErrorCode::size_overflow, "dims_fit_63_bits", 40);
  }
}

TEST(HtHostile, data_size_fits_63_bits) {
  for (const std::uint64_t dim :
       {std::uint64_t{1} << 62, std::uint64_t{1} << 61, (std::uint64_t{1} << 63) - 1}) {
    expect_refusal(error_with(32, dim), ErrorCode::size_overflow, "data_size_fits_63_bits", 32);
  }
  // A dimension of 0 does not hide the overflow, because strides would overflow too.
  const std::vector<std::int64_t> hidden{0, std::int64_t{1} << 40, std::int64_t{1} << 40};
  EXPECT_EQ(make_header(dtype_info<F32>(), hidden).error().rule(), "data_size_fits_63_bits");
}

TEST(HtHostile, dims_are_not_negative) {
  const std::vector<std::int64_t> dims{2, -1};
  const auto header = make_header(dtype_info<F32>(), dims);
  ASSERT_FALSE(header);
  EXPECT_EQ(header.error().code(), ErrorCode::bad_shape);
  EXPECT_EQ(header.error().rule(), "dims_are_not_negative");
}

TEST(HtHostile, data_size_matches_the_shape) {
  for (const std::uint64_t bytes : {std::uint64_t{0}, data_bytes - 1, data_bytes + 1, UINT64_MAX}) {
    expect_refusal(error_with(24, bytes), ErrorCode::size_mismatch, "data_size_matches_the_shape", 24);
  }
}

TEST(HtHostile, data_starts_after_the_header) {
  for (const std::uint64_t offset : {0U, 64U, 127U}) {
    expect_refusal(error_with(16, offset), ErrorCode::bad_offset, "data_starts_after_the_header", 16);
  }
}

TEST(HtHostile, data_offset_is_a_multiple_of_64) {
  for (const std::uint64_t offset : {std::uint64_t{129}, std::uint64_t{160}, UINT64_MAX}) {
    expect_refusal(error_with(16, offset), ErrorCode::misaligned, "data_offset_is_a_multiple_of_64", 16);
  }
}

TEST(HtHostile, data_end_fits_64_bits) {
  expect_refusal(error_with(16, UINT64_MAX - 63), ErrorCode::truncated, "data_is_complete",
                 header_bytes + data_bytes);
  auto file = good_file();
  Header header = decode(Bytes(file).first<header_bytes>()).value();
  header.data_offset = UINT64_MAX - 63;
  header.dims[0] = 64;
  header.data_bytes = 64 * 3 * 4;
  expect_refusal(decode(encode(header)).error(), ErrorCode::size_overflow, "data_end_fits_64_bits", 16);
}

TEST(HtHostile, data_is_complete) {
  const auto file = good_file();
  for (std::uint64_t size = header_bytes; size < file.size(); ++size) {
    expect_refusal(parse(Bytes(file).first(size), size).error(), ErrorCode::truncated, "data_is_complete",
                   size);
  }
}

TEST(HtHostile, allow_incomplete_accepts_a_truncated_file) {
  const auto file = good_file();
  EXPECT_TRUE(parse(Bytes(file).first(header_bytes), header_bytes, {.allow_incomplete = true}));
  EXPECT_FALSE(parse(Bytes(file).first(header_bytes), file.size() + 1, {.allow_incomplete = true}));
}

TEST(HtHostile, nothing_follows_the_data) {
  auto file = good_file();
  file.resize(file.size() + 1);
  expect_refusal(parse(file, file.size()).error(), ErrorCode::trailing_bytes, "nothing_follows_the_data",
                 header_bytes + data_bytes);
}

TEST(HtHostile, header_is_complete) {
  const auto file = good_file();
  for (std::uint64_t size = 0; size < header_bytes; ++size) {
    expect_refusal(parse(Bytes(file).first(size), size).error(), ErrorCode::truncated, "header_is_complete",
                   size);
  }
}

TEST(HtHostile, every_flipped_bit_of_the_header_is_refused) {
  const auto good = good_file();
  for (std::size_t bit = 0; bit < header_bytes * 8; ++bit) {
    auto file = good;
    file[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    const auto parsed = parse(file, file.size());
    ASSERT_FALSE(parsed) << "bit " << bit;
    const auto expected = bit < 64 ? ErrorCode::bad_magic : ErrorCode::checksum_mismatch;
    EXPECT_EQ(parsed.error().code(), expected) << "bit " << bit;
  }
}

TEST(HtHostile, same_file_has_the_same_error_text) {
  const auto first = error_with(24, std::uint64_t{7});
  const auto second = error_with(24, std::uint64_t{7});
  EXPECT_EQ(to_string(first), to_string(second));
  EXPECT_EQ(first.hint(), second.hint());
}

}  // namespace
}  // namespace ht::format_ht::ht_hostile_test
