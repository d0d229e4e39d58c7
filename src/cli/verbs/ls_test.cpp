#include <algorithm>
#include <array>
#include <sstream>

#include "cli/program_test.hpp"
#include "model/test_formats.hpp"

namespace ht::ls_test {
namespace {

TEST_F(Cli, ls_shows_columns_and_totals) {
  const auto outcome = run("ls m.ht");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out,
            "name  dtype  shape   bytes  offset\n"
            "m     F32    [2, 3]     24     128\n"
            "\n1 tensor, 6 parameters, 24 bytes: 1 F32 (24 bytes)\n");
}

TEST_F(Cli, ls_json_has_the_stable_keys) {
  const std::string tensor =
      R"({"name":"m","dtype":"F32","shape":[2,3],"bytes":24,"offset":128,"file":"m.ht"})";
  EXPECT_EQ(run("ls m.ht --json").out, R"({"format":"ht","files":["m.ht"],"tensors":[)" + tensor +
                                           R"(],"metadata":{},"total_bytes":24,"parameters":6})"
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

TEST_F(Cli, ls_headers_only_accepts_a_partial_download) {
  std::filesystem::resize_file(folder_ / "m.ht", 130);
  EXPECT_EQ(run("ls m.ht").status, 2);
  EXPECT_THAT(run("ls m.ht").err, HasSubstr("[truncated]"));
  EXPECT_EQ(run("ls m.ht --headers-only").status, 0);
  EXPECT_EQ(run("show m.ht m").status, 2);
}

TEST_F(Cli, ls_headers_only_accepts_an_archive_without_its_external_files) {
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
  EXPECT_THAT(json,
              HasSubstr(R"("metadata":{"format":"pt","note":"a\u001b\"b"},"total_bytes":2,"parameters":2})"));
  EXPECT_TRUE(is_json(json));
}

TEST_F(Cli, ls_sorts_by_name_size_and_offset) {
  write_safetensors("s.safetensors",
                    R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},)"
                    R"("a":{"dtype":"U8","shape":[3],"data_offsets":[3,6]},)"
                    R"("c":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                    6);
  const auto order = [&](const std::string& flags) {
    const auto lines = run("ls s.safetensors --jsonl " + flags).out;
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

// The first column of the table or tree, without its title.
std::string first_column(const std::string& table) {
  std::istringstream lines(table);
  std::string names;
  for (std::string line; std::getline(lines, line);) {
    const auto name = line.substr(0, line.find("  ", line.find_first_not_of(' ')));
    if (name != "name") names += name + "|";
  }
  return names;
}

TEST_F(Cli, ls_sorts_numbers_in_names_by_value) {
  write_safetensors("s.safetensors",
                    R"({"l.10.a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                    R"("l.2.b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},)"
                    R"("l.2.a":{"dtype":"U8","shape":[9],"data_offsets":[3,12]},)"
                    R"("k":{"dtype":"U8","shape":[4],"data_offsets":[12,16]}})",
                    16);
  EXPECT_EQ(first_column(run("ls s.safetensors -q").out), "l.10.a|l.2.b|l.2.a|k|");
  EXPECT_EQ(first_column(run("ls s.safetensors -q --sort name").out), "k|l.2.a|l.2.b|l.10.a|");
  EXPECT_EQ(first_column(run("ls s.safetensors -q --tree").out), "k|l|  2|    a|    b|  10|    a|");
  EXPECT_EQ(first_column(run("ls s.safetensors -q --tree --sort name").out),
            "k|l|  2|    a|    b|  10|    a|");
  EXPECT_EQ(first_column(run("ls s.safetensors -q --tree --sort size").out),
            "l|  2|    a|    b|  10|    a|k|");
  EXPECT_EQ(first_column(run("ls s.safetensors -q --tree --sort offset").out),
            "l|  10|    a|  2|    b|    a|k|");
  EXPECT_EQ(first_column(run("ls s.safetensors -q --tree --filter 'l.2*'").out), "l|  2|    a|    b|");
}

TEST_F(Cli, ls_tree_splits_names_at_dots_only) {
  // A plain order of whole names would put a-b between a and a.b.
  write_safetensors("s.safetensors",
                    R"({"a.b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                    R"("a-b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},)"
                    R"("a":{"dtype":"U8","shape":[1],"data_offsets":[2,3]},)"
                    R"("":{"dtype":"U8","shape":[1],"data_offsets":[3,4]},)"
                    R"("a..c":{"dtype":"U8","shape":[1],"data_offsets":[4,5]}})",
                    5);
  EXPECT_EQ(run("ls s.safetensors -q --tree").out,
            "''  U8 [1]  1\n"
            "a  U8 [1]  1\n"
            "  ''  1 tensor  1\n"
            "    c  U8 [1]  1\n"
            "  b  U8 [1]  1\n"
            "a-b  U8 [1]  1\n");
}

TEST_F(Cli, ls_counts_parameters) {
  ASSERT_EQ(run("synth m.safetensors --preset llama-1b --sparse -q").status, 0);
  EXPECT_THAT(run("ls m.safetensors").out, HasSubstr(" tensors, 1.24 B parameters, 2.3G: "));
  EXPECT_THAT(run("ls m.safetensors --json").out, HasSubstr(R"(,"parameters":1235814400})"));
  EXPECT_THAT(run("ls m.safetensors --json --filter model.norm.weight").out,
              HasSubstr(R"("parameters":2048})"));
  CatalogBuilder untyped("irpa");
  ASSERT_TRUE(untyped.add({.name = "x", .bytes = 4}));
  write_encoded("a.irpa", std::move(untyped).build().value());
  EXPECT_THAT(run("ls a.irpa").out,
              HasSubstr("1 tensor, parameters unknown, 4 bytes: 1 untyped (4 bytes)\n"));
}

TEST_F(Cli, ls_limits_metadata_as_requested) {
  write_safetensors("s.safetensors",
                    R"({"__metadata__":{"k":")" + std::string(70, 'v') +
                        R"("},"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
                    2);
  const std::string cut = "k = " + std::string(60, 'v') + "… (70 bytes)\n\nname";
  const std::string whole = "k = " + std::string(70, 'v') + "\n\nname";
  EXPECT_THAT(run("ls s.safetensors").out, StartsWith(cut));
  EXPECT_THAT(run("ls s.safetensors --metadata").out, StartsWith(whole));
  EXPECT_THAT(run("ls s.safetensors --metadata -q").out, StartsWith(whole));
  EXPECT_THAT(run("ls s.safetensors --no-metadata").out, StartsWith("name"));
  EXPECT_THAT(run("ls s.safetensors --no-metadata --json").out,
              HasSubstr(R"(],"metadata":null,"total_bytes":)"));
  EXPECT_THAT(run("ls s.safetensors --metadata --json").out, HasSubstr(R"(],"metadata":{"k":"vvv)"));
  EXPECT_EQ(run("ls s.safetensors --metadata --no-metadata").status, 2);
}

TEST_F(Cli, ls_hides_padding_in_a_header) {
  CatalogBuilder builder("gguf");
  ASSERT_TRUE(builder.metadata().add("general.name", "n"));
  ASSERT_TRUE(builder.metadata().add("htensor.pad", "     "));
  write_encoded("g.gguf", std::move(builder).build().value());
  EXPECT_THAT(run("ls g.gguf --json").out, HasSubstr(R"("metadata":{"general.name":"n"})"));
  for (const std::string verb : {"ls g.gguf", "ls g.gguf --metadata", "meta g.gguf"})
    EXPECT_THAT(run(verb).out, Not(HasSubstr("pad"))) << verb;
}

TEST_F(Cli, ls_keeps_columns_of_wide_names_aligned) {
  write_safetensors("s.safetensors",
                    R"({"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                    R"("模型.🙂":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},)"
                    R"("e\u0301":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
                    3);
  const auto table = run("ls s.safetensors -q").out;
  EXPECT_THAT(table, HasSubstr("\n''       U8     [1]        1"));
  EXPECT_THAT(table, HasSubstr("\n模型.🙂  U8     [1]        1"));
  EXPECT_THAT(table, HasSubstr("\ne\u0301        U8     [1]        1"));
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
  EXPECT_THAT(outcome.out, HasSubstr("2 tensors, 3 parameters, 3 bytes: 1 I8 (1 byte), 1 U8 (2 bytes)\n"));
  const auto json = run("ls . --json").out;
  EXPECT_THAT(json,
              HasSubstr(R"("files":["./x-00001-of-00002.safetensors","./x-00002-of-00002.safetensors"])"));
  EXPECT_TRUE(is_json(json));
}

TEST_F(Cli, ls_tree_of_very_deep_names_terminates) {
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

TEST_F(Cli, ls_tree_has_tensors_with_children) {
  write_safetensors("s.safetensors",
                    R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                    R"("a.b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                    3);
  EXPECT_EQ(run("ls s.safetensors --tree -q").out, "a  U8 [1]  1\n  b  U8 [2]  2\n");
}

TEST_F(Cli, ls_totals_do_not_overflow) {
  // Three files that declare nearly 2^63 bytes each, without the data.
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
  EXPECT_THAT(outcome.out,
              HasSubstr(R"("total_bytes":18446744073709551615,"parameters":18446744073709551615})"));
  EXPECT_THAT(run("ls . --headers-only").out, HasSubstr("3 tensors, 18446744 T parameters, 16E: 3 U8 (16E)"));
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

TEST_F(Cli, ls_of_60000_tensors_is_complete) {
  ASSERT_EQ(run("synth moe.safetensors --preset moe-60k --sparse").status, 0);
  const auto lines = run("ls moe.safetensors --jsonl").out;
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 60271);
  EXPECT_THAT(run("ls moe.safetensors --filter '*.11.mlp.experts.37.*' -q").out,
              HasSubstr("\nmodel.layers.11.mlp.experts.37.up_proj.weight    BF16   [64, 256]    32K "));
}

TEST_F(Cli, ls_of_a_folder_lists_every_model) {
  std::filesystem::copy_file(folder_ / "m.ht", folder_ / "n.ht");
  const auto listed = run("ls . --json");
  EXPECT_EQ(listed.status, 0) << listed.err;
  EXPECT_TRUE(is_json(listed.out));
  EXPECT_THAT(listed.out, StartsWith(R"({"results":[)"));
  for (const auto* name : {R"("name":"m")", R"("name":"n")"}) EXPECT_THAT(listed.out, HasSubstr(name));
  // Other verbs need a folder with one model.
  const auto examined = run("doctor .");
  EXPECT_EQ(examined.status, 1);
  EXPECT_THAT(examined.out, HasSubstr("the folder holds 2 models: m.ht, n.ht"));
  std::filesystem::remove(folder_ / "n.ht");
  EXPECT_THAT(run("ls . --json").out, StartsWith(R"({"format":"ht")"));
}

TEST_F(Cli, ls_of_a_folder_without_weights_prints_a_hint) {
  std::filesystem::create_directories(folder_ / "hub/models--org--name/snapshots/4567");
  std::filesystem::rename(folder_ / "m.ht", folder_ / "hub/models--org--name/snapshots/4567/m.ht");
  for (const std::string path : {"hub", "hub/models--org--name", "hub/models--org--name/snapshots"}) {
    const auto listed = run("ls " + path);
    EXPECT_EQ(listed.status, 2);
    EXPECT_THAT(listed.err, HasSubstr("hint: open hub/models--org--name/snapshots/4567\n"));
  }
  std::filesystem::create_directory(folder_ / "torch");
  testing::write_file(folder_ / "torch/pytorch_model.bin", "\x80\x02}q");
  EXPECT_THAT(run("ls torch").err, HasSubstr("safetensors.torch.save_file"));
}

TEST_F(Cli, ls_stats_reads_the_values_of_every_tensor) {
  const auto table = run("ls m.ht --stats").out;
  EXPECT_THAT(table, HasSubstr("  min  max     mean      std  zeros  NaN  Inf\n"));
  EXPECT_THAT(table, HasSubstr("    1  6.5  3.58333  1.83523      0    0    0\n"));
  EXPECT_THAT(run("ls m.ht --stats --json").out, HasSubstr(R"("stats":{"count":6,"min":1,"max":6.5,)"));
  EXPECT_THAT(run("ls m.ht --stats --jsonl").out, HasSubstr(R"("stats":{"count":6,"min":1,"max":6.5,)"));
  EXPECT_THAT(run("ls m.ht --json").out, Not(HasSubstr("stats")));
  EXPECT_EQ(run("ls m.ht --stats --tree").status, 2);
}

TEST_F(Cli, ls_stats_of_a_tensor_without_numbers_are_null) {
  testing::write_file(folder_ / "u.irpa", testing::irpa_file({{.name = "t", .length = 5}}, "hello"));
  EXPECT_THAT(run("ls u.irpa --stats --json").out, HasSubstr(R"("stats":null)"));
  EXPECT_EQ(run("ls u.irpa --stats").status, 0);
}

class LongList : public Cli {
 protected:
  // A list with statistics of these tensors is several times as long as the buffers between the program and
  // the reader.
  void SetUp() override {
    Cli::SetUp();
    constexpr int tensors = 3000;
    std::string header = "{";
    for (int i = 0; i < tensors; ++i) {
      const auto offset = std::to_string(i);
      header += (i == 0 ? "\"t" : ",\"t") + offset + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" +
                offset + "," + std::to_string(i + 1) + "]}";
    }
    write_safetensors("long.safetensors", header + "}", tensors);
  }

  // The file loses its data once a part of the list is printed.
  Outcome list_of_a_truncated_file(std::vector<std::string> arguments) {
    return run_and_change(std::move(arguments),
                          [&] { std::filesystem::resize_file(folder_ / "long.safetensors", 0); });
  }
};

TEST_F(LongList, ends_with_the_error_in_json) {
  const auto listed = list_of_a_truncated_file({"ls", "long.safetensors", "--stats", "--json"});
  EXPECT_EQ(listed.status, 2);
  EXPECT_EQ(listed.err, "");
  EXPECT_TRUE(is_json(listed.out)) << listed.out.substr(listed.out.size() - 500);
  EXPECT_THAT(listed.out, StartsWith(R"({"format":"safetensors","files":["long.safetensors"],"tensors":[{)"));
  EXPECT_THAT(listed.out, HasSubstr(R"(}}],"error":{"code":"changed_underfoot",)"));
}

TEST_F(LongList, ends_with_the_error_of_its_path) {
  const auto listed = list_of_a_truncated_file({"ls", "long.safetensors", "m.ht", "--stats", "--json"});
  EXPECT_EQ(listed.status, 2);
  EXPECT_EQ(listed.err, "");
  EXPECT_TRUE(is_json(listed.out)) << listed.out.substr(listed.out.size() - 500);
  EXPECT_THAT(listed.out, HasSubstr(R"(}}],"error":{"code":"changed_underfoot",)"));
  EXPECT_THAT(listed.out, HasSubstr(R"(}},{"path":"m.ht","format":"ht",)"));
}

TEST_F(LongList, ends_with_a_line_of_the_error) {
  const auto listed = list_of_a_truncated_file({"ls", "long.safetensors", "m.ht", "--stats", "--jsonl"});
  EXPECT_EQ(listed.status, 2);
  EXPECT_EQ(listed.err, "");
  std::istringstream lines(listed.out);
  int rows = 0;
  int errors = 0;
  for (std::string line; std::getline(lines, line);) {
    const bool is_error = line.starts_with(R"({"path":"long.safetensors","error":{"code":")");
    (is_error ? errors : rows) += 1;
    if (is_error) {
      EXPECT_TRUE(is_json(line)) << line;
    } else {
      EXPECT_THAT(line, ::testing::MatchesRegex(R"(\{"path":"[a-z.]+","name":.*\}\})"));
    }
  }
  EXPECT_GT(rows, 100);
  EXPECT_EQ(errors, 1);
}

TEST_F(Cli, ls_stats_that_are_interrupted_are_an_error_in_json) {
  ASSERT_EQ(run("synth big.ht --preset matrix --size 64G --sparse -q").status, 0);
  for (const std::string format : {"--json", "--jsonl"}) {
    const auto stopped = outcome_once_catching(SIGINT, {"ls", "big.ht", "--stats", format});
    EXPECT_EQ(stopped.status, 130);
    EXPECT_EQ(stopped.err, "");
    EXPECT_TRUE(is_json(stopped.out)) << stopped.out;
    EXPECT_THAT(stopped.out, StartsWith(R"({"error":{"code":"cancelled")"));
  }
}

}  // namespace
}  // namespace ht::ls_test
