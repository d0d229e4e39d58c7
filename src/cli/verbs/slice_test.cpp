// `show --slice`: a part of a tensor, spelled as in Python.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <sstream>
#include <string>

#include "cli/cli.hpp"
#include "cli/program_test.hpp"

namespace ht::slice_test {
namespace {

class Slice : public Cli {
 protected:
  // A tensor `t` whose elements count up from 0.
  void write_tensor(const std::string& dims, std::size_t elements) {
    write_safetensors("t.safetensors",
                      R"({"t":{"dtype":"U8","shape":[)" + dims + R"(],"data_offsets":[0,)" +
                          std::to_string(elements) + "]}}",
                      elements);
  }

  // The values of a part of `t`, after their shape: "[2]: [1,2]".
  std::string slice(const std::string& text) {
    const auto shown = run("show t.safetensors t --json" + (text.empty() ? "" : " '--slice=" + text + "'"));
    EXPECT_EQ(shown.status, 0) << text << shown.out;
    return part_of(shown.out);
  }

  static std::string part_of(const std::string& json) {
    const std::string key = R"("values_shape":)";
    const auto begin = json.find(key) + key.size();
    const auto values = json.find(R"(,"values":)", begin);
    return json.substr(begin, values - begin) + ": " +
           json.substr(values + 10, json.rfind('}') - values - 10);
  }

  void expect_refused(const std::string& text, std::string_view code, std::string_view rule) {
    const auto refused = run("show t.safetensors t --json '--slice=" + text + "'");
    EXPECT_EQ(refused.status, 2) << text;
    EXPECT_THAT(refused.out,
                HasSubstr("\"code\":\"" + std::string(code) + "\",\"rule\":\"" + std::string(rule) + "\""))
        << text;
    EXPECT_THAT(refused.out, Not(HasSubstr(R"("hint":null)")));
  }
};

TEST_F(Slice, empty_slice_is_the_whole_tensor) {
  write_tensor("2,3", 6);
  EXPECT_EQ(slice(""), "[2,3]: [0,1,2,3,4,5]");
}

TEST_F(Slice, ranges_work_as_in_python) {
  write_tensor("5", 5);
  EXPECT_EQ(slice("1:3"), "[2]: [1,2]");
  EXPECT_EQ(slice(":"), "[5]: [0,1,2,3,4]");
  EXPECT_EQ(slice("-2:"), "[2]: [3,4]");
  EXPECT_EQ(slice(":-3"), "[2]: [0,1]");
  EXPECT_EQ(slice("::2"), "[3]: [0,2,4]");
  EXPECT_EQ(slice("::-1"), "[5]: [4,3,2,1,0]");
  EXPECT_EQ(slice("4:0:-2"), "[2]: [4,2]");
  EXPECT_EQ(slice("2:100"), "[3]: [2,3,4]");
  EXPECT_EQ(slice("4:2"), "[0]: []");
  EXPECT_EQ(slice(" 1 : 3 "), "[2]: [1,2]");
  EXPECT_EQ(slice("9223372036854775807:-9223372036854775807:-9223372036854775807"), "[1]: [4]");
}

TEST_F(Slice, index_drops_its_dimension) {
  write_tensor("2,3,4", 24);
  EXPECT_EQ(slice("1,:,-1"), "[3]: [15,19,23]");
}

TEST_F(Slice, slice_of_an_empty_dimension_is_empty) {
  write_tensor("1000000000000000,0", 0);
  EXPECT_EQ(slice(":"), "[1000000000000000,0]: []");
  EXPECT_EQ(run("show t.safetensors t -q").out, "[]\n");
}

TEST_F(Slice, slice_index_is_inside) {
  write_tensor("5", 5);
  for (const auto* text : {"5", "-6", "9223372036854775807", "-9223372036854775808"})
    expect_refused(text, "out_of_bounds", "slice_index_is_inside");
}

TEST_F(Slice, slice_is_well_formed) {
  write_tensor("5,5", 25);
  for (const auto* text :
       {"a", "1:2:3:4", "1:b", "::0", ",", "1x", "99999999999999999999", "::-9223372036854775808"})
    expect_refused(text, "bad_shape", "slice_is_well_formed");
}

TEST_F(Slice, slice_parts_within_rank) {
  write_tensor("3", 3);
  expect_refused(":,:", "bad_shape", "slice_parts_within_rank");
  write_tensor("", 1);
  expect_refused(":,:", "bad_shape", "slice_parts_within_rank");
}

RC_GTEST_FIXTURE_PROP(Slice, every_index_is_in_bounds_for_any_slice, ()) {
  const auto extent = *rc::gen::inRange<std::size_t>(0, 20);
  const auto number = rc::gen::map(rc::gen::arbitrary<std::int64_t>(),
                                   [](std::int64_t n) { return std::to_string(n % 2 == 0 ? n : n % 30); });
  const std::string slice = "--slice=" + *number + ":" + *number + ":" + *number;
  write_tensor(std::to_string(extent), extent);
  const std::string path = (folder_ / "t.safetensors").string();
  const std::array arguments{"htensor", "show", path.c_str(), "t", "--json", slice.c_str()};
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const int status = cli::run(static_cast<int>(arguments.size()), arguments.data());
  const auto out = ::testing::internal::GetCapturedStdout();
  static_cast<void>(::testing::internal::GetCapturedStderr());
  if (status != 0) return;
  const auto values = part_of(out);
  std::stringstream list(values.substr(values.find(": [") + 3));
  std::size_t count = 0;
  for (std::size_t value = 0; list >> value; list.ignore()) {
    RC_ASSERT(value < extent);
    ++count;
  }
  RC_ASSERT(count <= extent);
}

}  // namespace
}  // namespace ht::slice_test
