#include <gtest/gtest.h>

#include <array>
#include <string>

#include "format/gguf/gguf_test_file.hpp"
#include "format/test_same_tensors.hpp"
#include "testing/library_types.hpp"

namespace ht::format_gguf::gguf_test {
namespace {

using testing::all_values;
using testing::GgufFile;
using testing::parse_gguf;

constexpr std::array orders{std::endian::little, std::endian::big};

constexpr std::uint32_t f32 = 0;
constexpr std::uint32_t f16 = 1;
constexpr std::uint32_t q4_0 = 2;
constexpr std::uint32_t i8 = 24;

MetaValue::Array array_of(const Catalog& catalog, std::string_view key) {
  return catalog.metadata().find(key)->array().value();
}

std::vector<std::int64_t> dims_of(const Entry& entry) { return {entry.dims.begin(), entry.dims.end()}; }

TEST(Gguf, values_of_every_type_are_read_in_both_byte_orders) {
  for (const auto order : orders) {
    const auto catalog = parse_gguf(all_values(order));
    ASSERT_TRUE(catalog) << to_string(catalog.error());
    const Metadata& metadata = catalog->metadata();
    EXPECT_EQ(metadata.find("u8")->unsigned_integer(), 200U);
    EXPECT_EQ(metadata.find("i8")->integer(), -100);
    EXPECT_EQ(metadata.find("u16")->unsigned_integer(), 60'000U);
    EXPECT_EQ(metadata.find("i16")->integer(), -30'000);
    EXPECT_EQ(metadata.find("u32")->unsigned_integer(), 4'000'000'000U);
    EXPECT_EQ(metadata.find("i32")->integer(), -7);
    EXPECT_EQ(metadata.find("f32")->real(), 1.5);
    EXPECT_EQ(metadata.find("bool")->boolean(), true);
    EXPECT_EQ(metadata.find("string")->text(), "any \xFF bytes");
    EXPECT_EQ(metadata.find("u64")->unsigned_integer(), UINT64_MAX);
    EXPECT_EQ(metadata.find("i64")->integer(), INT64_MIN);
    EXPECT_EQ(metadata.find("f64")->real(), -2.5);
    EXPECT_EQ(metadata[14].key, "nested");
  }
}

TEST(Gguf, arrays_are_read_in_both_byte_orders) {
  for (const auto order : orders) {
    const auto catalog = parse_gguf(all_values(order)).value();
    std::vector<std::int64_t> numbers;
    for (const auto& value : array_of(catalog, "numbers")) numbers.push_back(*value.integer());
    EXPECT_EQ(numbers, (std::vector<std::int64_t>{1, -2, 3}));
    std::vector<std::string> strings;
    for (const auto& value : array_of(catalog, "strings")) strings.emplace_back(*value.text());
    EXPECT_EQ(strings, (std::vector<std::string>{"a", "", "long"}));
    auto nested = array_of(catalog, "nested").begin();
    EXPECT_EQ((*(*nested).array()->begin()).unsigned_integer(), 5U);
    ++nested;
    EXPECT_EQ((*(*nested).array()->begin()).text(), "in");
    ++nested;
    EXPECT_EQ((*(*nested).array()->begin()).array()->element_type(), MetaType::boolean);
  }
}

TEST(Gguf, both_byte_orders_have_the_same_metadata) {
  const auto little = parse_gguf(all_values(std::endian::little)).value();
  const auto big = parse_gguf(all_values(std::endian::big)).value();
  EXPECT_EQ(little.metadata(), big.metadata());
}

TEST(Gguf, versions_2_and_3_are_read_in_both_byte_orders) {
  for (const auto order : orders) {
    for (const std::uint32_t version : {2U, 3U}) {
      GgufFile file(order);
      file.header(2, 0, version).tensor("a", {2, 3}, f32, 0).tensor("b", {32, 5}, q4_0, 32);
      const std::uint64_t data = file.pad().size();
      const auto catalog = parse_gguf(file.zeros(32 + 96));
      ASSERT_TRUE(catalog) << to_string(catalog.error());
      EXPECT_EQ(catalog->format(), "gguf");
      const Entry a = (*catalog)[0];
      EXPECT_EQ(a.name, "a");
      EXPECT_EQ(a.dtype, F32::tag);
      EXPECT_EQ(a.encoding, EncodingTag::dense);
      EXPECT_EQ(dims_of(a), (std::vector<std::int64_t>{3, 2}));
      EXPECT_EQ(a.offset, data);
      EXPECT_EQ(a.bytes, 24U);
      const Entry b = (*catalog)[1];
      EXPECT_EQ(b.dtype, DTypeTag::invalid);
      EXPECT_EQ(find_encoding(b.encoding)->name, "Q4_0");
      EXPECT_EQ(dims_of(b), (std::vector<std::int64_t>{5, 32}));
      EXPECT_EQ(b.offset, data + 32);
      EXPECT_EQ(b.bytes, 90U);
      const auto expected = order == std::endian::big ? ByteOrder::big : ByteOrder::little;
      EXPECT_EQ(a.byte_order, expected);
      EXPECT_EQ(b.byte_order, expected);
    }
  }
}

TEST(Gguf, every_ggml_type_is_read_and_written) {
  struct Type {
    std::uint32_t id;
    std::string_view name;
  };
  std::vector<Type> types{{f32, "F32"}, {f16, "F16"}, {i8, "I8"},  {25, "I16"},
                          {26, "I32"},  {27, "I64"},  {28, "F64"}, {30, "BF16"}};
  for (const auto& encoding : library_encodings()) {
    types.push_back({static_cast<std::uint32_t>(encoding.tag), encoding.name});
  }
  EXPECT_EQ(types.size(), 35U);
  for (const auto& [id, name] : types) {
    GgufFile file;
    const auto catalog = parse_gguf(file.header(1, 0).tensor("t", {256, 2}, id, 0).pad().zeros(8192));
    ASSERT_TRUE(catalog) << name;
    const Entry entry = (*catalog)[0];
    if (const auto encoding = find_encoding(entry.encoding)) {
      EXPECT_EQ(encoding->name, name);
      EXPECT_EQ(entry.bytes, 512 / encoding->block_elements * encoding->block_bytes);
    } else {
      const auto dtype = find_dtype(entry.dtype).value();
      EXPECT_EQ(dtype.name, name);
      EXPECT_EQ(entry.bytes, 512U * static_cast<unsigned>(dtype.bits) / 8);
    }
    const auto encoded = encode(*catalog, {}).value();
    EXPECT_TRUE(std::ranges::equal(encoded.header, Bytes(file.bytes()).first(encoded.header.size()))) << name;
  }
}

TEST(Gguf, ranks_0_to_4_are_read_outermost_first) {
  std::vector<std::int64_t> in_file;
  std::vector<std::int64_t> expected;
  for (std::int64_t rank = 0; rank <= 4; ++rank) {
    GgufFile file;
    const auto catalog = parse_gguf(file.header(1, 0).tensor("t", in_file, i8, 0).pad().zeros(128));
    ASSERT_TRUE(catalog);
    EXPECT_EQ(dims_of((*catalog)[0]), expected);
    in_file.push_back(rank + 1);
    expected.insert(expected.begin(), rank + 1);
  }
}

TEST(Gguf, tensors_without_elements_take_no_space) {
  GgufFile file;
  file.header(3, 0).tensor("a", {7, 0}, f32, 0).tensor("b", {0, 256}, q4_0, 0).tensor("c", {1}, f32, 0);
  const std::uint64_t data = file.pad().size();
  const auto catalog = parse_gguf(file.zeros(32)).value();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(catalog[i].offset, data);
  EXPECT_EQ(catalog[1].bytes, 0U);
}

TEST(Gguf, alignment_is_read_from_the_metadata) {
  for (const std::uint32_t alignment : {1U, 8U, 4096U}) {
    GgufFile file;
    file.header(2, 1).pair("general.alignment", MetaType::u32, alignment);
    const std::uint64_t second = std::max(alignment, 4U);
    file.tensor("a", {1}, f32, 0).tensor("b", {1}, f32, second);
    const std::uint64_t data = file.pad(alignment).size();
    const auto catalog = parse_gguf(file.zeros(2 * second));
    ASSERT_TRUE(catalog) << to_string(catalog.error());
    EXPECT_EQ((*catalog)[0].offset, data);
    EXPECT_EQ((*catalog)[1].offset, data + second);
  }
}

TEST(Gguf, file_without_tensors_ends_after_the_metadata) {
  GgufFile file;
  file.header(0, 1).pair("k", MetaType::u8, std::uint8_t{1});
  ASSERT_NE(file.size() % 32, 0U);
  const auto catalog = parse_gguf(file);
  ASSERT_TRUE(catalog);
  EXPECT_TRUE(catalog->empty());
  EXPECT_EQ(encode(*catalog, {})->header, file.bytes());
  EXPECT_EQ(encode(*catalog, {})->file_bytes, file.size());
}

TEST(Gguf, bytes_after_the_data_are_ignored) {
  auto file = all_values(std::endian::little);
  EXPECT_TRUE(parse_gguf(file.zeros(1000)));
}

TEST(Gguf, names_longer_than_the_ggml_limit_are_read) {
  GgufFile file;
  const std::string name(500, 'n');
  const auto catalog = parse_gguf(file.header(1, 0).tensor(name, {1}, f32, 0).pad().zeros(32));
  ASSERT_TRUE(catalog);
  EXPECT_EQ(catalog->find(name), 0U);
}

/// Parses a file and passes the bytes that the parser requests. Adds the requested sizes to `needs`.
Result<Catalog> parse_on_request(const GgufFile& file, std::vector<std::uint64_t>& needs) {
  std::vector<std::byte> prefix;
  while (true) {
    auto parsed = parse(prefix, file.size());
    if (!parsed) return fail(parsed.error());
    if (auto* catalog = std::get_if<Catalog>(&*parsed)) return std::move(*catalog);
    const Need need = std::get<Need>(*parsed);
    EXPECT_EQ(need.offset, 0U);
    EXPECT_GT(need.bytes, prefix.size());
    EXPECT_LE(need.bytes, file.size());
    needs.push_back(need.bytes);
    prefix.assign(file.bytes().begin(), file.bytes().begin() + static_cast<std::ptrdiff_t>(need.bytes));
  }
}

bool is_part_of(Bytes whole, Bytes part) {
  return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}

TEST(Gguf, large_values_refer_to_the_memory_of_an_owner) {
  const std::string large(5'000, 'x');
  for (const auto order : {std::endian::little, std::endian::big}) {
    testing::GgufFile file(order);
    file.header(0, 3).key("large", MetaType::string).text(large);
    file.key("small", MetaType::string).text("few").pair("last", MetaType::u32, 7U);
    auto owner = std::make_shared<std::vector<std::byte>>(file.bytes());
    const Bytes bytes = *owner;
    const auto parsed = format_gguf::parse(FileParts(bytes, {}, std::move(owner)), bytes.size());
    ASSERT_TRUE(parsed) << to_string(parsed.error());
    const auto& metadata = std::get<Catalog>(*parsed).metadata();
    EXPECT_EQ(metadata, testing::parse_gguf(file)->metadata());
    const auto value = metadata.find("large").value();
    EXPECT_EQ(value.text(), large);
    EXPECT_EQ(is_part_of(bytes, value.bytes()), order == std::endian::little);
    EXPECT_FALSE(is_part_of(bytes, metadata.find("small")->bytes()));
  }
}

TEST(Gguf, small_files_are_requested_completely) {
  std::vector<std::uint64_t> needs;
  const auto file = all_values(std::endian::big);
  const auto catalog = parse_on_request(file, needs);
  ASSERT_TRUE(catalog);
  EXPECT_EQ(needs, std::vector<std::uint64_t>{file.size()});
}

TEST(Gguf, any_prefix_leads_to_the_same_catalog) {
  for (const auto order : orders) {
    auto file = all_values(order);
    const auto whole = parse_gguf(file).value();
    for (std::size_t size = 0; size < file.size(); ++size) {
      const std::vector<std::byte> prefix(file.bytes().begin(),
                                          file.bytes().begin() + static_cast<std::ptrdiff_t>(size));
      const auto parsed = parse(prefix, file.size());
      ASSERT_TRUE(parsed) << size << to_string(parsed.error());
      if (const auto* need = std::get_if<Need>(&*parsed)) {
        EXPECT_EQ(need->bytes, file.size());
      } else {
        EXPECT_TRUE(testing::same_tensors(std::get<Catalog>(*parsed), whole));
      }
    }
  }
}

TEST(Gguf, arrays_of_numbers_are_requested_at_once) {
  GgufFile file;
  file.header(0, 1).key("a", MetaType::array).array(MetaType::f32, 1'000'000).zeros(4'000'000);
  std::vector<std::uint64_t> needs;
  ASSERT_TRUE(parse_on_request(file, needs));
  EXPECT_EQ(needs, (std::vector<std::uint64_t>{64 * 1024, file.size()}));
}

TEST(Gguf, vocabularies_and_tables_are_requested_in_few_rounds) {
  GgufFile file;
  constexpr int tensors = 20'000;
  file.header(tensors, 1).key("tokens", MetaType::array).array(MetaType::string, 150'000);
  for (int i = 0; i < 150'000; ++i) file.text("token" + std::to_string(i));
  for (int i = 0; i < tensors; ++i) file.tensor("tensor" + std::to_string(i), {0}, f32, 0);
  std::vector<std::uint64_t> needs;
  const auto catalog = parse_on_request(file.pad(), needs);
  ASSERT_TRUE(catalog);
  EXPECT_EQ(catalog->size(), 20'000U);
  EXPECT_LE(needs.size(), 4U);
}

TEST(Gguf, vocabulary_with_types_and_merges_is_requested_at_once) {
  GgufFile file;
  constexpr int tokens = 20'000;
  file.header(1, 3).key("tokens", MetaType::array).array(MetaType::string, tokens);
  for (int i = 0; i < tokens; ++i) file.text("t" + std::to_string(i));
  file.key("types", MetaType::array).array(MetaType::i32, tokens).zeros(4 * tokens);
  file.key("merges", MetaType::array).array(MetaType::string, tokens);
  for (int i = 0; i < tokens; ++i) file.text("t" + std::to_string(i) + " t");
  file.tensor("t", {1'000'000}, f32, 0);
  const std::uint64_t header_bytes = file.size();
  file.pad().zeros(4'000'000);
  std::vector<std::uint64_t> needs;
  ASSERT_TRUE(parse_on_request(file, needs));
  ASSERT_EQ(needs.size(), 2U);
  EXPECT_EQ(needs[0], 64U * 1024);
  EXPECT_LE(needs[1], 2 * header_bytes);
}

TEST(Gguf, array_count_requests_at_most_64_mib) {
  GgufFile file;
  file.header(0, 1).key("tokens", MetaType::array).array(MetaType::string, 100'000'000);
  file.zeros(100'000);
  const auto parsed = parse(file.bytes(), std::uint64_t{1} << 40);
  ASSERT_TRUE(parsed);
  EXPECT_LE(std::get<Need>(*parsed).bytes, (64U << 20) + file.size());
}

}  // namespace
}  // namespace ht::format_gguf::gguf_test
