#include <array>
#include <limits>

#include "cli/program_test.hpp"

namespace ht::diff_test {
namespace {

class CliDiff : public Cli {
 protected:
  // Writes a file of one tensor to a folder of its own. All files have the same name, which names the tensor.
  void write_tensor(const std::string& folder, std::initializer_list<float> values) {
    std::filesystem::create_directory(folder_ / folder);
    const auto tensor =
        Tensor<F32, Rank<1>>::of(Rank<1>(static_cast<std::int64_t>(values.size())), values).value();
    ASSERT_TRUE(write(folder_ / (folder + "/t.ht"), tensor));
  }
};

constexpr const char* same_json =
    R"({"same":true,"only_a":[],"only_b":[],"differ":[],"metadata":{"only_a":[],"only_b":[],"differ":[]}})"
    "\n";

TEST_F(CliDiff, exits_with_0_for_equal_models) {
  const auto json = run("diff m.ht m.ht --json");
  EXPECT_EQ(json.status, 0) << json.err;
  EXPECT_EQ(json.out, same_json);
  const auto text = run("diff m.ht m.ht");
  EXPECT_EQ(text.status, 0);
  EXPECT_EQ(text.out, "A m.ht, B m.ht: the same\n");
  EXPECT_EQ(run("diff m.ht m.ht --jsonl").out, "");
  const auto quiet = run("diff m.ht m.ht -q");
  EXPECT_EQ(quiet.status, 0);
  EXPECT_EQ(quiet.out + quiet.err, "");
}

TEST_F(CliDiff, exits_with_1_and_prints_the_differences) {
  write_tensor("a", {1, 2, 3});
  write_tensor("b", {1, 2.5F, -3});
  const auto json = run("diff a/t.ht b/t.ht --json");
  EXPECT_EQ(json.status, 1);
  EXPECT_TRUE(is_json(json.out)) << json.out;
  EXPECT_EQ(
      json.out,
      R"({"same":false,"only_a":[],"only_b":[],"differ":[{"name":"t","why":"contents","max_abs":6,)"
      R"("rms":3.476108935769035,"cosine":-0.1988980632395388,"first_byte":6}],"metadata":{"only_a":[],"only_b":[],"differ":[]}})"
      "\n");
  const auto text = run("diff a/t.ht b/t.ht");
  EXPECT_EQ(text.status, 1);
  EXPECT_EQ(text.out,
            "tensor  differs in  A        B        max |a-b|      rms     cosine  first byte\n"
            "t       contents    F32 [3]  F32 [3]          6  3.47611  -0.198898           6\n"
            "\nA a/t.ht, B b/t.ht: 1 differs\n");
  EXPECT_EQ(run("diff a/t.ht b/t.ht --jsonl").out,
            R"({"kind":"differ","name":"t","why":"contents","max_abs":6,"rms":3.476108935769035,)"
            R"("cosine":-0.1988980632395388,"first_byte":6})"
            "\n");
  const auto quiet = run("diff a/t.ht b/t.ht -q");
  EXPECT_EQ(quiet.status, 1);
  EXPECT_EQ(quiet.out + quiet.err, "");
}

TEST_F(CliDiff, takes_a_tolerance) {
  write_tensor("a", {1, 2, 3});
  write_tensor("b", {1, 2.5F, 3});
  EXPECT_EQ(run("diff a/t.ht b/t.ht --tolerance 0.5 --json").out, same_json);
  EXPECT_EQ(run("diff a/t.ht b/t.ht --tolerance 0.4").status, 1);
  EXPECT_EQ(run("diff a/t.ht b/t.ht --tolerance 1e-3").status, 1);
  for (const std::string wrong : {"-1", "nan", "inf", "some", "1x", "''"}) {
    const auto refused = run("diff a/t.ht b/t.ht --tolerance " + wrong);
    EXPECT_EQ(refused.status, 2) << wrong;
    EXPECT_THAT(refused.err, HasSubstr("[usage]")) << wrong;
  }
}

TEST_F(CliDiff, nan_and_infinity_are_strings) {
  write_tensor("a", {1, std::numeric_limits<float>::quiet_NaN()});
  write_tensor("b", {1, 2});
  const auto json = run("diff a/t.ht b/t.ht --json");
  EXPECT_TRUE(is_json(json.out)) << json.out;
  EXPECT_THAT(json.out, HasSubstr(R"("max_abs":"Infinity")"));
  EXPECT_THAT(run("diff a/t.ht b/t.ht").out, HasSubstr("  Infinity  "));
}

TEST_F(CliDiff, tensors_named_by_their_files_are_compared) {
  std::filesystem::copy_file(folder_ / "m.ht", folder_ / "copy.ht");
  EXPECT_EQ(run("diff m.ht copy.ht").status, 0);
}

// "t" differs in its dtype; "u", "w" and some metadata are in one of the models only.
class CliDiffOfTwo : public CliDiff {
 protected:
  void SetUp() override {
    CliDiff::SetUp();
    constexpr std::array<std::int64_t, 2> dims{1, 2};
    CatalogBuilder a("gguf");
    ASSERT_TRUE(a.metadata().add("only here", "text\x1b"));
    ASSERT_TRUE(a.metadata().add("count", std::uint32_t{1}));
    ASSERT_TRUE(a.add({.name = "t", .dtype = I16::tag, .dims = dims, .bytes = 4}));
    ASSERT_TRUE(a.add({.name = "u\x1b", .dtype = F64::tag, .dims = dims, .bytes = 16}));
    write_encoded("a.gguf", std::move(a).build().value());
    CatalogBuilder b("gguf");
    ASSERT_TRUE(b.metadata().add("count", std::int32_t{1}));
    ASSERT_TRUE(b.metadata().add("only there", true));
    ASSERT_TRUE(b.add({.name = "w", .dtype = I8::tag, .dims = dims, .bytes = 2}));
    ASSERT_TRUE(b.add({.name = "t", .dtype = I64::tag, .dims = dims, .bytes = 16}));
    write_encoded("b.gguf", std::move(b).build().value());
  }
};

TEST_F(CliDiffOfTwo, every_difference_is_listed) {
  const auto json = run("diff a.gguf b.gguf --json");
  EXPECT_EQ(json.status, 1);
  EXPECT_TRUE(is_json(json.out)) << json.out;
  EXPECT_EQ(
      json.out,
      R"({"same":false,"only_a":["u\u001b"],"only_b":["w"],)"
      R"("differ":[{"name":"t","why":"dtype","max_abs":null,"rms":null,"cosine":null,"first_byte":null}],)"
      R"("metadata":{"only_a":["only here"],"only_b":["only there"],"differ":["count"]}})"
      "\n");
  EXPECT_EQ(
      run("diff a.gguf b.gguf --jsonl").out,
      R"({"kind":"only_a","name":"u\u001b"})"
      "\n"
      R"({"kind":"only_b","name":"w"})"
      "\n"
      R"({"kind":"differ","name":"t","why":"dtype","max_abs":null,"rms":null,"cosine":null,"first_byte":null})"
      "\n"
      R"({"kind":"metadata_only_a","name":"only here"})"
      "\n"
      R"({"kind":"metadata_only_b","name":"only there"})"
      "\n"
      R"({"kind":"metadata_differ","name":"count"})"
      "\n");
  EXPECT_EQ(run("diff a.gguf b.gguf").out,
            "tensor   differs in  A           B           max |a-b|  rms  cosine  first byte\n"
            "u\\u{1b}  only in A   F64 [1, 2]  -                   -    -       -           -\n"
            "w        only in B   -           I8 [1, 2]           -    -       -           -\n"
            "t        dtype       I16 [1, 2]  I64 [1, 2]          -    -       -           -\n"
            "\n"
            "metadata    differs in  A                  B\n"
            "only here   only in A   string text\\u{1b}  -\n"
            "only there  only in B   -                  bool true\n"
            "count       value       u32 1              i32 1\n"
            "\nA a.gguf, B b.gguf: 1 only in A, 1 only in B, 1 differs, 3 metadata keys\n");
}

TEST_F(CliDiffOfTwo, metadata_counts_unless_it_is_ignored) {
  CatalogBuilder builder("gguf");
  constexpr std::array<std::int64_t, 2> dims{1, 2};
  ASSERT_TRUE(builder.add({.name = "u\x1b", .dtype = F64::tag, .dims = dims, .bytes = 16}));
  ASSERT_TRUE(builder.add({.name = "t", .dtype = I16::tag, .dims = dims, .bytes = 4}));
  write_encoded("c.gguf", std::move(builder).build().value());
  const auto counted = run("diff a.gguf c.gguf --json");
  EXPECT_EQ(counted.status, 1);
  EXPECT_THAT(counted.out, StartsWith(R"({"same":false,"only_a":[],"only_b":[],"differ":[],)"));
  const auto ignored = run("diff a.gguf c.gguf --ignore-metadata --json");
  EXPECT_EQ(ignored.status, 0);
  EXPECT_EQ(ignored.out, same_json);
}

TEST_F(CliDiff, exits_with_2_on_errors) {
  EXPECT_EQ(run("diff m.ht").status, 2);
  EXPECT_EQ(run("diff m.ht none.ht").status, 2);
  EXPECT_EQ(run("diff none.ht m.ht").status, 2);
  EXPECT_EQ(run("diff m.ht .out --json").status, 2);
}

TEST_F(CliDiff, tolerance_applies_to_decoded_blocks) {
  constexpr std::array<std::int64_t, 2> block{1, 32};
  for (const std::string name : {"a.gguf", "b.gguf"}) {
    CatalogBuilder builder("gguf");
    ASSERT_TRUE(
        builder.add({.name = "q", .encoding = find_encoding("Q4_0")->tag, .dims = block, .bytes = 18}));
    write_encoded(name, std::move(builder).build().value());
  }
  EXPECT_EQ(run("diff a.gguf b.gguf --tolerance 1").status, 0);
  const auto model = Model::open(folder_ / "b.gguf").value();
  auto bytes = testing::read_file(folder_ / "b.gguf");
  bytes[static_cast<std::size_t>(model.catalog()[0].offset)] ^= std::byte{1};
  testing::write_file(folder_ / "b.gguf", bytes);
  EXPECT_EQ(run("diff a.gguf b.gguf").status, 1);
  // The changed byte is in the scale, whose change is less than the tolerance.
  EXPECT_EQ(run("diff a.gguf b.gguf --tolerance 1").status, 0);
}

TEST_F(CliDiff, large_models_show_a_progress_bar) {
  ASSERT_EQ(run("synth a.safetensors --preset llama-1b --size 20M -q").status, 0);
  ASSERT_EQ(run("synth b.safetensors --preset llama-1b --size 20M -q --seed 7").status, 0);
  const auto same = run("diff a.safetensors a.safetensors --progress=always");
  EXPECT_EQ(same.status, 0) << same.err;
  EXPECT_THAT(same.err, HasSubstr("%"));
  const auto other = run("diff a.safetensors b.safetensors --json");
  EXPECT_EQ(other.status, 1);
  EXPECT_EQ(other.err, "");
  EXPECT_TRUE(is_json(other.out));
  EXPECT_THAT(other.out, HasSubstr(R"({"name":"model.embed_tokens.weight","why":"contents","max_abs":)"));
}

}  // namespace
}  // namespace ht::diff_test
