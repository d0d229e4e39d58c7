// Malformed archives: each rule has a test of the same name.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "format/irpa/irpa.hpp"
#include "format/irpa/irpa_test_archive.hpp"

namespace ht::format_irpa::irpa_hostile_test {
namespace {

using testing::archive;
using testing::ArchiveEntry;
using testing::first_entry;

// Offsets and sizes of the parts of good_file.
constexpr std::size_t data_at = first_entry;
constexpr std::size_t splat_at = data_at + 80;
constexpr std::size_t external_at = splat_at + 96;
constexpr std::uint64_t metadata_bytes = 4 + 5 + 6 + 1;
constexpr std::uint64_t metadata_at = external_at + 92;
constexpr std::uint64_t storage_at = 384;
constexpr std::uint64_t storage_bytes = 24;

std::vector<std::byte> good_file() {
  return archive({{.name = "data", .offset = 8, .length = 16},
                  {.kind = 1, .name = "splat", .length = 40, .pattern = "ab"},
                  {.kind = 3, .name = "beyond", .offset = 5, .length = 7, .path = "x"}},
                 storage_bytes);
}

Error error_of(Bytes file, const ParseOptions& options = {}) {
  auto parsed = format_irpa::parse(file, file.size(), options);
  if (parsed) return Error(ErrorCode::internal, "no_error", "it parsed");
  return std::move(parsed).error();
}

// Changes one field of a good file and returns the error of the parser.
template <class T>
Error error_with(std::size_t at, T value, const ParseOptions& options = {}) {
  auto file = good_file();
  store_le(MutableBytes(file).subspan(at), value);
  return error_of(file, options);
}

void expect_refusal(const Error& error, ErrorCode code, std::string_view rule, std::uint64_t offset) {
  EXPECT_EQ(error.code(), code) << to_string(error);
  EXPECT_EQ(error.rule(), rule);
  EXPECT_EQ(error.offset(), offset);
  EXPECT_FALSE(error.message().empty());
  EXPECT_FALSE(error.hint().empty()) << to_string(error);
}

// Joins two archives: the header of the first links to the header of the second.
std::vector<std::byte> linked(std::vector<std::byte> first, Bytes second) {
  store_le(MutableBytes(first).subspan(16), static_cast<std::uint64_t>(first.size()));
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

TEST(IrpaHostile, the_valid_file_is_accepted) {
  const auto file = good_file();
  ASSERT_EQ(file.size(), storage_at + storage_bytes);
  const auto parsed = format_irpa::parse(file, file.size());
  ASSERT_TRUE(parsed) << to_string(parsed.error());
  EXPECT_EQ(std::get<Catalog>(*parsed).size(), 3U);
}

TEST(IrpaHostile, irpa_headers_begin_with_the_magic) {
  expect_refusal(error_with<std::uint8_t>(3, 'a'), ErrorCode::bad_magic, "irpa_headers_begin_with_the_magic",
                 0);
  auto second = good_file();
  second[0] = std::byte{0};
  const auto first = archive({});
  expect_refusal(error_of(linked(first, second)), ErrorCode::bad_magic, "irpa_headers_begin_with_the_magic",
                 first.size());
}

TEST(IrpaHostile, irpa_version_is_0_0) {
  for (const std::size_t at : {4U, 6U}) {
    for (const int version : {1, 256, 65535}) {
      expect_refusal(error_with(at, static_cast<std::uint16_t>(version)), ErrorCode::bad_version,
                     "irpa_version_is_0_0", 4);
    }
  }
}

TEST(IrpaHostile, irpa_header_size_is_88) {
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{87}, std::uint64_t{96}, UINT64_MAX}) {
    expect_refusal(error_with(8, size), ErrorCode::bad_header, "irpa_header_size_is_88", 8);
  }
}

TEST(IrpaHostile, irpa_headers_are_complete) {
  const auto file = good_file();
  for (std::size_t size = 0; size < 88; ++size) {
    expect_refusal(error_of(Bytes(file).first(size)), ErrorCode::truncated, "irpa_headers_are_complete",
                   size);
  }
  // The file ends before or within a linked header.
  for (const std::uint64_t next : {file.size() - 87, file.size(), std::size_t{1} << 63}) {
    expect_refusal(error_with(16, next), ErrorCode::truncated, "irpa_headers_are_complete", file.size());
    expect_refusal(error_with(16, next, {.allow_incomplete = true}), ErrorCode::truncated,
                   "irpa_headers_are_complete", file.size());
  }
}

TEST(IrpaHostile, irpa_segment_ends_fit_64_bits) {
  for (const std::size_t segment : {40U, 56U, 72U}) {
    expect_refusal(error_with(segment, UINT64_MAX), ErrorCode::bad_offset, "irpa_segment_ends_fit_64_bits",
                   segment);
    expect_refusal(error_with(segment + 8, UINT64_MAX, {.allow_incomplete = true}), ErrorCode::bad_offset,
                   "irpa_segment_ends_fit_64_bits", segment);
  }
  // The offsets of a linked header are relative to that header.
  auto second = archive({}, 1);
  store_le(MutableBytes(second).subspan(72), UINT64_MAX - 1);
  const auto first = archive({});
  expect_refusal(error_of(linked(first, second)), ErrorCode::bad_offset, "irpa_segment_ends_fit_64_bits",
                 first.size() + 72);
}

TEST(IrpaHostile, irpa_entries_and_metadata_are_complete) {
  const auto file = good_file();
  for (std::size_t size = 88; size < metadata_at + metadata_bytes; ++size) {
    for (const bool allow_incomplete : {false, true}) {
      expect_refusal(error_of(Bytes(file).first(size), {.allow_incomplete = allow_incomplete}),
                     ErrorCode::truncated, "irpa_entries_and_metadata_are_complete", size);
    }
  }
}

TEST(IrpaHostile, irpa_storage_is_complete) {
  const auto file = good_file();
  for (std::size_t size = metadata_at + metadata_bytes; size < file.size(); ++size) {
    expect_refusal(error_of(Bytes(file).first(size)), ErrorCode::truncated, "irpa_storage_is_complete", size);
    EXPECT_TRUE(format_irpa::parse(Bytes(file).first(size), size, {.allow_incomplete = true})) << size;
  }
}

TEST(IrpaHostile, empty_segments_can_be_anywhere) {
  auto file = archive({});
  for (const std::size_t segment : {40U, 56U, 72U}) store_le(MutableBytes(file).subspan(segment), UINT64_MAX);
  EXPECT_TRUE(format_irpa::parse(file, file.size()));
}

TEST(IrpaHostile, irpa_entry_count_fits_the_table) {
  for (const std::uint64_t count : {std::uint64_t{6}, std::uint64_t{1} << 40, UINT64_MAX}) {
    expect_refusal(error_with(32, count), ErrorCode::bad_header, "irpa_entry_count_fits_the_table", 32);
  }
  auto file = archive({});
  store_le(MutableBytes(file).subspan(32), std::uint64_t{1});
  expect_refusal(error_of(file), ErrorCode::bad_header, "irpa_entry_count_fits_the_table", 32);
  // The count is refused before the entry table is requested.
  auto far = good_file();
  store_le(MutableBytes(far).subspan(32), UINT64_MAX);
  EXPECT_FALSE(format_irpa::parse(Bytes(far).first(88), far.size()));
}

TEST(IrpaHostile, irpa_headers_entries_and_metadata_fit_the_limit) {
  const std::uint64_t used = 88 + (80 + 96 + 92) + metadata_bytes;
  const auto file = good_file();
  EXPECT_TRUE(format_irpa::parse(file, file.size(), {.max_header_bytes = used}));
  expect_refusal(error_of(file, {.max_header_bytes = used - 1}), ErrorCode::header_too_large,
                 "irpa_headers_entries_and_metadata_fit_the_limit", 0);
  // Huge metadata is refused before any of it is requested.
  auto huge = good_file();
  store_le(MutableBytes(huge).subspan(64), default_max_header_bytes);
  const auto parsed = format_irpa::parse(huge, UINT64_MAX);
  ASSERT_FALSE(parsed);
  expect_refusal(parsed.error(), ErrorCode::header_too_large,
                 "irpa_headers_entries_and_metadata_fit_the_limit", 0);
}

TEST(IrpaHostile, irpa_next_header_offset_fits_64_bits) {
  auto second = archive({});
  store_le(MutableBytes(second).subspan(16), UINT64_MAX);
  const auto first = archive({});
  expect_refusal(error_of(linked(first, second)), ErrorCode::bad_offset,
                 "irpa_next_header_offset_fits_64_bits", first.size() + 16);
}

TEST(IrpaHostile, irpa_headers_are_at_most_256) {
  const auto chain = [](std::size_t headers) {
    std::vector<std::byte> file;
    for (std::size_t i = 0; i < headers; ++i) {
      const auto header = archive({}, 0, i + 1 < headers ? 128 : 0);
      file.insert(file.end(), header.begin(), header.end());
    }
    return file;
  };
  const auto most = chain(max_headers);
  EXPECT_TRUE(format_irpa::parse(most, most.size()));
  expect_refusal(error_of(chain(max_headers + 1)), ErrorCode::bad_header, "irpa_headers_are_at_most_256",
                 (max_headers - 1) * 128 + 16);
}

TEST(IrpaHostile, irpa_segments_total_at_most_twice_their_distinct_bytes) {
  // Two headers may share an entry table, three may not.
  const auto first = archive({{.kind = 0, .name = ""}});
  const auto second = archive({{.kind = 0, .name = ""}});
  const auto two = linked(first, second);
  auto shared = two;
  store_le(MutableBytes(shared).subspan(40), static_cast<std::uint64_t>(first.size() + first_entry));
  EXPECT_TRUE(parse(shared, shared.size()));
  auto file = linked(two, archive({{.kind = 0, .name = ""}}));
  // The first header links to the second, and the second to the third.
  store_le(MutableBytes(file).subspan(16), static_cast<std::uint64_t>(first.size()));
  store_le(MutableBytes(file).subspan(first.size() + 16), static_cast<std::uint64_t>(second.size()));
  const std::uint64_t last = two.size() + first_entry;
  store_le(MutableBytes(file).subspan(40), last);
  store_le(MutableBytes(file).subspan(first.size() + 40), last - first.size());
  expect_refusal(error_of(file), ErrorCode::overlap, "irpa_segments_total_at_most_twice_their_distinct_bytes",
                 last);
}

TEST(IrpaHostile, irpa_entries_are_in_their_table) {
  // The entry is longer than its table of 268 bytes.
  expect_refusal(error_with(data_at, std::uint64_t{269}), ErrorCode::bad_header,
                 "irpa_entries_are_in_their_table", data_at);
  expect_refusal(error_with(data_at, UINT64_MAX), ErrorCode::bad_header, "irpa_entries_are_in_their_table",
                 data_at);
  // The first entry fills the table of 268 bytes. The padding of the entry ends 4 bytes after the table,
  // where the second entry would begin. A reader that subtracts unsigned sizes, as IREE's does, gets a huge
  // number of bytes left.
  expect_refusal(error_with(data_at, std::uint64_t{268}), ErrorCode::bad_header,
                 "irpa_entries_are_in_their_table", data_at + 272);
  expect_refusal(error_with(48, std::uint64_t{80 + 96 + 91}), ErrorCode::bad_header,
                 "irpa_entries_are_in_their_table", external_at);
}

TEST(IrpaHostile, irpa_entry_size_is_at_least_that_of_its_kind) {
  const std::vector<std::pair<std::size_t, std::uint64_t>> entries{
      {data_at, 76}, {splat_at, 85}, {external_at, 92}};
  for (const auto& [at, least] : entries) {
    for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{59}, std::uint64_t{60}, least - 1}) {
      expect_refusal(error_with(at, size), ErrorCode::bad_header,
                     "irpa_entry_size_is_at_least_that_of_its_kind", at);
    }
  }
  auto file = archive({{.kind = 0, .name = "skipped"}});
  store_le(MutableBytes(file).subspan(data_at), std::uint64_t{59});
  expect_refusal(error_of(file), ErrorCode::bad_header, "irpa_entry_size_is_at_least_that_of_its_kind",
                 data_at);
}

TEST(IrpaHostile, irpa_entry_kind_is_known) {
  for (const std::uint32_t kind : {4U, 256U, 0x80000000U, UINT32_MAX}) {
    expect_refusal(error_with(splat_at + 8, kind), ErrorCode::unsupported_encoding,
                   "irpa_entry_kind_is_known", splat_at + 8);
  }
}

TEST(IrpaHostile, irpa_names_are_in_the_metadata) {
  for (const std::size_t field : {data_at + 20, data_at + 36, external_at + 60}) {
    for (const std::uint64_t offset : {metadata_bytes, UINT64_MAX, UINT64_MAX - 3}) {
      auto file = good_file();
      store_le(MutableBytes(file).subspan(field), offset);
      store_le(MutableBytes(file).subspan(field + 8), std::uint64_t{4});
      expect_refusal(error_of(file), ErrorCode::bad_offset, "irpa_names_are_in_the_metadata", field);
    }
    expect_refusal(error_with(field + 8, UINT64_MAX), ErrorCode::bad_offset, "irpa_names_are_in_the_metadata",
                   field);
  }
  // The names of "skip" entries are checked too, as in IREE.
  auto file = archive({{.kind = 0, .name = "skipped"}});
  store_le(MutableBytes(file).subspan(data_at + 28), std::uint64_t{8});
  expect_refusal(error_of(file), ErrorCode::bad_offset, "irpa_names_are_in_the_metadata", data_at + 20);
}

TEST(IrpaHostile, entries_may_share_a_few_bytes_of_metadata) {
  // The name of the second entry overlaps the names of the other entries.
  auto file = good_file();
  store_le(MutableBytes(file).subspan(splat_at + 20), std::uint64_t{0});
  store_le(MutableBytes(file).subspan(splat_at + 28), std::uint64_t{14});
  EXPECT_TRUE(parse(file, file.size()));
}

TEST(IrpaHostile, irpa_entries_share_little_metadata) {
  // 2^14 names of 2^20 bytes each would be 16 GiB.
  std::vector<ArchiveEntry> entries(std::size_t{1} << 14);
  entries[0].name = std::string(std::size_t{1} << 20, 'n');
  auto file = archive(entries);
  for (std::size_t i = 1; i < entries.size(); ++i) {
    store_le(MutableBytes(file).subspan(first_entry + 80 * i + 20), static_cast<std::uint64_t>(i));
    store_le(MutableBytes(file).subspan(first_entry + 80 * i + 28), std::uint64_t{1000000});
  }
  expect_refusal(error_of(file), ErrorCode::overlap, "irpa_entries_share_little_metadata", first_entry + 160);
}

TEST(IrpaHostile, irpa_names_are_utf8) {
  expect_refusal(error_with<std::uint8_t>(metadata_at + 2, 0xff), ErrorCode::bad_utf8, "irpa_names_are_utf8",
                 data_at + 20);
  expect_refusal(error_with<std::uint16_t>(metadata_at, 0x80c0), ErrorCode::bad_utf8, "irpa_names_are_utf8",
                 data_at + 20);
}

TEST(IrpaHostile, names_are_unique_over_all_headers) {
  EXPECT_EQ(error_of(archive({{.name = "a"}, {.name = "b"}, {.name = "a"}})).code(),
            ErrorCode::duplicate_tensor);
  EXPECT_EQ(error_of(linked(archive({{.name = "a"}}), archive({{.name = "a"}}))).code(),
            ErrorCode::duplicate_tensor);
}

TEST(IrpaHostile, irpa_patterns_have_1_2_4_8_or_16_bytes) {
  for (int bytes = 0; bytes < 256; ++bytes) {
    if (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16) continue;
    expect_refusal(error_with(splat_at + 84, static_cast<std::uint8_t>(bytes)), ErrorCode::bad_header,
                   "irpa_patterns_have_1_2_4_8_or_16_bytes", splat_at + 84);
  }
}

TEST(IrpaHostile, splat_bytes_are_multiple_of_pattern) {
  for (const std::string_view pattern : {"ab", "abcd", "abcdefgh", "abcdefghijklmnop"}) {
    const auto length = 4 * pattern.size() + 1;
    expect_refusal(
        error_of(archive({{.kind = 1, .name = "s", .length = length, .pattern = std::string(pattern)}})),
        ErrorCode::size_mismatch, "splat_bytes_are_multiple_of_pattern", first_entry + 60);
  }
}

TEST(IrpaHostile, irpa_data_is_in_the_storage) {
  for (const std::uint64_t offset :
       {std::uint64_t{9}, storage_bytes, std::uint64_t{1} << 63, UINT64_MAX - 15, UINT64_MAX}) {
    for (const bool allow_incomplete : {false, true}) {
      expect_refusal(error_with(data_at + 60, offset, {.allow_incomplete = allow_incomplete}),
                     ErrorCode::bad_offset, "irpa_data_is_in_the_storage", data_at + 60);
    }
  }
  expect_refusal(error_with(data_at + 68, UINT64_MAX), ErrorCode::bad_offset, "irpa_data_is_in_the_storage",
                 data_at + 60);
}

TEST(IrpaHostile, irpa_external_range_ends_fit_64_bits) {
  expect_refusal(error_with(external_at + 76, UINT64_MAX - 6), ErrorCode::bad_offset,
                 "irpa_external_range_ends_fit_64_bits", external_at + 76);
  EXPECT_EQ(error_with(external_at + 76, UINT64_MAX - 7).rule(), "no_error");
}

TEST(IrpaHostile, irpa_external_paths_stay_inside) {
  using namespace std::string_literals;
  for (const auto& path : {""s, "/etc/passwd"s, ".."s, "../x"s, "a/../../x"s, "a\\b"s, "a\0b"s, "\xff"s}) {
    const auto file = archive({{.kind = 3, .name = "n", .path = path}});
    expect_refusal(error_of(file), ErrorCode::path_escapes, "irpa_external_paths_stay_inside",
                   first_entry + 60);
  }
}

TEST(IrpaHostile, parsing_in_parts_reports_the_same_error_for_every_truncation) {
  const auto whole = good_file();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto file = Bytes(whole).first(size);
    const auto error = error_of(file);
    Bytes seen;
    for (int step = 0;; ++step) {
      ASSERT_LT(step, 4) << size;
      const auto parsed = format_irpa::parse(seen, size);
      if (!parsed) {
        EXPECT_EQ(to_string(parsed.error()), to_string(error));
        break;
      }
      const auto need = std::get<Need>(*parsed);
      seen = file.first(need.offset + need.bytes);
    }
  }
}

TEST(IrpaHostile, irpa_metadata_is_well_formed) {
  const std::string good = std::string("METADATAv0:") + std::string("\1\0\0\0\0\0\0\0", 8) +
                           std::string("\1\0\0\0\0\0\0\0k", 9) + std::string("\0\0\0\0x", 5);
  const auto file_with = [](const std::string& entry_metadata) {
    return archive({{.kind = 0, .name = "htensor.metadata", .metadata = entry_metadata}});
  };
  ASSERT_EQ(error_of(file_with(good)).rule(), "no_error") << "the unchanged metadata is valid";
  std::vector<std::string> bad{"", "something else", good + "y", "METADATAv0:"};
  for (std::size_t size = 11; size < good.size(); ++size) bad.push_back(good.substr(0, size));
  auto huge = good;
  huge[18] = '\xff';  // more values than any memory can hold
  bad.push_back(huge);
  auto type = good;
  type[28] = 13;
  bad.push_back(type);
  for (const auto& entry_metadata : bad) {
    const auto error = error_of(file_with(entry_metadata));
    EXPECT_EQ(error.code(), ErrorCode::bad_header) << entry_metadata;
    EXPECT_EQ(error.rule(), "irpa_metadata_is_well_formed") << entry_metadata;
  }
}

}  // namespace
}  // namespace ht::format_irpa::irpa_hostile_test
