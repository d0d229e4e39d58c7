#include <algorithm>

#include "cli/program_test.hpp"
#include "model/test_formats.hpp"

namespace ht::plan_test {
namespace {

TEST_F(Cli, plan_reports_whether_the_model_fits) {
  ASSERT_EQ(run("synth m.safetensors --preset llama-8b --sparse -q").status, 0);
  const auto total = json_field(run("ls m.safetensors --json").out, "total_bytes");
  const auto large = run("plan m.safetensors --json --budget 1T");
  EXPECT_EQ(large.status, 0) << large.err;
  EXPECT_THAT(large.out, StartsWith(R"({"fits":true,"bytes":{"mapped":)" + total + R"(,"read":)" + total +
                                    R"(,"staged":16777216},"largest_tensor":)"));
  const auto small = run("plan m.safetensors --json --budget 1G");
  EXPECT_EQ(small.status, 1);
  EXPECT_THAT(small.out, StartsWith(R"({"fits":false,)"));
  EXPECT_THAT(run("plan m.safetensors --budget 1G").out,
              HasSubstr("does not fit into 1G (--budget); largest tensor: "));
}

TEST_F(Cli, plan_reads_only_headers) {
  ASSERT_EQ(run("synth m.safetensors --preset llama-1b --size 4M -q").status, 0);
  std::filesystem::resize_file(folder_ / "m.safetensors", 200'000);
  const auto planned = run("plan m.safetensors");
  EXPECT_EQ(planned.status, 0) << planned.err;
  EXPECT_THAT(planned.out, HasSubstr("(7/8 of the available memory)"));
}

TEST_F(Cli, plan_has_the_default_budget_of_load) {
  const auto before = available_memory().value();
  const auto planned = run("plan m.ht --json");
  const auto after = available_memory().value();
  ASSERT_NE(json_field(planned.out, "budget"), "") << planned.out << planned.err;
  const auto budget = std::stoull(json_field(planned.out, "budget"));
  // 7/8 is 14/16. The bounds are wider, because other processes may free or allocate memory meanwhile.
  EXPECT_LT(budget, std::max(before, after) / 16 * 15);
  EXPECT_GT(budget, std::min(before, after) / 16 * 12);
}

TEST_F(Cli, plan_takes_a_filter) {
  write_safetensors("s.safetensors",
                    R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                    R"("b":{"dtype":"U8","shape":[3],"data_offsets":[2,5]}})",
                    5);
  const auto one = run("plan s.safetensors --filter b --json --budget 1K");
  EXPECT_EQ(one.status, 0);
  EXPECT_EQ(one.out,
            R"({"fits":true,"bytes":{"mapped":3,"read":3,"staged":3},"largest_tensor":3,"budget":1024})"
            "\n");
  EXPECT_EQ(run("plan s.safetensors --filter none").status, 2);
}

TEST_F(Cli, plan_counts_shared_bytes_once_as_load_does) {
  testing::write_file(folder_ / "s.irpa", testing::irpa_file({{.name = "a", .length = 8},
                                                              {.name = "b", .length = 8},
                                                              {.name = "c", .length = 4, .offset = 6},
                                                              {.name = "d", .length = 2, .offset = 1},
                                                              {.name = "e", .length = 3, .offset = 20},
                                                              {.name = "f", .length = 64, .pattern = "\7"}},
                                                             std::string(23, 'x')));
  const auto planned = run("plan s.irpa --json --budget 13");
  EXPECT_EQ(planned.status, 0) << planned.out;
  EXPECT_EQ(planned.out,
            R"({"fits":true,"bytes":{"mapped":13,"read":13,"staged":13},"largest_tensor":8,"budget":13})"
            "\n");
  EXPECT_EQ(json_field(run("load s.irpa --json").out, "bytes"), "13");
  EXPECT_EQ(run("plan s.irpa --budget 12").status, 1);
  EXPECT_THAT(run("plan s.irpa --json --budget 1K --filter '[bd]'").out, HasSubstr(R"("mapped":8,)"));
}

}  // namespace
}  // namespace ht::plan_test
