#include "testing/program.hpp"

namespace ht {
namespace {

TEST_F(Cli, load_says_how_and_why_by_each_strategy) {
  ASSERT_EQ(run("synth m.safetensors --preset llama-1b --size 8M -q").status, 0);
  for (const std::string strategy : {"mapped", "read", "staged"}) {
    const auto loaded = run("load m.safetensors --json --strategy " + strategy);
    EXPECT_EQ(loaded.status, 0) << loaded.err;
    EXPECT_THAT(loaded.out, StartsWith(R"({"strategy":")" + strategy +
                                       R"(","reason":"It was asked for.","code":"asked_for","bytes":)"));
    for (const auto* const key : {"\"seconds\":", "\"gb_per_s\":", "\"peak_rss\":", "\"verified\":null,"}) {
      EXPECT_THAT(loaded.out, HasSubstr(key));
    }
  }
  const auto automatic = run("load m.safetensors");
  EXPECT_EQ(automatic.status, 0) << automatic.err;
  EXPECT_THAT(automatic.out, HasSubstr("GB/s"));
  EXPECT_THAT(automatic.out, HasSubstr("of memory at most"));
}

TEST_F(Cli, load_takes_a_filter_and_leaves_nothing_behind) {
  ASSERT_EQ(run("synth m.safetensors --preset llama-1b --size 8M -q").status, 0);
  const auto one = run("load m.safetensors --filter model.norm.weight --strategy read --json");
  const auto listed = run("ls m.safetensors --filter model.norm.weight --json");
  const auto bytes_in = [](const std::string& text) {
    return std::stoull(text.substr(text.find("\"bytes\":") + 8));
  };
  EXPECT_EQ(bytes_in(one.out), bytes_in(listed.out));
  EXPECT_EQ(run("load m.safetensors --filter none").status, 2);
  const auto dropped = run("load m.safetensors --drop-after --strategy mapped -q");
  EXPECT_EQ(dropped.status, 0) << dropped.err;
  EXPECT_EQ(std::ranges::count(dropped.out, '\n'), 1);
}

TEST_F(Cli, load_stays_within_its_budget) {
  ASSERT_EQ(run("synth m.safetensors --preset llama-1b --size 8M -q").status, 0);
  const auto small = run("load m.safetensors --strategy read --budget 1M");
  EXPECT_EQ(small.status, 2);
  EXPECT_THAT(small.err, HasSubstr("[budget_too_small]"));
  EXPECT_THAT(small.err, HasSubstr("m.safetensors: "));
  EXPECT_EQ(run("load m.safetensors --strategy staged --budget 1M").status, 0);
  EXPECT_EQ(run("load m.safetensors --strategy mapped --budget 1M").status, 0);
  EXPECT_EQ(run("load m.safetensors --strategy external").status, 2);
}

}  // namespace
}  // namespace ht
