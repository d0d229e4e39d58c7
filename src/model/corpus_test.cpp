#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <htensor/model/model.hpp>
#include <map>

#include "testing/shared_folder.hpp"

namespace ht::corpus_test {
namespace {

using ht::testing::rows_of;

// The reference readers of other projects for the formats of this library.
constexpr std::array<std::string_view, 3> references{"st-rust", "ggml-data", "iree-dump"};

// Whether this library reads the formats of the reference reader.
bool is_read(std::string_view reference) {
  return std::ranges::find(references, reference) != references.end();
}

struct Verdicts {
  bool strict;
  bool allow_incomplete;
};

// The verdicts of the reference reader, except for files on which this library differs on purpose.
Verdicts expected(const std::vector<std::string>& row) {
  const auto name = std::filesystem::path(row[0]).filename();
  if (name == "DATA_MEM_SIZE_OVERFLOW.gguf") return {false, false};
  // This library accepts the long name, but the data is missing.
  if (name == "TENSORS_BAD_NAME_SIZE.gguf") return {false, true};
  return {row[1] == "accept", row[2] == "accept"};
}

// The safetensors crate reports one error for files that are too short or too long. This library accepts a
// file that is too short if `allow_incomplete` is set.
bool is_truncated(const Result<Model>& strict, const std::string& reason) {
  return !strict && strict.error().code() == ErrorCode::truncated &&
         reason.find("MetadataIncompleteBuffer") != reason.npos;
}

std::string outcome(const Result<Model>& model) { return model ? "is accepted" : to_string(model.error()); }

TEST(Corpus, is_accepted_and_rejected_like_the_reference_readers) {
  HT_SHARED_OR_SKIP(folder, "corpus");
  int tried = 0;
  for (const auto& row : rows_of(folder / "expected.tsv")) {
    if (!is_read(row[3])) continue;
    ++tried;
    const auto open = [&](bool allow_incomplete) {
      return Model::open(folder / row[0], {.allow_incomplete = allow_incomplete, .catalog_only = true});
    };
    const auto strict = open(false);
    EXPECT_EQ(strict.has_value(), expected(row).strict) << row[0] << ": " << outcome(strict);
    const auto incomplete = open(true);
    EXPECT_EQ(incomplete.has_value(), expected(row).allow_incomplete || is_truncated(strict, row[4]))
        << row[0] << ", allow_incomplete: " << outcome(incomplete);
  }
  EXPECT_GT(tried, 0);
}

// Opens the files of a listing by their path in the corpus, each file once.
class ListedFiles {
 public:
  explicit ListedFiles(std::filesystem::path folder) : folder_(std::move(folder)) {
    for (const auto& row : rows_of(folder_ / "expected.tsv")) reference_of_[row[0]] = row[3];
  }

  [[nodiscard]] bool is_read(const std::string& path) const {
    const auto found = reference_of_.find(path);
    EXPECT_NE(found, reference_of_.end()) << path << " is listed in expected.tsv";
    return found != reference_of_.end() && ht::corpus_test::is_read(found->second);
  }

  const Model* open(const std::string& path) {
    auto& model = models_[path];
    if (!model) model = Model::open(folder_ / path, {.allow_incomplete = true, .catalog_only = true});
    if (*model) return &**model;
    ADD_FAILURE() << to_string(model->error());
    return nullptr;
  }

  // Returns the entry of this name. Its data must be in this file and not in another part of a split model.
  std::optional<Entry> find(const std::string& path, const std::string& name) {
    const Model* model = open(path);
    const auto index = model != nullptr ? model->catalog().find(name) : std::nullopt;
    EXPECT_TRUE(index) << path << " has a tensor " << name;
    if (!index) return std::nullopt;
    const Entry entry = model->catalog()[*index];
    if (!entry.is_splat()) {
      EXPECT_EQ(model->files()[entry.file], folder_ / path);
    }
    return entry;
  }

 private:
  std::filesystem::path folder_;
  std::map<std::string, std::string> reference_of_;
  std::map<std::string, std::optional<Result<Model>>> models_;
};

std::string type_of(const Entry& entry) {
  if (const auto encoding = find_encoding(entry.encoding)) return std::string(encoding->name);
  const auto dtype = find_dtype(entry.dtype);
  return dtype ? std::string(dtype->name) : "?";
}

std::string shape_of(const Entry& entry) {
  std::string text;
  for (const auto dim : entry.dims) text += (text.empty() ? "" : ",") + std::to_string(dim);
  return "[" + text + "]";
}

TEST(Corpus, lists_tensors_like_the_reference_readers) {
  HT_SHARED_OR_SKIP(folder, "corpus");
  ListedFiles files(folder);
  int tried = 0;
  for (const auto& row : rows_of(folder / "listing.tsv")) {
    if (!files.is_read(row[0])) continue;
    ++tried;
    const auto entry = files.find(row[0], row[1]);
    if (!entry) continue;
    const std::vector<std::string> listed{type_of(*entry), shape_of(*entry), std::to_string(entry->offset),
                                          std::to_string(entry->offset + entry->bytes)};
    EXPECT_EQ(listed, std::vector(row.begin() + 2, row.end())) << row[0] << ": " << row[1];
  }
  EXPECT_GT(tried, 0);
}

TEST(Corpus, lists_parameters_like_the_reference_reader) {
  HT_SHARED_OR_SKIP(folder, "corpus");
  ListedFiles files(folder);
  int tried = 0;
  for (const auto& row : rows_of(folder / "listing_irpa.tsv")) {
    if (!files.is_read(row[0])) continue;
    const auto entry = files.find(row[0], row[1]);
    if (!entry) continue;
    ++tried;
    const std::string none = "-";
    const std::vector<std::string> listed{
        entry->is_splat() ? none : std::to_string(entry->offset),
        entry->is_splat() ? none : std::to_string(entry->offset + entry->bytes),
        std::to_string(entry->bytes)};
    EXPECT_EQ(listed, std::vector(row.begin() + 2, row.end())) << row[0] << ": " << row[1];
  }
  EXPECT_GT(tried, 0);
}

}  // namespace
}  // namespace ht::corpus_test
