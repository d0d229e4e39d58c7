#include "cli/program_test.hpp"

namespace ht::load_test {
namespace {

TEST_F(Cli, load_prints_the_strategy_and_its_reason) {
  ASSERT_EQ(run("synth m.safetensors --preset llama-1b --size 8M -q").status, 0);
  for (const std::string strategy : {"mapped", "read", "staged"}) {
    const auto loaded = run("load m.safetensors --json --strategy " + strategy);
    EXPECT_EQ(loaded.status, 0) << loaded.err;
    EXPECT_THAT(loaded.out, StartsWith(R"({"strategy":")" + strategy + R"(","reason":"requested by name)"));
    for (const auto* const key : {"\"seconds\":", "\"gb_per_s\":", "\"peak_rss\":", "\"verified\":null,"}) {
      EXPECT_THAT(loaded.out, HasSubstr(key));
    }
  }
  const auto automatic = run("load m.safetensors");
  EXPECT_EQ(automatic.status, 0) << automatic.err;
  EXPECT_THAT(automatic.out, HasSubstr("direct I/O "));
  EXPECT_THAT(automatic.out, HasSubstr(", peak memory "));
}

TEST_F(Cli, load_accepts_filter_and_drop_after) {
  ASSERT_EQ(run("synth m.safetensors --preset llama-1b --size 8M -q").status, 0);
  const auto one = run("load m.safetensors --filter model.norm.weight --strategy read --json");
  const auto listed = run("ls m.safetensors --filter model.norm.weight --json");
  EXPECT_NE(json_field(one.out, "bytes"), "");
  EXPECT_EQ(json_field(one.out, "bytes"), json_field(listed.out, "bytes"));
  EXPECT_EQ(run("load m.safetensors --filter none").status, 2);
  const auto dropped = run("load m.safetensors --drop-after --strategy mapped -q");
  EXPECT_EQ(dropped.status, 0) << dropped.err;
  EXPECT_EQ(std::ranges::count(dropped.out, '\n'), 1);
}

TEST_F(Cli, load_over_the_budget_loads_all_or_fails) {
  ASSERT_EQ(run("synth m.safetensors --preset llama-1b --size 8M -q").status, 0);
  const auto all = json_field(run("load m.safetensors --json").out, "bytes");
  // Mapped and read pages stay in memory, so they have to fit.
  for (const std::string strategy : {"mapped", "read"}) {
    const auto small = run("load m.safetensors --budget 1M --strategy " + strategy);
    EXPECT_EQ(small.status, 1);
    EXPECT_EQ(small.out, "");
    EXPECT_THAT(small.err, HasSubstr("m.safetensors: needs "));
    EXPECT_THAT(small.err,
                HasSubstr(" bytes of memory but the budget is 1048576 bytes; 0 bytes were loaded"));
    EXPECT_THAT(small.err, HasSubstr("[budget_too_small]"));
    EXPECT_THAT(small.err, HasSubstr("hint: "));
    const auto json = run("load m.safetensors --budget 1M --json --strategy " + strategy);
    EXPECT_EQ(json.status, 1);
    EXPECT_THAT(json.out, StartsWith(R"({"error":{"code":"budget_too_small")"));
  }
  // The other strategies stream all bytes through a ring that fits into the budget.
  for (const std::string strategy : {"automatic", "staged"}) {
    const auto streamed = run("load m.safetensors --budget 1M --json --strategy " + strategy);
    EXPECT_EQ(streamed.status, 0) << streamed.err;
    EXPECT_THAT(streamed.out, StartsWith(R"({"strategy":"staged")"));
    for (const auto* const key : {"requested_bytes", "bytes", "streamed_bytes"})
      EXPECT_EQ(json_field(streamed.out, key), all);
    EXPECT_NE(json_field(streamed.out, "gb_per_s"), "null");
    EXPECT_THAT(run("load m.safetensors --budget 1M --strategy " + strategy).out,
                HasSubstr(" streamed with strategy staged in "));
  }
  EXPECT_EQ(run("load m.safetensors --budget 64K").status, 1);
  EXPECT_EQ(run("load m.safetensors --strategy external").status, 2);
}

TEST_F(Cli, load_verify_of_a_damaged_file_exits_with_1) {
  const auto expect_damage = [&](const std::string& path, const std::string& code) {
    EXPECT_EQ(run("verify " + path).status, 1) << code;
    for (const std::string strategy : {"mapped", "read", "staged"}) {
      const auto loaded = run("load --verify --json " + path + " --strategy " + strategy);
      EXPECT_EQ(loaded.status, 1) << code << loaded.out;
      EXPECT_THAT(loaded.out, StartsWith(R"({"error":{"code":")" + code + '"'));
    }
    EXPECT_EQ(run("load " + path).status, 0) << "without --verify, the file is not compared with its seal";
  };
  ASSERT_EQ(run("synth g.gguf --preset llama-tiny -q").status, 0);
  EXPECT_EQ(run("load --verify g.gguf").status, 1) << "not sealed";
  ASSERT_EQ(run("seal g.gguf -q").status, 0);
  EXPECT_EQ(run("load --verify g.gguf").status, 0);
  std::ofstream(folder_ / "g.gguf", std::ios::app) << "xyz";
  expect_damage("g.gguf", "trailing_bytes");
  auto bytes = testing::read_file(folder_ / "g.gguf");
  bytes.resize(bytes.size() - 3);
  bytes.back() ^= std::byte{1};
  testing::write_file(folder_ / "g.gguf", bytes);
  expect_damage("g.gguf", "checksum_mismatch");
}

TEST_F(Cli, load_verify_of_a_file_that_lost_sealed_bytes_exits_with_1) {
  // The sealed file has bytes after its data, so it can be opened without them.
  ASSERT_EQ(run("synth g.gguf --preset llama-tiny -q").status, 0);
  std::ofstream(folder_ / "g.gguf", std::ios::app) << "xyz";
  ASSERT_EQ(run("seal g.gguf -q").status, 0);
  std::filesystem::resize_file(folder_ / "g.gguf", std::filesystem::file_size(folder_ / "g.gguf") - 3);
  EXPECT_EQ(run("verify g.gguf").status, 1);
  const auto loaded = run("load --verify g.gguf --json");
  EXPECT_EQ(loaded.status, 1) << loaded.out;
  EXPECT_THAT(loaded.out, StartsWith(R"({"error":{"code":"truncated")"));
}

TEST_F(Cli, load_prints_no_rate_without_reads) {
  ASSERT_EQ(run("synth m.safetensors --preset llama-1b --size 8M -q").status, 0);
  ASSERT_EQ(run("prefetch m.safetensors -q").status, 0);
  const auto cached = run("load m.safetensors --json");
  EXPECT_EQ(cached.status, 0) << cached.err;
  // A file system in memory gives `file_is_memory`.
  EXPECT_THAT(json_field(cached.out, "code"), ::testing::AnyOf("\"already_cached\"", "\"file_is_memory\""));
  EXPECT_EQ(json_field(cached.out, "gb_per_s"), "null");
  EXPECT_EQ(json_field(cached.out, "bytes"), json_field(cached.out, "cached_bytes"));
  const auto text = run("load m.safetensors --strategy mapped");
  EXPECT_THAT(text.out, HasSubstr(" s: already in the page cache\n"));
  EXPECT_THAT(text.out, Not(HasSubstr("GB/s")));
  // `read` copies cached bytes, so it has a rate.
  EXPECT_NE(json_field(run("load m.safetensors --json --strategy read").out, "gb_per_s"), "null");
}

}  // namespace
}  // namespace ht::load_test
