#include "format/shards/shard_index.hpp"

#include <gtest/gtest.h>

namespace ht::shard_index_test {
namespace {

void expect_refusal(std::string_view text, ErrorCode code, std::string_view rule) {
  const auto index = parse_shard_index(bytes_of(text));
  ASSERT_FALSE(index) << text;
  EXPECT_EQ(index.error().code(), code) << to_string(index.error());
  EXPECT_EQ(index.error().rule(), rule) << text;
  EXPECT_FALSE(index.error().hint().empty());
}

TEST(ShardIndex, names_each_tensor_and_its_file) {
  const auto index = parse_shard_index(bytes_of(
      R"({"metadata":{"total_size":12,"x":[1]},"weight_map":{"b":"2.safetensors","a":"1.safetensors","c":"2.safetensors"},"more":{}})"));
  ASSERT_TRUE(index) << to_string(index.error());
  ASSERT_TRUE(*index);
  const ShardIndex& read = **index;
  EXPECT_EQ(read.files, (std::vector<std::string>{"1.safetensors", "2.safetensors"}));
  ASSERT_EQ(read.tensors.size(), 3U);
  EXPECT_EQ(read.tensors[0], "b");
  EXPECT_EQ(read.file_of, (std::vector<std::uint32_t>{1, 0, 1}));
  EXPECT_EQ(read.tensors.find("c"), 2U);
}

TEST(ShardIndex, json_without_a_weight_map_is_not_an_index) {
  EXPECT_FALSE(parse_shard_index(bytes_of("{}"))->has_value());
  EXPECT_FALSE(
      parse_shard_index(bytes_of(R"({"architectures":["LlamaForCausalLM"],"metadata":1})"))->has_value());
}

TEST(ShardIndex, index_is_json) {
  for (const auto* text : {"", "{", R"({"weight_map":{"a":"b"})", R"({"weight_map":{"a":"b"}} x)",
                           R"({"x":01,"weight_map":{}})"}) {
    expect_refusal(text, ErrorCode::bad_header, "index_is_json");
  }
}

TEST(ShardIndex, weight_map_is_an_object) {
  expect_refusal(R"({"weight_map":[]})", ErrorCode::bad_header, "weight_map_is_an_object");
}

TEST(ShardIndex, weight_map_occurs_once) {
  expect_refusal(R"({"weight_map":{},"weight_map":{}})", ErrorCode::duplicate_key, "weight_map_occurs_once");
}

TEST(ShardIndex, weight_map_names_files) {
  for (const auto* value : {"1", "null", "{}", "[\"a\"]"}) {
    expect_refusal(R"({"weight_map":{"t":)" + std::string(value) + "}}", ErrorCode::bad_header,
                   "weight_map_names_files");
  }
}

TEST(ShardIndex, weight_map_names_are_unique) {
  expect_refusal(R"({"weight_map":{"t":"a","u":"a","\u0074":"b"}})", ErrorCode::duplicate_key,
                 "weight_map_names_are_unique");
}

TEST(ShardIndex, shard_path_stays_in_the_folder) {
  for (const auto* path :
       {"", "/etc/passwd", "../model.safetensors", "a/../../b", "..", "a\\\\b", "a\\u0000b"}) {
    expect_refusal(R"({"weight_map":{"t":")" + std::string(path) + "\"}}", ErrorCode::path_escapes,
                   "shard_path_stays_in_the_folder");
  }
}

TEST(ShardIndex, begins_with_a_brace) {
  EXPECT_TRUE(may_be_shard_index(bytes_of(" \n{")));
  EXPECT_FALSE(may_be_shard_index(bytes_of("[]")));
  EXPECT_FALSE(may_be_shard_index(bytes_of("   ")));
  EXPECT_FALSE(may_be_shard_index({}));
}

}  // namespace
}  // namespace ht::shard_index_test
