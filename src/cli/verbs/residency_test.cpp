#include <linux/capability.h>
#include <sys/prctl.h>

#include <array>
#include <cstdio>

#include "cli/program_test.hpp"

namespace ht::residency_test {
namespace {

TEST_F(Cli, residency_follows_prefetch_and_evict) {
  ASSERT_EQ(run("synth m.safetensors --preset llama-1b --size 32M -q").status, 0);
  const auto fetched = run("prefetch m.safetensors --json");
  EXPECT_EQ(fetched.status, 0) << fetched.err;
  const auto all = run("residency m.safetensors --json");
  EXPECT_EQ(all.out, fetched.out);
  EXPECT_THAT(all.out, StartsWith(R"({"tensors":[{"name":)"));
  const auto listed = run("ls m.safetensors --json");
  const auto total = std::stoull(json_field(listed.out, "total_bytes"));
  EXPECT_EQ(std::stoull(json_field(all.out, "cached_bytes")), total);

  const auto dropped = run("evict m.safetensors --json");
  EXPECT_EQ(dropped.status, 0) << dropped.err;
  // A file system in memory keeps all pages.
  const auto left = std::stoull(json_field(dropped.out, "cached_bytes"));
  EXPECT_TRUE(left <= total / 10 || left == total) << left << " of " << total;
}

TEST_F(Cli, residency_takes_a_filter) {
  ASSERT_EQ(run("synth m.safetensors --preset llama-1b --size 1M -q").status, 0);
  const auto one = run("residency m.safetensors --filter 'model.norm.weight' --jsonl");
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_THAT(one.out, StartsWith(R"({"name":"model.norm.weight","bytes":)"));
  EXPECT_EQ(std::ranges::count(one.out, '\n'), 1);
  const auto text = run("prefetch m.safetensors --filter '*norm*'");
  EXPECT_THAT(text.out, HasSubstr("in the page cache (100%)"));
}

TEST_F(Cli, residency_counts_the_bytes_of_a_splat_as_ls_does) {
  CatalogBuilder builder("irpa");
  const std::byte pattern{7};
  const std::array<std::int64_t, 1> dims{1 << 20};
  ASSERT_TRUE(builder.add(
      {.name = "s", .dtype = U8::tag, .dims = dims, .bytes = 1 << 20, .splat = Bytes(&pattern, 1)}));
  ASSERT_TRUE(builder.add({.name = "t", .dtype = U8::tag, .dims = dims, .bytes = 1 << 20}));
  write_encoded("m.irpa", std::move(builder).build().value());
  ASSERT_EQ(run("prefetch m.irpa -q").status, 0);
  const auto all = run("residency m.irpa --json");
  EXPECT_THAT(all.out, HasSubstr(R"({"name":"s","bytes":1048576,"cached_bytes":0})"));
  EXPECT_THAT(all.out,
              HasSubstr(R"({"name":"t","bytes":1048576,"cached_bytes":1048576}],"cached_bytes":1048576})"));
  EXPECT_THAT(run("ls m.irpa --json").out, HasSubstr(R"("total_bytes":2097152)"));
  EXPECT_THAT(
      run("residency m.irpa").out,
      HasSubstr(
          "1M of 1M in the page cache (100%); 1M in splats (tensors stored as one repeated pattern)\n"));
}

// Without its capabilities, root is an ordinary user of a file that it does not own.
TEST_F(Cli, residency_of_a_file_of_another_owner_is_unknown) {
  ASSERT_EQ(run("synth m.safetensors --preset llama-1b --size 1M -q").status, 0);
  const auto path = folder_ / "m.safetensors";
  const auto run_without_privileges = [&](std::vector<std::string> arguments) {
    const pid_t child = start(std::move(arguments), [] {
      const bool dropped = prctl(PR_CAPBSET_DROP, CAP_FOWNER, 0, 0, 0) == 0 &&
                           prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0) == 0;
      if (!dropped || std::freopen(".out", "w", stdout) == nullptr) _exit(126);
    });
    const int status = exit_status(child);
    return Outcome{status, text_of(".out"), ""};
  };
  constexpr uid_t nobody = 65534;
  if (geteuid() != 0 || chown(path.c_str(), nobody, nobody) != 0) GTEST_SKIP() << "needs root";
  ASSERT_EQ(chmod(path.c_str(), 0444), 0);
  ASSERT_EQ(run("evict m.safetensors -q").status, 0);
  const auto found = run_without_privileges({"residency", "m.safetensors", "--json"});
  if (found.status == 126) GTEST_SKIP() << "needs CAP_SETPCAP";
  EXPECT_EQ(found.status, 0);
  if (found.out.find(R"("cached_bytes":0})") != std::string::npos)
    GTEST_SKIP() << "cachestat needs no permission here";
  EXPECT_THAT(found.out, HasSubstr(R"("bytes":)"));
  EXPECT_THAT(found.out, Not(HasSubstr(R"("cached_bytes":0)")));
  EXPECT_TRUE(found.out.ends_with("],\"cached_bytes\":null}\n")) << found.out;
  EXPECT_TRUE(is_json(found.out));
  EXPECT_THAT(run_without_privileges({"residency", "m.safetensors"}).out,
              HasSubstr("the amount in the page cache is unknown"));
  const auto loaded = run_without_privileges({"load", "m.safetensors", "--json"});
  EXPECT_EQ(loaded.status, 0);
  EXPECT_THAT(loaded.out, Not(HasSubstr("already_cached")));
  EXPECT_THAT(loaded.out, HasSubstr("unknown"));
}

TEST_F(Cli, prefetch_without_a_match_exits_with_2) {
  ASSERT_EQ(run("synth m.safetensors --preset llama-1b --size 1M -q").status, 0);
  for (const std::string verb : {"prefetch", "evict"}) {
    const auto none = run(verb + " m.safetensors --filter none");
    EXPECT_EQ(none.status, 2);
    EXPECT_THAT(none.err, HasSubstr("[not_found]"));
    EXPECT_THAT(none.err, HasSubstr("hint:"));
  }
}

}  // namespace
}  // namespace ht::residency_test
