#include "cli/program_test.hpp"
#include "model/test_formats.hpp"
#include "testing/library_types.hpp"

namespace ht::show_test {
namespace {

TEST_F(Cli, show_prints_values_as_text) {
  EXPECT_EQ(run("show m.ht m").out, "m  F32 [2, 3]\n[[1, 2, 3]\n [4, 5, 6.5]]\n");
  EXPECT_EQ(run("show m.ht m --slice 1,1: -q").out, "[5, 6.5]\n");
  EXPECT_EQ(run("show m.ht m --slice 1,-1 -q").out, "6.5\n");
}

TEST_F(Cli, show_leaves_out_the_middle_of_one_long_dimension) {
  const std::vector<std::byte> zeros(1001);
  const std::vector<std::int64_t> dims{1001};
  ASSERT_TRUE(write(folder_ / "v.ht", dtype_info<U8>(), dims, zeros));
  EXPECT_EQ(run("show v.ht v -q").out, "[0, 0, 0, ..., 0, 0, 0]\n");
  EXPECT_THAT(run("show v.ht v -q --slice 1:").out, Not(HasSubstr("...")));
}

TEST_F(Cli, show_json_has_flat_values_and_their_shape) {
  EXPECT_EQ(run("show m.ht m --slice :,::-2 --json").out,
            R"({"name":"m","dtype":"F32","shape":[2,3],"values_shape":[2,2],"values":[3,1,6.5,4]})"
            "\n");
  EXPECT_THAT(run("show m.ht m --slice 0:0 --json").out, HasSubstr(R"("values_shape":[0,3],"values":[]})"));
}

TEST_F(Cli, show_json_ends_with_an_error_after_the_first_values) {
  constexpr std::size_t elements = 1'000'000;
  const auto size = std::to_string(elements);
  for (const std::string format : {"--json", "--jsonl"}) {
    write_safetensors("s.safetensors",
                      R"({"a":{"dtype":"U8","shape":[)" + size + R"(],"data_offsets":[0,)" + size + "]}}",
                      elements);
    const auto shown = run_and_change({"show", "s.safetensors", "a", format},
                                      [&] { std::filesystem::resize_file(folder_ / "s.safetensors", 0); });
    EXPECT_EQ(shown.status, 2);
    EXPECT_EQ(shown.err, "");
    EXPECT_TRUE(is_json(shown.out)) << shown.out.substr(shown.out.size() - 500);
    EXPECT_THAT(shown.out,
                StartsWith(R"({"name":"a","dtype":"U8","shape":[1000000],"values_shape":[1000000],)"));
    EXPECT_THAT(shown.out, HasSubstr(R"(],"error":{"code":"changed_underfoot",)"));
  }
}

TEST_F(Cli, show_of_an_empty_tensor_with_long_dimensions_terminates) {
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

TEST_F(Cli, show_accepts_every_dtype) {
  for (const auto& dtype : library_dtypes()) {
    const std::string name(dtype.name);
    ASSERT_EQ(run("synth t.ht --force --preset matrix --size 64 --dtype " + name).status, 0) << name;
    const auto outcome = run("show t.ht t --json");
    EXPECT_EQ(outcome.status, 0) << name << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr("\"dtype\":\"" + name + "\""));
  }
}

TEST_F(Cli, shown_tensors_have_a_type) {
  testing::write_file(folder_ / "u.irpa", testing::irpa_file({{.name = "t", .length = 5}}, "hello"));
  const auto refused = run("show u.irpa t");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("tensor 't' has an unknown dtype and shape"));
  EXPECT_THAT(refused.err,
              HasSubstr("hint: write the stored bytes to a file: htensor export PATH NAME -o FILE.bin"));
}

TEST_F(Cli, show_decodes_block_encodings) {
  write_safetensors("q.safetensors", R"({"w":{"dtype":"U8","shape":[2,32],"data_offsets":[0,64]}})", 64);
  ASSERT_EQ(run("convert q.safetensors f.safetensors --cast w=F32").status, 0);
  ASSERT_EQ(run("convert f.safetensors q.gguf --quantize w=Q8_0 -q").status, 0);
  const auto whole = run("show q.gguf w --json");
  EXPECT_EQ(whole.status, 0) << whole.err;
  EXPECT_THAT(whole.out,
              StartsWith(R"({"name":"w","dtype":"Q8_0","shape":[2,32],"values_shape":[2,32],"values":[0,)"));
  // 63 is the largest value of its block. It defines the scale, so it is stored exactly.
  EXPECT_THAT(run("show q.gguf w --slice 1,-1 -q").out, StartsWith("63"));
}

TEST_F(Cli, show_stats_prints_statistics_of_values) {
  EXPECT_EQ(run("show m.ht m --stats").out,
            "m  F32 [2, 3]\n"
            "elements    6\n"
            "min         1 at [0, 0]\n"
            "max         6.5 at [1, 2]\n"
            "mean        3.58333\n"
            "std         1.83523\n"
            "norm        9.86154\n"
            "zeros       0\n"
            "subnormals  0\n"
            "NaN         0\n"
            "Inf         0\n");
  EXPECT_EQ(
      run("show m.ht m --stats --json --slice 1:").out,
      R"({"name":"m","dtype":"F32","shape":[1,3],"stats":{"count":3,"min":4,"max":6.5,"argmin":0,"argmax":2,)"
      R"("mean":5.166666666666667,"std":1.0274023338281613,"norm":9.12414379544733,"sum":15.5,"zeros":0,)"
      R"("subnormals":0,"nan":0,"inf":0}})"
      "\n");
}

TEST_F(Cli, statistics_are_of_whole_rows) {
  const auto refused = run("show m.ht m --stats --slice :,1");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("slice ':,1' is not a range of whole rows"));
}

TEST_F(Cli, show_stats_of_an_empty_range_has_no_elements) {
  for (const std::string slice : {"0:0", "2:", "1:0", "-100::-1", "5:9:-1"}) {
    const auto shown = run("show m.ht m --stats --slice=" + slice);
    EXPECT_EQ(shown.status, 0) << slice << shown.err;
    EXPECT_THAT(shown.out, StartsWith("m  F32 [0, 3]\nelements    0\n")) << slice;
  }
}

TEST_F(Cli, show_hist_draws_a_histogram) {
  const auto ascii = run("show m.ht m --hist", "LC_ALL=C").out;
  EXPECT_THAT(ascii, StartsWith("m  F32 [2, 3]\n           1  ####"));
  EXPECT_THAT(ascii, Not(HasSubstr("█")));
  EXPECT_THAT(run("show m.ht m --hist", "LC_ALL=C.UTF-8").out, HasSubstr("1  ████"));
  const auto json = run("show m.ht m --hist --json").out;
  EXPECT_THAT(json, HasSubstr(R"("histogram":{"low":1,"high":6.5,"counts":[1,)"));
  EXPECT_THAT(json, HasSubstr(R"(,"below":0,"above":0,"nan":0}})"));
}

TEST_F(Cli, show_accepts_misaligned_tensors) {
  write_safetensors("s.safetensors",
                    R"({"u":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                    R"("h":{"dtype":"I16","shape":[2,2],"data_offsets":[1,9]}})",
                    9);
  EXPECT_EQ(run("show s.safetensors h -q").out, "[[513, 1027]\n [1541, 2055]]\n");
  EXPECT_EQ(run("show s.safetensors h -q --slice :,1").out, "[1027, 2055]\n");
}

TEST_F(Cli, show_accepts_a_rank_above_that_of_typed_tensors) {
  std::string dims = "2";
  for (int i = 0; i < 9; ++i) dims += ",1";
  write_safetensors("s.safetensors", R"({"u":{"dtype":"U8","shape":[)" + dims + R"(],"data_offsets":[0,2]}})",
                    2);
  EXPECT_THAT(run("show s.safetensors u --json").out, HasSubstr(R"("values":[0,1]})"));
  EXPECT_THAT(run("show s.safetensors u -q").out, StartsWith("[[[[[[[[[[0]"));
  EXPECT_EQ(run("show s.safetensors u -q --slice 1,0,0,0,0,0,0,0,0").out, "[1]\n");
}

TEST_F(Cli, show_accepts_the_highest_rank) {
  std::string dims = "2";
  for (int i = 1; i < 64; ++i) dims += ",1";
  write_safetensors("s.safetensors", R"({"u":{"dtype":"U8","shape":[)" + dims + R"(],"data_offsets":[0,2]}})",
                    2);
  EXPECT_THAT(run("show s.safetensors u -q").out, StartsWith(std::string(64, '[') + "0]"));
  EXPECT_THAT(run("show s.safetensors u --json").out, HasSubstr(R"("values":[0,1]})"));
}

class ShownElements : public Cli {
 protected:
  // A slice of the only tensor of the file.
  std::string shown(const std::vector<std::byte>& file, const std::string& slice,
                    const std::string& options = "-q") {
    testing::write_file(folder_ / "t", file);
    return run("show t t " + options + " --slice=" + slice).out;
  }
  std::string splat(std::string_view dtype, std::string_view shape, std::uint64_t bytes, std::string pattern,
                    const std::string& slice) {
    const auto note = testing::tensor_note(dtype, shape);
    return shown(
        testing::irpa_file({{.name = "t", .note = note, .length = bytes, .pattern = std::move(pattern)}}),
        slice);
  }
};

TEST_F(ShownElements, are_read_in_both_byte_orders) {
  const std::string data("\0\1\2\3", 4);
  EXPECT_EQ(shown(testing::npy_file("<u2", false, "(2,)", data), ":"), "[256, 770]\n");
  EXPECT_EQ(shown(testing::npy_file(">u2", false, "(2,)", data), "::-1"), "[515, 1]\n");
}

TEST_F(ShownElements, both_parts_of_complex_numbers_are_byte_swapped) {
  // 1 and 2 as big-endian F32.
  const std::string data("\x3F\x80\0\0\x40\0\0\0", 8);
  EXPECT_EQ(shown(testing::npy_file(">c8", false, "(1,)", data), "0"), "(1,2)\n");
}

TEST_F(ShownElements, are_printed_in_row_major_order) {
  EXPECT_EQ(shown(testing::npy_file("|u1", true, "(2, 3)", "\1\4\2\5\3\6"), ":"),
            "[[1, 2, 3]\n [4, 5, 6]]\n");
}

TEST_F(ShownElements, are_read_at_any_index) {
  std::string data;
  std::string all;
  for (int i = 0; i < 10'000; ++i) {
    data += {static_cast<char>(i & 0xFF), static_cast<char>(i >> 8)};
    all += (i == 0 ? "" : ",") + std::to_string(i);
  }
  const auto file = testing::npy_file("<u2", false, "(10000,)", data);
  EXPECT_THAT(shown(file, ":", "--json"), HasSubstr("\"values\":[" + all + "]"));
  EXPECT_EQ(shown(file, "::-2222"), "[9999, 7777, 5555, 3333, 1111]\n");
  EXPECT_EQ(shown(file, "5:9"), "[5, 6, 7, 8]\n");
  EXPECT_EQ(shown(file, "4095:4098"), "[4095, 4096, 4097]\n");
  EXPECT_EQ(shown(file, "8192:7:-4092"), "[8192, 4100, 8]\n");
  EXPECT_EQ(shown(file, "::9999"), "[0, 9999]\n");
}

TEST_F(ShownElements, large_splats_are_not_expanded) {
  const std::uint64_t large = std::uint64_t{1} << 50;
  EXPECT_EQ(splat("uint8", "[1125899906842624]", large, "\1\2", "0:3"), "[1, 2, 1]\n");
  EXPECT_EQ(splat("uint8", "[1125899906842624]", large, "\1\2", "-1"), "2\n");
  // Two repetitions of the pattern are one element.
  EXPECT_EQ(splat("uint32", "[281474976710656]", large, "\1\2", "::281474976710655"),
            "[33620481, 33620481]\n");
}

TEST_F(ShownElements, packed_elements_are_read_from_within_a_byte) {
  EXPECT_EQ(splat("uint4", "[64]", 32, "\x21", "0:3"), "[1, 2, 1]\n");
  EXPECT_EQ(splat("uint4", "[64]", 32, "\x21", "63"), "2\n");
  EXPECT_EQ(splat("float6_e2m3fn", "[64]", 48, std::string(16, '\0'), "0:2"), "[0, 0]\n");
  EXPECT_EQ(splat("float6_e2m3fn", "[64]", 48, std::string(16, '\0'), "-1"), "0\n");
}

}  // namespace
}  // namespace ht::show_test
