#include "cli/program_test.hpp"

namespace ht::devices_test {
namespace {

class CliDevices : public Cli {};

TEST_F(CliDevices, lists_the_host_in_text) {
  const auto done = run("devices");
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("Host"));
  EXPECT_THAT(done.out, HasSubstr("core linear nn conv"));
}

TEST_F(CliDevices, lists_names_dtypes_and_slices_in_json) {
  const auto done = run("devices --json");
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.out,
              StartsWith(R"({"devices":[{"name":"Host","hardware":null,"memory":null,"dtypes":["BOOL",)"));
  EXPECT_THAT(done.out, HasSubstr(R"("slices":["core","linear","nn","conv"])"));
}

TEST_F(CliDevices, prints_one_object_per_line_in_jsonl) {
  const auto done = run("devices --jsonl");
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.out, StartsWith(R"({"name":"Host")"));
}

}  // namespace
}  // namespace ht::devices_test
