#include <gtest/gtest.h>

#include <cmath>
#include <htensor/convert/convert.hpp>
#include <htensor/convert/diff.hpp>
#include <htensor/integrity/seal.hpp>
#include <htensor/values/cast.hpp>

#include "convert/test_models_fixture.hpp"

namespace ht::change_types_test {
namespace {

using testing::irpa_file;
using testing::refusal;
using testing::stored;
using testing::tensor_note;
using testing::TestTensor;

// Conversions that change the types of tensors.
class ChangeTypes : public testing::TestModels {
 protected:
  static std::string floats(std::int64_t count, float scale = 1.0F) {
    std::string data;
    for (std::int64_t i = 0; i < count; ++i) data += stored<float>({scale * std::sin(static_cast<float>(i))});
    return data;
  }

  static TestTensor f32(std::string name, std::vector<std::int64_t> dims) {
    std::int64_t count = 1;
    for (const auto dim : dims) count *= dim;
    return {.name = std::move(name), .dtype = F32::tag, .dims = std::move(dims), .data = floats(count)};
  }

  Model converted(const Model& source, const std::string& name, const ConvertOptions& options,
                  const ApplyOptions& apply_options = {}) {
    const auto done = convert(source, folder_ / name, options, apply_options);
    EXPECT_TRUE(done) << to_string(done.error());
    auto model = Model::open(folder_ / name);
    EXPECT_TRUE(model) << to_string(model.error());
    return std::move(model).value();
  }

  static std::string_view type_of(const Model& model, std::string_view tensor) {
    return model[tensor].value().type().name;
  }

  static std::vector<float> values_of(const Model& model, std::string_view tensor) {
    const auto values = model[tensor].value().cast<F32>().value();
    return {values.begin(), values.end()};
  }
};

TEST_F(ChangeTypes, lossless_casts_need_no_permission) {
  const auto source = make_model("a", "safetensors", {f32("w", {3, 5}), f32("b", {5})});
  const auto wide = converted(source, "wide.safetensors", {.types = {{"*", "F64"}}});
  EXPECT_EQ(type_of(wide, "w"), "F64");
  EXPECT_EQ(type_of(wide, "b"), "F64");
  expect_same(source, wide, 0.0);
}

TEST_F(ChangeTypes, changed_tensor_has_no_note) {
  const auto source =
      noted("a", R"(TENSORv0:{"type": "Tensor", "dtype": "float32", "shape": [2, 3], "layer": 4})");
  const ConvertOptions options{.types = {{"t", "F64"}}};
  const auto plan = plan_conversion(source, folder_ / "b.irpa", options).value();
  ASSERT_EQ(plan.losses.size(), 1U);
  EXPECT_EQ(plan.losses[0].kind, Loss::Kind::metadata);
  testing::expect_refusal(convert(source, folder_ / "b.irpa", options), ErrorCode::would_lose,
                          "losses_are_allowed");
  EXPECT_EQ(type_of(converted(source, "b.irpa", options, {.drop_metadata = true}), "t"), "F64");
}

TEST_F(ChangeTypes, notes_of_only_dtype_and_shape_are_not_a_loss) {
  const auto source = noted("a", R"(TENSORv0:{"dtype":"torch.float32","shape":[2,3],"type":"Tensor"})");
  expect_same(source, converted(source, "b.safetensors", {}));
  EXPECT_EQ(type_of(converted(source, "c.irpa", {.types = {{"t", "F64"}}}), "t"), "F64");
}

TEST_F(ChangeTypes, rounding_is_a_loss) {
  const auto source = make_model("a", "safetensors", {f32("w", {3, 5})});
  const ConvertOptions options{.types = {{"w", "BF16"}}};
  const auto error = refusal(convert(source, folder_ / "b.safetensors", options), ErrorCode::would_lose,
                             "losses_are_allowed");
  EXPECT_NE(error.hint().find("--round"), std::string_view::npos) << error.hint();
  EXPECT_FALSE(exists(folder_ / "b.safetensors"));
  const auto plan = plan_conversion(source, folder_ / "b.safetensors", options).value();
  ASSERT_EQ(plan.losses.size(), 1U);
  EXPECT_EQ(plan.losses[0].kind, Loss::Kind::rounding);
  EXPECT_EQ(plan.losses[0].change, "F32 [3, 5] → BF16 [3, 5]");
  const auto rounded = converted(source, "b.safetensors", options, {.round = true});
  EXPECT_EQ(type_of(rounded, "w"), "BF16");
  const auto typed = source.tensor<F32, Rank<2>>("w").value();
  const auto expected = cast<F32>(cast_lossy<BF16>(typed).value()).value();
  EXPECT_EQ(values_of(rounded, "w"), std::vector<float>(expected.begin(), expected.end()));
}

TEST_F(ChangeTypes, wildcards_skip_integers) {
  const auto source = make_model(
      "a", "safetensors",
      {f32("w", {4}), {.name = "ids", .dtype = I64::tag, .dims = {1}, .data = std::string(8, '\1')}});
  const auto wide = converted(source, "b.safetensors", {.types = {{"*", "F64"}}});
  EXPECT_EQ(type_of(wide, "ids"), "I64");
  const auto named = converted(source, "c.safetensors", {.types = {{"ids", "F64"}}}, {.round = true});
  EXPECT_EQ(type_of(named, "ids"), "F64");
  EXPECT_EQ(type_of(named, "w"), "F32");
}

TEST_F(ChangeTypes, exact_names_come_before_wildcards) {
  const auto source =
      make_model("a", "safetensors", {f32("w", {2, 32}), f32("head", {2, 32}), f32("b", {4})});
  const ConvertOptions options{.types = {{"*", "Q8_0"}, {"*", "F64"}, {"head", "F16"}, {"head*", "BF16"}}};
  testing::expect_refusal(convert(source, folder_ / "b.gguf", options), ErrorCode::not_found,
                          "type_rule_changes_a_tensor");
  const auto mixed =
      converted(source, "b.gguf", {.types = {{"*", "Q8_0"}, {"*", "F64"}, {"head", "F16"}}}, {.round = true});
  EXPECT_EQ(type_of(mixed, "head"), "F16");
  EXPECT_EQ(type_of(mixed, "w"), "Q8_0");
  EXPECT_EQ(type_of(mixed, "b"), "F64");
}

TEST_F(ChangeTypes, escaped_names_are_not_wildcards) {
  const std::string name = "a[0]*\\";
  const auto source = make_model(
      "a", "safetensors", {{.name = name, .dtype = I64::tag, .dims = {1}, .data = std::string(8, '\1')}});
  const ConvertOptions named{.types = {{escape_glob(name), "F64"}}};
  EXPECT_EQ(type_of(converted(source, "b.safetensors", named, {.round = true}), name), "F64");
  // A wildcard after an escaped backslash.
  const ConvertOptions wildcard{.types = {{R"(a\[0]\*\\*)", "F64"}}};
  testing::expect_refusal(convert(source, folder_ / "c.safetensors", wildcard), ErrorCode::not_found,
                          "type_rule_changes_a_tensor");
}

TEST_F(ChangeTypes, quantization_skips_norms_biases_and_vectors) {
  const auto source =
      make_model("a", "gguf",
                 {f32("blk.0.ffn.weight", {4, 64}), f32("blk.0.attn_norm.weight", {2, 32}),
                  f32("blk.0.ffn.bias", {2, 32}), f32("output_scale", {32}), f32("odd", {2, 33})});
  const auto small = converted(source, "b.gguf", {.types = {{"*", "Q8_0"}}});
  EXPECT_EQ(type_of(small, "blk.0.ffn.weight"), "Q8_0");
  for (const auto* const name : {"blk.0.attn_norm.weight", "blk.0.ffn.bias", "output_scale", "odd"})
    EXPECT_EQ(type_of(small, name), "F32") << name;
  expect_same(source, small, 1.0 / 127);
  // Dequantizing is exact.
  const auto back = converted(small, "c.gguf", {.dequantize = "F32"});
  EXPECT_EQ(type_of(back, "blk.0.ffn.weight"), "F32");
  expect_same(small, back, 0.0);
}

TEST_F(ChangeTypes, rows_are_whole_blocks) {
  const auto source = make_model("a", "gguf", {f32("odd", {2, 33})});
  const auto error = refusal(convert(source, folder_ / "b.gguf", {.types = {{"odd", "Q8_0"}}}),
                             ErrorCode::bad_shape, "rows_are_whole_blocks");
  EXPECT_EQ(error.tensor(), "odd");
}

TEST_F(ChangeTypes, changed_size_fits_63_bits) {
  constexpr std::uint64_t elements = std::uint64_t{1} << 62;
  testing::write_file(folder_ / "a.irpa", irpa_file({{.name = "t",
                                                      .note = tensor_note("int8", "[4611686018427387904]"),
                                                      .length = elements,
                                                      .pattern = "\7"}}));
  const auto source = Model::open(folder_ / "a.irpa").value();
  const auto error = refusal(convert(source, folder_ / "b.irpa", {.types = {{"t", "F64"}}}),
                             ErrorCode::size_overflow, "changed_size_fits_63_bits");
  EXPECT_EQ(error.message(), "tensor 't', F64 [4611686018427387904]: size exceeds 2^63-1 bytes");
  EXPECT_EQ(error.tensor(), "t");
  EXPECT_TRUE(convert(source, folder_ / "b.irpa", {.types = {{"t", "U8"}}}, {.round = true}));
}

TEST_F(ChangeTypes, type_rule_changes_a_tensor) {
  const auto source = make_model("a", "gguf", {f32("w", {2, 32})});
  static_cast<void>(refusal(convert(source, folder_ / "b.gguf", {.types = {{"x*", "F64"}}}),
                            ErrorCode::not_found, "type_rule_changes_a_tensor"));
}

TEST_F(ChangeTypes, type_exists) {
  const auto source = make_model("a", "gguf", {f32("w", {2, 32})});
  static_cast<void>(refusal(convert(source, folder_ / "b.gguf", {.types = {{"w", "Q9"}}}),
                            ErrorCode::bad_dtype, "type_exists"));
}

TEST_F(ChangeTypes, dequantize_names_a_dtype) {
  const auto source = make_model("a", "gguf", {f32("w", {2, 32})});
  for (const auto* const name : {"Q8_0", "Q9"}) {
    const auto error = refusal(convert(source, folder_ / "b.gguf", {.dequantize = name}),
                               ErrorCode::bad_dtype, "dequantize_names_a_dtype");
    EXPECT_TRUE(testing::message_contains(error, name)) << error.message();
    EXPECT_FALSE(exists(folder_ / "b.gguf"));
  }
}

TEST_F(ChangeTypes, encoding_has_an_encoder) {
  const auto source = make_model("a", "gguf", {f32("w", {1, 256})});
  static_cast<void>(refusal(convert(source, folder_ / "b.gguf", {.types = {{"w", "IQ2_XS"}}}),
                            ErrorCode::unsupported_encoding, "encoding_has_an_encoder"));
}

TEST_F(ChangeTypes, values_can_be_converted) {
  const auto source = make_model(
      "a", "safetensors", {{.name = "c", .dtype = C64::tag, .dims = {1}, .data = stored<float>({1, 2})}});
  static_cast<void>(refusal(convert(source, folder_ / "b.safetensors", {.types = {{"c", "F32"}}}),
                            ErrorCode::unsupported_encoding, "values_can_be_converted"));
}

TEST_F(ChangeTypes, column_major_and_big_endian_tensors_are_converted) {
  const auto column_major = make_model("a.npy", "npy",
                                       {{.name = "a",
                                         .dtype = I16::tag,
                                         .dims = {3, 2},
                                         .data = stored<std::int16_t>({1, 3, 5, 2, 4, 6}, true),
                                         .byte_order = ByteOrder::big,
                                         .order = ElementOrder::column_major}});
  const auto wide = converted(column_major, "b.safetensors", {.types = {{"a", "F32"}}});
  EXPECT_EQ(values_of(wide, "a"), (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST_F(ChangeTypes, splats_stay_splats) {
  testing::write_file(folder_ / "a.irpa", irpa_file({{.name = "t",
                                                      .note = tensor_note("float32", "[100]"),
                                                      .length = 400,
                                                      .pattern = stored<float>({0.5F})}},
                                                    ""));
  const auto source = Model::open(folder_ / "a.irpa").value();
  const auto narrow = converted(source, "b.irpa", {.types = {{"*", "BF16"}}}, {.round = true});
  EXPECT_TRUE(narrow.at(0)->is_splat());
  EXPECT_EQ(type_of(narrow, "t"), "BF16");
  EXPECT_EQ(values_of(narrow, "t"), std::vector<float>(100, 0.5F));
}

// The tensor has several pieces, whose borders are inside blocks, and the file is sealed during the copy.
TEST_F(ChangeTypes, large_tensors_are_converted_in_pieces_and_sealed) {
  const auto source =
      make_model("a", "safetensors", {f32("first", {3}), f32("w", {1031, 1024}), f32("last", {7})});
  const auto small = converted(source, "b.gguf", {.types = {{"w", "Q8_0"}}}, {.seal = true});
  EXPECT_TRUE(compare_with_seal(folder_ / "b.gguf").value().is_intact());
  expect_same(source, small, 1.0 / 127);
  const auto half =
      converted(source, "c.safetensors", {.types = {{"*", "BF16"}}}, {.round = true, .seal = true});
  EXPECT_TRUE(compare_with_seal(folder_ / "c.safetensors").value().is_intact());
  const auto expected = cast_lossy<BF16>(source.tensor<F32, Rank<2>>("w").value()).value();
  const auto found = half.tensor<BF16, Rank<2>>("w").value();
  EXPECT_TRUE(std::ranges::equal(expected.bytes().value(), found.bytes().value()));
  const auto back = converted(small, "d.safetensors", {.dequantize = "BF16"});
  const auto decoded = cast_lossy<BF16>(small.at(1)->tensor<Q8_0, Rank<2>>().value()).value();
  EXPECT_TRUE(std::ranges::equal(decoded.bytes().value(), back.tensor<BF16, Rank<2>>("w")->bytes().value()));
}

TEST_F(ChangeTypes, random_rounding_depends_on_the_seed_alone) {
  const auto source = make_model("a", "safetensors", {f32("w", {257, 1024})});
  const auto with_seed = [&](const std::string& name, std::uint64_t seed) {
    return values_of(
        converted(source, name,
                  {.types = {{"w", "BF16"}}, .rounding = {Rounding::Mode::stochastic, false, seed}},
                  {.round = true}),
        "w");
  };
  const auto once = with_seed("b.safetensors", 1);
  EXPECT_EQ(once, with_seed("c.safetensors", 1));
  EXPECT_NE(once, with_seed("d.safetensors", 2));
}

}  // namespace
}  // namespace ht::change_types_test
