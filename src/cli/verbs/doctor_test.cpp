#include <array>

#include "cli/program_test.hpp"

namespace ht::doctor_test {
namespace {

constexpr std::string_view two_tensors =
    R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[3],"data_offsets":[2,5]}})";

TEST_F(Cli, doctor_finds_nothing_wrong_with_good_files) {
  write_safetensors("s.safetensors", two_tensors, 5);
  const auto outcome = run("doctor s.safetensors");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out, "safetensors, 2 tensors, 5 bytes, 1 file\nno problems found\n");
  EXPECT_EQ(run("doctor s.safetensors -q").out, "");
  EXPECT_EQ(run("doctor s.safetensors --json").out,
            R"({"path":"s.safetensors","format":"safetensors","readable":true,"files":["s.safetensors"],)"
            R"("missing_files":[],"tensors":2,"bytes":5,"problems":[]})"
            "\n");
  EXPECT_EQ(run("doctor m.ht").status, 0);
}

TEST_F(Cli, doctor_reports_the_missing_part_of_a_truncated_file) {
  write_safetensors("s.safetensors", two_tensors, 3);
  const auto outcome = run("doctor s.safetensors");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.out,
              StartsWith("safetensors, 2 tensors, 5 bytes, 1 file\nerror: s.safetensors: 2 of "));
  EXPECT_THAT(
      outcome.out,
      HasSubstr(
          "bytes are missing at the end: 1 of 2 tensors are complete, 1 is cut: 'b' [truncated]\n  hint: "));
  const auto json = run("doctor s.safetensors --json");
  EXPECT_EQ(json.status, 1);
  EXPECT_THAT(json.out, HasSubstr(R"("readable":false)"));
  EXPECT_THAT(json.out,
              HasSubstr(R"("problems":[{"severity":"error","code":"truncated","rule":"files_are_complete",)"
                        R"("path":"s.safetensors","tensor":"b","offset":)"));
  EXPECT_TRUE(is_json(json.out));
}

TEST_F(Cli, doctor_reports_malformed_files_as_problems) {
  write_safetensors("s.safetensors", R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", 3);
  testing::write_file(folder_ / "text", "hello, world");
  testing::write_file(folder_ / "empty", "");
  std::filesystem::create_directory(folder_ / "folder");
  EXPECT_THAT(run("doctor s.safetensors").out, StartsWith("safetensors, not readable\nerror: "));
  EXPECT_THAT(run("doctor text").out, StartsWith("not a readable model\nerror: text: "));
  for (const std::string path : {"s.safetensors", "text", "empty", "folder"}) {
    const auto outcome = run("doctor --json " + path);
    EXPECT_EQ(outcome.status, 1) << path;
    EXPECT_TRUE(is_json(outcome.out)) << outcome.out;
    EXPECT_THAT(outcome.out,
                HasSubstr(R"("tensors":null,"bytes":null,"problems":[{"severity":"error","code":")"));
  }
  EXPECT_THAT(run("doctor text --json").out, HasSubstr(R"("format":null)"));
}

TEST_F(Cli, doctor_exits_with_2_if_it_cannot_read) {
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  for (const std::string path : {"none.ht", "pipe", "/dev/zero"}) {
    EXPECT_EQ(run("doctor " + path).status, 2) << path;
    EXPECT_THAT(run("doctor --json " + path).out, StartsWith(R"({"error":{)")) << path;
  }
}

TEST_F(Cli, shards_exist) {
  std::string map;
  for (int i = 1; i <= 9; ++i) {
    const auto name = "x-0000" + std::to_string(i) + "-of-00009.safetensors";
    map += (i > 1 ? ",\"t" : "\"t") + std::to_string(i) + "\":\"" + name + "\"";
  }
  testing::write_file(folder_ / "model.safetensors.index.json",
                      R"({"metadata":{"total_size":9},"weight_map":{)" + map + "}}");
  write_safetensors("x-00001-of-00009.safetensors", two_tensors, 3);
  for (const std::string path : {".", "model.safetensors.index.json"}) {
    const auto outcome = run("doctor " + path);
    EXPECT_EQ(outcome.status, 1) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("8 of 9 files of this model are missing: x-00002"));
    EXPECT_THAT(outcome.out, HasSubstr("x-00009-of-00009.safetensors [missing_shard]"));
    EXPECT_THAT(outcome.out, HasSubstr("x-00001-of-00009.safetensors: data ends"));
  }
  std::filesystem::remove(folder_ / "model.safetensors.index.json");
  std::filesystem::remove(folder_ / "m.ht");
  const auto json = run("doctor . --json");
  EXPECT_THAT(json.out, HasSubstr(R"("missing_files":["x-00002-of-00009.safetensors",)"));
  EXPECT_THAT(json.out, HasSubstr(R"("code":"missing_shard","rule":"shards_exist")"));
  EXPECT_TRUE(is_json(json.out));
}

TEST_F(Cli, a_damaged_index_is_an_error_in_ls_and_doctor) {
  write_safetensors("x-00001-of-00002.safetensors", two_tensors, 5);
  const auto index = folder_ / "model.safetensors.index.json";
  struct Damage {
    std::string text, code, rule;
  };
  for (const auto& [text, code, rule] :
       {Damage{"", "bad_magic", "file_is_not_empty"},
        Damage{"version https://git-lfs.github.com/spec/v1\noid sha256:8ed0\nsize 358\n", "bad_magic",
               "file_is_not_an_lfs_pointer"},
        Damage{R"({"metadata":{"total_size":9},"weight_map":{"a":"x-0000)", "bad_header", "index_is_json"},
        Damage{"not an index", "bad_header", "index_is_json"},
        Damage{R"({"metadata":{}})", "bad_header", "index_has_a_weight_map"}}) {
    testing::write_file(index, text);
    for (const std::string path : {".", "model.safetensors.index.json"}) {
      const auto listed = run("ls " + path + " --json");
      EXPECT_EQ(listed.status, 2) << text;
      for (const auto& part : {"\"code\":\"" + code, "\"rule\":\"" + rule})
        EXPECT_THAT(listed.out, HasSubstr(part));
      const auto examined = run("doctor " + path + " --json");
      EXPECT_EQ(examined.status, 1) << text;
      EXPECT_THAT(examined.out, HasSubstr(R"("readable":false)"));
      for (const auto& part : {"\"code\":\"" + code, "\"rule\":\"" + rule})
        EXPECT_THAT(examined.out, HasSubstr(part));
    }
  }
}

TEST_F(Cli, doctor_names_ten_missing_files_and_counts_the_others) {
  std::filesystem::remove(folder_ / "m.ht");
  write_safetensors("x-00001-of-00020.safetensors", two_tensors, 5);
  const auto found = run("doctor .");
  EXPECT_EQ(found.status, 1);
  EXPECT_THAT(found.out, HasSubstr("19 of 20 files of this model are missing: x-00002"));
  EXPECT_THAT(found.out, HasSubstr("x-00011-of-00020.safetensors … and 9 more [missing_shard]"));
  EXPECT_THAT(run("doctor . --json").out,
              HasSubstr(R"("x-00019-of-00020.safetensors","x-00020-of-00020.safetensors"])"));
}

TEST_F(Cli, doctor_escapes_missing_files_once) {
  std::filesystem::remove(folder_ / "m.ht");
  testing::write_file(folder_ / "model.safetensors.index.json",
                      R"({"metadata":{},"weight_map":{"a":"a\u0009b.safetensors"}})");
  EXPECT_THAT(run("doctor model.safetensors.index.json --json").out,
              HasSubstr(R"("missing_files":["a\tb.safetensors"])"));
}

TEST_F(Cli, doctor_warns_of_misaligned_data) {
  // One of the I16 tensors begins at an odd byte, whatever the length of the header.
  write_safetensors("s.safetensors",
                    R"({"h":{"dtype":"I16","shape":[1],"data_offsets":[0,2]},)"
                    R"("u":{"dtype":"U8","shape":[1],"data_offsets":[2,3]},)"
                    R"("i":{"dtype":"I16","shape":[1],"data_offsets":[3,5]}})",
                    5);
  const auto outcome = run("doctor s.safetensors --jsonl");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.out, StartsWith(R"({"severity":"warning","code":"misaligned")"));
  EXPECT_THAT(outcome.out, HasSubstr(R"("path":"s.safetensors","tensor":")"));
  EXPECT_THAT(run("doctor s.safetensors").out,
              HasSubstr("\nwarning: s.safetensors: 1 tensor is misaligned for the element's size"));
}

TEST_F(Cli, doctor_prints_the_path_of_every_problem) {
  CatalogBuilder builder("gguf");
  constexpr std::array<std::int64_t, 1> dims{4};
  ASSERT_TRUE(builder.add({.name = std::string(64, 'n'), .dtype = F32::tag, .dims = dims, .bytes = 16}));
  write_encoded("g.gguf", std::move(builder).build().value());
  write_safetensors("x-00001-of-00002.safetensors", two_tensors, 5);
  testing::write_file(folder_ / "text", "hello, world");
  for (const std::string path : {"g.gguf", "text", "."}) {
    const auto outcome = run("doctor --jsonl " + path);
    EXPECT_EQ(outcome.status, 1) << path;
    EXPECT_THAT(outcome.out, HasSubstr(R"("path":")")) << path;
    EXPECT_THAT(outcome.out, Not(HasSubstr(R"("path":null)"))) << path;
  }
}

}  // namespace
}  // namespace ht::doctor_test
