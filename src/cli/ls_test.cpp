#include <algorithm>
#include <array>

#include "testing/program.hpp"

namespace ht {
namespace {

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
  EXPECT_THAT(run("ls m.ht --filter 'm*' --json").out, HasSubstr(R"("name":"m")"));
  for (const std::string key : {"name", "size", "offset"}) EXPECT_EQ(run("ls m.ht --sort " + key).status, 0);
  std::filesystem::rename(folder_ / "m.ht", folder_ / "blk.0.w.ht");
  EXPECT_THAT(run("ls blk.0.w.ht --tree").out,
              StartsWith("blk  1 tensor  24\n  0  1 tensor  24\n    w  F32 [2, 3]  24\n"));
}

TEST_F(Cli, ls_filters_by_the_whole_name) {
  write_safetensors("s.safetensors", R"({"a\u0000b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 2);
  EXPECT_EQ(run("ls s.safetensors --filter a").status, 2);
  EXPECT_THAT(run("ls s.safetensors --filter '*b' --jsonl").out, HasSubstr(R"("name":"a\u0000b")"));
}

TEST_F(Cli, ls_headers_only_takes_a_partial_download) {
  std::filesystem::resize_file(folder_ / "m.ht", 130);
  EXPECT_EQ(run("ls m.ht").status, 2);
  EXPECT_THAT(run("ls m.ht").err, HasSubstr("[truncated]"));
  EXPECT_EQ(run("ls m.ht --headers-only").status, 0);
  EXPECT_EQ(run("show m.ht m").status, 2);
}

TEST_F(Cli, ls_headers_only_takes_an_archive_without_the_files_that_it_names) {
  CatalogBuilder builder("irpa");
  const std::array<std::int64_t, 1> dims{4};
  const auto other = builder.add_file("x.bin").value();
  ASSERT_TRUE(builder.add({.name = "x", .dtype = U8::tag, .dims = dims, .file = other, .bytes = 4}));
  write_encoded("a.irpa", std::move(builder).build().value());
  EXPECT_EQ(run("ls a.irpa").status, 2);
  EXPECT_THAT(run("ls a.irpa").err, HasSubstr("[missing_shard]"));
  EXPECT_EQ(run("ls a.irpa --headers-only --jsonl").out,
            R"({"name":"x","dtype":"U8","shape":[4],"bytes":4,"offset":0,"file":"x.bin"})"
            "\n");
}

TEST_F(Cli, ls_shows_metadata_before_the_table) {
  write_safetensors("s.safetensors",
                    R"({"__metadata__":{"format":"pt","note":"a\u001b\"b"},)"
                    R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
                    2);
  EXPECT_THAT(run("ls s.safetensors").out, StartsWith("format = pt\nnote = a\\u{1b}\"b\n\nname  dtype"));
  EXPECT_THAT(run("ls s.safetensors -q").out, StartsWith("name  dtype"));
  const auto json = run("ls s.safetensors --json").out;
  EXPECT_THAT(json, HasSubstr(R"("metadata":{"format":"pt","note":"a\u001b\"b"},"total_bytes":2})"));
  EXPECT_TRUE(is_json(json));
}

TEST_F(Cli, ls_sorts_by_name_size_and_offset) {
  write_safetensors("s.safetensors",
                    R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},)"
                    R"("a":{"dtype":"U8","shape":[3],"data_offsets":[3,6]},)"
                    R"("c":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                    6);
  const auto order = [&](const std::string& how) {
    const auto lines = run("ls s.safetensors --jsonl " + how).out;
    std::string names;
    for (auto at = lines.find(R"("name":")"); at != std::string::npos; at = lines.find(R"("name":")", at + 1))
      names += lines[at + 8];
    return names;
  };
  EXPECT_EQ(order("--sort name"), "abc");
  EXPECT_EQ(order("--sort size"), "abc");
  EXPECT_EQ(order("--sort offset"), "cba");
  EXPECT_EQ(order("--filter '[bc]' --sort name"), "bc");
}

TEST_F(Cli, ls_of_shards_has_a_column_for_the_file) {
  write_safetensors("x-00001-of-00002.safetensors",
                    R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 2);
  write_safetensors("x-00002-of-00002.safetensors",
                    R"({"b":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}})", 1);
  std::filesystem::remove(folder_ / "m.ht");
  const auto outcome = run("ls .");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("x-00002-of-00002.safetensors\n"));
  EXPECT_THAT(outcome.out, HasSubstr("2 tensors, 3: 1 I8 (1), 1 U8 (2)\n"));
  const auto json = run("ls . --json").out;
  EXPECT_THAT(json,
              HasSubstr(R"("files":["./x-00001-of-00002.safetensors","./x-00002-of-00002.safetensors"])"));
  EXPECT_TRUE(is_json(json));
}

TEST_F(Cli, ls_tree_of_very_deep_names_ends) {
  std::string name = "a";
  for (int i = 0; i < 100'000; ++i) name += ".a";
  write_safetensors("s.safetensors",
                    "{\"" + name + R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)" + "\"" + name +
                        R"(b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                    2);
  const auto outcome = run("ls s.safetensors --tree");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, StartsWith("a  2 tensors  2\n  a  2 tensors  2\n"));
  EXPECT_LT(outcome.out.size(), 1'000'000U);
}

TEST_F(Cli, ls_tree_has_tensors_that_others_are_below_of) {
  write_safetensors("s.safetensors",
                    R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                    R"("a.b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                    3);
  EXPECT_EQ(run("ls s.safetensors --tree -q").out, "a  U8 [1]  1\n  b  U8 [2]  2\n");
}

TEST_F(Cli, ls_totals_do_not_overflow) {
  // Three files of nearly 2^63 bytes each, none of which is there.
  for (const std::string number : {"1", "2", "3"}) {
    write_safetensors(
        "x-0000" + number + "-of-00003.safetensors",
        R"({"t.)" + number +
            R"(":{"dtype":"U8","shape":[9223372036854770000],"data_offsets":[0,9223372036854770000]}})",
        0);
  }
  std::filesystem::remove(folder_ / "m.ht");
  const auto outcome = run("ls . --headers-only --json");
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr(R"("total_bytes":18446744073709551615)"));
  EXPECT_THAT(run("ls . --headers-only").out, HasSubstr("3 tensors, 16E: 3 U8 (16E)"));
  EXPECT_THAT(run("ls . --headers-only --tree").out, StartsWith("t  3 tensors  16E\n"));
  EXPECT_EQ(run("doctor .").status, 1);
}

TEST_F(Cli, max_header_is_a_limit_of_ls_show_and_doctor) {
  write_safetensors("s.safetensors", R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 2);
  for (const std::string verb : {"ls s.safetensors", "show s.safetensors a"}) {
    EXPECT_EQ(run(verb + " --max-header 1K").status, 0);
    const auto outcome = run(verb + " --max-header 10");
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.err, HasSubstr("[header_too_large]"));
    EXPECT_THAT(run(verb + " --max-header much").err, HasSubstr("[usage]"));
  }
  EXPECT_EQ(run("doctor s.safetensors --max-header 1K").status, 0);
  EXPECT_EQ(run("doctor s.safetensors --max-header 10").status, 1);
}

TEST_F(Cli, ls_of_60000_tensors_is_whole) {
  ASSERT_EQ(run("synth moe.safetensors --preset moe-60k --sparse").status, 0);
  const auto lines = run("ls moe.safetensors --jsonl").out;
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 60271);
  EXPECT_THAT(run("ls moe.safetensors --filter '*.11.mlp.experts.37.*' -q").out,
              HasSubstr("\nmodel.layers.11.mlp.experts.37.up_proj.weight    BF16   [64, 256]    32K "));
}

}  // namespace
}  // namespace ht
