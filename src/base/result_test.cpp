#include <gtest/gtest.h>

#include <array>
#include <htensor/base/result.hpp>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

namespace ht::result_test {
namespace {

Result<int> number(int value) { return value; }
Result<int> no_number() { return fail(ErrorCode::not_found, "number_exists", "number does not exist"); }
Result<void> success() { return {}; }
Result<void> failure() { return fail(Error(ErrorCode::bad_state)); }

template <class T, int Count>
Result<std::array<T, Count>> several(T value) {
  std::array<T, Count> all{};
  all.fill(value);
  return all;
}

TEST(Try, returns_the_value) {
  const auto twice = [](int value) -> Result<int> {
    const auto found = HT_TRY(number(value));
    return 2 * found;
  };
  EXPECT_EQ(twice(21).value(), 42);
}

TEST(Try, returns_the_error_and_runs_nothing_after_it) {
  bool continued = false;
  const auto twice = [&]() -> Result<int> {
    const auto found = HT_TRY(no_number());
    continued = true;
    return 2 * found;
  };
  const auto answer = twice();
  ASSERT_FALSE(answer.has_value());
  EXPECT_FALSE(continued);
}

TEST(Try, returns_the_error_unchanged) {
  const auto source = []() -> Result<int> {
    return fail(Error(ErrorCode::truncated, "data_is_whole", "too short")
                    .with_hint("copy it again")
                    .at_path("a.ht")
                    .at_tensor("w")
                    .at_offset(7)
                    .with_cause(std::make_error_code(std::errc::io_error)));
  };
  const Error direct = source().error();
  const auto inner = [&]() -> Result<std::string> { return std::to_string(HT_TRY(source())); };
  const auto outer = [&]() -> Result<void> {
    HT_TRY(inner());
    return {};
  };
  const auto answer = outer();
  ASSERT_FALSE(answer.has_value());
  const Error& through = answer.error();
  EXPECT_EQ(through.code(), direct.code());
  EXPECT_EQ(through.rule(), direct.rule());
  EXPECT_EQ(through.message(), direct.message());
  EXPECT_EQ(through.hint(), direct.hint());
  EXPECT_EQ(through.path(), direct.path());
  EXPECT_EQ(through.tensor(), direct.tensor());
  EXPECT_EQ(through.offset(), direct.offset());
  EXPECT_EQ(through.cause(), direct.cause());
  EXPECT_EQ(through.where().line, direct.where().line);
}

TEST(Try, works_for_void) {
  int steps = 0;
  const auto run = [&](bool stop) -> Result<void> {
    HT_TRY(success());
    ++steps;
    if (stop) HT_TRY(failure());
    ++steps;
    return {};
  };
  EXPECT_TRUE(run(false).has_value());
  EXPECT_EQ(steps, 2);
  const auto stopped = run(true);
  ASSERT_FALSE(stopped.has_value());
  EXPECT_EQ(stopped.error().code(), ErrorCode::bad_state);
  EXPECT_EQ(steps, 3);
}

TEST(Try, nests_in_one_statement) {
  // -Wshadow is an error, so this compiles only if nested expansions declare distinct names.
  const auto nested = [](bool inner_fails) -> Result<int> {
    return HT_TRY(number(1 + HT_TRY(inner_fails ? no_number() : number(2)))) + HT_TRY(number(10));
  };
  EXPECT_EQ(nested(false).value(), 13);
  ASSERT_FALSE(nested(true).has_value());
  EXPECT_EQ(nested(true).error().rule(), "number_exists");
}

TEST(Try, returns_from_the_enclosing_lambda) {
  const auto outer = [](bool fails) -> Result<int> {
    const auto inner = [fails]() -> Result<int> { return HT_TRY(fails ? no_number() : number(1)) + 1; };
    const auto answer = inner();
    return answer ? HT_TRY(answer) : -1;
  };
  EXPECT_EQ(outer(false).value(), 2);
  EXPECT_EQ(outer(true).value(), -1);
}

TEST(Try, moves_move_only_values) {
  const auto source = [](bool fails) -> Result<std::unique_ptr<int>> {
    if (fails) return fail(Error(ErrorCode::cancelled));
    return std::make_unique<int>(7);
  };
  const auto incremented = [&](bool fails) -> Result<std::unique_ptr<int>> {
    auto pointer = HT_TRY(source(fails));
    ++*pointer;
    return pointer;
  };
  EXPECT_EQ(*incremented(false).value(), 8);
  EXPECT_EQ(incremented(true).error().code(), ErrorCode::cancelled);

  const auto from_a_name = [&]() -> Result<int> {
    auto named = source(false);
    const auto pointer = HT_TRY(std::move(named));
    return *pointer;
  };
  EXPECT_EQ(from_a_name().value(), 7);
}

TEST(Try, a_named_result_keeps_its_value) {
  // Longer than the small-string buffer, so that a move would leave `named` empty.
  const std::string text(100, 'x');
  Result<std::string> named = text;
  const auto read = [&]() -> Result<std::string> { return HT_TRY(named) + HT_TRY(named); };
  EXPECT_EQ(read().value(), text + text);
  EXPECT_EQ(*named, text);

  Result<std::string> failed = fail(ErrorCode::gap, "no_gap", text);
  const auto read_failed = [&]() -> Result<std::string> { return HT_TRY(failed); };
  EXPECT_EQ(read_failed().error().message(), text);
  EXPECT_EQ(failed.error().message(), text);
}

TEST(Try, accepts_commas_between_template_arguments) {
  const auto sum = []() -> Result<int> {
    const auto all = HT_TRY(several<int, 3>(5));
    return all[0] + all[1] + all[2];
  };
  EXPECT_EQ(sum().value(), 15);
}

TEST(Try, a_value_outlives_the_statement) {
  const auto count = []() -> Result<std::size_t> {
    const auto values = HT_TRY(Result<std::vector<int>>(std::vector<int>(1000, 3)));
    std::size_t found = 0;
    for (const int value : values) found += value == 3 ? 1 : 0;
    return found;
  };
  EXPECT_EQ(count().value(), 1000U);
}

TEST(Fail, stores_the_line_of_the_caller) {
  const int line_before = __LINE__;
  const Result<int> failed = fail(ErrorCode::gap, "no_gap", "a gap");
  EXPECT_EQ(failed.error().where().line, line_before + 1);
  EXPECT_TRUE(std::string_view(failed.error().where().file).ends_with("result_test.cpp"));
  EXPECT_EQ(failed.error().code(), ErrorCode::gap);
  EXPECT_EQ(failed.error().rule(), "no_gap");
  EXPECT_EQ(failed.error().message(), "a gap");
}

TEST(Result, is_distinguished_from_other_types) {
  EXPECT_TRUE(is_result<Result<int>>);
  EXPECT_TRUE(is_result<Result<void>>);
  EXPECT_FALSE(is_result<int>);
  EXPECT_FALSE((is_result<tl::expected<int, int>>));
}

TEST(WithoutBadAlloc, converts_bad_alloc_to_out_of_memory) {
  const auto failed = without_bad_alloc([]() -> Result<int> { throw std::bad_alloc(); });
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code(), ErrorCode::out_of_memory);

  const auto in_void = without_bad_alloc([]() -> Result<void> { throw std::bad_array_new_length(); });
  ASSERT_FALSE(in_void.has_value());
  EXPECT_EQ(in_void.error().code(), ErrorCode::out_of_memory);
}

TEST(WithoutBadAlloc, passes_other_exceptions_through) {
  EXPECT_EQ(without_bad_alloc([] { return number(3); }).value(), 3);
  EXPECT_EQ(without_bad_alloc([] { return no_number(); }).error().rule(), "number_exists");
  EXPECT_TRUE(without_bad_alloc([] { return success(); }).has_value());
  auto pointer = without_bad_alloc(
      [p = std::make_unique<int>(4)]() mutable -> Result<std::unique_ptr<int>> { return std::move(p); });
  EXPECT_EQ(**pointer, 4);
  // An exception of another type comes from the user's callback and is not converted.
  EXPECT_THROW(static_cast<void>(without_bad_alloc([]() -> Result<void> { throw 42; })), int);
}

}  // namespace
}  // namespace ht::result_test
