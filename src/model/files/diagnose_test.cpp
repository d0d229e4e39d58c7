#include "model/files/diagnose.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "model/journal/set_journal_test.hpp"
#include "model/test_models.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::diagnose_test {
namespace {

constexpr std::array<std::int64_t, 1> four{4};

Entry entry(std::string_view name, std::uint64_t offset, DTypeTag dtype = U8::tag, std::uint64_t bytes = 4) {
  return {.name = name, .dtype = dtype, .dims = four, .offset = offset, .bytes = bytes};
}

Catalog catalog_of(std::string_view format, std::initializer_list<Entry> entries,
                   std::string_view architecture = "llama") {
  CatalogBuilder builder(format);
  if (!architecture.empty()) {
    EXPECT_TRUE(builder.metadata().add("general.architecture", architecture));
  }
  EXPECT_EQ(builder.add_file("other.bin").value(), 1U);
  for (const auto& one : entries) EXPECT_TRUE(builder.add(one));
  return std::move(builder).build().value();
}

std::vector<std::string> rules(const Catalog& catalog, std::uint64_t file_bytes = 1 << 20) {
  const std::array files{FileSize{"f", file_bytes}};
  std::vector<std::string> names;
  for (const auto& warning : warnings_of(catalog, files)) {
    EXPECT_FALSE(warning.hint().empty());
    names.emplace_back(warning.rule());
  }
  return names;
}

using Rules = std::vector<std::string>;

TEST(Diagnoses, good_files_have_no_warnings) {
  EXPECT_EQ(
      rules(catalog_of("irpa", {entry("a", 0, F32::tag, 16), entry("b", 16, BF16::tag, 8), entry("c", 25)})),
      Rules{});
  EXPECT_EQ(rules(catalog_of("irpa", {})), Rules{});
}

TEST(Diagnoses, data_is_aligned_for_its_dtype) {
  EXPECT_EQ(rules(catalog_of("safetensors", {entry("a", 2, F32::tag, 16)})),
            Rules{"data_is_aligned_for_its_dtype"});
  EXPECT_EQ(rules(catalog_of("safetensors", {entry("a", 4, C64::tag, 32)})), Rules{});
  EXPECT_EQ(rules(catalog_of("safetensors", {entry("a", 1, F32::tag, 0)})), Rules{});
}

TEST(Diagnoses, warnings_have_the_path_of_the_first_tensor) {
  const std::array files{FileSize{"f", 1 << 20}, FileSize{"other.bin", 1 << 20}};
  auto in_second_file = entry("b\n", 2, F32::tag, 16);
  in_second_file.file = 1;
  const auto warnings = warnings_of(catalog_of("irpa", {entry("a", 0), in_second_file}), files);
  ASSERT_EQ(warnings.size(), 2U);
  for (const auto& warning : warnings) EXPECT_EQ(warning.path(), "other.bin") << warning.rule();
}

TEST(Diagnoses, names_can_be_printed) {
  EXPECT_EQ(rules(catalog_of("safetensors", {entry("", 0), entry("a\nb", 4)})),
            Rules{"names_can_be_printed"});
}

TEST(Diagnoses, names_fit_ggml) {
  const std::string name(64, 'n');
  EXPECT_EQ(rules(catalog_of("gguf", {entry(name, 0)}), 4), Rules{"names_fit_ggml"});
  EXPECT_EQ(rules(catalog_of("gguf", {entry(std::string_view(name).substr(1), 0)}), 4), Rules{});
  EXPECT_EQ(rules(catalog_of("irpa", {entry(name, 0)})), Rules{});
}

TEST(Diagnoses, warnings_of_a_callers_format_are_included) {
  auto format = *find_format("gguf");
  format.name = "mine";
  const auto catalog = catalog_of("mine", {entry(std::string(64, 'n'), 0)});
  const auto warnings = warnings_of(catalog, std::array{FileSize{"f", 4}}, std::array{format});
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0].rule(), "names_fit_ggml");
}

TEST(Diagnoses, metadata_names_the_architecture) {
  EXPECT_EQ(rules(catalog_of("gguf", {entry("a", 0)}, ""), 4), Rules{"metadata_names_the_architecture"});
  EXPECT_EQ(rules(catalog_of("irpa", {entry("a", 0)}, "")), Rules{});
}

TEST(Diagnoses, data_is_little_endian) {
  auto big = entry("a", 0);
  big.byte_order = ByteOrder::big;
  EXPECT_EQ(rules(catalog_of("npy", {big})), Rules{"data_is_little_endian"});
}

TEST(Diagnoses, entries_have_dtype_and_shape) {
  const Entry untyped{.name = "a", .offset = 1, .bytes = 4};
  EXPECT_EQ(rules(catalog_of("irpa", {untyped})), Rules{"entries_have_dtype_and_shape"});
}

TEST(Diagnoses, entries_do_not_overlap) {
  // Both b and c are inside a, and c begins after the end of b.
  const auto shared = catalog_of("irpa", {entry("a", 0, U8::tag, 100), entry("b", 10), entry("c", 50)});
  const auto warnings = warnings_of(shared, std::array{FileSize{"f", 100}});
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0].rule(), "entries_do_not_overlap");
  EXPECT_EQ(warnings[0].message(),
            "2 tensors share bytes with another; the first is 'b' with 'a' at byte 10");
  auto elsewhere = entry("b", 2);
  elsewhere.file = 1;
  const std::array<std::byte, 1> pattern{};
  auto splat = entry("c", 0);
  splat.splat = pattern;
  EXPECT_EQ(rules(catalog_of("irpa", {entry("a", 0), elsewhere, splat, entry("d", 2, U8::tag, 0)})), Rules{});
}

TEST(Diagnoses, files_end_with_their_data) {
  EXPECT_EQ(rules(catalog_of("gguf", {entry("a", 64)}), 96), Rules{});
  EXPECT_EQ(rules(catalog_of("gguf", {entry("a", 64)}), 97), Rules{"files_end_with_their_data"});
  EXPECT_EQ(rules(catalog_of("irpa", {entry("a", 64)}), 97), Rules{});
  EXPECT_EQ(rules(catalog_of("gguf", {}), 97), Rules{});
  for (const auto& warning : warnings_of(catalog_of("gguf", {entry("a", 64)}), std::array{FileSize{"f"}}))
    EXPECT_NE(warning.rule(), "files_end_with_their_data") << "the size is unknown";
}

TEST(Diagnoses, files_are_complete) {
  auto other = entry("c", 0);
  other.file = 1;
  const auto catalog = catalog_of("irpa", {entry("a", 0), entry("b", 4), other, entry("d", UINT64_MAX - 1)});
  EXPECT_TRUE(missing_data(catalog, std::array{FileSize{"f"}, FileSize{"g"}}).empty()) << "unknown sizes";
  const auto errors = missing_data(catalog, std::array{FileSize{"f", 5}, FileSize{"g", 4}});
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].code(), ErrorCode::truncated);
  EXPECT_EQ(errors[0].path(), "f");
  EXPECT_EQ(errors[0].tensor(), "b");
  EXPECT_EQ(errors[0].message(),
            "18446744073709551610 of 18446744073709551615 bytes are missing at the end: 1 of 3 tensors are "
            "complete, 2 are cut: 'b', 'd'");
}

using testing::write_file;

TEST(Diagnoses, good_files_have_a_catalog) {
  const testing::TemporaryFolder folder;
  write_file(folder / "a.safetensors", testing::noise_file("safetensors", {4, 5}));
  const auto diagnosis = diagnose(folder / "a.safetensors").value();
  EXPECT_TRUE(diagnosis.is_readable);
  EXPECT_EQ(diagnosis.format, "safetensors");
  EXPECT_EQ(diagnosis.model->size(), 2U);
  EXPECT_TRUE(diagnosis.problems.empty());
  EXPECT_TRUE(diagnosis.warnings.empty());
}

TEST(Diagnoses, truncated_files_report_the_missing_bytes) {
  const testing::TemporaryFolder folder;
  auto file = testing::noise_file("safetensors", {4, 5});
  file.resize(file.size() - 3);
  write_file(folder / "a.safetensors", file);
  const auto diagnosis = diagnose(folder / "a.safetensors").value();
  EXPECT_FALSE(diagnosis.is_readable);
  ASSERT_EQ(diagnosis.problems.size(), 1U);
  EXPECT_EQ(diagnosis.problems[0].rule(), "files_are_complete");
  EXPECT_EQ(diagnosis.model->size(), 2U);
}

TEST(Diagnoses, malformed_files_report_a_problem_with_a_path) {
  const testing::TemporaryFolder folder;
  write_file(folder / "a.safetensors", std::vector<std::byte>(100));
  const auto diagnosis = diagnose(folder / "a.safetensors").value();
  EXPECT_FALSE(diagnosis.is_readable);
  EXPECT_FALSE(diagnosis.model);
  ASSERT_EQ(diagnosis.problems.size(), 1U);
  EXPECT_EQ(diagnosis.problems[0].path(), (folder / "a.safetensors").string());
}

TEST(Diagnoses, missing_files_of_a_set_are_listed) {
  const testing::TemporaryFolder folder;
  write_file(folder / "b.safetensors", testing::shard_file({"b"}));
  const auto index = testing::index_text({{"a", "a.safetensors"}, {"b", "b.safetensors"}});
  write_file(folder / "m.safetensors.index.json", index);
  const auto diagnosis = diagnose(folder / "m.safetensors.index.json").value();
  EXPECT_EQ(diagnosis.missing_files, std::vector{folder / "a.safetensors"});
  EXPECT_EQ(diagnosis.problems.at(0).code(), ErrorCode::missing_shard);
}

// A writer was killed after it committed the journal: all files of the new set still have temporary names.
// One of these files is missing.
TEST(Diagnoses, missing_files_of_a_set_are_listed_while_it_is_replaced) {
  const testing::TemporaryFolder folder;
  const std::string index = "m.safetensors.index.json";
  const std::vector<std::string> shards{"m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"};
  write_file(folder / shards[0], testing::shard_file({"a"}));
  write_file(folder / shards[1], testing::shard_file({"b"}));
  write_file(folder / index, testing::index_text({{"a", shards[0]}, {"b", shards[1]}}));
  const auto journal = testing::interrupt_replacement(folder.path(), {shards[0], shards[1], index});
  std::filesystem::remove(folder / journal.new_files[1].temporary);
  for (const auto& opened : {folder / index, folder.path()}) {
    const auto diagnosis = diagnose(opened).value();
    EXPECT_EQ(diagnosis.missing_files, std::vector{folder / shards[1]}) << opened;
    ASSERT_EQ(diagnosis.problems.size(), 1U);
    EXPECT_EQ(diagnosis.problems[0].code(), ErrorCode::missing_shard);
  }
}

// A writer was killed after it committed the journal: the only shard of the new set still has a temporary
// name. The shard is truncated.
TEST(Diagnoses, truncated_files_of_a_set_are_reported_while_it_is_replaced) {
  const testing::TemporaryFolder folder;
  const std::string name = "m-00001-of-00001.gguf";
  write_file(folder / name, testing::noise_file("gguf", {1000}));
  const auto bytes = std::filesystem::file_size(folder / name);
  std::filesystem::resize_file(folder / name, bytes - 400);
  testing::interrupt_replacement(folder.path(), {name});
  const auto diagnosis = diagnose(folder / name).value();
  ASSERT_EQ(diagnosis.problems.size(), 1U);
  EXPECT_EQ(diagnosis.problems[0].rule(), "files_are_complete");
}

TEST(Diagnoses, fail_for_paths_that_cannot_be_examined) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(diagnose(folder / "none").error().code(), ErrorCode::open_failed);
  write_file(folder / "a.safetensors", testing::noise_file("safetensors", {4}));
  testing::FaultyPort port;
  port.fail_from(testing::Call::read_at, 0, std::errc::io_error);
  EXPECT_EQ(diagnose(folder / "a.safetensors", {.port = &port}).error().code(), ErrorCode::read_failed);
}

}  // namespace
}  // namespace ht::diagnose_test
