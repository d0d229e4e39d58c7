// Files of other projects, compared with the verdicts of ggml and its listing of tensors.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "format/gguf/gguf.hpp"
#include "testing/shared_folder.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::format_gguf::gguf_corpus_test {
namespace {

using ht::testing::rows_of;
using Rows = std::vector<std::vector<std::string>>;

bool is_gguf(const std::vector<std::string>& row) { return row.at(0).ends_with(".gguf"); }

// The verdicts of ggml, except for two files on which this library differs on purpose.
std::pair<bool, bool> expected_verdicts(const std::vector<std::string>& row) {
  const std::string name = std::filesystem::path(row.at(0)).filename().string();
  // The data ends beyond 2^63-1. ggml refuses the file only when it allocates memory for the data.
  if (name == "DATA_MEM_SIZE_OVERFLOW.gguf") return {false, false};
  // This library accepts the name of 87 bytes, but the data is missing.
  if (name == "TENSORS_BAD_NAME_SIZE.gguf") return {false, true};
  return {row.at(1) == "accept", row.at(2) == "accept"};
}

TEST(GgufCorpus, verdicts_match_ggml) {
  HT_SHARED_OR_SKIP(corpus, "corpus");
  std::size_t files = 0;
  for (const auto& row : rows_of(corpus / "expected.tsv")) {
    if (!is_gguf(row)) continue;
    ++files;
    const auto file = testing::read_file(corpus / row.at(0));
    const auto [strict, allow_incomplete] = expected_verdicts(row);
    const auto parsed = parse(file, file.size());
    EXPECT_EQ(parsed.has_value(), strict) << row.at(0) << (parsed ? "" : to_string(parsed.error()));
    EXPECT_EQ(parse(file, file.size(), {.allow_incomplete = true}).has_value(), allow_incomplete)
        << row.at(0);
  }
  EXPECT_GE(files, 40U);
}

std::string shape_text(std::span<const std::int64_t> dims) {
  std::string text = "[";
  for (const auto dim : dims) text.append(text.size() > 1 ? "," : "").append(std::to_string(dim));
  return text + "]";
}

std::string_view type_name(const Entry& entry) {
  if (const auto encoding = find_encoding(entry.encoding)) return encoding->name;
  return find_dtype(entry.dtype).value().name;
}

TEST(GgufCorpus, tensors_are_listed_as_in_ggml) {
  HT_SHARED_OR_SKIP(corpus, "corpus");
  std::map<std::string, Rows> files;
  for (const auto& row : rows_of(corpus / "listing.tsv")) {
    if (is_gguf(row)) files[row[0]].push_back(row);
  }
  EXPECT_FALSE(files.empty());
  for (const auto& [path, rows] : files) {
    const auto file = testing::read_file(corpus / path);
    const auto parsed = parse(file, file.size(), {.allow_incomplete = true});
    ASSERT_TRUE(parsed) << path;
    const auto& catalog = std::get<Catalog>(*parsed);
    Rows found;
    for (const Entry& entry : catalog) {
      // The listing does not contain Q8_1.
      if (type_name(entry) == "Q8_1") continue;
      found.push_back({path, std::string(entry.name), std::string(type_name(entry)), shape_text(entry.dims),
                       std::to_string(entry.offset), std::to_string(entry.offset + entry.bytes)});
    }
    EXPECT_EQ(found, rows);
  }
}

TEST(GgufCorpus, accepted_files_encode_to_the_same_header) {
  HT_SHARED_OR_SKIP(corpus, "corpus");
  for (const auto& row : rows_of(corpus / "expected.tsv")) {
    if (!is_gguf(row) || row.at(1) != "accept") continue;
    const auto file = testing::read_file(corpus / row.at(0));
    const auto parsed = parse(file, file.size());
    ASSERT_TRUE(parsed) << row.at(0);
    const auto encoded = encode(std::get<Catalog>(*parsed), {});
    ASSERT_TRUE(encoded) << row.at(0) << to_string(encoded.error());
    ASSERT_LE(encoded->header.size(), file.size());
    EXPECT_TRUE(std::ranges::equal(encoded->header, Bytes(file).first(encoded->header.size()))) << row.at(0);
  }
}

}  // namespace
}  // namespace ht::format_gguf::gguf_corpus_test
