#include "testing/program.hpp"

namespace ht {
namespace {

// One that has nothing but the answer in it: what is cached of a file of any size.
TEST_F(Cli, residency_follows_prefetch_and_evict) {
  ASSERT_EQ(run("synth m.safetensors --preset llama-1b --size 32M -q").status, 0);
  const auto fetched = run("prefetch m.safetensors --json");
  EXPECT_EQ(fetched.status, 0) << fetched.err;
  const auto all = run("residency m.safetensors --json");
  EXPECT_EQ(all.out, fetched.out);
  EXPECT_THAT(all.out, StartsWith(R"({"tensors":[{"name":)"));
  const auto listed = run("ls m.safetensors --json");
  const auto number_behind = [](const std::string& text, std::string_view key) {
    return std::stoull(text.substr(text.rfind(key) + key.size()));
  };
  const auto total = number_behind(listed.out, R"("total_bytes":)");
  EXPECT_EQ(number_behind(all.out, R"("cached_bytes":)"), total);

  const auto dropped = run("evict m.safetensors --json");
  EXPECT_EQ(dropped.status, 0) << dropped.err;
  // A file system that is memory itself keeps it.
  const auto left = number_behind(dropped.out, R"("cached_bytes":)");
  EXPECT_TRUE(left <= total / 10 || left == total) << left << " of " << total;
}

TEST_F(Cli, residency_takes_a_filter) {
  ASSERT_EQ(run("synth m.safetensors --preset llama-1b --size 1M -q").status, 0);
  const auto one = run("residency m.safetensors --filter 'model.norm.weight' --jsonl");
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_THAT(one.out, StartsWith(R"({"name":"model.norm.weight","bytes":)"));
  EXPECT_EQ(std::ranges::count(one.out, '\n'), 1);
  const auto people = run("prefetch m.safetensors --filter '*norm*'");
  EXPECT_THAT(people.out, HasSubstr("in the page cache (100%)"));
}

TEST_F(Cli, prefetch_of_nothing_is_told) {
  ASSERT_EQ(run("synth m.safetensors --preset llama-1b --size 1M -q").status, 0);
  for (const std::string verb : {"prefetch", "evict"}) {
    const auto none = run(verb + " m.safetensors --filter none");
    EXPECT_EQ(none.status, 2);
    EXPECT_THAT(none.err, HasSubstr("[not_found]"));
    EXPECT_THAT(none.err, HasSubstr("hint:"));
  }
}

}  // namespace
}  // namespace ht
