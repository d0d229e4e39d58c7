#include <gtest/gtest.h>

#include <htensor/format/ht.hpp>
#include <htensor/format/parse.hpp>

namespace ht {
namespace {

TEST(Parse, file_is_not_empty) {
  const auto parsed = parse({}, 0);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code(), ErrorCode::bad_magic);
  EXPECT_EQ(parsed.error().rule(), "file_is_not_empty");
  EXPECT_FALSE(parsed.error().hint().empty());
}

TEST(Parse, format_is_known) {
  for (const std::string_view text : {"GARBAGE!more", "H", "x", "HTENSOR!"}) {
    const auto parsed = parse(bytes_of(text), text.size());
    ASSERT_FALSE(parsed) << text;
    if (text == "H") {
      EXPECT_EQ(parsed.error().code(), ErrorCode::truncated);  // the beginning of a magic and no more
      continue;
    }
    EXPECT_EQ(parsed.error().code(), ErrorCode::bad_magic) << text;
    EXPECT_EQ(parsed.error().rule(), "format_is_known");
    EXPECT_EQ(parsed.error().offset(), 0U);
  }
}

TEST(Parse, asks_for_more_until_it_has_seen_enough) {
  const auto header = format_ht::encode(*format_ht::describe(dtype_info<F32>(), {}));
  const std::uint64_t file_bytes = header.size() + 4;
  std::uint64_t seen = 0;
  int steps = 0;
  while (true) {
    const auto parsed = parse(Bytes(header).first(seen), file_bytes, {.stem = "t"});
    ASSERT_TRUE(parsed);
    if (const auto* catalog = std::get_if<Catalog>(&*parsed)) {
      EXPECT_EQ((*catalog)[0].name, "t");
      break;
    }
    const auto need = std::get<Need>(*parsed).bytes;
    ASSERT_GT(need, seen);
    ASSERT_LE(need, file_bytes);
    seen = need;
    ++steps;
  }
  EXPECT_EQ(steps, 2);  // the magic, then the header
}

}  // namespace
}  // namespace ht
