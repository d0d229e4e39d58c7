#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "format/npy/npy.hpp"
#include "format/test_same_tensors.hpp"

namespace ht::format_npy::npy_test {
namespace {

// Returns a header as numpy 1.23 and later write it: the dict, room for 21 digits of the dimension that may
// grow, one space or more up to a multiple of 64, a newline.
std::string as_numpy_writes(std::string_view dict, std::size_t length) {
  std::string file("\x93NUMPY\x01\x00", 8);
  file.push_back(static_cast<char>(length & 0xFF));
  file.push_back(static_cast<char>(length >> 8));
  file += dict;
  return file.append(length - 1 - dict.size(), ' ') + '\n';
}

std::string file_of(std::string_view dict, std::size_t data_bytes, char version = 1) {
  std::string file = std::string("\x93NUMPY") + version + '\0';
  file.push_back(static_cast<char>(dict.size()));
  file.append(version == 1 ? 1 : 3, '\0');
  return file.append(dict).append(data_bytes, '\0');
}

Catalog parsed(const std::string& file) {
  auto result = format_npy::parse(bytes_of(file), file.size(), {.stem = "w"});
  EXPECT_TRUE(result) << (result ? "" : to_string(result.error()));
  if (!result) return CatalogBuilder("npy").build().value();
  return std::get<Catalog>(*std::move(result));
}

Catalog catalog_of(const Entry& entry) {
  CatalogBuilder builder("npy");
  EXPECT_TRUE(builder.add(entry));
  return std::move(builder).build().value();
}

std::string header_of(const Entry& entry) {
  const auto encoded = encode(catalog_of(entry), {});
  EXPECT_TRUE(encoded) << (encoded ? "" : to_string(encoded.error()));
  if (!encoded) return {};
  EXPECT_EQ(encoded->offsets, std::vector<std::optional<std::uint64_t>>{encoded->header.size()});
  EXPECT_EQ(encoded->file_bytes, encoded->header.size() + entry.bytes);
  return {reinterpret_cast<const char*>(encoded->header.data()), encoded->header.size()};
}

using Dims = std::vector<std::int64_t>;

TEST(Npy, writes_the_same_bytes_as_numpy) {
  const Dims matrix{2, 3};
  EXPECT_EQ(header_of({.name = "w", .dtype = F32::tag, .dims = matrix, .bytes = 24}),
            as_numpy_writes("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 118));
  EXPECT_EQ(header_of({.name = "w",
                       .dtype = I16::tag,
                       .dims = matrix,
                       .order = ElementOrder::column_major,
                       .byte_order = ByteOrder::big,
                       .bytes = 12}),
            as_numpy_writes("{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }", 118));
  const Dims vector{3};
  EXPECT_EQ(header_of({.name = "w", .dtype = Bool::tag, .dims = vector, .bytes = 3}),
            as_numpy_writes("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", 118));
  EXPECT_EQ(header_of({.name = "w", .dtype = F64::tag, .bytes = 8}),
            as_numpy_writes("{'descr': '<f8', 'fortran_order': False, 'shape': (), }", 118));
}

TEST(Npy, pads_the_header_like_numpy) {
  // With 14 dimensions of 1, a header of 128 bytes has just enough room for the first dimension to grow to 21
  // digits. With 15 dimensions it has not.
  Dims dims(14, 1);
  Entry entry{.name = "w", .dtype = U8::tag, .dims = dims, .bytes = 1};
  EXPECT_EQ(header_of(entry).size(), 128U);
  dims.push_back(1);
  entry.dims = dims;
  EXPECT_EQ(header_of(entry).size(), 192U);
  // This header has a multiple of 64 bytes without padding, and numpy adds 64 spaces.
  dims = Dims(13, 1);
  dims.push_back(100);
  entry.dims = dims;
  entry.bytes = 100;
  EXPECT_EQ(header_of(entry).size(), 192U);
  // In column-major order the last dimension may grow. It already has 7 digits, so it needs less room.
  dims = Dims(13, 1);
  dims.push_back(1234567);
  entry.dims = dims;
  entry.bytes = 1234567;
  EXPECT_EQ(header_of(entry).size(), 192U);
  entry.order = ElementOrder::column_major;
  EXPECT_EQ(header_of(entry).size(), 128U);
}

TEST(Npy, alignment_can_be_raised) {
  const auto catalog = catalog_of({.name = "w", .dtype = U8::tag, .bytes = 1});
  for (const std::uint64_t alignment : {1U, 64U, 4096U, 65536U, 131072U, 1U << 20}) {
    const auto encoded = encode(catalog, {.alignment = alignment});
    ASSERT_TRUE(encoded) << alignment;
    EXPECT_EQ(encoded->header.size(), std::max<std::uint64_t>(alignment, 128));
    EXPECT_EQ(encoded->header[6], std::byte{alignment > 65536 ? std::uint8_t{2} : std::uint8_t{1}});
    const auto reparsed = format_npy::parse(encoded->header, encoded->file_bytes, {.stem = "w"});
    ASSERT_TRUE(reparsed) << to_string(reparsed.error());
    EXPECT_TRUE(testing::same_tensors(std::get<Catalog>(*reparsed), catalog));
    EXPECT_EQ(std::get<Catalog>(*reparsed)[0].offset, encoded->offsets[0]);
  }
}

TEST(Npy, reads_files_of_numpy) {
  const auto file = as_numpy_writes("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 118) +
                    std::string(24, 'x');
  const auto catalog = parsed(file);
  ASSERT_EQ(catalog.size(), 1U);
  EXPECT_EQ(catalog.format(), "npy");
  const Entry entry = catalog[0];
  EXPECT_EQ(entry.name, "w");
  EXPECT_EQ(entry.dtype, F32::tag);
  EXPECT_EQ(Dims(entry.dims.begin(), entry.dims.end()), (Dims{2, 3}));
  EXPECT_EQ(entry.order, ElementOrder::row_major);
  EXPECT_EQ(entry.byte_order, ByteOrder::little);
  EXPECT_EQ(entry.offset, 128U);
  EXPECT_EQ(entry.bytes, 24U);
}

TEST(Npy, every_dtype_is_read_and_written_in_both_byte_orders) {
  struct Case {
    const char* code;
    DTypeInfo dtype;
  };
  const Case cases[] = {{"b1", dtype_info<Bool>()}, {"i1", dtype_info<I8>()},  {"u1", dtype_info<U8>()},
                        {"i2", dtype_info<I16>()},  {"u2", dtype_info<U16>()}, {"f2", dtype_info<F16>()},
                        {"i4", dtype_info<I32>()},  {"u4", dtype_info<U32>()}, {"f4", dtype_info<F32>()},
                        {"i8", dtype_info<I64>()},  {"u8", dtype_info<U64>()}, {"f8", dtype_info<F64>()},
                        {"c8", dtype_info<C64>()}};
  for (const auto& [code, dtype] : cases) {
    const auto bytes = static_cast<std::size_t>(dtype.bits / 8);
    for (const std::string order : {"<", ">", "=", "|", ""}) {
      if (order == "|" && bytes > 1) continue;
      const std::string dict = "{'descr': '" + order + code + "', 'fortran_order': False, 'shape': (3,), }";
      const auto catalog = parsed(file_of(dict, 3 * bytes));
      ASSERT_EQ(catalog.size(), 1U) << dict;
      EXPECT_EQ(catalog[0].dtype, dtype.tag) << dict;
      EXPECT_EQ(catalog[0].bytes, 3 * bytes) << dict;
      const bool is_big = order == ">" && bytes > 1;
      EXPECT_EQ(catalog[0].byte_order, is_big ? ByteOrder::big : ByteOrder::little) << dict;
      const std::string written = std::string("'descr': '") + (bytes == 1 ? '|' : is_big ? '>' : '<') + code;
      EXPECT_NE(header_of(catalog[0]).find(written), std::string::npos) << dict;
    }
  }
}

TEST(Npy, versions_2_and_3_have_a_header_length_of_4_bytes) {
  for (const char version : {'\2', '\3'}) {
    const auto catalog =
        parsed(file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", 8, version));
    ASSERT_EQ(catalog.size(), 1U);
    EXPECT_EQ(catalog[0].offset, 12U + 58);
  }
}

TEST(Npy, dict_is_read_like_in_python) {
  for (const char* dict : {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}",
                           "{\"shape\":(2,3,),\"fortran_order\":False,\"descr\":\"<f4\"}",
                           " { 'shape' : ( 2 , 3 ) , 'descr' : '<f4' ,\n\t'fortran_order' : False\r\n}\f ",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }"}) {
    const auto catalog = parsed(file_of(dict, 24));
    ASSERT_EQ(catalog.size(), 1U) << dict;
    EXPECT_EQ(Dims(catalog[0].dims.begin(), catalog[0].dims.end()), (Dims{2, 3})) << dict;
  }
}

TEST(Npy, fortran_order_is_ignored_below_rank_2) {
  const auto order_of = [](const std::string& shape, std::size_t bytes) {
    return parsed(file_of("{'descr': '|u1', 'fortran_order': True, 'shape': " + shape + ", }", bytes))[0]
        .order;
  };
  EXPECT_EQ(order_of("()", 1), ElementOrder::row_major);
  EXPECT_EQ(order_of("(3,)", 3), ElementOrder::row_major);
  EXPECT_EQ(order_of("(3, 2)", 6), ElementOrder::column_major);
}

TEST(Npy, rank_64_with_a_dimension_of_0_is_read) {
  std::string shape = "(0";
  for (int i = 1; i < 64; ++i) shape += ",1";
  const auto catalog = parsed(file_of("{'descr':'<f8','fortran_order':False,'shape':" + shape + ")}", 0));
  ASSERT_EQ(catalog.size(), 1U);
  EXPECT_EQ(catalog[0].dims.size(), 64U);
  EXPECT_EQ(catalog[0].bytes, 0U);
}

TEST(Npy, allow_incomplete_accepts_a_file_without_data) {
  const auto file = as_numpy_writes("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 118);
  EXPECT_FALSE(format_npy::parse(bytes_of(file), file.size()));
  const auto result = format_npy::parse(bytes_of(file), file.size(), {.stem = "w", .allow_incomplete = true});
  ASSERT_TRUE(result);
  EXPECT_EQ(std::get<Catalog>(*result)[0].bytes, 24U);
}

TEST(Npy, requests_only_the_header) {
  const auto file = as_numpy_writes("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 118);
  std::vector<std::uint64_t> requested;
  std::uint64_t seen = 0;
  while (true) {
    const auto result = format_npy::parse(bytes_of(file).first(seen), file.size() + 24, {.stem = "w"});
    ASSERT_TRUE(result);
    if (std::holds_alternative<Catalog>(*result)) break;
    const Need need = std::get<Need>(*result);
    EXPECT_EQ(need.offset, 0U);
    requested.push_back(need.bytes);
    seen = need.bytes;
  }
  EXPECT_EQ(requested, (std::vector<std::uint64_t>{10, 128}));
}

TEST(Npy, splats_are_written_like_data) {
  const Dims dims{4};
  const std::array<std::byte, 2> pattern{std::byte{1}, std::byte{2}};
  const auto header = header_of({.name = "w", .dtype = F16::tag, .dims = dims, .bytes = 8, .splat = pattern});
  EXPECT_EQ(header, as_numpy_writes("{'descr': '<f2', 'fortran_order': False, 'shape': (4,), }", 118));
}

TEST(Npy, is_found_by_content_and_extension) {
  EXPECT_EQ(format_of_extension(".npy")->name, "npy");
  const auto file = file_of("{'descr': '|u1', 'fortran_order': False, 'shape': (), }", 1);
  const auto result = ht::parse(bytes_of(file), file.size(), {.stem = "w"});
  ASSERT_TRUE(result);
  EXPECT_EQ(std::get<Catalog>(*result).format(), "npy");
}

void expect_lost(const Entry& entry, std::string_view rule, std::string_view hint) {
  const auto encoded = encode(catalog_of(entry), {});
  ASSERT_FALSE(encoded) << rule;
  EXPECT_EQ(encoded.error().code(), ErrorCode::would_lose);
  EXPECT_EQ(encoded.error().rule(), rule);
  EXPECT_EQ(encoded.error().tensor(), "w");
  EXPECT_NE(encoded.error().hint().find(hint), std::string_view::npos) << encoded.error().hint();
}

TEST(Npy, npy_carries_the_dtype) {
  for (const auto tag : {BF16::tag, F8_E4M3::tag, F8_E8M0::tag, F4::tag, I4::tag, U4::tag, user_tag(3)}) {
    expect_lost({.name = "w", .dtype = tag, .bytes = 1}, "npy_carries_the_dtype", "IRPA or ht");
  }
}

TEST(Npy, npy_carries_at_most_64_dims) {
  const Dims dims(65, 1);
  expect_lost({.name = "w", .dtype = U8::tag, .dims = dims, .bytes = 1}, "npy_carries_at_most_64_dims",
              "safetensors");
}

TEST(Npy, unsupported_tensor_features_are_refused) {
  expect_lost({.name = "w", .bytes = 1}, "format_carries_untyped_bytes", "IRPA");
  expect_lost({.name = "w", .dtype = U8::tag, .bytes = 1, .note = "x"}, "format_carries_the_note", "IRPA");
  CatalogBuilder builder("npy");
  EXPECT_TRUE(builder.metadata().add("author", "somebody"));
  EXPECT_TRUE(builder.add({.name = "w", .dtype = U8::tag, .bytes = 1}));
  const auto encoded = encode(std::move(builder).build().value(), {});
  ASSERT_FALSE(encoded);
  EXPECT_EQ(encoded.error().rule(), "format_carries_metadata");
}

TEST(Npy, npy_holds_one_tensor) {
  CatalogBuilder two("npy");
  for (const char* name : {"a", "b"}) EXPECT_TRUE(two.add({.name = name, .dtype = U8::tag, .bytes = 1}));
  for (const auto& catalog : {CatalogBuilder("npy").build().value(), std::move(two).build().value()}) {
    const auto encoded = encode(catalog, {});
    ASSERT_FALSE(encoded);
    EXPECT_EQ(encoded.error().code(), ErrorCode::would_lose);
    EXPECT_EQ(encoded.error().rule(), "npy_holds_one_tensor");
  }
}

TEST(Npy, npy_alignment_is_within_the_limit) {
  for (const std::uint64_t alignment : {std::uint64_t{1} << 21, std::uint64_t{1} << 63}) {
    const auto encoded =
        encode(catalog_of({.name = "w", .dtype = U8::tag, .bytes = 1}), {.alignment = alignment});
    ASSERT_FALSE(encoded);
    EXPECT_EQ(encoded.error().code(), ErrorCode::header_too_large);
    EXPECT_EQ(encoded.error().rule(), "npy_alignment_is_within_the_limit");
  }
}

TEST(Npy, data_size_matches_the_shape) {
  const Dims dims{3};
  for (const std::uint64_t bytes : std::array<std::uint64_t, 5>{0, 5, 11, 13, UINT64_MAX}) {
    const auto encoded =
        encode(catalog_of({.name = "w", .dtype = F32::tag, .dims = dims, .bytes = bytes}), {});
    ASSERT_FALSE(encoded) << bytes;
    EXPECT_EQ(encoded.error().code(), ErrorCode::size_mismatch);
    EXPECT_EQ(encoded.error().rule(), "data_size_matches_the_shape");
    EXPECT_EQ(encoded.error().tensor(), "w");
  }
}

TEST(Npy, largest_array_can_be_encoded) {
  // Its file size fits 64 bits with every alignment.
  const Dims dims{INT64_MAX};
  const auto catalog =
      catalog_of({.name = "w", .dtype = U8::tag, .dims = dims, .bytes = std::uint64_t{INT64_MAX}});
  const auto encoded = encode(catalog, {.alignment = std::uint64_t{1} << 20});
  ASSERT_TRUE(encoded);
  EXPECT_EQ(encoded->file_bytes, (std::uint64_t{1} << 20) + INT64_MAX);
}

}  // namespace
}  // namespace ht::format_npy::npy_test
