#include "cli/program_test.hpp"
#include "model/test_formats.hpp"

namespace ht::convert_test {
namespace {

class CliConvert : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    ASSERT_EQ(run("synth m.safetensors --preset llama-1b --size 9M -q").status, 0);
  }
  std::string hashes(const std::string& path) { return run("hash " + path + " --per-tensor --jsonl").out; }
};

TEST_F(CliConvert, prints_the_written_files_and_methods) {
  const auto done = run("convert m.safetensors m.irpa --json");
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_TRUE(is_json(done.out)) << done.out;
  EXPECT_THAT(done.out, StartsWith(R"({"written":"m.irpa","bytes":)"));
  EXPECT_THAT(done.out, HasSubstr(R"("copied_by":{"reflink":)"));
  EXPECT_EQ(hashes("m.irpa"), hashes("m.safetensors"));
  EXPECT_THAT(run("convert m.safetensors again.irpa").out, StartsWith("again.irpa\n"));
  EXPECT_EQ(run("convert m.safetensors -q third.irpa").out, "");
}

TEST_F(CliConvert, keeps_existing_files_by_default) {
  ASSERT_EQ(run("convert m.safetensors m.irpa -q").status, 0);
  const auto refused = run("convert m.safetensors m.irpa");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("[already_exists]"));
  EXPECT_EQ(run("convert m.safetensors m.irpa --force -q").status, 0);
  EXPECT_EQ(run("convert m.irpa m.irpa --force -q").status, 0) << "the target is the source";
  EXPECT_EQ(hashes("m.irpa"), hashes("m.safetensors"));
}

TEST_F(CliConvert, shows_the_plan_and_writes_nothing) {
  const auto plan = run("convert m.safetensors m.irpa --dry-run --json");
  EXPECT_EQ(plan.status, 0) << plan.err;
  EXPECT_TRUE(is_json(plan.out));
  EXPECT_THAT(plan.out, HasSubstr(R"("from":"file","file":"m.safetensors","file_offset":)"));
  EXPECT_THAT(plan.out, HasSubstr(R"("losses":[])"));
  EXPECT_THAT(plan.out, HasSubstr(R"("warnings":[])"));
  EXPECT_THAT(run("convert m.safetensors m.irpa --dry-run").out, HasSubstr("  header"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "m.irpa"));
}

TEST_F(CliConvert, accepts_filter_renames_order_and_shards) {
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

TEST_F(CliConvert, refuses_losses) {
  testing::write_file(
      folder_ / "t.safetensors",
      testing::safetensors_file(
          R"({"__metadata__":{"a":"b"},"x":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}})", 1));
  const auto refused = run("convert t.safetensors t.gguf --json");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.out, HasSubstr(R"("code":"would_lose")"));
  EXPECT_THAT(refused.out, HasSubstr("with --raw-bytes"));
  const auto plan = run("convert t.safetensors t.gguf --dry-run");
  EXPECT_EQ(plan.status, 1);
  EXPECT_THAT(plan.out, HasSubstr("kept as raw bytes: 'x' F4 [2] → I8 [1]"));
  EXPECT_THAT(plan.err, HasSubstr("with --raw-bytes"));
  EXPECT_EQ(run("convert t.safetensors t.gguf --dry-run --raw-bytes").status, 0);
  EXPECT_EQ(run("convert t.safetensors t.gguf --drop-metadata").status, 2)
      << "--drop-metadata does not allow raw bytes";
  for (const std::string option : {"--raw-bytes", "--lossy"}) {
    const auto lossy = run("convert t.safetensors t.gguf --force " + option);
    EXPECT_EQ(lossy.status, 0);
    EXPECT_THAT(lossy.err, StartsWith("kept as raw bytes: 'x' F4 [2] → I8 [1]\n"));
    EXPECT_THAT(run("ls t.gguf --json").out, HasSubstr(R"("dtype":"I8","shape":[1])"));
  }
}

TEST_F(CliConvert, drops_metadata_only_if_allowed) {
  write_safetensors("k.safetensors",
                    R"({"__metadata__":{"a":"b"},"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4);
  const auto refused = run("convert k.safetensors k.npy");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("with --drop-metadata\n"));
  EXPECT_EQ(run("convert k.safetensors k.npy --raw-bytes").status, 2);
  const auto done = run("convert k.safetensors k.npy --drop-metadata");
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(done.err, "metadata dropped: 'a'\n");
  EXPECT_THAT(run("convert k.safetensors k.npy --drop-metadata --force --json").out,
              HasSubstr(R"("losses":[{"name":"a","kind":"metadata","tensor":false,)"));
}

TEST_F(CliConvert, lists_at_most_ten_losses) {
  std::string json;
  for (std::size_t i = 0; i < 25; ++i) {
    json += (i == 0 ? "{\"x" : ",\"x") + std::to_string(i) +
            R"(":{"dtype":"F4","shape":[2],"data_offsets":[)" + std::to_string(i) + "," +
            std::to_string(i + 1) + "]}";
  }
  write_safetensors("x.safetensors", json + "}", 25);
  const auto done = run("convert x.safetensors x.gguf --lossy");
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.err, HasSubstr("kept as raw bytes: 'x9' F4 [2] → I8 [1]\n… and 15 more; list them with"));
  EXPECT_THAT(done.err, Not(HasSubstr("'x10'")));
  const auto all = run("convert x.safetensors x.gguf --lossy --force --json").out;
  EXPECT_THAT(all, HasSubstr(R"({"name":"x24","kind":"raw_bytes")"));
  // A dry run lists all losses, because the plan is its result.
  EXPECT_THAT(run("convert x.safetensors y.gguf --dry-run").out, HasSubstr("raw bytes: 'x24'"));
}

TEST_F(CliConvert, names_the_target_whose_extension_is_unknown) {
  EXPECT_THAT(run("convert m.ht out.xyz").err,
              StartsWith("htensor: out.xyz: extension '.xyz' does not name a format"));
  EXPECT_THAT(run("convert m.ht out.irpa --filter none").err, StartsWith("htensor: m.ht: "));
}

TEST_F(CliConvert, warns_of_a_gguf_that_llama_cpp_refuses) {
  const std::string name(64, 'n');
  write_safetensors("w.safetensors",
                    R"({")" + name + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4);
  const auto done = run("convert w.safetensors w.gguf --json");
  EXPECT_EQ(done.status, 0);
  EXPECT_TRUE(is_json(done.out)) << done.out;
  EXPECT_THAT(done.out, HasSubstr(R"("warnings":[{"code":"bad_name","rule":"names_fit_ggml",)"));
  EXPECT_THAT(done.out, HasSubstr(R"("rule":"metadata_names_the_architecture")"));
  const auto warned = run("convert w.safetensors w.gguf --force");
  EXPECT_EQ(warned.status, 0);
  EXPECT_THAT(warned.err, HasSubstr("warning: "));
  EXPECT_THAT(warned.err, HasSubstr("hint: set it: htensor meta FILE set general.architecture NAME"));
  EXPECT_EQ(run("convert w.safetensors w.gguf --force -q").err, "");
  EXPECT_THAT(run("convert w.safetensors w.gguf --force --dry-run --json").out, HasSubstr("names_fit_ggml"));
  const auto doctor = run("doctor w.gguf --json");
  EXPECT_THAT(doctor.out, HasSubstr("names_fit_ggml"));
  EXPECT_THAT(doctor.out, HasSubstr("metadata_names_the_architecture"));
  ASSERT_EQ(run("convert w.safetensors v.gguf --rename " + name + "=a -q").status, 0);
  ASSERT_EQ(run("meta v.gguf set general.architecture llama -q").status, 0);
  EXPECT_EQ(run("doctor v.gguf -q").out, "") << "the hints remove the warnings";
}

TEST_F(CliConvert, seal_covers_the_new_file) {
  // The seal of the folder covers both shards, so it is not renewed when one of them is replaced.
  ASSERT_EQ(run("convert m.safetensors s.safetensors --shard-size 6M --seal -q").status, 0);
  ASSERT_TRUE(std::filesystem::exists(folder_ / "model.htseal"));
  const std::string key = R"("warnings":[{"code":"bad_seal","rule":"seal_covers_the_new_file","path":")";
  const auto converted = run("convert m.ht s-00001-of-00002.safetensors --force --json");
  EXPECT_EQ(converted.status, 0) << converted.err;
  EXPECT_TRUE(is_json(converted.out)) << converted.out;
  EXPECT_THAT(converted.out, HasSubstr(key));
  EXPECT_THAT(converted.out, HasSubstr(R"("hint":"renew it: htensor seal --force )"));
  EXPECT_THAT(converted.err, HasSubstr("warning: "));
  EXPECT_THAT(run("convert m.ht s-00001-of-00002.safetensors --force -q").err, "");
  const auto exported = run("export m.ht m -o s-00001-of-00002.safetensors --force --json");
  EXPECT_EQ(exported.status, 0) << exported.err;
  EXPECT_TRUE(is_json(exported.out)) << exported.out;
  EXPECT_THAT(exported.out, HasSubstr(key));
  EXPECT_THAT(
      exported.err,
      HasSubstr("model.htseal: seal is out of date: it has the checksums of a file that was replaced"));
}

TEST_F(CliConvert, merges_several_sources) {
  write_safetensors("a.safetensors", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4);
  write_safetensors("b.safetensors", R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4);
  const auto done = run("convert a.safetensors m.ht b.safetensors all.irpa --json");
  EXPECT_EQ(done.status, 0) << done.out;
  const auto listed = run("ls all.irpa --json").out;
  for (const std::string name : {"a", "b", "m"}) EXPECT_THAT(listed, HasSubstr(R"({"name":")" + name + "\""));
  const auto twice = run("convert a.safetensors a.safetensors x.irpa");
  EXPECT_EQ(twice.status, 2);
  EXPECT_THAT(twice.err, HasSubstr("tensor 'a' is in 'a.safetensors' and in 'a.safetensors'"));
  EXPECT_THAT(twice.err, HasSubstr("[duplicate_tensor]"));
  const auto alone = run("convert a.safetensors");
  EXPECT_EQ(alone.status, 2);
  EXPECT_THAT(alone.err, HasSubstr("[usage]"));
}

TEST_F(CliConvert, names_the_old_shards_that_it_removes) {
  ASSERT_EQ(run("convert m.safetensors s.safetensors --shard-size 3M -q").status, 0);
  const auto plan = run("convert m.safetensors s.safetensors --shard-size 5M --force --dry-run");
  EXPECT_THAT(plan.out, HasSubstr("would remove "));
  const auto done = run("convert m.safetensors s.safetensors --shard-size 5M --force");
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("files of the old model: s-00001-of-"));
  EXPECT_EQ(hashes("s.safetensors.index.json"), hashes("m.safetensors"));
  const auto repeated = run("convert m.safetensors s.safetensors --shard-size 3M --force --json");
  EXPECT_TRUE(is_json(repeated.out));
  EXPECT_THAT(repeated.out, HasSubstr(R"("removed":["s-00001-of-)"));
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

TEST_F(CliConvert, options_of_the_module_need_emit_mlir) {
  for (const std::string option : {"--scope", "--inline-below", "--inline-all"}) {
    const auto value = option == "--scope" ? " weights" : option == "--inline-below" ? " 4K" : "";
    const auto refused = run("convert m.safetensors n.irpa " + option + value);
    EXPECT_EQ(refused.status, 2) << option;
    EXPECT_THAT(refused.err, HasSubstr(option + " needs --emit-mlir [usage]"));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "n.irpa")) << "nothing was written";
  }
}

TEST_F(CliConvert, module_is_checked_before_the_first_write) {
  testing::write_file(folder_ / "e.irpa", testing::irpa_file({{.name = "", .length = 1}}, "x"));
  for (const std::string more : {"", " --dry-run"}) {
    const auto refused = run("convert e.irpa n.irpa --emit-mlir n.mlir --json" + more);
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.out, HasSubstr(R"("rule":"symbol_has_a_name","path":"n.irpa")"));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "n.irpa")) << "nothing was written";
    EXPECT_FALSE(std::filesystem::exists(folder_ / "n.mlir"));
  }
  EXPECT_EQ(run("convert e.irpa n.irpa --rename '*=t*' --emit-mlir n.mlir -q").status, 0);
  EXPECT_THAT(text_of("n.mlir"), HasSubstr("@t = "));
}

TEST_F(CliConvert, module_is_a_separate_file) {
  for (const std::string module : {"m.safetensors", "n.irpa", "./n.irpa"}) {
    const auto refused = run("convert m.safetensors n.irpa --force --emit-mlir " + module);
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.err, HasSubstr("[already_exists]"));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "n.irpa"));
  }
  EXPECT_EQ(run("ls m.safetensors").status, 0) << "the source is unchanged";
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

TEST_F(CliConvert, dry_run_fails_like_the_conversion) {
  EXPECT_EQ(run("convert m.safetensors m.safetensors --dry-run").status, 2);
  EXPECT_EQ(run("convert m.safetensors m.safetensors --dry-run --force").status, 0);
  EXPECT_EQ(run("convert m.safetensors nowhere/m.irpa --dry-run").status, 2);
}

TEST_F(CliConvert, module_path_is_free) {
  testing::write_file(folder_ / "m.mlir", std::vector<std::byte>(3));
  const auto refused = run("convert m.safetensors n.irpa --emit-mlir m.mlir --json");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.out, HasSubstr(R"("rule":"module_path_is_free","path":"m.mlir")"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "n.irpa")) << "nothing was written";
}

TEST_F(CliConvert, exits_with_130_and_changes_nothing_when_interrupted) {
  // A splat: a small file that takes seconds to write in full.
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

TEST_F(CliConvert, exports_stored_bytes) {
  ASSERT_EQ(run("export m.ht m -o m.bin -q").status, 0);
  EXPECT_EQ(text_of("m.bin"), text_of("m.ht").substr(128)) << "exports only the data";
  EXPECT_EQ(run("export m.ht m -o -").out, text_of("m.bin"));
  EXPECT_EQ(run("export m.ht m -o other --to bin").status, 0);
  EXPECT_EQ(text_of("other"), text_of("m.bin"));
  EXPECT_EQ(run("export m.ht m -o m.bin").status, 2) << "the target exists";
  const auto unknown = run("export m.ht m -o m.foo");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.err, HasSubstr("use the extension of one of bin, ht, gguf, irpa, npy, safetensors"));
  // Stored blocks, and a splat, which has no bytes in the file.
  ASSERT_EQ(run("synth q.gguf --preset llama-1b-q4_k_m --size 9M -q").status, 0);
  EXPECT_EQ(run("export q.gguf blk.0.attn_q.weight -o q.bin -q").status, 0);
  EXPECT_THAT(run("ls q.gguf --filter blk.0.attn_q.weight --json").out,
              HasSubstr("\"bytes\":" + std::to_string(text_of("q.bin").size())));
  testing::write_file(folder_ / "s.irpa",
                      testing::irpa_file({{.name = "s",
                                           .note = testing::tensor_note("uint8", "[100000]"),
                                           .length = 100'000,
                                           .pattern = "\7"}}));
  EXPECT_EQ(run("export s.irpa s -o -").out, std::string(100'000, '\7'));
  EXPECT_EQ(run("export s.irpa s -o s.bin -q").status, 0);
  EXPECT_EQ(text_of("s.bin"), std::string(100'000, '\7'));
}

TEST_F(CliConvert, exports_several_tensors_into_a_folder) {
  write_safetensors("n.safetensors",
                    R"({"a/../../b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                    R"("..":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},)"
                    R"("/etc/x%":{"dtype":"BF16","shape":[2],"data_offsets":[8,12]},)"
                    R"("":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})",
                    16);
  const auto done = run("export n.safetensors 'a/../../b' .. '' .. -o out/ --json");
  EXPECT_EQ(done.status, 0) << done.out;
  EXPECT_EQ(done.out,
            "{\"written\":[\"out/a%2F..%2F..%2Fb.npy\",\"out/%2E..npy\",\"out/%.npy\"],\"warnings\":[]}\n");
  EXPECT_EQ(run("show out/%.npy % -q").status, 0);
  EXPECT_EQ(run("export n.safetensors '/etc/x%' .. -o out --to bin -q").status, 0) << "the folder exists";
  EXPECT_EQ(text_of("out/%2Fetc%2Fx%25.bin").size(), 4U);
  const auto before = std::distance(std::filesystem::directory_iterator(folder_ / "out"), {});
  EXPECT_EQ(run("export n.safetensors '/etc/x%' '' -o out --force").status, 2) << "numpy has no BF16";
  EXPECT_EQ(run("export n.safetensors .. nothing -o out --force").status, 2);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_ / "out"), {}), before);
  const auto no_folder = run("export n.safetensors .. '' -o x.npy");
  EXPECT_EQ(no_folder.status, 2);
  EXPECT_THAT(no_folder.err, HasSubstr("-o DIR/"));
}

TEST_F(CliConvert, export_ignores_the_extension_of_a_folder) {
  std::filesystem::create_directory(folder_ / "d.bin");
  const auto done = run("export m.ht m -o d.bin --json");
  EXPECT_EQ(done.status, 0) << done.out;
  EXPECT_EQ(done.out, "{\"written\":\"d.bin/m.npy\",\"warnings\":[]}\n");
  EXPECT_THAT(run("ls d.bin/m.npy --json").out, HasSubstr(R"("dtype":"F32","shape":[2,3])"));
}

TEST_F(CliConvert, standard_output_has_one_use) {
  const auto refused = run("export m.ht m -o - --json");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.out, HasSubstr(R"("rule":"standard_output_has_one_use")"));
  EXPECT_EQ(run("export m.safetensors model.norm.weight lm_head.weight -o -").status, 2);
  EXPECT_EQ(run("export m.ht m -o - --to npy").status, 2);
}

TEST_F(CliConvert, export_folder_can_be_created) {
  const auto refused = run("export m.ht m -o m.ht/out/ --json");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.out, HasSubstr(R"("rule":"export_folder_can_be_created")"));
}

TEST_F(CliConvert, export_that_is_refused_leaves_no_new_folder) {
  EXPECT_EQ(run("export m.safetensors model.norm.weight lm_head.weight -o new/").status, 2)
      << "NPY has no BF16";
  EXPECT_FALSE(std::filesystem::exists(folder_ / "new"));
  std::filesystem::create_directory(folder_ / "old");
  EXPECT_EQ(run("export m.safetensors model.norm.weight -o old/").status, 2);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "old"));
}

TEST_F(CliConvert, exports_one_tensor) {
  ASSERT_EQ(run("synth f.safetensors --preset llama-1b --size 3M --dtype F32 -q").status, 0);
  const auto done = run("export f.safetensors model.norm.weight -o norm.npy --json");
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(done.out, "{\"written\":\"norm.npy\",\"warnings\":[]}\n");
  EXPECT_THAT(run("ls norm.npy --json").out, HasSubstr(R"("name":"norm")"));
  EXPECT_EQ(run("export f.safetensors model.norm.weight -o norm.npy").status, 2) << "the target exists";
  EXPECT_EQ(run("export f.safetensors model.norm.weight -o norm.npy --force -q").status, 0);
  EXPECT_EQ(run("export m.safetensors model.norm.weight -o norm.ht -q").status, 0);
  EXPECT_EQ(run("verify norm.ht -q").status, 0);
  const auto no_bf16 = run("export m.safetensors model.norm.weight -o x.npy");
  EXPECT_THAT(no_bf16.err, HasSubstr("NPY cannot store BF16"));
  EXPECT_THAT(no_bf16.err, HasSubstr("with --raw-bytes"));
  EXPECT_EQ(run("export m.safetensors model.norm.weight -o x.npy --raw-bytes -q").status, 0);
  const auto none = run("export m.safetensors model.norm.wieght -o x.npy");
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("model.norm.weight"));
}

TEST_F(Cli, convert_cast_rounds_only_if_allowed) {
  const auto refused = run("convert m.ht b.safetensors --cast '*=F4'");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("tensor 'm' is F32, and F4 does not hold every F32 value"));
  EXPECT_THAT(refused.err, HasSubstr("--round"));
  const auto plan = run("convert m.ht b.safetensors --cast '*=F4' --dry-run");
  EXPECT_EQ(plan.status, 1);
  EXPECT_THAT(plan.out, HasSubstr("rounded: 'm' F32 [2, 3] → F4 [2, 3]\n"));
  const auto rounded = run("convert m.ht b.safetensors --cast '*=F4' --round");
  EXPECT_EQ(rounded.status, 0);
  EXPECT_EQ(rounded.err, "rounded: 'm' F32 [2, 3] → F4 [2, 3]\n");
  EXPECT_EQ(run("show b.safetensors m -q").out, "[[1, 2, 3]\n [4, 4, 6]]\n");
  EXPECT_EQ(run("convert m.ht c.safetensors --cast m=F64").status, 0);
  EXPECT_EQ(run("diff m.ht c.safetensors --tolerance 0").status, 0);
}

TEST_F(Cli, convert_casts_a_named_tensor_that_a_wildcard_would_quantize) {
  ASSERT_EQ(run("synth q4.gguf --preset llama-1b-q4_k_m --size 9M -q").status, 0);
  ASSERT_EQ(run("convert q4.gguf f.gguf --dequantize -q").status, 0);
  const auto done =
      run("convert f.gguf a.gguf --cast blk.0.attn_q.weight=F16 --quantize '*=Q8_0' --round -q");
  EXPECT_EQ(done.status, 0) << done.err;
  const auto listed = run("ls a.gguf --jsonl").out;
  EXPECT_THAT(listed, HasSubstr(R"("name":"blk.0.attn_q.weight","dtype":"F16")"));
  EXPECT_THAT(listed, HasSubstr(R"("name":"blk.0.attn_k.weight","dtype":"Q8_0")"));
}

TEST_F(Cli, dry_run_marks_converted_parts) {
  const auto plan = run("convert m.ht b.safetensors --cast m=F64 --dry-run");
  EXPECT_EQ(plan.status, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("  m.ht (converted)  "));
}

TEST_F(Cli, type_rule_names_a_type) {
  for (const auto* const wrong :
       {"--cast x", "--cast m=", "--cast =F32", "--cast m=F33", "--cast m=Q8_0", "--quantize m=F32"}) {
    const auto refused = run(std::string("convert m.ht b.safetensors ") + wrong);
    EXPECT_EQ(refused.status, 2) << wrong;
    EXPECT_THAT(refused.err, HasSubstr("hint: name a ")) << wrong;
    EXPECT_THAT(refused.err, HasSubstr(", for example --")) << wrong;
  }
}

TEST_F(Cli, convert_quantizes_and_dequantizes) {
  ASSERT_EQ(run("synth q4.gguf --preset llama-1b-q4_k_m --size 9M -q").status, 0);
  ASSERT_EQ(run("convert q4.gguf f.safetensors --dequantize --drop-metadata -q").status, 0);
  ASSERT_EQ(run("convert f.safetensors q.gguf --quantize '*=Q8_0' -q").status, 0);
  EXPECT_THAT(run("ls q.gguf --json").out, HasSubstr(R"("dtype":"Q8_0")"));
  ASSERT_EQ(run("convert q.gguf back.safetensors --dequantize -q").status, 0);
  EXPECT_EQ(run("diff q.gguf back.safetensors --tolerance 0 --ignore-metadata").status, 0);
  ASSERT_EQ(run("convert q.gguf half.safetensors --dequantize=BF16 -q").status, 0);
  const auto listed = run("ls half.safetensors --json").out;
  EXPECT_THAT(listed, HasSubstr(R"("dtype":"BF16")"));
  const auto differs = run("diff f.safetensors q.gguf --tolerance 1e-9 --ignore-metadata --json");
  EXPECT_EQ(differs.status, 1);
  EXPECT_THAT(differs.out, HasSubstr(R"("cosine":0.99)"));
  EXPECT_EQ(run("convert q.gguf x.safetensors --dequantize=I8").status, 2);
}

TEST_F(Cli, export_decodes_block_encodings) {
  ASSERT_EQ(run("synth q.gguf --preset llama-1b-q4_k_m --size 9M -q").status, 0);
  ASSERT_EQ(run("export q.gguf blk.0.attn_q.weight -o w.npy").status, 0);
  EXPECT_THAT(run("ls w.npy --json").out, HasSubstr(R"("dtype":"F32")"));
}

}  // namespace
}  // namespace ht::convert_test
