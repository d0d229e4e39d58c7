#include "cli/print/metadata_text.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <htensor/base/bytes.hpp>
#include <limits>
#include <vector>

namespace ht::cli::metadata_text_test {
namespace {

template <class T>
std::vector<std::byte> stored(T value) {
  std::vector<std::byte> bytes(sizeof(T));
  store_le(MutableBytes(bytes), value);
  return bytes;
}

std::vector<std::byte> stored_text(std::string_view text) {
  // Allocated in its final size: g++ 12 warns about vectors of a known size that grow.
  std::vector<std::byte> bytes(sizeof(std::uint64_t) + text.size());
  store_le(MutableBytes(bytes), static_cast<std::uint64_t>(text.size()));
  std::ranges::copy(bytes_of(text), bytes.begin() + sizeof(std::uint64_t));
  return bytes;
}

std::vector<std::byte> stored_array(MetaType type, const std::vector<std::vector<std::byte>>& elements) {
  auto bytes = stored(static_cast<std::uint32_t>(type));
  const auto count = stored<std::uint64_t>(elements.size());
  bytes.insert(bytes.end(), count.begin(), count.end());
  for (const auto& element : elements) bytes.insert(bytes.end(), element.begin(), element.end());
  return bytes;
}

template <class T>
std::string json(const T& value) {
  std::string out;
  OutputBuffer buffer(out);
  append_json(buffer, value);
  buffer.flush();
  return out;
}

std::string json(MetaType type, const std::vector<std::byte>& bytes) { return json(MetaValue(type, bytes)); }

std::string text(MetaType type, const std::vector<std::byte>& bytes) {
  return value_text(MetaValue(type, bytes));
}

template <class T>
std::vector<std::byte> stored_real(T value) {
  return stored(std::bit_cast<std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>(value));
}

TEST(MetadataText, numbers_are_numbers_in_json) {
  EXPECT_EQ(json(MetaType::u64, stored<std::uint64_t>(UINT64_MAX)), "18446744073709551615");
  EXPECT_EQ(json(MetaType::i8, stored<std::int8_t>(-128)), "-128");
  EXPECT_EQ(json(MetaType::i64, stored<std::int64_t>(INT64_MIN)), "-9223372036854775808");
  EXPECT_EQ(json(MetaType::boolean, stored<std::uint8_t>(1)), "true");
  EXPECT_EQ(json(MetaType::f32, stored_real(0.1F)), "0.1");
  EXPECT_EQ(json(MetaType::f64, stored_real(0.1)), "0.1");
  EXPECT_EQ(json(MetaType::f64, stored_real(static_cast<double>(0.1F))), "0.10000000149011612");
  EXPECT_EQ(json(MetaType::f32, stored_real(-0.0F)), "-0.0");
}

TEST(MetadataText, nan_and_infinities_are_strings_in_json) {
  EXPECT_EQ(json(MetaType::f32, stored_real(std::nanf(""))), R"("NaN")");
  EXPECT_EQ(json(MetaType::f64, stored_real(std::numeric_limits<double>::infinity())), R"("Infinity")");
  EXPECT_EQ(json(MetaType::f32, stored_real(-std::numeric_limits<float>::infinity())), R"("-Infinity")");
  EXPECT_EQ(text(MetaType::f32, stored_real(std::nanf(""))), "NaN");
}

TEST(MetadataText, texts_are_utf8_in_json) {
  EXPECT_EQ(json(MetaType::string, stored_text("a\xFF\"\n")), "\"a\xEF\xBF\xBD\\\"\\n\"");
}

TEST(MetadataText, arrays_nest) {
  const auto inner = stored_array(MetaType::u8, {stored<std::uint8_t>(1), stored<std::uint8_t>(2)});
  const auto empty = stored_array(MetaType::string, {});
  EXPECT_EQ(json(MetaType::array, stored_array(MetaType::array, {inner, empty, inner})), "[[1,2],[],[1,2]]");
  EXPECT_EQ(json(MetaType::array, stored_array(MetaType::string, {stored_text("a"), stored_text("")})),
            R"(["a",""])");
  EXPECT_EQ(text(MetaType::array, inner), "[1, 2]");
  EXPECT_EQ(text(MetaType::array, stored_array(MetaType::array, {inner})), "[array x 1]");
  EXPECT_EQ(text(MetaType::array, stored_array(MetaType::f32, std::vector(9, stored_real(1.0F)))),
            "[f32 x 9]");
  EXPECT_EQ(text(MetaType::array, stored_array(MetaType::string, std::vector(3, stored_text("x")))),
            "[string x 3]");
}

TEST(MetadataText, long_texts_are_cut_between_characters) {
  EXPECT_EQ(text(MetaType::string, stored_text("short")), "short");
  std::string wide;
  for (int i = 0; i < 1000; ++i) wide += "\xE2\x82\xAC";
  const auto shown = text(MetaType::string, stored_text(wide));
  EXPECT_EQ(shown, wide.substr(0, 180) + "… (3000 bytes)");
  EXPECT_EQ(text(MetaType::string, stored_text(std::string(60, 'x'))), std::string(60, 'x'));
  EXPECT_EQ(text(MetaType::string, stored_text(std::string(61, 'x'))), std::string(60, 'x') + "… (61 bytes)");
}

std::string lines(const Metadata& metadata, bool whole) {
  std::string text;
  {
    OutputBuffer out(text);
    append_lines(out, metadata, whole);
  }
  return text;
}

TEST(MetadataText, whole_values_are_not_cut) {
  Metadata metadata;
  EXPECT_TRUE(metadata.add("long", std::string(100, 'x') + "\n"));
  EXPECT_TRUE(
      metadata.add("", MetaValue(MetaType::array, stored_array(MetaType::string, {stored_text("a")}))));
  EXPECT_TRUE(metadata.add("nan", std::nan("")));
  EXPECT_EQ(lines(metadata, true), "long = " + std::string(100, 'x') + "\\n\n'' = [\"a\"]\nnan = NaN\n\n");
  EXPECT_EQ(lines(Metadata(), true), "");
}

TEST(MetadataText, padding_is_not_shown) {
  Metadata metadata;
  EXPECT_TRUE(metadata.add("htensor.pad", "   "));
  EXPECT_EQ(json(metadata), "{}");
  EXPECT_EQ(lines(metadata, false) + lines(metadata, true) + aligned_text(metadata), "");
  // A text under this key that is not padding belongs to a user.
  Metadata of_user;
  EXPECT_TRUE(of_user.add("htensor.pad", "mine"));
  EXPECT_NE(aligned_text(of_user).find("mine"), std::string::npos);
}

TEST(MetadataText, very_many_keys_are_counted) {
  Metadata metadata;
  for (int i = 0; i < 150; ++i) EXPECT_TRUE(metadata.add("k" + std::to_string(i), "v"));
  const auto shown = lines(metadata, false);
  EXPECT_TRUE(shown.starts_with("k0 = v\nk1 = v\n"));
  EXPECT_TRUE(shown.ends_with("k99 = v\n… and 50 more keys\n\n"));
  EXPECT_TRUE(lines(metadata, true).ends_with("k149 = v\n\n"));
  EXPECT_TRUE(json(metadata).ends_with(R"("k149":"v"})"));
}

}  // namespace
}  // namespace ht::cli::metadata_text_test
