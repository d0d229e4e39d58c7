// The program as its users meet it: run, its output read, its exit status taken.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <htensor/htensor.hpp>
#include <string>
#include <thread>

#include "testing/temporary_folder.hpp"

namespace ht {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Outcome {
  int status = -1;
  std::string out;
  std::string err;
};

class Cli : public ::testing::Test {
 protected:
  Outcome run(const std::string& arguments, const std::string& before = "") {
    const std::string command = "cd '" + folder_.path().string() + "' && " + before + " '" HT_PROGRAM "' " +
                                arguments + " >.out 2>.err </dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(".out"), text_of(".err")};
  }

  // Starts `synth`, sends the signal once it is at work, and returns its exit status.
  int status_after(int signal, void (*disposition)(int), const char* size) {
    const pid_t child = fork();
    if (child == 0) {
      std::filesystem::current_path(folder_.path());
      std::signal(signal, disposition);
      execl(HT_PROGRAM, HT_PROGRAM, "synth", "big.ht", "--preset", "matrix", "-q", "--size", size,
            static_cast<char*>(nullptr));
      _exit(127);
    }
    int status = 0;
    // Its temporary file tells that it has begun.
    while (folder_.names().size() < 2) {
      if (waitpid(child, &status, WNOHANG) != 0) return -1;
      std::this_thread::yield();
    }
    kill(child, signal);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::string text_of(std::string_view name) {
    const auto bytes = testing::read_file(folder_ / name);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  void SetUp() override {
    ASSERT_TRUE(
        write(folder_ / "m.ht", Tensor<F32, Rank<2>>::of(Rank<2>(2, 3), {1, 2, 3, 4, 5, 6.5F}).value()));
  }

  testing::TemporaryFolder folder_;
};

TEST_F(Cli, alone_lists_the_verbs) {
  const auto outcome = run("");
  EXPECT_EQ(outcome.status, 0);
  for (const auto* verb : {"  ls ", "  show ", "  synth ", "  version "})
    EXPECT_THAT(outcome.out, HasSubstr(verb));
}

TEST_F(Cli, help_of_every_verb_has_an_example) {
  for (const std::string verb : {"ls", "show", "synth", "version"}) {
    const auto outcome = run(verb + " --help");
    EXPECT_EQ(outcome.status, 0);
    EXPECT_THAT(outcome.out, HasSubstr("Example:\n  htensor " + verb));
    EXPECT_EQ(outcome.err, "");
  }
}

TEST_F(Cli, ls_shows_columns_and_totals) {
  const auto outcome = run("ls m.ht");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out,
            "name  dtype  shape   bytes  offset\n"
            "m     F32    [2, 3]     24     128\n"
            "\n1 tensor, 24: 1 F32 (24)\n");
}

TEST_F(Cli, ls_json_has_the_keys_that_stay) {
  const std::string tensor =
      R"({"name":"m","dtype":"F32","shape":[2,3],"bytes":24,"offset":128,"file":"m.ht"})";
  EXPECT_EQ(run("ls m.ht --json").out, R"({"format":"ht","files":["m.ht"],"tensors":[)" + tensor +
                                           R"(],"metadata":{},"total_bytes":24})"
                                           "\n");
  EXPECT_EQ(run("ls m.ht --jsonl").out, tensor + "\n");
  EXPECT_EQ(run("--json ls m.ht").status, 0);
}

TEST_F(Cli, ls_filters_sorts_and_draws_a_tree) {
  EXPECT_THAT(run("ls m.ht --filter 'x*' --json").out, HasSubstr(R"("tensors":[],)"));
  EXPECT_THAT(run("ls m.ht --filter 'm*' --json").out, HasSubstr(R"("name":"m")"));
  for (const std::string key : {"name", "size", "offset"}) EXPECT_EQ(run("ls m.ht --sort " + key).status, 0);
  std::filesystem::rename(folder_ / "m.ht", folder_ / "blk.0.w.ht");
  EXPECT_THAT(run("ls blk.0.w.ht --tree").out,
              StartsWith("blk  1 tensors  24\n  0  1 tensors  24\n    w  F32 [2, 3]  24\n"));
}

TEST_F(Cli, ls_headers_only_takes_a_partial_download) {
  std::filesystem::resize_file(folder_ / "m.ht", 130);
  EXPECT_EQ(run("ls m.ht").status, 2);
  EXPECT_THAT(run("ls m.ht").err, HasSubstr("[truncated]"));
  EXPECT_EQ(run("ls m.ht --headers-only").status, 0);
  EXPECT_EQ(run("show m.ht m").status, 2);
}

TEST_F(Cli, show_prints_values_for_people) {
  EXPECT_EQ(run("show m.ht m").out, "m  F32 [2, 3]\n[[1, 2, 3]\n [4, 5, 6.5]]\n");
  EXPECT_EQ(run("show m.ht m --slice 1,1: -q").out, "[5, 6.5]\n");
  EXPECT_EQ(run("show m.ht m --slice 1,-1 -q").out, "6.5\n");
}

TEST_F(Cli, show_json_has_flat_values_and_their_shape) {
  EXPECT_EQ(run("show m.ht m --slice :,::-2 --json").out,
            R"({"name":"m","dtype":"F32","shape":[2,3],"values_shape":[2,2],"values":[3,1,6.5,4]})"
            "\n");
  EXPECT_THAT(run("show m.ht m --slice 0:0 --json").out, HasSubstr(R"("values_shape":[0,3],"values":[]})"));
}

TEST_F(Cli, show_of_nothing_ends_however_long_the_other_dimensions_are) {
  const std::vector<std::int64_t> dims{std::int64_t{1} << 60, 0};
  ASSERT_TRUE(write(folder_ / "e.ht", dtype_info<F32>(), dims, Bytes()));
  EXPECT_EQ(run("show e.ht e -q").out, "[]\n");
  EXPECT_THAT(run("show e.ht e --json").out, HasSubstr(R"("values":[]})"));
}

TEST_F(Cli, show_leaves_out_the_middle_of_large_tensors) {
  ASSERT_EQ(run("synth big.ht --preset matrix --size 1M --dtype U8").status, 0);
  const auto outcome = run("show big.ht big");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, HasSubstr("..."));
  EXPECT_LT(outcome.out.size(), 1000U);
}

TEST_F(Cli, show_takes_every_dtype) {
  for (const auto& dtype : library_dtypes()) {
    const std::string name(dtype.name);
    ASSERT_EQ(run("synth t.ht --force --preset matrix --size 64 --dtype " + name).status, 0) << name;
    const auto outcome = run("show t.ht t --json");
    EXPECT_EQ(outcome.status, 0) << name << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr("\"dtype\":\"" + name + "\""));
  }
}

TEST_F(Cli, errors_are_a_line_and_a_hint) {
  const auto outcome = run("show m.ht mm");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "htensor: m.ht: has no tensor named 'mm' [not_found]\n  hint: did you mean 'm'?\n");
}

TEST_F(Cli, errors_in_json_go_to_stdout) {
  const auto outcome = run("ls none.ht --json");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out,
              StartsWith(R"({"error":{"code":"open_failed","rule":"file_can_be_opened","path":"none.ht",)"));
}

TEST_F(Cli, bad_usage_is_2_in_both_forms) {
  for (const std::string arguments :
       {"nonsense", "ls", "ls m.ht --sort color", "ls m.ht --none", "synth x.ht",
        "synth x.ht --preset matrix --size huge", "ls m.ht --progress maybe",
        "synth x.ht --preset matrix --seed -1", "synth x.ht --preset matrix --seed 18446744073709551616"}) {
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

TEST_F(Cli, what_is_no_weights_file_is_2) {
  testing::write_file(folder_ / "empty", "");
  testing::write_file(folder_ / "text", "hello, world");
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  for (const std::string path : {"empty", "text", "pipe", "/dev/zero", "."}) {
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

TEST_F(Cli, synth_is_deterministic_and_has_its_seed) {
  ASSERT_EQ(run("synth a.ht --preset matrix --size 100K --dtype BF16 --seed 7").status, 0);
  ASSERT_EQ(run("synth b.ht --preset matrix --size 100K --dtype BF16 --seed 7").status, 0);
  ASSERT_EQ(run("synth c.ht --preset matrix --size 100K --dtype BF16 --seed 8").status, 0);
  EXPECT_EQ(text_of("a.ht"), text_of("b.ht"));
  EXPECT_NE(text_of("a.ht"), text_of("c.ht"));
}

TEST_F(Cli, synth_sparse_makes_any_size_in_an_instant) {
  const auto outcome = run("synth big.ht --preset matrix --size 1T --sparse --json");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, R"({"written":"big.ht","tensors":1,"bytes":1099511627776})"
                         "\n");
  EXPECT_EQ(std::filesystem::file_size(folder_ / "big.ht"), (std::uint64_t{1} << 40) + 128);
  struct stat disk{};
  ASSERT_EQ(stat((folder_ / "big.ht").c_str(), &disk), 0);
  EXPECT_LT(disk.st_blocks * 512, 1 << 20);
  // Its ends are those of the dense file, which has them at the same places.
  EXPECT_EQ(run("show big.ht big --slice 0,:3 -q").out, [&] {
    EXPECT_EQ(run("synth dense.ht --preset matrix --size 1M").status, 0);
    return run("show dense.ht dense --slice 0,:3 -q").out;
  }());
  EXPECT_NE(run("show big.ht big --slice -1,-1 -q").out, "0\n");
}

TEST_F(Cli, synth_beyond_the_file_system_is_refused) {
  // A limit of the shell stands for that of a file system, which differ.
  const auto outcome = run("synth big.ht --preset matrix --size 1G --sparse", "ulimit -f 100;");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("hint:"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "big.ht"));
}

TEST_F(Cli, size_fits_63_bits) {
  for (const std::string size : {"8E --dtype I4", "5E --dtype I4", "15E --dtype F64"}) {
    const auto outcome = run("synth big.ht --preset matrix --sparse --json --size " + size);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.out, HasSubstr(R"("rule":"size_fits_63_bits")"));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "big.ht"));
  }
}

TEST_F(Cli, synth_needs_force_to_replace) {
  const auto before = text_of("m.ht");
  const auto outcome = run("synth m.ht --preset matrix");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("[already_exists]"));
  EXPECT_EQ(text_of("m.ht"), before);
  EXPECT_EQ(run("synth m.ht --preset matrix --force").status, 0);
}

TEST_F(Cli, dtype_name_is_known) {
  const auto outcome = run("synth x.ht --preset matrix --dtype F33 --json");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.out, HasSubstr(R"("rule":"dtype_name_is_known")"));
}

TEST_F(Cli, nobody_asked_to_stop) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    EXPECT_EQ(status_after(signal, SIG_DFL, "64G"), 130);
    EXPECT_EQ(folder_.names(), std::vector<std::string>{"m.ht"});
  }
}

TEST_F(Cli, ignored_signals_stay_ignored) {
  // As nohup does it: the signal comes while it works, and it goes on.
  EXPECT_EQ(status_after(SIGHUP, SIG_IGN, "16M"), 0);
  EXPECT_EQ(folder_.names(), (std::vector<std::string>{"big.ht", "m.ht"}));
}

TEST_F(Cli, closed_or_full_stderr_changes_nothing) {
  const std::string in_folder = "cd '" + folder_.path().string() + "' && '" HT_PROGRAM "' ";
  for (const std::string how : {" 2>&-", " 2>/dev/full"}) {
    EXPECT_EQ(WEXITSTATUS(std::system((in_folder + "ls none.ht" + how).c_str())), 2) << how;
    const std::string synth = "synth c.ht --force --preset matrix --size 2M --progress=always -q";
    EXPECT_EQ(WEXITSTATUS(std::system((in_folder + synth + how).c_str())), 0) << how;
    ASSERT_EQ(run("synth d.ht --force --preset matrix --size 2M -q").status, 0);
    EXPECT_EQ(text_of("c.ht"), text_of("d.ht")) << how;
  }
}

TEST_F(Cli, full_disk_behind_stdout_is_told) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  const std::string command =
      "'" HT_PROGRAM "' ls '" + (folder_ / "m.ht").string() + "' >/dev/full 2>/dev/null";
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 2);
}

TEST_F(Cli, progress_goes_to_stderr_when_asked_for) {
  const auto outcome = run("synth p.ht --preset matrix --size 8M --progress=always --json");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("%"));
  EXPECT_THAT(outcome.out, StartsWith("{"));
  EXPECT_EQ(run("synth q.ht --preset matrix --size 8M").err, "");
}

TEST_F(Cli, version_is_the_builds_own) {
  EXPECT_THAT(run("version").out, StartsWith("htensor " HT_PROJECT_VERSION " "));
  EXPECT_THAT(run("version --json").out, StartsWith(R"({"version":")" HT_PROJECT_VERSION R"(",)"));
}

}  // namespace
}  // namespace ht
