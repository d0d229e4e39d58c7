#include <gtest/gtest.h>

#include <htensor/format/format.hpp>

#include "format/ht/ht.hpp"

namespace ht::parse_test {
namespace {

TEST(Parse, file_is_not_empty) {
  const auto parsed = parse({}, 0);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code(), ErrorCode::bad_magic);
  EXPECT_EQ(parsed.error().rule(), "file_is_not_empty");
  EXPECT_FALSE(parsed.error().hint().empty());
}

TEST(Parse, format_is_known) {
  for (const std::string_view text : {"GARBAGE!\1more", "H", "\1", "HTENSOR!\1"}) {
    const auto parsed = parse(bytes_of(text), text.size());
    ASSERT_FALSE(parsed) << text;
    if (text == "H") {
      EXPECT_EQ(parsed.error().code(), ErrorCode::truncated);  // the file ends within a magic
      continue;
    }
    EXPECT_EQ(parsed.error().code(), ErrorCode::bad_magic) << text;
    EXPECT_EQ(parsed.error().rule(), "format_is_known");
    EXPECT_EQ(parsed.error().offset(), 0U);
  }
}

TEST(Parse, hint_for_an_unknown_format_names_the_callers_formats) {
  const Format toy{.name = "toy", .looks_like = [](Bytes, std::uint64_t) { return false; }};
  const std::string_view text = "GARBAGE!\1more";
  const auto parsed = parse(bytes_of(text), text.size(), {.formats = std::span(&toy, 1)});
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().rule(), "format_is_known");
  EXPECT_NE(parsed.error().hint().find("toy"), std::string_view::npos) << parsed.error().hint();
  EXPECT_NE(parsed.error().hint().find("safetensors"), std::string_view::npos) << parsed.error().hint();
}

TEST(Parse, requests_more_bytes_until_the_header_is_complete) {
  const auto header =
      format_ht::encode(*format_ht::make_header(dtype_info<F32>(), std::vector<std::int64_t>{0}));
  const std::uint64_t file_bytes = header.size();
  std::uint64_t seen = 0;
  int steps = 0;
  while (true) {
    const auto parsed = parse(Bytes(header).first(seen), file_bytes, {.stem = "t"});
    ASSERT_TRUE(parsed);
    if (const auto* catalog = std::get_if<Catalog>(&*parsed)) {
      EXPECT_EQ((*catalog)[0].name, "t");
      break;
    }
    const auto need = std::get<Need>(*parsed);
    ASSERT_EQ(need.offset, 0U);
    ASSERT_GT(need.bytes, seen);
    ASSERT_LE(need.bytes, file_bytes);
    seen = std::min<std::uint64_t>(need.bytes, header.size());
    ++steps;
  }
  EXPECT_EQ(steps, 1);
}

}  // namespace
}  // namespace ht::parse_test
