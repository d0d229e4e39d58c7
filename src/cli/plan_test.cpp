#include "cli/plan.hpp"

#include "testing/faulty_port.hpp"
#include "testing/program.hpp"

namespace ht {
namespace {

TEST(Plan, available_memory_is_known) {
  testing::FaultyPort port;
  EXPECT_EQ(cli::memory_budget(5, port), 5U);
  EXPECT_GT(cli::memory_budget(0, port).value(), 0U);
  port.fail_at(testing::Call::available_memory, 1, std::errc::function_not_supported);
  const auto unknown = cli::memory_budget(0, port);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code(), ErrorCode::unsupported_platform);
  EXPECT_EQ(unknown.error().rule(), "available_memory_is_known");
  EXPECT_EQ(cli::memory_budget(5, port), 5U);
}

TEST_F(Cli, plan_tells_whether_it_fits) {
  ASSERT_EQ(run("synth m.safetensors --preset llama-8b --sparse -q").status, 0);
  const auto listed = run("ls m.safetensors --json");
  const std::string key = R"("total_bytes":)";
  const auto begin = listed.out.rfind(key) + key.size();
  const auto total = listed.out.substr(begin, listed.out.find('}', begin) - begin);
  const auto large = run("plan m.safetensors --json --budget 1T");
  EXPECT_EQ(large.status, 0) << large.err;
  EXPECT_THAT(large.out, StartsWith(R"({"fits":true,"bytes":{"mapped":)" + total + R"(,"read":)" + total +
                                    R"(,"staged":16777216},"largest_tensor":)"));
  const auto small = run("plan m.safetensors --json --budget 1G");
  EXPECT_EQ(small.status, 1);
  EXPECT_THAT(small.out, StartsWith(R"({"fits":false,)"));
  EXPECT_THAT(run("plan m.safetensors --budget 1G").out, HasSubstr("does not fit into 1G"));
}

TEST_F(Cli, plan_needs_headers_alone) {
  ASSERT_EQ(run("synth m.safetensors --preset llama-1b --size 4M -q").status, 0);
  std::filesystem::resize_file(folder_ / "m.safetensors", 200'000);
  const auto planned = run("plan m.safetensors");
  EXPECT_EQ(planned.status, 0) << planned.err;
  EXPECT_THAT(planned.out, HasSubstr("that are available"));
}

TEST_F(Cli, plan_takes_a_filter) {
  ASSERT_EQ(run("synth m.safetensors --preset llama-1b --size 4M -q").status, 0);
  const auto norm = run("plan m.safetensors --filter model.norm.weight --json --budget 1K");
  EXPECT_EQ(norm.status, 0);
  EXPECT_THAT(norm.out, StartsWith(R"({"fits":true,"bytes":{"mapped":)"));
  EXPECT_EQ(run("plan m.safetensors --json --budget 1K").status, 1);
}

}  // namespace
}  // namespace ht
