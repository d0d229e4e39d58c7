#include <fmt/format.h>

#include "testing/program.hpp"

namespace ht {
namespace {

class CliMeta : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    ASSERT_EQ(run("synth m.gguf --preset llama-1b-q4_k_m --size 9M -q").status, 0);
    write_safetensors(
        "m.safetensors",
        R"({"__metadata__":{"format":"pt","k":"v"},"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}})" +
            std::string(40, ' '),
        9);
  }
};

TEST_F(CliMeta, lists_all_values) {
  EXPECT_EQ(run("meta m.safetensors").out, "format = pt\nk      = v\n");
  EXPECT_EQ(run("meta m.safetensors --json").out, "{\"metadata\":{\"format\":\"pt\",\"k\":\"v\"}}\n");
  const auto gguf = run("meta m.gguf");
  EXPECT_EQ(gguf.status, 0) << gguf.err;
  EXPECT_THAT(gguf.out, HasSubstr("= [string x "));
  EXPECT_TRUE(is_json(run("meta m.gguf --json").out));
  EXPECT_EQ(run("meta m.ht").out, "");
  EXPECT_EQ(run("meta m.ht --json").out, "{\"metadata\":{}}\n");
}

TEST_F(CliMeta, gets_one_value) {
  EXPECT_EQ(run("meta m.safetensors get k").out, "v\n");
  EXPECT_EQ(run("meta m.safetensors get k --json").out, "{\"metadata\":{\"k\":\"v\"}}\n");
  EXPECT_EQ(run("--json meta m.gguf get general.architecture").out,
            "{\"metadata\":{\"general.architecture\":\"llama\"}}\n");
}

TEST_F(CliMeta, metadata_has_the_key) {
  for (const std::string action : {"get", "rm"}) {
    const auto no = run("meta m.safetensors " + action + " none");
    EXPECT_EQ(no.status, 1);
    EXPECT_THAT(no.err, HasSubstr("m.safetensors: the metadata has no 'none' [not_found]"));
    const auto json = run("meta m.safetensors " + action + " none --json");
    EXPECT_EQ(json.status, 1);
    EXPECT_THAT(json.out, HasSubstr(R"("code":"not_found")"));
  }
}

TEST_F(CliMeta, sets_and_removes) {
  const auto before = run("hash m.safetensors --per-tensor --jsonl").out;
  const auto offsets = run("ls m.safetensors --jsonl").out;
  const auto set = run("meta m.safetensors set k 'new \"text\"'");
  EXPECT_EQ(set.status, 0) << set.err;
  EXPECT_EQ(set.out, "m.safetensors: 'k' is set\n");
  EXPECT_EQ(run("meta m.safetensors get k").out, "new \"text\"\n");
  EXPECT_EQ(run("meta m.safetensors set k 'new \"text\"'").out, "m.safetensors: is just so already\n");
  EXPECT_EQ(run("meta m.safetensors set more 1 --json").out,
            "{\"metadata\":{\"format\":\"pt\",\"k\":\"new \\\"text\\\"\",\"more\":\"1\"}}\n");
  EXPECT_EQ(run("meta m.safetensors rm format").out, "m.safetensors: 'format' is gone\n");
  EXPECT_EQ(run("meta m.safetensors rm k -q").out, "");
  EXPECT_EQ(run("meta m.safetensors rm more --json").out, "{\"metadata\":{}}\n");
  EXPECT_EQ(run("hash m.safetensors --per-tensor --jsonl").out, before);
  EXPECT_EQ(run("ls m.safetensors --jsonl").out, offsets);
}

TEST_F(CliMeta, takes_values_of_any_look) {
  for (const auto& [given, type, shown] :
       std::vector<std::array<std::string, 3>>{{"-5", "i32", "-5"},
                                               {"-0.5", "f32", "-0.5"},
                                               {"''", "string", ""},
                                               {"set", "string", "set"},
                                               {"ls", "string", "ls"},
                                               {"true", "bool", "true"},
                                               {"'[1,-2]'", "array:i8", "[1,-2]"},
                                               {"'[\"a\"]'", "array:string", "[\"a\"]"}}) {
    const auto done = run(fmt::format("meta m.gguf set k {} --grow --type {}", given, type));
    EXPECT_EQ(done.status, 0) << given << done.err;
    EXPECT_EQ(run("meta m.gguf get k").out, shown + "\n");
  }
  const auto dashes = run("meta --grow --type string m.gguf set k -- --text");
  EXPECT_EQ(dashes.status, 0) << dashes.err;
  EXPECT_EQ(run("meta m.gguf get k").out, "--text\n");
  EXPECT_EQ(run("meta m.gguf set version 1 --type u32").status, 0) << "a key that is a verb";
  EXPECT_EQ(run("meta m.gguf get version").out, "1\n");
}

TEST_F(CliMeta, keeps_types_and_tells_what_does_not_fit) {
  EXPECT_EQ(run("meta m.gguf set llama.block_count 7").status, 0);
  EXPECT_EQ(run("meta m.gguf get llama.block_count --json").out,
            "{\"metadata\":{\"llama.block_count\":7}}\n");
  const auto no_number = run("meta m.gguf set llama.block_count seven");
  EXPECT_EQ(no_number.status, 2);
  EXPECT_THAT(no_number.err, HasSubstr("'seven' is not of type u32 [dtype_mismatch]"));
  const auto no_room = run("meta m.safetensors set k '" + std::string(100, 'x') + "'");
  EXPECT_EQ(no_room.status, 2);
  EXPECT_THAT(no_room.err, HasSubstr("[header_too_large]"));
  EXPECT_THAT(no_room.err, HasSubstr("--grow"));
  EXPECT_THAT(run("meta m.safetensors set k '" + std::string(100, 'x') + "' --grow").out,
              HasSubstr("the data begins 4K later"));
  EXPECT_EQ(run("meta m.ht set k v").status, 2);
  EXPECT_EQ(run("meta . set k v").status, 2);
}

TEST_F(CliMeta, carries_a_seal_over) {
  ASSERT_EQ(run("seal m.gguf -q").status, 0);
  const auto done = run("meta m.gguf set llama.block_count 7");
  EXPECT_EQ(done.status, 0);
  EXPECT_EQ(done.err, "");
  EXPECT_EQ(run("verify m.gguf -q").status, 0);
  EXPECT_EQ(run("seal m.gguf -q").status, 0);
}

TEST_F(CliMeta, refuses_bad_usage) {
  for (const std::string bad :
       {"", "m.gguf put k v", "m.gguf get", "m.gguf set k", "m.gguf rm", "m.gguf rm k v", "m.gguf get k v",
        "m.gguf set k v w", "m.gguf set k v --type u33", "m.gguf get k --type u32", "m.gguf get k --grow",
        "m.gguf --grow"}) {
    const auto refused = run("meta " + bad);
    EXPECT_EQ(refused.status, 2) << bad;
    EXPECT_THAT(refused.err, HasSubstr("[usage]")) << bad;
  }
  EXPECT_THAT(run("meta --help").out, HasSubstr("htensor meta model.gguf set general.name"));
}

}  // namespace
}  // namespace ht
