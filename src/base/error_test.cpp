#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <htensor/base/result.hpp>
#include <new>
#include <set>
#include <string>
#include <type_traits>
#include <utility>

namespace {
std::atomic<std::size_t> allocations = 0;
}

// Counts allocations, so that a test can require that there are none. The nothrow form is replaced too,
// because the operator delete below frees its memory. noinline, because compilers otherwise report a mismatch
// of malloc and delete.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace ht::error_test {
namespace {

ErrorCode code_of(std::size_t value) { return static_cast<ErrorCode>(value); }

Error full_error() {
  return Error(ErrorCode::truncated, "data_ends_in_the_file", "the data ends at byte 640")
      .with_hint("copy the file again")
      .at_path("model.ht")
      .at_tensor("blk.0.weight")
      .at_offset(600)
      .with_cause(std::make_error_code(std::errc::io_error));
}

void expect_full(const Error& error) {
  EXPECT_EQ(error.code(), ErrorCode::truncated);
  EXPECT_EQ(error.rule(), "data_ends_in_the_file");
  EXPECT_EQ(error.message(), "the data ends at byte 640");
  EXPECT_EQ(error.hint(), "copy the file again");
  EXPECT_EQ(error.path(), "model.ht");
  EXPECT_EQ(error.tensor(), "blk.0.weight");
  EXPECT_EQ(error.offset(), 600U);
  EXPECT_EQ(error.cause(), std::errc::io_error);
  EXPECT_GT(error.where().line, 0);
}

TEST(ErrorCodes, each_has_a_unique_name) {
  std::set<std::string_view> names;
  for (std::size_t i = 1; i <= error_code_count; ++i) {
    const std::string_view name = to_string(code_of(i));
    EXPECT_FALSE(name.empty()) << i;
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), name.npos) << name;
    EXPECT_TRUE(names.insert(name).second) << name << " is used twice";
  }
}

TEST(ErrorCodes, each_has_a_unique_sentence) {
  std::set<std::string_view> sentences;
  for (std::size_t i = 1; i <= error_code_count; ++i) {
    const std::string_view sentence = describe(code_of(i));
    ASSERT_GT(sentence.size(), 1U) << i;
    // to_string(Error) prints the sentence in place of a message: after the path and before the code.
    EXPECT_TRUE(sentence.front() >= 'a' && sentence.front() <= 'z') << sentence;
    EXPECT_NE(sentence.back(), '.') << sentence;
    EXPECT_TRUE(sentences.insert(sentence).second) << sentence;
  }
}

TEST(ErrorCodes, names_are_stable) {
  EXPECT_EQ(error_code_count, 51U);
  EXPECT_EQ(to_string(ErrorCode::open_failed), "open_failed");
  EXPECT_EQ(to_string(ErrorCode::size_overflow), "size_overflow");
  EXPECT_EQ(to_string(ErrorCode::internal), "internal");
}

TEST(ErrorCodes, values_never_change) {
  EXPECT_EQ(static_cast<int>(ErrorCode::open_failed), 1);
  EXPECT_EQ(static_cast<int>(ErrorCode::truncated), 10);
  EXPECT_EQ(static_cast<int>(ErrorCode::unsupported_encoding), 20);
  EXPECT_EQ(static_cast<int>(ErrorCode::stale_index), 30);
  EXPECT_EQ(static_cast<int>(ErrorCode::in_use), 40);
  EXPECT_EQ(static_cast<int>(ErrorCode::cancelled), 50);
  EXPECT_EQ(static_cast<int>(ErrorCode::internal), 51);
}

TEST(ErrorCodes, unknown_code_is_described_as_internal) {
  EXPECT_EQ(to_string(code_of(0)), "internal");
  EXPECT_EQ(to_string(code_of(error_code_count + 1)), "internal");
  EXPECT_EQ(describe(code_of(255)), describe(ErrorCode::internal));
}

TEST(Error, keeps_all_fields) { expect_full(full_error()); }

TEST(Error, a_copy_is_independent) {
  std::optional<Error> original = full_error();
  Error copy = *original;
  copy = std::move(copy).with_hint("another").at_offset(1);
  expect_full(*original);
  EXPECT_EQ(copy.hint(), "another");
  EXPECT_EQ(copy.offset(), 1U);

  const Error second = *original;
  original.reset();
  expect_full(second);
}

TEST(Error, assignment_replaces_all_fields) {
  const Error full = full_error();
  Error error(ErrorCode::gap, "no_gap", "a gap");
  error = full;
  expect_full(error);
  expect_full(full);
  const Error bare(ErrorCode::overlap);
  error = bare;
  EXPECT_EQ(error.code(), ErrorCode::overlap);
  EXPECT_EQ(error.hint(), "");
  EXPECT_EQ(error.offset(), std::nullopt);
}

TEST(Error, self_assignment_changes_nothing) {
  Error error = full_error();
  // The reference avoids a compiler warning about `error = error`.
  const Error& same = error;
  error = same;
  expect_full(error);
}

TEST(Error, move_keeps_all_fields_and_allocates_nothing) {
  Error error = full_error();
  const std::size_t before = allocations;
  Error moved = std::move(error);
  error = std::move(moved);
  const std::size_t after = allocations;
  EXPECT_EQ(after, before);
  expect_full(error);
  static_assert(std::is_nothrow_move_constructible_v<Error> && std::is_nothrow_move_assignable_v<Error>);
}

TEST(Error, a_bare_code_has_a_message_without_allocation) {
  const std::size_t before = allocations;
  const Error error(ErrorCode::out_of_memory);
  const Error copy = error;
  const bool has_default_text =
      error.message() == describe(ErrorCode::out_of_memory) && error.rule() == "out_of_memory";
  const bool has_no_details = error.hint().empty() && error.path().empty() && error.tensor().empty() &&
                              !error.offset() && !error.cause() && error.where().line == 0;
  const std::size_t after = allocations;
  EXPECT_EQ(after, before);
  EXPECT_TRUE(has_default_text);
  EXPECT_TRUE(has_no_details);
  EXPECT_EQ(copy.code(), ErrorCode::out_of_memory);
  static_assert(std::is_nothrow_constructible_v<Error, ErrorCode>);
}

TEST(Error, details_can_be_added_to_a_bare_code) {
  const Error error = Error(ErrorCode::not_found).at_tensor("lm_head");
  EXPECT_EQ(error.tensor(), "lm_head");
  EXPECT_EQ(error.message(), describe(ErrorCode::not_found));
  EXPECT_EQ(error.rule(), "not_found");
}

TEST(Error, an_offset_of_zero_is_kept) {
  const Error error = Error(ErrorCode::bad_magic).at_offset(0);
  EXPECT_EQ(error.offset(), 0U);
}

TEST(Error, stores_the_line_of_the_caller) {
  const int line_before = __LINE__;
  const Error error(ErrorCode::gap, "no_gap", "a gap");
  EXPECT_EQ(error.where().line, line_before + 1);
  EXPECT_TRUE(std::string_view(error.where().file).ends_with("error_test.cpp")) << error.where().file;
  // A function that creates an error on behalf of its caller passes the caller's line on.
  const auto error_of_caller = [](SourceLine where = SourceLine::here()) {
    return Error(ErrorCode::gap, "no_gap", "a gap", where);
  };
  const int second_before = __LINE__;
  const Error forwarded = error_of_caller();
  EXPECT_EQ(forwarded.where().line, second_before + 1);
}

TEST(Error, to_string_has_the_path_the_message_and_the_code) {
  EXPECT_EQ(to_string(full_error()), "model.ht: the data ends at byte 640 [truncated]");
  EXPECT_EQ(to_string(Error(ErrorCode::gap, "no_gap", "bytes 8 to 16 belong to no tensor")),
            "bytes 8 to 16 belong to no tensor [gap]");
  EXPECT_EQ(to_string(Error(ErrorCode::cancelled)), "stopped on request [cancelled]");
}

TEST(Error, has_the_size_of_two_words) { EXPECT_EQ(sizeof(Error), 2 * sizeof(void*)); }

TEST(ErrorText, long_tensor_names_are_shortened) {
  const auto error = Error(ErrorCode::bad_name, "r", "m").at_tensor(std::string(5000, 'x'));
  EXPECT_EQ(error.tensor(), std::string(2000, 'x') + "…");
}

TEST(ErrorText, long_messages_are_truncated_between_characters) {
  const std::string exactly(2000, 'x');
  EXPECT_EQ(Error(ErrorCode::bad_name, "r", exactly).message(), exactly);
  EXPECT_EQ(Error(ErrorCode::bad_name, "r", std::string(1'000'000, 'x')).message(), exactly + "…");
  std::string accents = "x";
  for (int i = 0; i < 2000; ++i) accents += "ü";
  EXPECT_EQ(Error(ErrorCode::bad_name, "r", accents).message(), accents.substr(0, 1999) + "…");
}

}  // namespace
}  // namespace ht::error_test
