// Malformed files: each rule has a test of the same name.
#include <gtest/gtest.h>

#include <string>

#include "format/safetensors/safetensors.hpp"
#include "format/safetensors/test_file.hpp"

namespace ht::format_safetensors::safetensors_hostile_test {
namespace {

using testing::safetensors_file;

void expect_refusal(std::string_view json, ErrorCode code, std::string_view rule,
                    std::size_t data_bytes = 4) {
  const auto file = safetensors_file(json, data_bytes);
  for (const bool allow_incomplete : {false, true}) {
    const auto parsed = parse(file, file.size(), {.allow_incomplete = allow_incomplete});
    ASSERT_FALSE(parsed) << json;
    EXPECT_EQ(parsed.error().code(), code) << json << ": " << to_string(parsed.error());
    EXPECT_EQ(parsed.error().rule(), rule) << json;
    EXPECT_FALSE(parsed.error().message().empty());
    EXPECT_FALSE(parsed.error().hint().empty()) << json;
    ASSERT_TRUE(parsed.error().offset()) << json;
    EXPECT_LE(*parsed.error().offset(), file.size()) << json;
  }
}

std::string tensor(std::string_view name, std::string_view dtype, std::string_view shape,
                   std::string_view offsets) {
  return "\"" + std::string(name) + R"(":{"dtype":)" + std::string(dtype) + R"(,"shape":)" +
         std::string(shape) + R"(,"data_offsets":)" + std::string(offsets) + "}";
}

std::string one(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return "{" + tensor("a", dtype, shape, offsets) + "}";
}

TEST(SafetensorsHostile, the_valid_file_is_accepted) {
  const auto file = safetensors_file(one(R"("F32")", "[1]", "[0,4]"), 4);
  EXPECT_TRUE(parse(file, file.size()));
}

TEST(SafetensorsHostile, safetensors_length_is_complete) {
  for (std::size_t size = 0; size < 8; ++size) {
    const std::vector<std::byte> file(size);
    const auto error = parse(file, size).error();
    EXPECT_EQ(error.code(), ErrorCode::truncated);
    EXPECT_EQ(error.rule(), "safetensors_length_is_complete");
  }
}

TEST(SafetensorsHostile, safetensors_header_is_complete) {
  const auto file = safetensors_file(one(R"("F32")", "[1]", "[0,4]"), 4);
  for (std::size_t size = 8; size < file.size() - 4; ++size) {
    const auto error = parse(Bytes(file).first(size), size).error();
    EXPECT_EQ(error.code(), ErrorCode::truncated);
    EXPECT_EQ(error.rule(), "safetensors_header_is_complete");
    EXPECT_EQ(error.offset(), size);
  }
}

TEST(SafetensorsHostile, safetensors_data_is_complete) {
  const auto file = safetensors_file(one(R"("F32")", "[1]", "[0,4]"), 4);
  for (std::size_t size = file.size() - 4; size < file.size(); ++size) {
    const auto error = parse(Bytes(file).first(size), size).error();
    EXPECT_EQ(error.code(), ErrorCode::truncated);
    EXPECT_EQ(error.rule(), "safetensors_data_is_complete");
    EXPECT_TRUE(parse(Bytes(file).first(size), size, {.allow_incomplete = true}));
  }
}

TEST(SafetensorsHostile, safetensors_header_is_within_the_limit) {
  std::vector<std::byte> file(100, std::byte{'{'});
  for (const std::uint64_t length : {std::uint64_t{100'000'001}, UINT64_MAX, UINT64_MAX - 7}) {
    store_le(MutableBytes(file), length);
    const auto error = parse(file, UINT64_MAX).error();
    EXPECT_EQ(error.code(), ErrorCode::header_too_large);
    EXPECT_EQ(error.rule(), "safetensors_header_is_within_the_limit");
  }
  store_le(MutableBytes(file), std::uint64_t{100'000'000});
  EXPECT_TRUE(std::holds_alternative<Need>(*parse(file, UINT64_MAX)));
  EXPECT_EQ(parse(file, 1000, {.max_header_bytes = UINT64_MAX}).error().code(), ErrorCode::truncated);
}

TEST(SafetensorsHostile, safetensors_header_is_json) {
  for (const auto* json :
       {"", " ", "[]", "null", "x", "{", "{}}", "{}{}", "{\"a\"}", "{,}", "{} x}",
        R"({"__metadata__":{"a":"\ud800"}})", R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],}})",
        R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":01}})",
        R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":1e999}})",
        R"({"\ud800":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", "\xEF\xBB\xBF{}"}) {
    expect_refusal(json, ErrorCode::bad_header, "safetensors_header_is_json", 0);
  }
  expect_refusal(std::string_view("{}\0", 3), ErrorCode::bad_header, "safetensors_header_is_json", 0);
  expect_refusal("{\"a\":{\"x\":" + std::string(1000, '[') + std::string(1000, ']') + "}}",
                 ErrorCode::bad_header, "safetensors_header_is_json", 0);
}

TEST(SafetensorsHostile, safetensors_header_is_utf8) {
  for (const auto* json : {"{\"\xFF\":1}", "{\"a\xC0\x80\":1}", "{\"\xED\xA0\x80\":1}"}) {
    expect_refusal(json, ErrorCode::bad_utf8, "safetensors_header_is_utf8", 0);
  }
}

TEST(SafetensorsHostile, tensor_info_is_an_object) {
  for (const auto* info : {"1", "null", "\"F32\"", R"(["F32",[1],[0,4]])", "true"}) {
    expect_refusal(R"({"a":)" + std::string(info) + "}", ErrorCode::bad_header, "tensor_info_is_an_object");
  }
}

TEST(SafetensorsHostile, tensor_info_is_complete) {
  for (const auto* info :
       {"{}", R"({"dtype":"F32","shape":[1]})", R"({"dtype":"F32","data_offsets":[0,4]})",
        R"({"shape":[1],"data_offsets":[0,4]})", R"({"DTYPE":"F32","shape":[1],"data_offsets":[0,4]})"}) {
    expect_refusal(R"({"a":)" + std::string(info) + "}", ErrorCode::bad_header, "tensor_info_is_complete");
  }
}

TEST(SafetensorsHostile, tensor_info_fields_are_unique) {
  for (const auto* twice : {R"("dtype":"F32")", R"("shape":[1])", R"("data_offsets":[0,4])"}) {
    expect_refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],)" + std::string(twice) + "}}",
                   ErrorCode::duplicate_key, "tensor_info_fields_are_unique");
  }
}

TEST(SafetensorsHostile, tensor_names_are_unique) {
  const auto a = tensor("a", R"("U8")", "[2]", "[0,2]");
  expect_refusal("{" + a + "," + tensor("b", R"("U8")", "[1]", "[2,3]") + "," +
                     tensor("a", R"("U8")", "[1]", "[3,4]") + "}",
                 ErrorCode::duplicate_tensor, "names_are_unique");
  expect_refusal("{" + a + "," + tensor("\\u0061", R"("U8")", "[2]", "[2,4]") + "}",
                 ErrorCode::duplicate_tensor, "names_are_unique");
}

TEST(SafetensorsHostile, metadata_occurs_once) {
  expect_refusal(R"({"__metadata__":{},"__metadata__":{}})", ErrorCode::duplicate_key, "metadata_occurs_once",
                 0);
}

TEST(SafetensorsHostile, metadata_is_an_object) {
  for (const auto* value : {"1", "\"x\"", "[]", "true"}) {
    expect_refusal(R"({"__metadata__":)" + std::string(value) + "}", ErrorCode::bad_header,
                   "metadata_is_an_object", 0);
  }
}

TEST(SafetensorsHostile, metadata_values_are_strings) {
  for (const auto* value : {"1", "null", "{}", "[\"x\"]", "false"}) {
    expect_refusal(R"({"__metadata__":{"a":)" + std::string(value) + "}}", ErrorCode::bad_header,
                   "metadata_values_are_strings", 0);
  }
}

TEST(SafetensorsHostile, metadata_keys_are_unique_in_the_header) {
  const auto file = safetensors_file(R"({"__metadata__":{"a":"1","\u0061":"2"}})");
  EXPECT_EQ(parse(file, file.size()).error().code(), ErrorCode::duplicate_key);
}

TEST(SafetensorsHostile, dtype_is_a_string) {
  for (const auto* dtype : {"1", "null", "[\"F32\"]", "{}"}) {
    expect_refusal(one(dtype, "[1]", "[0,4]"), ErrorCode::bad_dtype, "dtype_is_a_string");
  }
}

TEST(SafetensorsHostile, safetensors_dtype_is_known) {
  for (const auto* dtype :
       {"\"\"", "\"f32\"", "\"F32 \"", "\"I4\"", "\"U4\"", "\"C128\"", "\"Q4_K\"", "\"float32\""}) {
    expect_refusal(one(dtype, "[1]", "[0,4]"), ErrorCode::bad_dtype, "safetensors_dtype_is_known");
  }
}

TEST(SafetensorsHostile, shape_is_a_list_of_sizes) {
  for (const auto* shape : {"1", "null", "{}", "[1.0]", "[-1]", "[-0]", "[1e0]", "[01]", "[\"1\"]", "[[1]]",
                            "[null]", "[18446744073709551616]", "[1,]", "[,1]", "[0x1]", "[1 1]"}) {
    expect_refusal(one(R"("F32")", shape, "[0,4]"), ErrorCode::bad_shape, "shape_is_a_list_of_sizes");
  }
}

TEST(SafetensorsHostile, safetensors_rank_is_at_most_64) {
  for (const std::size_t rank : {65U, 1000U}) {
    for (const auto* dim : {"1", "0"}) {
      std::string shape = "[";
      for (std::size_t i = 0; i < rank; ++i) shape += (i == 0 ? "" : ",") + std::string(dim);
      expect_refusal(one(R"("F32")", shape + "]", "[0,4]"), ErrorCode::bad_shape,
                     "safetensors_rank_is_at_most_64");
    }
  }
}

TEST(SafetensorsHostile, safetensors_dims_fit_63_bits) {
  for (const auto* shape : {"[9223372036854775808]", "[0,18446744073709551615]"}) {
    expect_refusal(one(R"("F32")", shape, "[0,4]"), ErrorCode::size_overflow, "safetensors_dims_fit_63_bits");
  }
}

TEST(SafetensorsHostile, safetensors_size_fits_63_bits) {
  for (const auto* shape : {"[9223372036854775807]", "[4294967296,4294967296]", "[2305843009213693952]",
                            "[0,4611686018427387904,4611686018427387904]"}) {
    expect_refusal(one(R"("F32")", shape, "[0,4]"), ErrorCode::size_overflow,
                   "safetensors_size_fits_63_bits");
  }
}

TEST(SafetensorsHostile, data_offsets_are_a_pair) {
  for (const auto* offsets : {"4", "null", "[]", "[0]", "[0,4,4]", "[0.0,4]", "[0,-4]", "[\"0\",4]", "{}",
                              "[0,18446744073709551616]"}) {
    expect_refusal(one(R"("F32")", "[1]", offsets), ErrorCode::bad_offset, "data_offsets_are_a_pair");
  }
}

TEST(SafetensorsHostile, data_offsets_are_in_order) {
  expect_refusal(one(R"("F32")", "[1]", "[4,0]"), ErrorCode::bad_offset, "data_offsets_are_in_order");
}

TEST(SafetensorsHostile, data_offsets_fit_64_bits) {
  expect_refusal(one(R"("U8")", "[1]", "[18446744073709551614,18446744073709551615]"),
                 ErrorCode::size_overflow, "data_offsets_fit_64_bits");
}

TEST(SafetensorsHostile, data_offsets_span_the_tensor) {
  for (const auto* offsets : {"[0,0]", "[0,3]", "[0,5]", "[1,4]"}) {
    expect_refusal(one(R"("F32")", "[1]", offsets), ErrorCode::size_mismatch, "data_offsets_span_the_tensor");
  }
}

TEST(SafetensorsHostile, sub_byte_data_fills_whole_bytes) {
  expect_refusal(one(R"("F4")", "[3]", "[0,2]"), ErrorCode::misaligned, "sub_byte_data_fills_whole_bytes");
  expect_refusal(one(R"("F6_E2M3")", "[2]", "[0,2]"), ErrorCode::misaligned,
                 "sub_byte_data_fills_whole_bytes");
}

TEST(SafetensorsHostile, tensors_do_not_overlap) {
  const auto a = tensor("a", R"("U8")", "[3]", "[0,3]");
  expect_refusal("{" + a + "," + tensor("b", R"("U8")", "[2]", "[2,4]") + "}", ErrorCode::overlap,
                 "tensors_do_not_overlap");
  expect_refusal("{" + tensor("b", R"("U8")", "[2]", "[2,4]") + "," + a + "}", ErrorCode::overlap,
                 "tensors_do_not_overlap");
  expect_refusal("{" + a + "," + tensor("b", R"("U8")", "[3]", "[0,3]") + "}", ErrorCode::overlap,
                 "tensors_do_not_overlap");
  // An empty tensor inside another tensor overlaps it too.
  expect_refusal("{" + a + "," + tensor("b", R"("U8")", "[0]", "[1,1]") + "}", ErrorCode::overlap,
                 "tensors_do_not_overlap", 3);
}

TEST(SafetensorsHostile, tensors_leave_no_gap) {
  expect_refusal(one(R"("U8")", "[3]", "[1,4]"), ErrorCode::gap, "tensors_leave_no_gap");
  expect_refusal(
      "{" + tensor("a", R"("U8")", "[1]", "[0,1]") + "," + tensor("b", R"("U8")", "[2]", "[2,4]") + "}",
      ErrorCode::gap, "tensors_leave_no_gap");
}

TEST(SafetensorsHostile, nothing_follows_the_tensors) {
  expect_refusal(one(R"("U8")", "[3]", "[0,3]"), ErrorCode::trailing_bytes, "nothing_follows_the_tensors");
  expect_refusal("{}", ErrorCode::trailing_bytes, "nothing_follows_the_tensors", 1);
}

TEST(SafetensorsHostile, digits_after_the_header_are_not_part_of_it) {
  // The data continues the number at the end of a truncated header.
  std::vector<std::byte> file = safetensors_file(R"({"a":{"dtype":"U8","shape":[1)", 0);
  file.insert(file.end(), 300, std::byte{'1'});
  const auto error = parse(file, file.size()).error();
  EXPECT_EQ(error.rule(), "safetensors_header_is_json");
}

TEST(SafetensorsHostile, same_file_has_the_same_error_text) {
  const auto file = safetensors_file(one(R"("U8")", "[3]", "[1,4]"), 4);
  EXPECT_EQ(to_string(parse(file, file.size()).error()), to_string(parse(file, file.size()).error()));
}

}  // namespace
}  // namespace ht::format_safetensors::safetensors_hostile_test
