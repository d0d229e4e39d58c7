#include "model/read_catalog.hpp"

#include <gtest/gtest.h>

#include "testing/temporary_folder.hpp"

namespace ht {
namespace {

Result<Parsed> asks_for_all(Bytes prefix, std::uint64_t file_bytes, const ParseOptions& /*options*/) {
  if (prefix.size() < file_bytes) return Need{file_bytes};
  Catalog catalog;
  HT_TRY(catalog.add({.name = "all", .bytes = prefix.size()}));
  return catalog;
}

Result<Parsed> asks_for_what_it_saw(Bytes prefix, std::uint64_t /*file_bytes*/,
                                    const ParseOptions& /*options*/) {
  return Need{prefix.size()};
}

Result<Parsed> asks_beyond_the_end(Bytes /*prefix*/, std::uint64_t file_bytes,
                                   const ParseOptions& /*options*/) {
  return Need{file_bytes + 1};
}

class ReadCatalog : public ::testing::Test {
 protected:
  Result<Catalog> read(Parser parser) {
    testing::write_file(folder_ / "f", std::string(10'000, 'x'));
    const auto file = HT_TRY(io::Opened::open(folder_ / "f"));
    return read_catalog(file, parser, {});
  }
  testing::TemporaryFolder folder_;
};

TEST_F(ReadCatalog, shows_a_parser_what_it_needs) {
  const auto catalog = read(asks_for_all);
  ASSERT_TRUE(catalog);
  EXPECT_EQ((*catalog)[0].bytes, 10'000U);
}

TEST_F(ReadCatalog, parser_asks_for_more_that_is_there) {
  for (const Parser parser : {asks_for_what_it_saw, asks_beyond_the_end}) {
    const auto catalog = read(parser);
    ASSERT_FALSE(catalog);
    EXPECT_EQ(catalog.error().code(), ErrorCode::internal);
    EXPECT_EQ(catalog.error().rule(), "parser_asks_for_more_that_is_there");
  }
}

}  // namespace
}  // namespace ht
