// Parsing uses at most 8 times the size of the input plus 1 MiB of memory, for any input: a file of a few MiB
// must not fill the memory of a machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <htensor/format/format.hpp>
#include <string>

#include "format/shards/shard_index.hpp"
#include "testing/allocations.hpp"

namespace ht::memory_test {
namespace {

constexpr std::size_t file_bytes = std::size_t{2} << 20;

/// Joins `make(i)` for i = 0, 1, 2, … until the text has at least `file_bytes`.
template <class Make>
std::string repeated(Make make) {
  std::string text;
  text.reserve(file_bytes + (std::size_t{1} << 16));
  for (std::size_t i = 0; text.size() < file_bytes; ++i) text += make(i);
  return text;
}

std::string copies_of(std::string_view piece) {
  return repeated([&](std::size_t) { return piece; });
}

/// Returns a distinct name for each number, with as few letters as possible.
std::string short_name(std::size_t number) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  std::string name;
  for (;; number /= letters.size()) {
    name += letters[number % letters.size()];
    if (number < letters.size()) return name;
  }
}

template <class T>
std::string le(T value) {
  std::string bytes(sizeof(T), '\0');
  store_le(std::as_writable_bytes(std::span(bytes)), value);
  return bytes;
}

void expect_bounded(std::size_t input, const std::function<void()>& parse) {
  const testing::PeakMemory peak;
  parse();
  const std::size_t bytes = peak.bytes();
  EXPECT_LE(bytes, 8 * input + (std::size_t{1} << 20))
      << static_cast<double>(bytes) / static_cast<double>(input) << " times the input";
}

/// Also checks that the parser refuses the file by this rule, or accepts it if `rule` is empty.
void expect_bounded(std::string_view format_name, const std::string& file, std::string_view rule) {
  const auto* const format = find_format(format_name);
  ASSERT_NE(format, nullptr);
  expect_bounded(file.size(), [&] {
    const auto parsed = format->parse(bytes_of(file), file.size(), ParseOptions{});
    EXPECT_EQ(parsed ? "" : parsed.error().rule(), rule);
    EXPECT_TRUE(!parsed || std::holds_alternative<Catalog>(*parsed));
  });
}

std::string safetensors(const std::string& json) {
  return le(static_cast<std::uint64_t>(json.size())) + json;
}

TEST(SafetensorsMemory, is_bounded_for_a_shape_with_too_many_dimensions) {
  const std::string start = R"({"a\\\"[":{"dtype":"U8","data_offsets":[0,0],"shape":[)";
  for (const std::string_view space : {"", " "}) {
    for (const std::string_view dim : {"0,", "1,", " 1 ,"}) {
      const auto file = safetensors(std::string(space) + start + copies_of(dim) + "0]}}");
      const testing::PeakMemory peak;
      const auto parsed = find_format("safetensors")->parse(bytes_of(file), file.size(), ParseOptions{});
      EXPECT_LE(peak.bytes(), file.size() * 3 / 2);
      ASSERT_FALSE(parsed);
      EXPECT_EQ(parsed.error().rule(), "safetensors_rank_is_at_most_64");
    }
  }
}

TEST(SafetensorsMemory, is_bounded_for_many_shapes_of_the_largest_rank) {
  std::string shape = "0";
  for (int i = 1; i < 64; ++i) shape += ",0";
  expect_bounded("safetensors",
                 safetensors("{" + repeated([&](std::size_t i) {
                               return '"' + short_name(i) +
                                      R"(":{"dtype":"U8","data_offsets":[0,0],"shape":[)" + shape + "]},";
                             }) +
                             R"("the last":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
                 "");
}

TEST(SafetensorsMemory, is_bounded_for_many_tensors) {
  expect_bounded("safetensors",
                 safetensors("{" + repeated([](std::size_t i) {
                               return '"' + short_name(i) +
                                      R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)";
                             }) +
                             R"("the last":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
                 "");
}

TEST(SafetensorsMemory, is_bounded_for_many_short_metadata_values) {
  expect_bounded("safetensors",
                 safetensors(R"({"__metadata__":{)" +
                             repeated([](std::size_t i) { return '"' + short_name(i) + R"(":"",)"; }) +
                             R"("the last":""}})"),
                 "");
}

TEST(SafetensorsMemory, is_bounded_for_one_repeated_key) {
  expect_bounded("safetensors", safetensors(R"({"__metadata__":{)" + copies_of(R"("":"",)") + R"("":""}})"),
                 "metadata_keys_are_unique");
}

TEST(SafetensorsMemory, is_bounded_for_one_long_string) {
  expect_bounded("safetensors", safetensors(R"({"__metadata__":{"a":")" + copies_of("x") + R"("}})"), "");
  expect_bounded("safetensors", safetensors(R"({"__metadata__":{"a":")" + copies_of(R"(\n)") + R"("}})"), "");
}

TEST(SafetensorsMemory, is_bounded_for_a_long_name_without_a_tensor) {
  expect_bounded("safetensors", safetensors("{\"" + copies_of("x") + "\":5}"), "tensor_info_is_an_object");
}

TEST(SafetensorsMemory, is_bounded_for_ignored_fields) {
  for (const std::string_view element : {"[],", "0,"}) {
    expect_bounded("safetensors",
                   safetensors(R"({"a":{"dtype":"U8","data_offsets":[0,0],"shape":[0],"more":[)" +
                               copies_of(element) + "0]}}"),
                   "");
  }
}

// The limit of 64 dimensions is for the field `shape` of a tensor only.
TEST(SafetensorsMemory, long_arrays_named_shape_are_accepted_in_ignored_fields) {
  const std::string zeros = copies_of("0,") + "0]";
  for (const std::string& field :
       {R"("more":{"shape":[)" + zeros + "}", R"("more":["shape",[)" + zeros + "]"}) {
    const auto file = safetensors(R"({"a":{"dtype":"U8","data_offsets":[0,0],"shape":[0],)" + field + "}}");
    const auto parsed = find_format("safetensors")->parse(bytes_of(file), file.size(), ParseOptions{});
    ASSERT_TRUE(parsed) << to_string(parsed.error());
  }
}

std::string gguf(std::uint64_t tensors, std::uint64_t values, const std::string& rest) {
  return "GGUF" + le(std::uint32_t{3}) + le(tensors) + le(values) + rest;
}

std::string text(std::string_view words) {
  return le(static_cast<std::uint64_t>(words.size())) + std::string(words);
}

TEST(GgufMemory, is_bounded_for_many_short_values) {
  std::uint64_t count = 0;
  const auto pairs = repeated([&](std::size_t i) {
    ++count;
    return text(short_name(i)) + le(std::uint32_t{0}) + "x";
  });
  expect_bounded("gguf", gguf(0, count, pairs), "");
}

TEST(GgufMemory, is_bounded_for_one_repeated_key) {
  std::uint64_t count = 0;
  const auto pairs = repeated([&](std::size_t) {
    ++count;
    return text("k") + le(std::uint32_t{0}) + "x";
  });
  expect_bounded("gguf", gguf(0, count, pairs), "metadata_keys_are_unique");
}

TEST(GgufMemory, is_bounded_for_arrays_in_an_array) {
  std::uint64_t count = 0;
  const auto arrays = repeated([&](std::size_t) {
    ++count;
    return le(std::uint32_t{0}) + le(std::uint64_t{0});
  });
  expect_bounded(
      "gguf", gguf(0, 1, text("k") + le(std::uint32_t{9}) + le(std::uint32_t{9}) + le(count) + arrays), "");
}

TEST(GgufMemory, is_bounded_for_many_tensors) {
  std::uint64_t count = 0;
  const auto rows = repeated([&](std::size_t i) {
    ++count;
    const std::string dims = le(std::uint32_t{1}) + le(std::int64_t{0});
    return text(short_name(i)) + dims + le(std::uint32_t{0}) + le(std::uint64_t{0});
  });
  expect_bounded("gguf", gguf(count, 0, rows + std::string(32, '\0')), "");
}

/// Returns an archive with one header, these entries and their metadata, without storage.
std::string irpa(std::uint64_t count, const std::string& entries, const std::string& metadata) {
  constexpr std::uint64_t header_bytes = 88;
  const auto size_of = [](const std::string& part) { return static_cast<std::uint64_t>(part.size()); };
  return "IRPA" + le(std::uint16_t{0}) + le(std::uint16_t{0}) + le(header_bytes) + le(std::uint64_t{0}) +
         le(std::uint64_t{0}) + le(count) + le(header_bytes) + le(size_of(entries)) +
         le(header_bytes + entries.size()) + le(size_of(metadata)) + le(std::uint64_t{0}) +
         le(std::uint64_t{0}) + entries + metadata;
}

TEST(IrpaMemory, is_bounded_for_many_entries_in_many_files) {
  std::uint64_t count = 0;
  std::string metadata;
  const auto entries = repeated([&](std::size_t i) {
    ++count;
    const auto name = short_name(i);
    const auto offset = static_cast<std::uint64_t>(metadata.size());
    const auto bytes = static_cast<std::uint64_t>(name.size());
    // The name of the entry is also the path of its external file.
    metadata += name;
    // Size, kind, flags, name, empty metadata and alignment. Then path, offset and length of the external
    // data, and padding to a multiple of 16.
    const std::string head = le(std::uint64_t{92}) + le(std::uint32_t{3}) + le(std::uint64_t{0}) +
                             le(offset) + le(bytes) + le(std::uint64_t{0}) + le(std::uint64_t{0}) +
                             le(std::uint64_t{0});
    return head + le(offset) + le(bytes) + le(std::uint64_t{0}) + le(std::uint64_t{1}) + le(std::uint32_t{0});
  });
  expect_bounded("irpa", irpa(count, entries, metadata), "");
}

TEST(NpyMemory, is_bounded_for_a_header_of_spaces) {
  const std::string spaces((std::size_t{1} << 20) - 100, ' ');
  const std::string dict = "{'descr': '|u1', 'fortran_order': False, 'shape': (0,), }" + spaces + "\n";
  expect_bounded(
      "npy", "\x93NUMPY\x02" + std::string(1, '\0') + le(static_cast<std::uint32_t>(dict.size())) + dict, "");
}

void expect_bounded_index(const std::string& text, std::string_view rule) {
  expect_bounded(text.size(), [&] {
    const auto index = parse_shard_index(bytes_of(text));
    EXPECT_EQ(index ? "" : index.error().rule(), rule);
  });
}

TEST(ShardIndexMemory, is_bounded_for_many_tensors_in_two_files) {
  expect_bounded_index(R"({"weight_map":{)" + repeated([](std::size_t i) {
                         return '"' + short_name(i) + (i % 2 == 0 ? R"(":"a",)" : R"(":"b",)");
                       }) + R"("the last":"a"}})",
                       "");
}

TEST(ShardIndexMemory, is_bounded_for_one_repeated_tensor) {
  expect_bounded_index(R"({"weight_map":{)" + copies_of(R"("":"a","":"b",)") + R"("":"a"}})",
                       "weight_map_names_are_unique");
}

TEST(ShardIndexMemory, is_bounded_for_many_files) {
  expect_bounded_index(R"({"weight_map":{)" + repeated([](std::size_t i) {
                         const auto name = short_name(i);
                         return '"' + name + "\":\"" + name + "\",";
                       }) + R"("the last":"a"}})",
                       "");
}

}  // namespace
}  // namespace ht::memory_test
