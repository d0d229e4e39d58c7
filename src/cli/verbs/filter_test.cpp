#include "cli/program_test.hpp"

namespace ht::filter_test {
namespace {

class CliFilter : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    write_safetensors("s.safetensors",
                      R"({"a.0.w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                      R"("a.1.w":{"dtype":"U8","shape":[2],"data_offsets":[2,4]},)"
                      R"("a.1.b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]},)"
                      R"("{x,y}":{"dtype":"U8","shape":[2],"data_offsets":[6,8]}})",
                      8);
  }

  // The names that `ls` lists, each after a space.
  std::string names(const std::string& options) {
    const auto outcome = run("ls s.safetensors --jsonl " + options);
    EXPECT_EQ(outcome.status, 0) << options << outcome.out;
    std::string names;
    const std::string before = R"("name":")";
    for (auto at = outcome.out.find(before); at != std::string::npos; at = outcome.out.find(before, at)) {
      at += before.size();
      names += " " + outcome.out.substr(at, outcome.out.find('"', at) - at);
    }
    return names;
  }
};

TEST_F(CliFilter, filter_and_exclude_may_be_repeated) {
  EXPECT_EQ(names("--filter 'a.0.*' --filter '*.b'"), " a.0.w a.1.b");
  EXPECT_EQ(names("--exclude '*.b' --exclude '*0*'"), " a.1.w {x,y}");
  EXPECT_EQ(names("--filter 'a.*' --exclude '*.0.*'"), " a.1.w a.1.b");
  EXPECT_EQ(names("--exclude '*.0.*' --filter 'a.*'"), " a.1.w a.1.b");
}

TEST_F(CliFilter, character_set_is_a_pattern) {
  EXPECT_EQ(names("--filter '[{]*' --filter '*[b]'"), " a.1.b {x,y}");
  EXPECT_EQ(run("ls m.ht --filter '[km]'").status, 0);
}

TEST_F(CliFilter, braces_are_alternatives) {
  EXPECT_EQ(names("--filter 'a.{0,1}.w'"), " a.0.w a.1.w");
  EXPECT_EQ(names(R"(--filter '\{*')"), " {x,y}");
}

TEST_F(CliFilter, a_malformed_pattern_is_bad_usage) {
  for (const std::string verb :
       {"ls s.safetensors", "residency s.safetensors", "prefetch s.safetensors", "evict s.safetensors",
        "load s.safetensors", "plan s.safetensors", "convert s.safetensors x.safetensors"}) {
    for (const std::string option :
         {" --filter 'a['", " --exclude 'a{b,c'", R"( --filter 'a*' --filter 'b\')"}) {
      const auto outcome = run(verb + option);
      EXPECT_EQ(outcome.status, 2) << verb << option;
      EXPECT_THAT(outcome.err, HasSubstr("[usage]")) << verb << option;
    }
  }
  EXPECT_THAT(run("ls s.safetensors --filter 'a['").err,
              StartsWith("htensor: --filter: pattern 'a[': the bracket [ is not closed [usage]\n"));
}

TEST_F(CliFilter, filter_without_a_match_exits_with_2_in_every_verb) {
  for (const std::string verb :
       {"ls s.safetensors", "residency s.safetensors", "prefetch s.safetensors", "evict s.safetensors",
        "load s.safetensors", "load s.safetensors --strategy staged", "plan s.safetensors",
        "convert s.safetensors x.safetensors", "convert s.safetensors x.safetensors --dry-run"}) {
    for (const std::string format : {"", " --json", " --jsonl"}) {
      const auto outcome = run(verb + " --filter 'z*'" + format);
      EXPECT_EQ(outcome.status, 2) << verb;
      EXPECT_THAT(format.empty() ? outcome.err : outcome.out, HasSubstr("no tensor matches 'z*'")) << verb;
      EXPECT_THAT(format.empty() ? outcome.err : outcome.out, HasSubstr("s.safetensors")) << verb;
      EXPECT_EQ(run(verb + " --exclude '*'" + format).status, 2) << verb;
    }
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x.safetensors"));
}

}  // namespace
}  // namespace ht::filter_test
