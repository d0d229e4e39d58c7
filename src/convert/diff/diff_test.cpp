#include "convert/diff/diff_test.hpp"

#include <limits>

namespace ht::diff_test {
namespace {

using testing::Diff;
using testing::irpa_file;
using testing::npy_file;
using testing::stored;
using testing::tensor_note;
using Names = std::vector<std::string>;

TEST_F(Diff, kinds_have_names) {
  EXPECT_EQ(to_string(Differences::Kind::dtype), "dtype");
  EXPECT_EQ(to_string(Differences::Kind::shape), "shape");
  EXPECT_EQ(to_string(Differences::Kind::contents), "contents");
  EXPECT_EQ(to_string(Differences::Kind::note), "note");
}

TEST_F(Diff, model_equals_itself_and_its_copy) {
  const auto data = stored<float>({1, 2, std::numeric_limits<float>::quiet_NaN(), -0.0F});
  const auto a = one("a", F32::tag, {2, 2}, data);
  const auto b = one("b", F32::tag, {2, 2}, data);
  expect_same(a, a);
  expect_same(a, b);
  expect_same(a, b, 0.0);
}

TEST_F(Diff, equal_tensors_are_equal_in_every_format) {
  const auto data = stored<float>({1, 2, 3, 4, 5, 6});
  std::vector<Model> models;
  for (const auto* const format : {"safetensors", "gguf", "irpa", "ht", "npy"}) {
    std::filesystem::create_directory(folder_ / format);
    models.push_back(make_model(std::string(format) + "/t", format,
                                {{.name = "t", .dtype = F32::tag, .dims = {2, 3}, .data = data}}));
  }
  for (const auto& a : models) {
    for (const auto& b : models) {
      const auto found = compared(a, b);
      EXPECT_TRUE(found.has_same_tensors()) << a.catalog().format() << " " << b.catalog().format();
    }
  }
}

TEST_F(Diff, names_in_only_one_model_are_in_file_order) {
  const auto with = [](std::initializer_list<const char*> names) {
    std::vector<testing::TestTensor> tensors;
    for (const auto* const name : names)
      tensors.push_back({.name = name, .dtype = U8::tag, .dims = {1}, .data = "x"});
    return tensors;
  };
  const auto a = make_model("a", "safetensors", with({"z", "both", "c", "y"}));
  const auto b = make_model("b", "safetensors", with({"w", "both", "d"}));
  const auto found = compared(a, b);
  EXPECT_EQ(found.only_a, (Names{"z", "c", "y"}));
  EXPECT_EQ(found.only_b, (Names{"w", "d"}));
  EXPECT_TRUE(found.differ.empty());
  EXPECT_FALSE(found.is_same());
  EXPECT_FALSE(found.has_same_tensors());
}

TEST_F(Diff, tensors_named_by_their_files_are_compared) {
  const auto data = stored<float>({1, 2});
  const auto a =
      make_model("first.ht", "ht", {{.name = "first", .dtype = F32::tag, .dims = {2}, .data = data}});
  const auto b = opened("second.npy", npy_file("<f4", false, "(2,)", data));
  expect_same(a, b);
  const auto c = opened("third.npy", npy_file("<f4", false, "(2,)", stored<float>({1, 4})));
  EXPECT_EQ(difference(a, c).name, "first");
  // Names that are stored in a file have to match.
  EXPECT_EQ(compared(a, one("named", F32::tag, {2}, data)).only_b, (Names{"t"}));
}

TEST_F(Diff, contents_report_the_first_byte_and_the_largest_gap) {
  const auto a = one("a", F32::tag, {4}, stored<float>({1, 2, 3, 4}));
  const auto b = one("b", F32::tag, {4}, stored<float>({1, 2.5F, 3, -4}));
  EXPECT_EQ(brief(difference(a, b)), (Differences::Tensor{"t", Differences::Kind::contents, 6, 8.0}));
}

TEST_F(Diff, differing_tensors_are_in_the_order_of_the_first_model) {
  const auto a = make_model("a", "safetensors",
                            {{.name = "x", .dtype = U8::tag, .dims = {2}, .data = "ab"},
                             {.name = "same", .dtype = U8::tag, .dims = {2}, .data = "ab"},
                             {.name = "w", .dtype = U8::tag, .dims = {2}, .data = "ab"}});
  const auto b = make_model("b", "safetensors",
                            {{.name = "w", .dtype = U8::tag, .dims = {2}, .data = "ax"},
                             {.name = "same", .dtype = U8::tag, .dims = {2}, .data = "ab"},
                             {.name = "x", .dtype = U8::tag, .dims = {1, 2}, .data = "ab"}});
  const auto found = compared(a, b);
  ASSERT_EQ(found.differ.size(), 2U);
  EXPECT_EQ(brief(found.differ[0]), (Differences::Tensor{"x", Differences::Kind::shape, {}, {}}));
  EXPECT_EQ(brief(found.differ[1]), (Differences::Tensor{"w", Differences::Kind::contents, 1, 'x' - 'b'}));
}

TEST_F(Diff, different_dtypes_report_the_gap_of_their_values) {
  const auto wide = one("a", F32::tag, {2}, stored<float>({1, 1.0009765625F}));
  const auto narrow = one("b", BF16::tag, {2}, stored<std::uint16_t>({0x3F80, 0x3F80}));
  EXPECT_EQ(brief(difference(wide, narrow)),
            (Differences::Tensor{"t", Differences::Kind::dtype, {}, 0.0009765625}));
  const auto whole = one("c", I32::tag, {2}, stored<std::int32_t>({1, 4}));
  EXPECT_EQ(brief(difference(whole, narrow)), (Differences::Tensor{"t", Differences::Kind::dtype, {}, 3.0}));
  // No gap is reported if F64 does not hold all values, for a complex and a real number, or if shapes differ.
  const auto large = one("d", I64::tag, {2}, stored<std::int64_t>({1, 4}));
  EXPECT_EQ(brief(difference(large, narrow)), (Differences::Tensor{"t", Differences::Kind::dtype, {}, {}}));
  const auto complex = one("e", C64::tag, {2}, stored<float>({1, 0, 1, 0}));
  EXPECT_EQ(brief(difference(complex, narrow)), (Differences::Tensor{"t", Differences::Kind::dtype, {}, {}}));
  const auto other = one("f", F32::tag, {1}, stored<float>({1}));
  EXPECT_EQ(brief(difference(other, narrow)), (Differences::Tensor{"t", Differences::Kind::dtype, {}, {}}));
}

TEST_F(Diff, shapes_differ_even_where_the_bytes_do_not) {
  const auto a = one("a", U8::tag, {2, 2}, "abcd");
  EXPECT_EQ(difference(a, one("b", U8::tag, {4}, "abcd")).why, Differences::Kind::shape);
  EXPECT_EQ(difference(a, one("c", U8::tag, {2, 2, 1}, "abcd")).why, Differences::Kind::shape);
  EXPECT_EQ(difference(a, one("d", U8::tag, {2, 2, 1}, "abcd"), 100.0).why, Differences::Kind::shape);
}

TEST_F(Diff, zeros_of_both_signs_differ_in_their_bytes) {
  const auto a = one("a", F32::tag, {2}, stored<float>({1, 0.0F}));
  const auto b = one("b", F32::tag, {2}, stored<float>({1, -0.0F}));
  EXPECT_EQ(brief(difference(a, b)), (Differences::Tensor{"t", Differences::Kind::contents, 7, 0.0}));
}

TEST_F(Diff, nan_and_a_number_have_infinite_distance) {
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  const auto a = one("a", F32::tag, {2}, stored<float>({nan, 1}));
  const auto b = one("b", F32::tag, {2}, stored<float>({nan, nan}));
  const auto infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(difference(a, b).max_abs, infinity);
  EXPECT_EQ(difference(b, a, 1e30).max_abs, infinity);
  // NaNs with different bits have distance 0, but their bytes differ.
  const auto c = one("c", F32::tag, {2}, stored<std::uint32_t>({0x7FC00001, 0x3F800000}));
  EXPECT_EQ(difference(a, c).max_abs, 0.0);
  expect_same(a, c, 0.0);
}

TEST_F(Diff, integers_are_subtracted_exactly) {
  const auto largest = std::numeric_limits<std::int64_t>::max();
  const auto a = one("a", I64::tag, {2}, stored<std::int64_t>({largest, 5}));
  const auto b = one("b", I64::tag, {2}, stored<std::int64_t>({largest - 3, 5}));
  EXPECT_EQ(difference(a, b).max_abs, 3.0);
  expect_same(a, b, 3.0);
  EXPECT_EQ(difference(a, b, 2.5).first_byte, 0U);
  // The distance 2^53 + 1 is between two numbers of F64, 2^53 and 2^53 + 2.
  const auto c = one("c", I64::tag, {1}, stored<std::int64_t>({(std::int64_t{1} << 53) + 1}));
  const auto d = one("d", I64::tag, {1}, stored<std::int64_t>({0}));
  EXPECT_EQ(difference(c, d, 0x1p53).max_abs, 0x1p53 + 2);
  expect_same(c, d, 0x1p53 + 2);
}

TEST_F(Diff, complex_numbers_report_no_gap) {
  const auto a = one("a", C64::tag, {2}, stored<float>({1, 1, 2, 2}));
  const auto b = one("b", C64::tag, {2}, stored<float>({1, 1, 5, 6}));
  EXPECT_EQ(difference(a, b).max_abs, std::nullopt);
  expect_same(a, b, 5.0);
  EXPECT_EQ(brief(difference(a, b, 4.9)), (Differences::Tensor{"t", Differences::Kind::contents, 8, {}}));
}

TEST_F(Diff, splat_equals_its_expanded_tensor) {
  const auto splat = [&](std::string_view name, std::string pattern) {
    return opened(name, irpa_file({{.name = "t",
                                    .note = tensor_note("uint16", "[8]"),
                                    .length = 16,
                                    .pattern = std::move(pattern)}}));
  };
  const auto data = one("a", U16::tag, {8}, "abcdabcdabcdabcd");
  expect_same(data, splat("b", "abcd"));
  expect_same(data, splat("c", "abcdabcd"));
  expect_same(splat("d", "abcd"), splat("e", "abcdabcdabcdabcd"));
  EXPECT_EQ(difference(data, splat("f", "ab")).first_byte, 2U);
  EXPECT_EQ(difference(splat("g", "abcd"), splat("h", "abcdabcdabcXabcd")).first_byte, 11U);
}

// A pattern continues across blocks whose size is not a multiple of the pattern.
TEST_F(Diff, splats_of_blocks_are_compared_until_both_repeat) {
  const auto splat = [&](std::string_view name, std::string pattern) {
    const auto note = R"(TENSORv0:{"type": "Tensor", "dtype": "uint8", "shape": [420], "encoding": "Q6_K", )"
                      R"("logical_shape": [2, 256]})";
    return opened(name,
                  irpa_file({{.name = "t", .note = note, .length = 420, .pattern = std::move(pattern)}}));
  };
  const auto zero = splat("a", std::string(4, '\0'));
  // The scale is in bytes 208 and 209 of each block: 0 in the first block, 1.0009765625 in the second.
  const auto other = splat("b", std::string("\0\0\x01\x3C", 4));
  expect_same(zero, splat("c", std::string(1, '\0')), 0.0);
  EXPECT_EQ(difference(zero, other, 0.0).first_byte, 210U);
  const auto found = difference(zero, other);
  EXPECT_EQ(found.first_byte, 2U);
  EXPECT_GT(found.max_abs.value(), 0);
}

TEST_F(Diff, byte_order_and_element_order_are_ignored) {
  const auto plain = one("a", I16::tag, {2, 3}, stored<std::int16_t>({1, 2, 3, 4, 5, 600}));
  for (const bool big : {false, true}) {
    for (const bool fortran : {false, true}) {
      const auto data = fortran ? stored<std::int16_t>({1, 4, 2, 5, 3, 600}, big)
                                : stored<std::int16_t>({1, 2, 3, 4, 5, 600}, big);
      const auto other = opened("t.npy", npy_file(big ? ">i2" : "<i2", fortran, "(2, 3)", data));
      expect_same(plain, other);
      expect_same(plain, other, 0.0);
      const auto wrong = fortran ? stored<std::int16_t>({1, 4, 2, 5, 9, 600}, big)
                                 : stored<std::int16_t>({1, 2, 9, 4, 5, 600}, big);
      const auto differs = opened("t.npy", npy_file(big ? ">i2" : "<i2", fortran, "(2, 3)", wrong));
      EXPECT_EQ(brief(difference(plain, differs)),
                (Differences::Tensor{"t", Differences::Kind::contents, 4, 6.0}));
      EXPECT_EQ(brief(difference(differs, other)),
                (Differences::Tensor{"t", Differences::Kind::contents, 4, 6.0}));
    }
  }
}

TEST_F(Diff, each_part_of_a_complex_number_is_byte_swapped) {
  const auto little = one("a", C64::tag, {2}, stored<float>({1, 2, 3, 4}));
  expect_same(little, opened("t.npy", npy_file(">c8", false, "(2,)", stored<float>({1, 2, 3, 4}, true))));
}

TEST_F(Diff, untyped_entries_are_compared_by_bytes) {
  const auto untyped = [&](std::string_view name, std::string_view data) {
    return opened(name, irpa_file({{.name = "t", .length = data.size()}}, data));
  };
  const auto a = untyped("a", "abcd");
  expect_same(a, untyped("b", "abcd"));
  EXPECT_EQ(brief(difference(a, untyped("c", "abXd"))),
            (Differences::Tensor{"t", Differences::Kind::contents, 2, {}}));
  EXPECT_EQ(brief(difference(a, untyped("d", "abcde"))),
            (Differences::Tensor{"t", Differences::Kind::contents, 4, {}}));
  EXPECT_EQ(brief(difference(a, untyped("e", "aXcde"))),
            (Differences::Tensor{"t", Differences::Kind::contents, 1, {}}));
  EXPECT_EQ(brief(difference(a, untyped("f", ""))),
            (Differences::Tensor{"t", Differences::Kind::contents, 0, {}}));
  const auto typed = one("g", U8::tag, {4}, "abcd");
  EXPECT_EQ(brief(difference(a, typed)), (Differences::Tensor{"t", Differences::Kind::dtype, {}, {}}));
  EXPECT_EQ(brief(difference(typed, a)), (Differences::Tensor{"t", Differences::Kind::dtype, {}, {}}));
  // A tolerance does not apply to untyped bytes.
  EXPECT_EQ(difference(a, untyped("h", "abce"), 100.0).why, Differences::Kind::contents);
}

TEST_F(Diff, different_encodings_differ_in_dtype_and_equal_encodings_are_compared_by_bytes) {
  const auto blocks = [&](std::string_view name, const char* encoding, std::string data,
                          std::vector<std::int64_t> dims) {
    return make_model(name, "gguf",
                      {{.name = "t",
                        .dims = std::move(dims),
                        .data = std::move(data),
                        .encoding = find_encoding(encoding).value().tag}});
  };
  const auto a = blocks("a", "Q4_0", std::string(36, 'q'), {2, 32});
  expect_same(a, blocks("b", "Q4_0", std::string(36, 'q'), {2, 32}));
  expect_same(a, blocks("c", "Q4_0", std::string(36, 'q'), {2, 32}), 0.5);
  const auto found = difference(a, blocks("d", "Q4_0", std::string(20, 'q') + std::string(16, 'r'), {2, 32}));
  EXPECT_EQ(found.why, Differences::Kind::contents);
  EXPECT_EQ(found.first_byte, 20U);
  EXPECT_EQ(difference(a, blocks("e", "Q4_0", std::string(36, 'q'), {64})).why, Differences::Kind::shape);
  EXPECT_EQ(difference(a, blocks("f", "Q4_1", std::string(40, 'q'), {2, 32})).why, Differences::Kind::dtype);
  EXPECT_EQ(difference(a, one("g", F16::tag, {2, 32}, std::string(128, 'q'))).why, Differences::Kind::dtype);
}

TEST_F(Diff, header_padding_is_ignored) {
  const auto filled = [&](std::string_view name, std::string_view pad) {
    return make_model(name, "gguf", {}, [&](Metadata& metadata) { return metadata.add("htensor.pad", pad); });
  };
  const auto plain = make_model("plain", "gguf", {});
  expect_same(plain, filled("a", "   "));
  EXPECT_EQ(compared(plain, filled("b", "mine")).metadata.only_b, std::vector<std::string>{"htensor.pad"});
}

TEST_F(Diff, layout_keys_are_ignored) {
  const auto aligned = make_model("a", "gguf", {}, [](Metadata& metadata) -> Result<void> {
    HT_TRY(metadata.add("general.alignment", std::uint32_t{64}));
    return metadata.add("split.tensors.count", std::int32_t{0});
  });
  expect_same(aligned, make_model("plain", "gguf", {}));
}

TEST_F(Diff, notes_of_only_dtype_and_shape_are_equal) {
  const auto plain = noted("plain", "");
  const std::string_view compact = R"(TENSORv0:{"dtype":"torch.float32","shape":[2,3],"type":"Tensor"})";
  const std::string_view iree =
      R"(TENSORv0:{"type": "Tensor", "dtype": "float32", "shape": [2, 3], "dtype_desc": {"itemsize": 4}})";
  const std::string_view more =
      R"(TENSORv0:{"type": "Tensor", "dtype": "float32", "shape": [2, 3], "layer": 4})";
  expect_same(plain, noted("compact", compact));
  expect_same(noted("compact", compact), noted("iree", iree));
  EXPECT_EQ(difference(plain, noted("more", more)).why, Differences::Kind::note);
  EXPECT_EQ(difference(noted("iree", iree), noted("more", more)).why, Differences::Kind::note);
  expect_same(noted("more", more), noted("again", more));
}

TEST_F(Diff, metadata_is_compared_by_key_type_and_value) {
  const auto a = make_model("a", "gguf", {}, [](Metadata& metadata) -> Result<void> {
    HT_TRY(metadata.add("same", std::uint32_t{1}));
    HT_TRY(metadata.add("type", std::uint32_t{1}));
    HT_TRY(metadata.add("z", "only here"));
    HT_TRY(metadata.add("value", "one"));
    return metadata.add("b", true);
  });
  const auto b = make_model("b", "gguf", {}, [](Metadata& metadata) -> Result<void> {
    HT_TRY(metadata.add("y", 1.5));
    HT_TRY(metadata.add("value", "two"));
    HT_TRY(metadata.add("type", std::int32_t{1}));
    HT_TRY(metadata.add("same", std::uint32_t{1}));
    return metadata.add("c", 1.5F);
  });
  const auto found = compared(a, b);
  EXPECT_EQ(found.metadata.only_a, (Names{"z", "b"}));
  EXPECT_EQ(found.metadata.only_b, (Names{"y", "c"}));
  EXPECT_EQ(found.metadata.differ, (Names{"type", "value"}));
  EXPECT_FALSE(found.metadata.is_same());
  EXPECT_TRUE(found.has_same_tensors());
  EXPECT_FALSE(found.is_same());
}

TEST_F(Diff, metadata_of_equal_text_is_equal_across_formats) {
  const auto text = [](Metadata& metadata) { return metadata.add("made_by", "a test"); };
  EXPECT_TRUE(
      compared(make_model("a", "gguf", {}, text), make_model("b", "safetensors", {}, text)).is_same());
}

}  // namespace
}  // namespace ht::diff_test
