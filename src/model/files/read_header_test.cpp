#include "model/files/read_header.hpp"

#include <gtest/gtest.h>

#include "io/file_source.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::read_header_test {
namespace {

Result<ParseResult> catalog_of(std::uint64_t bytes) {
  CatalogBuilder builder("test");
  HT_TRY(builder.add({.name = "all", .bytes = bytes}));
  return std::move(builder).build();
}

Result<ParseResult> requests_all(const FileParts& parts, std::uint64_t file_bytes,
                                 const ParseOptions& /*options*/) {
  if (parts.prefix().size() < file_bytes) return Need{0, file_bytes};
  return catalog_of(parts.prefix().size());
}

Result<ParseResult> requests_parts(const FileParts& parts, std::uint64_t /*file_bytes*/,
                                   const ParseOptions& /*options*/) {
  for (const std::uint64_t offset : {9'000U, 6'000U}) {
    const auto part = parts.range(offset, 10);
    if (!part) return Need{offset, 10};
    if ((*part)[0] != std::byte{'x'}) return fail(Error(ErrorCode::bad_header));
  }
  if (parts.range(9'000, 11) || parts.range(8'999, 10)) return fail(Error(ErrorCode::bad_header));
  return catalog_of(parts.prefix().size());
}

Result<ParseResult> requests_bytes_read_before(const FileParts& parts, std::uint64_t /*file_bytes*/,
                                               const ParseOptions& /*options*/) {
  return Need{0, parts.prefix().size()};
}

Result<ParseResult> requests_beyond_the_end(const FileParts& /*seen*/, std::uint64_t file_bytes,
                                            const ParseOptions& /*options*/) {
  return Need{0, file_bytes + 1};
}

Result<ParseResult> requests_an_overflowing_range(const FileParts& /*seen*/, std::uint64_t /*file_bytes*/,
                                                  const ParseOptions& /*options*/) {
  return Need{UINT64_MAX, 2};
}

class ReadHeader : public ::testing::Test {
 protected:
  Result<Catalog> read(Parser parser) {
    testing::write_file(folder_ / "f", std::string(10'000, 'x'));
    const auto file = HT_TRY(io::FileSource::open(folder_ / "f"));
    return HT_TRY(read_header(*file, parser, {})).catalog;
  }
  testing::TemporaryFolder folder_;
};

TEST_F(ReadHeader, reads_the_bytes_that_a_parser_needs) {
  const auto catalog = read(requests_all);
  ASSERT_TRUE(catalog);
  EXPECT_EQ((*catalog)[0].bytes, 10'000U);
}

Result<ParseResult> keeps_the_prefix(const FileParts& parts, std::uint64_t file_bytes,
                                     const ParseOptions& /*options*/) {
  if (parts.prefix().size() < file_bytes) return Need{0, file_bytes};
  CatalogBuilder builder("test");
  HT_TRY(builder.metadata().add("byte", MetaValue(MetaType::u8, parts.prefix().last(1)), parts.owner()));
  return std::move(builder).build();
}

TEST_F(ReadHeader, a_catalog_keeps_the_memory_it_refers_to) {
  const auto catalog = read(keeps_the_prefix);
  ASSERT_TRUE(catalog);
  EXPECT_EQ(catalog->metadata()[0].value.unsigned_integer(), std::uint64_t{'x'});
}

TEST_F(ReadHeader, reads_a_large_header_with_and_without_huge_pages) {
  constexpr std::size_t bytes = std::size_t{9} << 20;
  testing::write_file(folder_ / "large", std::string(bytes, 'x'));
  for (const bool refused : {false, true}) {
    testing::FaultyPort port;
    if (refused) port.fail_at(testing::Call::advise, 0, std::errc::invalid_argument);
    const auto file = io::FileSource::open(folder_ / "large", port);
    ASSERT_TRUE(file);
    const auto header = read_header(**file, keeps_the_prefix, {});
    ASSERT_TRUE(header) << to_string(header.error());
    EXPECT_EQ(header->catalog.metadata()[0].value.unsigned_integer(), std::uint64_t{'x'});
    EXPECT_EQ(port.count(testing::Call::advise), 1);
  }
}

TEST_F(ReadHeader, reads_far_parts_alone) {
  const auto catalog = read(requests_parts);
  ASSERT_TRUE(catalog);
  EXPECT_EQ((*catalog)[0].bytes, 4096U);  // the prefix did not grow
}

TEST_F(ReadHeader, parser_requests_unread_bytes) {
  for (const Parser parser :
       {requests_bytes_read_before, requests_beyond_the_end, requests_an_overflowing_range}) {
    const auto catalog = read(parser);
    ASSERT_FALSE(catalog);
    EXPECT_EQ(catalog.error().code(), ErrorCode::internal);
    EXPECT_EQ(catalog.error().rule(), "parser_requests_unread_bytes");
  }
}

}  // namespace
}  // namespace ht::read_header_test
