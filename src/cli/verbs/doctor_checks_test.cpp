#include "cli/verbs/doctor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace ht::cli::doctor_checks_test {
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
  const std::array files{FileFacts{"f", file_bytes}};
  std::vector<std::string> names;
  for (const auto& warning : warnings_of(catalog, files)) {
    EXPECT_FALSE(warning.hint().empty());
    names.emplace_back(warning.rule());
  }
  return names;
}

using Rules = std::vector<std::string>;

TEST(DoctorChecks, good_files_have_no_warnings) {
  EXPECT_EQ(
      rules(catalog_of("irpa", {entry("a", 0, F32::tag, 16), entry("b", 16, BF16::tag, 8), entry("c", 25)})),
      Rules{});
  EXPECT_EQ(rules(catalog_of("irpa", {})), Rules{});
}

TEST(DoctorChecks, data_is_aligned_for_its_dtype) {
  EXPECT_EQ(rules(catalog_of("safetensors", {entry("a", 2, F32::tag, 16)})),
            Rules{"data_is_aligned_for_its_dtype"});
  EXPECT_EQ(rules(catalog_of("safetensors", {entry("a", 4, C64::tag, 32)})), Rules{});
  EXPECT_EQ(rules(catalog_of("safetensors", {entry("a", 1, F32::tag, 0)})), Rules{});
}

TEST(DoctorChecks, warnings_have_the_path_of_the_first_tensor) {
  const std::array files{FileFacts{"f", 1 << 20}, FileFacts{"other.bin", 1 << 20}};
  auto in_second_file = entry("b\n", 2, F32::tag, 16);
  in_second_file.file = 1;
  const auto warnings = warnings_of(catalog_of("irpa", {entry("a", 0), in_second_file}), files);
  ASSERT_EQ(warnings.size(), 2U);
  for (const auto& warning : warnings) EXPECT_EQ(warning.path(), "other.bin") << warning.rule();
}

TEST(DoctorChecks, names_can_be_printed) {
  EXPECT_EQ(rules(catalog_of("safetensors", {entry("", 0), entry("a\nb", 4)})),
            Rules{"names_can_be_printed"});
}

TEST(DoctorChecks, names_fit_ggml) {
  const std::string name(64, 'n');
  EXPECT_EQ(rules(catalog_of("gguf", {entry(name, 0)}), 4), Rules{"names_fit_ggml"});
  EXPECT_EQ(rules(catalog_of("gguf", {entry(std::string_view(name).substr(1), 0)}), 4), Rules{});
  EXPECT_EQ(rules(catalog_of("irpa", {entry(name, 0)})), Rules{});
}

TEST(DoctorChecks, metadata_names_the_architecture) {
  EXPECT_EQ(rules(catalog_of("gguf", {entry("a", 0)}, ""), 4), Rules{"metadata_names_the_architecture"});
  EXPECT_EQ(rules(catalog_of("irpa", {entry("a", 0)}, "")), Rules{});
}

TEST(DoctorChecks, data_is_little_endian) {
  auto big = entry("a", 0);
  big.byte_order = ByteOrder::big;
  EXPECT_EQ(rules(catalog_of("npy", {big})), Rules{"data_is_little_endian"});
}

TEST(DoctorChecks, entries_have_dtype_and_shape) {
  const Entry untyped{.name = "a", .offset = 1, .bytes = 4};
  EXPECT_EQ(rules(catalog_of("irpa", {untyped})), Rules{"entries_have_dtype_and_shape"});
}

TEST(DoctorChecks, entries_do_not_overlap) {
  // The second lies within the first, the third behind the second and within the first, too.
  const auto shared = catalog_of("irpa", {entry("a", 0, U8::tag, 100), entry("b", 10), entry("c", 50)});
  const auto warnings = warnings_of(shared, std::array{FileFacts{"f", 100}});
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

TEST(DoctorChecks, files_end_with_their_data) {
  EXPECT_EQ(rules(catalog_of("gguf", {entry("a", 64)}), 96), Rules{});
  EXPECT_EQ(rules(catalog_of("gguf", {entry("a", 64)}), 97), Rules{"files_end_with_their_data"});
  EXPECT_EQ(rules(catalog_of("irpa", {entry("a", 64)}), 97), Rules{});
  EXPECT_EQ(rules(catalog_of("gguf", {}), 97), Rules{});
}

TEST(DoctorChecks, files_are_complete) {
  auto other = entry("c", 0);
  other.file = 1;
  const auto catalog = catalog_of("irpa", {entry("a", 0), entry("b", 4), other, entry("d", UINT64_MAX - 1)});
  const auto errors = missing_data(catalog, std::array{FileFacts{"f", 5}, FileFacts{"g", 4}});
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].code(), ErrorCode::truncated);
  EXPECT_EQ(errors[0].path(), "f");
  EXPECT_EQ(errors[0].tensor(), "b");
  EXPECT_EQ(errors[0].message(),
            "18446744073709551610 of 18446744073709551615 bytes are missing at the end: 1 of 3 tensors are "
            "complete, 2 are cut: 'b', 'd'");
}

}  // namespace
}  // namespace ht::cli::doctor_checks_test
