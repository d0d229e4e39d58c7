// Verbs, options and help, over all verbs.
#include "cli/program_test.hpp"

namespace ht::usage_test {
namespace {

class CliUsage : public Cli {
 protected:
  // All verbs, as the program lists them.
  std::vector<std::string> verbs() {
    std::vector<std::string> names;
    const auto json = run("--json").out;  // {"verbs":["ls","show"]}
    for (auto at = json.find('[') + 1; at != std::string::npos + 1; at = json.find(',', at) + 1) {
      names.push_back(json.substr(at + 1, json.find('"', at + 1) - at - 1));
    }
    return names;
  }

  // The commands below "Example:" in the verb's help.
  std::vector<std::string> examples(const std::string& verb) {
    const auto help = run(verb + " --help").out;
    const std::string before = "\n  htensor ";
    std::vector<std::string> commands;
    for (auto at = help.find(before, help.find("Example:")); at != std::string::npos;
         at = help.find(before, at + 1)) {
      const auto begin = at + before.size();
      commands.push_back(help.substr(begin, help.find('\n', begin) - begin));
    }
    return commands;
  }
};

TEST_F(CliUsage, every_example_works_on_a_synthetic_model) {
  const auto all = verbs();
  ASSERT_GE(all.size(), 17U);
  for (const auto& verb : all) {
    const auto commands = examples(verb);
    ASSERT_FALSE(commands.empty()) << verb;
    EXPECT_THAT(commands.back(), StartsWith(verb)) << verb;
    for (const auto& file : std::filesystem::directory_iterator(folder_.path())) {
      std::filesystem::remove_all(file.path());
    }
    ASSERT_EQ(run("synth model.safetensors --preset llama-1b --size 2M -q").status, 0);
    for (const auto& command : commands) {
      const auto outcome = run(command);
      EXPECT_EQ(outcome.status, 0) << command << '\n' << outcome.err;
      EXPECT_EQ(outcome.err, "") << command;
    }
  }
}

TEST_F(CliUsage, help_of_every_verb_has_the_global_options) {
  for (const auto& verb : verbs()) {
    const auto outcome = run(verb + " --help");
    EXPECT_EQ(outcome.status, 0) << verb;
    EXPECT_EQ(outcome.err, "") << verb;
    EXPECT_THAT(outcome.out, HasSubstr("Usage: htensor " + verb)) << outcome.out;
    for (const auto* option : {"--json", "--jsonl", "-q,--quiet", "--progress"})
      EXPECT_THAT(outcome.out, HasSubstr(option)) << verb;
  }
  EXPECT_THAT(run("--help").out, HasSubstr("--progress"));
  EXPECT_THAT(run("--help").out, HasSubstr("\n  residency "));
}

TEST_F(CliUsage, help_names_arguments_as_the_contract_does) {
  const std::vector<std::pair<std::string, std::string>> usages{
      {"ls", "PATH..."},         {"show", "PATH NAME"}, {"export", "PATH NAME..."},
      {"convert", "SRC... DST"}, {"diff", "A B"},       {"meta", "PATH [get|set|rm] [KEY [VALUE]...]"},
      {"synth", "OUT"}};
  for (const auto& [verb, arguments] : usages) {
    const auto help = run(verb + " --help").out;
    EXPECT_THAT(help, HasSubstr(std::string(verb).append(" [OPTIONS] ").append(arguments).append("\n")));
  }
  for (const auto& verb : verbs()) EXPECT_THAT(run(verb + " --help").out, Not(HasSubstr("... ..."))) << verb;
  EXPECT_THAT(run("meta --help").out, HasSubstr("\n  KEY [VALUE]...  "));
  EXPECT_THAT(run("ls").err, StartsWith("htensor: PATH is required [usage]\n"));
  EXPECT_THAT(run("convert m.ht").err, StartsWith("htensor: DST is required [usage]\n"));
  EXPECT_THAT(run("meta m.ht get").err, StartsWith("htensor: get takes one KEY [usage]\n"));
}

TEST_F(CliUsage, a_misspelled_verb_gets_a_suggestion) {
  for (const std::string after : {"", " m.ht", " --help", " m.ht --json --help"}) {
    const auto outcome = run("verfy" + after);
    EXPECT_EQ(outcome.status, 2) << after;
    EXPECT_THAT(outcome.err + outcome.out, HasSubstr("unknown verb 'verfy'")) << after;
    EXPECT_THAT(outcome.err + outcome.out, HasSubstr("did you mean 'verify'?")) << after;
  }
  EXPECT_EQ(run("nonsense --help").err,
            "htensor: unknown verb 'nonsense' [usage]\n  hint: list the verbs with `htensor`\n");
}

TEST_F(CliUsage, a_misspelled_option_gets_a_suggestion) {
  EXPECT_EQ(run("ls m.ht --filtr=x").err,
            "htensor: unknown option '--filtr=x' [usage]\n  hint: did you mean '--filter'?\n");
  EXPECT_THAT(run("ls m.ht --jsn").err, HasSubstr("did you mean '--json'?"));
  EXPECT_THAT(run("synth x.ht --prest matrix").err, HasSubstr("did you mean '--preset'?"));
  EXPECT_THAT(run("ls m.ht --zzz").err, HasSubstr("hint: see `htensor ls --help`"));
  EXPECT_THAT(run("plan m.ht m.ht").err, HasSubstr("unexpected argument 'm.ht' [usage]"));
  EXPECT_THAT(run("ls m.ht --sort nmae").err,
              HasSubstr("--sort: 'nmae' is not one of name, size, offset; did you mean 'name'? [usage]"));
  EXPECT_THAT(run("ls m.ht --sort").err, HasSubstr("--sort: a value is missing [usage]"));
  EXPECT_THAT(run("ls m.ht --sort name --sort size").err,
              HasSubstr("--sort: may be given only once [usage]"));
}

TEST_F(CliUsage, words_after_two_dashes_are_arguments) {
  EXPECT_THAT(run("meta none.gguf set k -- --json").err, StartsWith("htensor: none.gguf: "));
  EXPECT_EQ(run("meta none.gguf set k -- --json").out, "");
  EXPECT_EQ(run("show none.ht x -- --json").err,
            "htensor: unexpected argument '--json' [usage]\n  hint: see `htensor show --help`\n");
  EXPECT_EQ(run("show none.ht x --jsn -- y").err,
            "htensor: unknown option '--jsn' [usage]\n  hint: did you mean '--json'?\n");
  EXPECT_THAT(run("show none.ht x --json -- --text").out,
              HasSubstr(R"("message":"unexpected argument '--text'")"));
}

TEST_F(CliUsage, global_options_may_stand_before_the_verb) {
  const auto outcome = run("--json --progress never ls m.ht");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(is_json(outcome.out));
  EXPECT_EQ(run("-q --progress=never ls m.ht").status, 0);
  write_safetensors("s.safetensors", R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 2);
  EXPECT_EQ(run("--max-header 4K ls s.safetensors").status, 0);
  EXPECT_THAT(run("--max-header 4 ls s.safetensors").err, HasSubstr("[header_too_large]"));
  EXPECT_THAT(run("--version").out, StartsWith("htensor "));
}

TEST_F(CliUsage, show_and_export_of_a_missing_tensor_exit_with_2) {
  write_safetensors("s.safetensors",
                    R"({"__metadata__":{"k":"v"},"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 2);
  for (const std::string format : {"", " --json"}) {
    EXPECT_EQ(run("show s.safetensors none" + format).status, 2);
    EXPECT_EQ(run("export s.safetensors none -o x.npy" + format).status, 2);
  }
}

}  // namespace
}  // namespace ht::usage_test
