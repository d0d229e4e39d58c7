#include "model/test_formats.hpp"
#include "testing/program.hpp"

namespace ht {
namespace {

class CliConvert : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    ASSERT_EQ(run("synth m.safetensors --preset llama-1b --size 9M -q").status, 0);
  }
  std::string hashes(const std::string& path) { return run("hash " + path + " --per-tensor --jsonl").out; }
};

TEST_F(CliConvert, says_what_was_written_and_how) {
  const auto done = run("convert m.safetensors m.irpa --json");
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_TRUE(is_json(done.out)) << done.out;
  EXPECT_THAT(done.out, StartsWith(R"({"written":"m.irpa","bytes":)"));
  EXPECT_THAT(done.out, HasSubstr(R"("copied_by":{"reflink":)"));
  EXPECT_EQ(hashes("m.irpa"), hashes("m.safetensors"));
  EXPECT_THAT(run("convert m.safetensors again.irpa").out, StartsWith("again.irpa\n"));
  EXPECT_EQ(run("convert m.safetensors -q third.irpa").out, "");
}

TEST_F(CliConvert, leaves_what_is_there_unless_told_otherwise) {
  ASSERT_EQ(run("convert m.safetensors m.irpa -q").status, 0);
  const auto refused = run("convert m.safetensors m.irpa");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("[already_exists]"));
  EXPECT_EQ(run("convert m.safetensors m.irpa --force -q").status, 0);
  EXPECT_EQ(run("convert m.irpa m.irpa --force -q").status, 0) << "onto itself";
  EXPECT_EQ(hashes("m.irpa"), hashes("m.safetensors"));
}

TEST_F(CliConvert, shows_the_plan_and_writes_nothing) {
  const auto plan = run("convert m.safetensors m.irpa --dry-run --json");
  EXPECT_EQ(plan.status, 0) << plan.err;
  EXPECT_TRUE(is_json(plan.out));
  EXPECT_THAT(plan.out, HasSubstr(R"("from":"file","file":"m.safetensors","file_offset":)"));
  EXPECT_THAT(plan.out, HasSubstr(R"("losses":[])"));
  EXPECT_THAT(run("convert m.safetensors m.irpa --dry-run").out, HasSubstr("made here: the header"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "m.irpa"));
}

TEST_F(CliConvert, takes_filter_renames_order_and_shards) {
  ASSERT_EQ(run("convert m.safetensors few.safetensors --filter '*norm*' --rename 'model.*=*' --canonical -q")
                .status,
            0);
  const auto listed = run("ls few.safetensors --json").out;
  EXPECT_THAT(listed, HasSubstr(R"("name":"norm.weight")"));
  EXPECT_THAT(listed, Not(HasSubstr("model.")));
  ASSERT_EQ(run("convert m.safetensors s.safetensors --shard-size 3M --seal -q").status, 0);
  EXPECT_EQ(hashes("s.safetensors.index.json"), hashes("m.safetensors"));
  EXPECT_EQ(run("verify s.safetensors.index.json -q").status, 0);
}

TEST_F(CliConvert, says_no_to_what_would_be_lost) {
  ASSERT_EQ(run("synth one.gguf --preset matrix --size 4K -q").status, 0);
  testing::write_file(
      folder_ / "t.safetensors",
      testing::safetensors_file(
          R"({"__metadata__":{"a":"b"},"x":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}})", 1));
  const auto refused = run("convert t.safetensors t.gguf --json");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.out, HasSubstr(R"("code":"would_lose")"));
  EXPECT_EQ(run("convert t.safetensors t.gguf --dry-run").status, 1);
  EXPECT_THAT(run("convert t.safetensors t.gguf --dry-run").out, HasSubstr("would be lost: "));
  const auto lossy = run("convert t.safetensors t.gguf --lossy");
  EXPECT_EQ(lossy.status, 0);
  EXPECT_THAT(lossy.err, StartsWith("lost: "));
  EXPECT_THAT(run("ls t.gguf --json").out, HasSubstr(R"("dtype":"I8","shape":[1])"));
}

TEST_F(CliConvert, rename_has_two_names) {
  for (const std::string bad : {"nothing", "=x"}) {
    const auto refused = run("convert m.safetensors x.irpa --rename " + bad);
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.err, HasSubstr("A=B"));
  }
}

TEST_F(CliConvert, writes_plain_archives) {
  ASSERT_EQ(run("convert m.safetensors p.irpa --plain -q").status, 0);
  EXPECT_THAT(run("ls p.irpa --json").out, HasSubstr(R"("dtype":null,"shape":null)"));
}

TEST_F(CliConvert, declares_globals_for_iree) {
  ASSERT_EQ(run("convert m.safetensors m.irpa --filter model.norm.weight --rename model.norm.weight=norm "
                "--emit-mlir m.mlir "
                "--scope weights -q")
                .status,
            0);
  EXPECT_THAT(text_of("m.mlir"),
              HasSubstr(R"(@norm = #stream.parameter.named<"weights"::"norm"> : tensor<)"));
  ASSERT_EQ(run("convert m.safetensors m.irpa --filter model.norm.weight --inline-all --emit-mlir m.mlir "
                "--force -q")
                .status,
            0);
  EXPECT_THAT(text_of("m.mlir"), HasSubstr("dense<"));
}

TEST_F(CliConvert, module_is_a_file_of_its_own) {
  for (const std::string module : {"m.safetensors", "n.irpa", "./n.irpa"}) {
    const auto refused = run("convert m.safetensors n.irpa --force --emit-mlir " + module);
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.err, HasSubstr("[already_exists]"));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "n.irpa"));
  }
  EXPECT_EQ(run("ls m.safetensors").status, 0) << "the source is as it was";
}

TEST_F(CliConvert, module_can_be_written) {
  std::filesystem::create_directory(folder_ / "d");
  for (const std::string module : {"nowhere/m.mlir", "d", "/dev/full"}) {
    const auto refused = run("convert m.safetensors n.irpa --force --emit-mlir " + module + " --json");
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.out, HasSubstr(R"("rule":"module_can_be_written")"));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "n.irpa")) << "nothing was written";
  }
}

TEST_F(CliConvert, refuses_a_dry_run_of_what_would_be_refused) {
  EXPECT_EQ(run("convert m.safetensors m.safetensors --dry-run").status, 2);
  EXPECT_EQ(run("convert m.safetensors m.safetensors --dry-run --force").status, 0);
  EXPECT_EQ(run("convert m.safetensors nowhere/m.irpa --dry-run").status, 2);
}

TEST_F(CliConvert, module_is_not_there_yet) {
  testing::write_file(folder_ / "m.mlir", std::vector<std::byte>(3));
  const auto refused = run("convert m.safetensors n.irpa --emit-mlir m.mlir");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("m.mlir"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "n.irpa")) << "nothing was written";
}

TEST_F(CliConvert, ends_with_130_and_leaves_all_as_it_was_when_it_is_interrupted) {
  // Made of nothing, and it takes seconds to write.
  testing::write_file(folder_ / "s.irpa",
                      testing::irpa_file({{.name = "s",
                                           .note = testing::tensor_note("uint8", "[1073741824]"),
                                           .length = std::uint64_t{1} << 30,
                                           .pattern = "\7"}}));
  testing::write_file(folder_ / "t.safetensors", "old");
  const auto before = folder_.names();
  for (const int signal : {SIGINT, SIGTERM}) {
    const auto status = status_once_writing(signal, {"convert", "s.irpa", "t.safetensors", "--force", "-q"});
    EXPECT_EQ(status, 130);
    EXPECT_EQ(folder_.names(), before);
    EXPECT_EQ(text_of("t.safetensors"), "old");
  }
}

TEST_F(CliConvert, exports_one_tensor) {
  ASSERT_EQ(run("synth f.safetensors --preset llama-1b --size 3M --dtype F32 -q").status, 0);
  const auto done = run("export f.safetensors model.norm.weight -o norm.npy --json");
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(done.out, "{\"written\":\"norm.npy\"}\n");
  EXPECT_THAT(run("ls norm.npy --json").out, HasSubstr(R"("name":"norm")"));
  EXPECT_EQ(run("export f.safetensors model.norm.weight -o norm.npy").status, 2) << "it is there";
  EXPECT_EQ(run("export f.safetensors model.norm.weight -o norm.npy --force -q").status, 0);
  EXPECT_EQ(run("export m.safetensors model.norm.weight -o norm.ht -q").status, 0);
  EXPECT_EQ(run("verify norm.ht -q").status, 0);
  EXPECT_THAT(run("export m.safetensors model.norm.weight -o x.npy").err,
              HasSubstr("NPY cannot store BF16"));
  const auto none = run("export m.safetensors model.norm.wieght -o x.npy");
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("model.norm.weight"));
}

}  // namespace
}  // namespace ht
