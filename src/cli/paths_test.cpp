#include <fcntl.h>

#include "cli/program_test.hpp"

namespace ht::paths_test {
namespace {

// Verbs that take several paths.
class CliPaths : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    write_safetensors("s.safetensors", R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 2);
    testing::write_file(folder_ / "text", "hello, world");
  }

  const std::vector<std::string> verbs_{"ls",     "verify",    "hash",     "seal",
                                        "doctor", "residency", "prefetch", "evict"};
};

TEST_F(CliPaths, ls_prints_a_block_for_each_path) {
  const auto outcome = run("ls m.ht s.safetensors");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out, "m.ht:\n" + run("ls m.ht").out + "\ns.safetensors:\n" + run("ls s.safetensors").out);
  EXPECT_EQ(run("ls m.ht -q s.safetensors").out,
            "m.ht:\n" + run("ls m.ht -q").out + "\ns.safetensors:\n" + run("ls s.safetensors -q").out);
}

TEST_F(CliPaths, verbs_whose_lines_name_the_path_have_no_headings) {
  EXPECT_EQ(run("hash m.ht s.safetensors").out, run("hash m.ht").out + run("hash s.safetensors").out);
  ASSERT_EQ(run("seal m.ht s.safetensors -q").status, 0);
  const auto verified = run("verify m.ht s.safetensors").out;
  EXPECT_THAT(verified, StartsWith("m.ht: "));
  EXPECT_THAT(verified, HasSubstr("\ns.safetensors: "));
  EXPECT_EQ(run("verify m.ht s.safetensors -q").out, "");
}

TEST_F(CliPaths, brackets_in_a_path_are_literal) {
  std::filesystem::create_directory(folder_ / "[x]");
  for (const std::string path : {"[x].safetensors", "[x]/[y,z].safetensors", "[]"})
    std::filesystem::copy_file(folder_ / "s.safetensors", folder_ / path);
  for (const std::string path : {"[x]", "[]", "[x].safetensors", "'[x]/[y,z].safetensors'"}) {
    for (const auto& verb : verbs_) {
      const auto outcome = run(std::string(verb).append(" ").append(path).append(" '[x]' --json"));
      EXPECT_NE(outcome.status, 2) << verb << ' ' << path << '\n' << outcome.out;
    }
    EXPECT_EQ(run("convert " + path + " '[]' '[out]' --to safetensors --force -q").status, 2);
    EXPECT_EQ(run("convert " + path + " '[out]' --to safetensors --force -q").status, 0);
    EXPECT_EQ(run("diff " + path + " '[out]'").status, 0);
  }
}

TEST_F(CliPaths, json_is_one_document_of_results_in_order) {
  const auto only = [&](const std::string& path) { return run("ls --json " + path).out; };
  const auto both = run("ls --json m.ht s.safetensors");
  EXPECT_EQ(both.status, 0);
  const auto element = [&](const std::string& path) {
    const auto out = only(path);
    return R"({"path":")" + path + R"(",)" + out.substr(1, out.size() - 2);
  };
  EXPECT_EQ(both.out, R"({"results":[)" + element("m.ht") + "," + element("s.safetensors") + "]}\n");
  EXPECT_TRUE(is_json(both.out));
}

TEST_F(CliPaths, every_verb_has_one_element_for_each_path) {
  for (const auto& verb : verbs_) {
    const auto outcome = run(verb + " none m.ht text --json");
    EXPECT_EQ(outcome.status, 2) << verb;
    EXPECT_EQ(outcome.err, "") << verb;
    EXPECT_TRUE(is_json(outcome.out)) << verb << outcome.out;
    const auto first = outcome.out.find(R"({"results":[{"path":"none","error":{"code":)");
    const auto second = outcome.out.find(R"(},{"path":"m.ht",)");
    const auto third = outcome.out.find(R"(},{"path":"text",)");
    EXPECT_EQ(first, 0U) << verb << outcome.out;
    EXPECT_NE(second, std::string::npos) << verb << outcome.out;
    EXPECT_NE(third, std::string::npos) << verb << outcome.out;
    EXPECT_LT(second, third) << verb;
  }
}

TEST_F(CliPaths, every_line_of_jsonl_has_its_path) {
  for (const auto& verb : verbs_) {
    const auto outcome = run(verb + " none m.ht --jsonl");
    EXPECT_EQ(outcome.status, 2) << verb;
    EXPECT_THAT(outcome.out, StartsWith(R"({"path":"none","error":{"code":"open_failed",)")) << verb;
    std::size_t begin = 0;
    while (begin < outcome.out.size()) {
      const auto end = outcome.out.find('\n', begin);
      ASSERT_NE(end, std::string::npos) << verb;
      const auto line = outcome.out.substr(begin, end - begin);
      EXPECT_TRUE(is_json(line)) << line;
      EXPECT_THAT(line, StartsWith(R"({"path":")")) << verb;
      begin = end + 1;
    }
  }
  EXPECT_EQ(
      run("hash m.ht s.safetensors --jsonl --per-tensor").out.find(R"({"path":"m.ht","name":"m","digest":")"),
      0U);
}

TEST_F(CliPaths, exit_status_is_the_worst) {
  ASSERT_EQ(run("seal s.safetensors").status, 0);
  EXPECT_EQ(run("verify s.safetensors s.safetensors").status, 0);
  // Exit 1 for a model without a seal, 2 for a file that is not a model.
  ASSERT_EQ(run("convert s.safetensors t.safetensors -q").status, 0);
  EXPECT_EQ(run("verify s.safetensors t.safetensors").status, 1);
  EXPECT_EQ(run("verify t.safetensors s.safetensors").status, 1);
  EXPECT_EQ(run("verify text t.safetensors s.safetensors").status, 2);
}

TEST_F(CliPaths, an_error_does_not_stop_the_next_path) {
  const auto outcome = run("ls none m.ht text s.safetensors");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.out, StartsWith("m.ht:\nname"));
  EXPECT_THAT(outcome.out, HasSubstr("\n\ns.safetensors:\nname"));
  EXPECT_THAT(outcome.err, HasSubstr("htensor: none: "));
  EXPECT_THAT(outcome.err, HasSubstr("htensor: text: "));
}

TEST_F(CliPaths, an_interruption_stops_the_next_path) {
  // Hashing the first model takes long enough to be interrupted.
  ASSERT_EQ(run("synth big.safetensors --preset llama-1b --size 64G --sparse -q").status, 0);
  const pid_t child = start({"hash", "big.safetensors", "m.ht", "--algorithm", "sha256", "--json"}, [&] {
    const int out = open((folder_ / "out").c_str(), O_WRONLY | O_CREAT, 0600);
    dup2(out, STDOUT_FILENO);
  });
  const auto descriptors = std::filesystem::path("/proc") / std::to_string(child) / "fd";
  const auto has_opened_the_model = [&] {
    std::error_code none;
    for (const auto& file : std::filesystem::directory_iterator(descriptors, none)) {
      if (std::filesystem::read_symlink(file.path(), none).filename() == "big.safetensors") return true;
    }
    return false;
  };
  EXPECT_EQ(status_after_signal(child, SIGINT, has_opened_the_model), 130);
  const auto out = text_of("out");
  EXPECT_TRUE(is_json(out)) << out;
  EXPECT_THAT(out, StartsWith(R"({"results":[{"path":"big.safetensors","error":{"code":"cancelled",)"));
  EXPECT_THAT(out, Not(HasSubstr("m.ht")));
}

}  // namespace
}  // namespace ht::paths_test
