#include <gtest/gtest.h>

#include <array>
#include <htensor/dtype/relations.hpp>
#include <memory>
#include <set>
#include <string>

#include "testing/library_types.hpp"

namespace {

struct Temperature {
  struct Family {};
  using Element = unsigned char;
  static constexpr std::string_view name = "TEMPERATURE";
  static constexpr int bits = 8;
  static constexpr ht::DTypeTag tag = ht::user_tag(0);
};
static_assert(ht::IsDType<Temperature>);

}  // namespace

namespace ht::visit_test {
namespace {

DTypeTag tag_of(int number) { return static_cast<DTypeTag>(number); }

constexpr auto name_of = [](auto dtype) { return decltype(dtype)::name; };

struct Pinned {
  int tag;
  std::string_view name;
  int bits;
};

// Files contain these numbers and safetensors headers contain these names, so a change breaks existing files.
constexpr std::array<Pinned, 24> pinned{{
    {1, "BOOL", 8},     {2, "I4", 4},       {3, "U4", 4},           {4, "I8", 8},
    {5, "U8", 8},       {6, "I16", 16},     {7, "U16", 16},         {8, "I32", 32},
    {9, "U32", 32},     {10, "I64", 64},    {11, "U64", 64},        {12, "F16", 16},
    {13, "BF16", 16},   {14, "F32", 32},    {15, "F64", 64},        {16, "C64", 64},
    {17, "F4", 4},      {18, "F6_E2M3", 6}, {19, "F6_E3M2", 6},     {20, "F8_E4M3", 8},
    {21, "F8_E5M2", 8}, {22, "F8_E8M0", 8}, {23, "F8_E4M3FNUZ", 8}, {24, "F8_E5M2FNUZ", 8},
}};

TEST(Tags, match_the_values_in_files) {
  EXPECT_EQ(AllDTypes::size, 24);
  const auto infos = library_dtypes();
  ASSERT_EQ(infos.size(), pinned.size());
  for (std::size_t i = 0; i < pinned.size(); ++i) {
    EXPECT_EQ(static_cast<int>(infos[i].tag), pinned[i].tag);
    EXPECT_EQ(infos[i].name, pinned[i].name);
    EXPECT_EQ(infos[i].bits, pinned[i].bits) << pinned[i].name;
  }
}

TEST(Tags, match_the_dtypes_by_name) {
  EXPECT_EQ(static_cast<int>(Bool::tag), 1);
  EXPECT_EQ(static_cast<int>(I4::tag), 2);
  EXPECT_EQ(static_cast<int>(U64::tag), 11);
  EXPECT_EQ(static_cast<int>(F16::tag), 12);
  EXPECT_EQ(static_cast<int>(BF16::tag), 13);
  EXPECT_EQ(static_cast<int>(F32::tag), 14);
  EXPECT_EQ(static_cast<int>(C64::tag), 16);
  EXPECT_EQ(static_cast<int>(F8_E4M3::tag), 20);
  EXPECT_EQ(static_cast<int>(F8_E5M2::tag), 21);
  EXPECT_EQ(static_cast<int>(F8_E8M0::tag), 22);
  EXPECT_EQ(static_cast<int>(F8_E4M3FNUZ::tag), 23);
  EXPECT_EQ(static_cast<int>(F8_E5M2FNUZ::tag), 24);
}

TEST(Visit, calls_f_with_the_dtype_of_each_tag) {
  for (const auto& [tag, name, bits] : pinned) {
    const auto found = visit_dtype(tag_of(tag), name_of);
    ASSERT_TRUE(found.has_value()) << name;
    EXPECT_EQ(*found, name);
    const auto same_tag = visit_dtype(tag_of(tag), [](auto dtype) { return decltype(dtype)::tag; });
    EXPECT_EQ(same_tag, tag_of(tag)) << name;
  }
}

TEST(Visit, calls_once) {
  for (const auto& [tag, name, bits] : pinned) {
    int calls = 0;
    ASSERT_TRUE(visit_dtype(tag_of(tag), [&](auto) { ++calls; }).has_value()) << name;
    EXPECT_EQ(calls, 1) << name;
  }
}

TEST(Visit, dtype_tag_is_known) {
  std::set<std::string> hints;
  for (int tag = 0; tag < 256; ++tag) {
    if (tag >= 1 && tag <= 24) continue;
    bool called = false;
    const auto answer = visit_dtype(tag_of(tag), [&](auto) { called = true; });
    ASSERT_FALSE(answer.has_value()) << tag;
    EXPECT_FALSE(called) << tag;
    EXPECT_EQ(answer.error().code(), ErrorCode::bad_dtype) << tag;
    EXPECT_EQ(answer.error().rule(), "dtype_tag_is_known") << tag;
    EXPECT_EQ(answer.error().message(), "dtype tag " + std::to_string(tag) + " is unknown");
    EXPECT_FALSE(answer.error().hint().empty()) << tag;
    hints.emplace(answer.error().hint());
  }
  // Tag 0, tags of newer versions and tags of user dtypes have different hints.
  EXPECT_EQ(hints.size(), 3U);
}

TEST(Visit, the_hint_depends_on_the_range_of_an_unknown_tag) {
  const auto hint = [](int tag) { return std::string(unknown_dtype(tag_of(tag)).hint()); };
  EXPECT_NE(hint(0).find("incomplete"), std::string::npos);
  EXPECT_NE(hint(25).find("update htensor"), std::string::npos);
  EXPECT_EQ(hint(191), hint(25));
  EXPECT_NE(hint(192).find("user-defined"), std::string::npos);
  EXPECT_EQ(hint(255), hint(192));
}

TEST(Visit, the_error_stores_the_line_of_the_caller) {
  const int line_before = __LINE__;
  const Error error = unknown_dtype(tag_of(99));
  EXPECT_EQ(error.where().line, line_before + 1);
  EXPECT_TRUE(std::string_view(error.where().file).ends_with("visit_test.cpp"));
}

TEST(Visit, wraps_the_return_value_of_f_in_a_result) {
  static_assert(std::same_as<decltype(visit_dtype(F32::tag, [](auto) {})), Result<void>>);
  static_assert(std::same_as<decltype(visit_dtype(F32::tag, [](auto) { return 1; })), Result<int>>);
  static_assert(
      std::same_as<decltype(visit_dtype(F32::tag, [](auto) -> Result<int> { return 1; })), Result<int>>);
  const auto bits = visit_dtype(F64::tag, [](auto dtype) { return decltype(dtype)::bits; });
  EXPECT_EQ(bits, 64);
}

TEST(Visit, returns_a_result_of_f_unchanged) {
  const auto only_floating = [](auto dtype) -> Result<std::string_view> {
    if (decltype(dtype)::name.starts_with("F")) return decltype(dtype)::name;
    return fail(ErrorCode::dtype_mismatch, "dtype_is_floating", "this is not floating");
  };
  EXPECT_EQ(visit_dtype(F32::tag, only_floating).value(), "F32");
  const auto refused = visit_dtype(I8::tag, only_floating);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), ErrorCode::dtype_mismatch);
  EXPECT_EQ(refused.error().rule(), "dtype_is_floating");

  const auto nothing = [](auto) -> Result<void> { return fail(Error(ErrorCode::cancelled)); };
  EXPECT_EQ(visit_dtype(F32::tag, nothing).error().code(), ErrorCode::cancelled);
}

TEST(Visit, accepts_move_only_return_values) {
  auto answer = visit_dtype(U8::tag, [](auto dtype) { return std::make_unique<int>(decltype(dtype)::bits); });
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(**answer, 8);
}

TEST(Visit, uses_the_callers_own_object) {
  // With a copy, the count would start again from 0.
  auto counter = [calls = 0](auto) mutable { return ++calls; };
  EXPECT_EQ(visit_dtype(F32::tag, counter), 1);
  EXPECT_EQ(visit_dtype(I64::tag, counter), 2);
}

TEST(Visit, finds_a_user_dtype_that_is_passed) {
  EXPECT_EQ((visit_dtype<Temperature>(Temperature::tag, name_of).value()), "TEMPERATURE");
  EXPECT_EQ((visit_dtype<Temperature>(F32::tag, name_of).value()), "F32");
  EXPECT_EQ(visit_dtype(Temperature::tag, name_of).error().code(), ErrorCode::bad_dtype);
  EXPECT_EQ((visit_dtype<Temperature>(user_tag(1), name_of).error().code()), ErrorCode::bad_dtype);
}

TEST(FindDType, finds_each_by_tag) {
  for (const auto& [tag, name, bits] : pinned) {
    EXPECT_EQ(find_dtype(tag_of(tag)), (DTypeInfo{tag_of(tag), name, bits}));
  }
  for (int tag = 0; tag < 256; ++tag) {
    EXPECT_EQ(find_dtype(tag_of(tag)).has_value(), tag >= 1 && tag <= 24) << tag;
  }
}

TEST(FindDType, finds_each_by_its_exact_name) {
  for (const auto& [tag, name, bits] : pinned) {
    EXPECT_EQ(find_dtype(name), (DTypeInfo{tag_of(tag), name, bits}));
  }
  for (const std::string_view name :
       {"", "f32", "F3", "F32 ", "F8", "Bool", "bool", "BFLOAT16", "F8_E4M3FN"}) {
    EXPECT_EQ(find_dtype(name), std::nullopt) << name;
  }
}

TEST(FindDType, searches_user_dtypes_after_library_dtypes) {
  const std::array users{dtype_info<Temperature>(), DTypeInfo{user_tag(1), "F32", 99}};
  EXPECT_EQ(find_dtype(Temperature::tag, users), dtype_info<Temperature>());
  EXPECT_EQ(find_dtype("TEMPERATURE", users), dtype_info<Temperature>());
  EXPECT_EQ(find_dtype("TEMPERATURE"), std::nullopt);
  // A user dtype cannot replace the library dtype of the same name.
  EXPECT_EQ(find_dtype("F32", users), dtype_info<F32>());
}

}  // namespace
}  // namespace ht::visit_test
