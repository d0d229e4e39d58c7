#include "cli/program_test.hpp"

namespace ht::cli_test {
namespace {

TEST_F(Cli, without_arguments_lists_the_verbs) {
  const auto outcome = run("");
  EXPECT_EQ(outcome.status, 0);
  for (const auto* verb : {"  ls ", "  show ", "  diff ", "  doctor ", "  synth ", "  version "})
    EXPECT_THAT(outcome.out, HasSubstr(verb));
}

TEST_F(Cli, errors_are_a_line_and_a_hint) {
  const auto outcome = run("show m.ht mm");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err,
            "htensor: m.ht: tensor 'mm' does not exist [not_found]\n  hint: did you mean 'm'?\n");
}

TEST_F(Cli, errors_in_json_go_to_stdout) {
  const auto outcome = run("ls none.ht --json");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out,
              StartsWith(R"({"error":{"code":"open_failed","rule":"file_can_be_opened","path":"none.ht",)"));
}

TEST_F(Cli, bad_usage_exits_with_2_in_text_and_json) {
  for (const std::string arguments :
       {"nonsense", "ls", "ls m.ht --sort color", "ls m.ht --none", "synth x.ht",
        "synth x.ht --preset matrix --size huge", "ls m.ht --progress maybe", "doctor",
        "synth x.ht --preset sphinx", "synth x.ht --preset matrix --seed -1",
        "synth x.ht --preset matrix --seed 18446744073709551616"}) {
    const auto outcome = run(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_THAT(outcome.err, StartsWith("htensor: ")) << arguments;
    EXPECT_THAT(outcome.err, HasSubstr("[usage]")) << arguments;
    const auto json = run(arguments + " --json");
    EXPECT_EQ(json.status, 2);
    EXPECT_THAT(json.out, StartsWith(R"({"error":{"code":"usage")"));
    EXPECT_EQ(json.err, "");
  }
}

TEST_F(Cli, files_without_weights_exit_with_2) {
  testing::write_file(folder_ / "empty", "");
  testing::write_file(folder_ / "text", "hello, world");
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  std::filesystem::create_directory(folder_ / "folder");
  for (const std::string path : {"empty", "text", "pipe", "/dev/zero", "folder"}) {
    const auto outcome = run("ls " + path);
    EXPECT_EQ(outcome.status, 2) << path;
    EXPECT_THAT(outcome.err, HasSubstr("hint:")) << path;
  }
}

TEST_F(Cli, names_cannot_harm_the_terminal) {
  std::filesystem::rename(folder_ / "m.ht", folder_ / "\x1b[31m.ht");
  const auto outcome = run("ls *31m.ht");
  EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos);
  EXPECT_THAT(outcome.out, HasSubstr("\\u{1b}[31m"));
}

std::vector<std::string> synth_of(const std::string& size) {
  return {"synth", "big.ht", "--preset", "matrix", "-q", "--size", size};
}

TEST_F(Cli, work_is_completed) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    EXPECT_EQ(status_once_writing(signal, synth_of("64G")), 130);
    EXPECT_EQ(folder_.names(), std::vector<std::string>{"m.ht"});
  }
  const auto command = "cd '" + folder_.path().string() + "' && timeout --preserve-status -s INT 1 '" +
                       program() + "' synth big.ht --preset matrix -q --size 64G 2>err";
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 130);
  EXPECT_THAT(text_of("err"), ::testing::ContainsRegex("stopped: [0-9]+ of 68719476736 bytes written; "
                                                       "the target is unchanged \\[cancelled\\]"));
}

TEST_F(Cli, ignored_signals_stay_ignored) {
  // A signal that was ignored at startup, as by nohup, does not stop the work.
  EXPECT_EQ(status_once_writing(SIGHUP, synth_of("16M"), SIG_IGN), 0);
  EXPECT_EQ(folder_.names(), (std::vector<std::string>{"big.ht", "m.ht"}));
}

TEST_F(Cli, closed_or_full_stderr_changes_nothing) {
  const std::string in_folder = "cd '" + folder_.path().string() + "' && '" + program() + "' ";
  for (const std::string redirection : {" 2>&-", " 2>/dev/full"}) {
    EXPECT_EQ(
        WEXITSTATUS(std::system(std::string(in_folder).append("ls none.ht").append(redirection).c_str())), 2)
        << redirection;
    const std::string synth = "synth c.ht --force --preset matrix --size 2M --progress=always -q";
    EXPECT_EQ(WEXITSTATUS(std::system(std::string(in_folder).append(synth).append(redirection).c_str())), 0)
        << redirection;
    ASSERT_EQ(run("synth d.ht --force --preset matrix --size 2M -q").status, 0);
    EXPECT_EQ(text_of("c.ht"), text_of("d.ht")) << redirection;
  }
}

TEST_F(Cli, full_disk_behind_stdout_exits_with_2) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  const std::string command =
      "'" + program() + "' ls '" + (folder_ / "m.ht").string() + "' >/dev/full 2>/dev/null";
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 2);
}

TEST_F(Cli, progress_goes_to_stderr_on_request) {
  const auto outcome = run("synth p.ht --preset matrix --size 8M --progress=always --json");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("%"));
  EXPECT_THAT(outcome.out, StartsWith("{"));
  EXPECT_EQ(run("synth q.ht --preset matrix --size 8M").err, "");
}

TEST_F(Cli, version_is_the_version_of_the_build) {
  EXPECT_THAT(run("version").out, StartsWith("htensor " HT_PROJECT_VERSION " "));
  EXPECT_THAT(run("version --json").out, StartsWith(R"({"version":")" HT_PROJECT_VERSION R"(",)"));
}

TEST_F(Cli, version_lists_all_cpu_features_in_use) {
  const std::string features(cpu_features());
  EXPECT_THAT(
      run("version").out,
      HasSubstr("cpu features in use: " + (features.empty() ? "only the baseline" : features) + "\n"));
  std::string list;
  for (const char c : features) list += c == ' ' ? "\",\"" : std::string(1, c);
  EXPECT_THAT(run("version --json").out,
              HasSubstr(R"("cpu":[)" + (list.empty() ? "" : '"' + list + '"') + "]"));
}

}  // namespace
}  // namespace ht::cli_test
