#include "convert/mlir/mlir_test.hpp"

#include <array>
#include <htensor/convert/save.hpp>

#include "format/gguf/gguf_test_file.hpp"
#include "model/test_models.hpp"

namespace ht::mlir_test {
namespace {

using testing::inline_all;
using testing::irpa_file;
using testing::IrpaEntry;
using testing::npy_file;
using testing::refusal;
using testing::safetensors_file;
using testing::tensor_note;
using Form = MlirOptions::Form;

class Mlir : public testing::MlirTest {};

struct CustomDType {
  using Family = CustomDType;
  using Element = std::uint16_t;
  static constexpr std::string_view name = "MINE";
  static constexpr int bits = 16;
  static constexpr DTypeTag tag = user_tag(1);
};

// A dtype by its name in IREE's notes, and the MLIR type of four elements.
struct Sample {
  std::string_view dtype;
  std::uint64_t bytes;  // of four elements
  std::string_view type;
};
constexpr Sample samples[] = {
    {"bool", 4, "4xi1"},
    {"int4", 2, "4xi4"},
    {"uint4", 2, "4xi4"},
    {"int8", 4, "4xi8"},
    {"uint8", 4, "4xi8"},
    {"int16", 8, "4xi16"},
    {"uint16", 8, "4xi16"},
    {"int32", 16, "4xi32"},
    {"uint32", 16, "4xi32"},
    {"int64", 32, "4xi64"},
    {"uint64", 32, "4xi64"},
    {"float16", 8, "4xf16"},
    {"bfloat16", 8, "4xbf16"},
    {"float32", 16, "4xf32"},
    {"float64", 32, "4xf64"},
    {"complex64", 32, "4xcomplex<f32>"},
    {"float4_e2m1fn", 2, "4xf4E2M1FN"},
    {"float6_e2m3fn", 3, "3xi8"},
    {"float6_e3m2fn", 3, "3xi8"},
    {"float8_e4m3fn", 4, "4xf8E4M3FN"},
    {"float8_e5m2", 4, "4xf8E5M2"},
    {"float8_e8m0fnu", 4, "4xf8E8M0FNU"},
    {"float8_e4m3fnuz", 4, "4xf8E4M3FNUZ"},
    {"float8_e5m2fnuz", 4, "4xf8E5M2FNUZ"},
};
static_assert(std::size(samples) == AllDTypes::size);

TEST_F(Mlir, every_dtype_has_an_mlir_type_of_the_same_storage) {
  std::vector<IrpaEntry> entries;
  std::string expected;
  for (const auto& [dtype, bytes, type] : samples) {
    entries.push_back({.name = std::string(dtype), .note = tensor_note(dtype, "[4]"), .length = bytes});
    expected += "  util.global private @" + std::string(dtype) + " = #stream.parameter.named<\"model\"::\"" +
                std::string(dtype) + "\"> : tensor<" + std::string(type) + ">\n";
  }
  const auto file = irpa_file(entries, std::string(32, '\1'));
  EXPECT_EQ(globals(file, {.scope = "model"}), expected);
  // Inlining the data does not change the types.
  const auto inside = globals(file, {.inline_below = inline_all});
  for (const auto& sample : samples) {
    EXPECT_THAT(inside, ::testing::ContainsRegex("@" + std::string(sample.dtype) + " = dense<.*> : tensor<" +
                                                 std::string(sample.type) + ">"));
  }
}

TEST_F(Mlir, a_module_has_a_global_for_each_tensor_in_the_order_of_the_file) {
  const auto file = safetensors_file(R"({"z":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
                                     R"("a.b":{"dtype":"I8","shape":[],"data_offsets":[8,9]}})",
                                     9);
  EXPECT_EQ(mlir_text(open(file)).value(),
            "module {\n"
            "  util.global private @z = #stream.parameter.named<\"z\"> : tensor<1x2xf32>\n"
            "  util.global private @a.b = #stream.parameter.named<\"a.b\"> : tensor<i8>\n"
            "}\n");
  EXPECT_EQ(mlir_text(open(file), {.scope = "s", .inline_below = 2, .form = Form::generic}).value(),
            "\"builtin.module\"() ({\n"
            "^bb0:\n"
            "  \"util.global\"() <{initial_value = #stream.parameter.named<\"s\"::\"z\"> : tensor<1x2xf32>, "
            "sym_name = \"z\", sym_visibility = \"private\", type = tensor<1x2xf32>}> : () -> ()\n"
            "  \"util.global\"() <{initial_value = dense<\"0x08\"> : tensor<i8>, "
            "sym_name = \"a.b\", sym_visibility = \"private\", type = tensor<i8>}> : () -> ()\n"
            "}) : () -> ()\n");
}

TEST_F(Mlir, a_model_without_tensors_is_an_empty_module) {
  const auto model = open(safetensors_file("{}"));
  EXPECT_EQ(mlir_text(model).value(), "module {\n}\n");
  EXPECT_EQ(mlir_text(model, {.form = Form::generic}).value(),
            "\"builtin.module\"() ({\n^bb0:\n}) : () -> ()\n");
}

TEST_F(Mlir, parameters_may_be_of_the_flow_dialect) {
  EXPECT_EQ(named("t", {.scope = "m", .dialect = MlirOptions::Dialect::flow}),
            "  util.global private @t = #flow.parameter.named<\"m\"::\"t\"> : tensor<1xi8>\n");
}

TEST_F(Mlir, names_are_quoted_and_escaped_if_necessary) {
  const auto expect = [&](std::string_view name, const std::string& symbol, const std::string& key) {
    EXPECT_EQ(named(name), "  util.global private @" + symbol + " = #stream.parameter.named<\"" + key +
                               "\"> : tensor<1xi8>\n");
  };
  expect("_a$.9Z", "_a$.9Z", "_a$.9Z");
  expect("9a", R"("9a")", "9a");
  expect(".a", R"(".a")", ".a");
  expect("$a", R"("$a")", "$a");
  expect("a b", R"("a b")", "a b");
  expect("a-b/c:d", R"("a-b/c:d")", "a-b/c:d");
  expect("@a", R"("@a")", "@a");
  expect("\"", R"("\22")", R"(\22)");
  expect("a\\b", R"("a\\b")", R"(a\\b)");
  expect("\\n", R"("\\n")", R"(\\n)");
  expect("a\nb\t\x7F", R"("a\0Ab\09\7F")", R"(a\0Ab\09\7F)");
  expect(std::string_view("a\0b", 3), R"("a\00b")", R"(a\00b)");
  expect("é", R"("\C3\A9")", R"(\C3\A9)");
  expect(R"(">}] : x)", R"("\22>}] : x")", R"(\22>}] : x)");
}

TEST_F(Mlir, scopes_are_escaped_and_may_be_left_out) {
  EXPECT_EQ(
      named("t", {.scope = "a \"b\"\\"}),
      "  util.global private @t = #stream.parameter.named<\"a \\22b\\22\\\\\"::\"t\"> : tensor<1xi8>\n");
  EXPECT_EQ(named("t"), "  util.global private @t = #stream.parameter.named<\"t\"> : tensor<1xi8>\n");
}

TEST_F(Mlir, generic_form_has_names_as_strings) {
  const auto text =
      mlir_text(open(irpa_file({{.name = "a b\"", .length = 1}}, "x")), {.form = Form::generic}).value();
  EXPECT_THAT(text, ::testing::HasSubstr(R"(sym_name = "a b\22", sym_visibility)"));
}

TEST_F(Mlir, symbol_has_a_name) {
  const auto model = open(irpa_file({{.name = "", .length = 1}}, "x"));
  for (const auto form : {Form::iree, Form::generic}) {
    bool written = false;
    const auto done = emit_mlir(model, {.form = form}, [&](std::string_view) -> Result<void> {
      written = true;
      return {};
    });
    EXPECT_EQ(refusal(done, ErrorCode::bad_name, "symbol_has_a_name").path(), path_.string());
    EXPECT_FALSE(written);
  }
}

TEST_F(Mlir, tensors_are_checked_in_the_plan) {
  const auto model = open(irpa_file({{.name = "", .note = tensor_note("uint8", "[1]"), .length = 1},
                                     {.name = "b", .note = tensor_note("uint8", "[1]"), .length = 1}},
                                    "xy"));
  const auto check = [&](std::string_view target, const ConvertOptions& options) {
    return check_mlir(plan_conversion(model, folder_ / target, options).value());
  };
  for (const std::uint64_t shard_bytes : {0U, 1U}) {
    const auto error = refusal(check("m.safetensors", {.shard_bytes = shard_bytes}), ErrorCode::bad_name,
                               "symbol_has_a_name");
    const auto* const file = shard_bytes == 0 ? "m.safetensors" : "m-00001-of-00002.safetensors";
    EXPECT_EQ(error.path(), (folder_ / file).string());
    EXPECT_TRUE(check("m.safetensors", {.renames = {{"*", "a*"}}, .shard_bytes = shard_bytes}));
  }
  // The names of these formats are those of the files.
  for (const auto* const target : {"m.npy", "m.ht"})
    EXPECT_TRUE(check(target, {.filter = NameFilter({}, {"b"})})) << target;
  // The target is parsed as `Model::open` will parse it.
  const std::array<std::byte, 4> data{};
  ASSERT_TRUE(write(folder_ / "c.ht", dtype_info<CustomDType>(), std::array<std::int64_t, 1>{2}, data));
  const OpenOptions open_options{.dtypes = {dtype_info<CustomDType>()}};
  const auto custom = Model::open(folder_ / "c.ht", open_options).value();
  const auto plan = plan_conversion(custom, folder_ / "d.ht").value();
  EXPECT_TRUE(check_mlir(plan, {}, open_options));
  EXPECT_EQ(check_mlir(plan).error().path(), (folder_ / "d.ht").string());
}

TEST_F(Mlir, tensors_below_the_limit_are_inlined) {
  const auto file = irpa_file(
      {{.name = "none", .length = 0}, {.name = "two", .length = 2}, {.name = "three", .length = 3}}, "abc");
  const auto inlined_flags = [&](std::uint64_t below) {
    const auto text = globals(file, {.inline_below = below});
    std::string inside;
    for (const auto* const name : {"none", "two", "three"})
      inside += text.find("@" + std::string(name) + " = dense") == std::string::npos ? '-' : '+';
    return inside;
  };
  EXPECT_EQ(inlined_flags(0), "---");
  EXPECT_EQ(inlined_flags(1), "+--");
  EXPECT_EQ(inlined_flags(2), "+--");
  EXPECT_EQ(inlined_flags(3), "++-");
  EXPECT_EQ(inlined_flags(inline_all), "+++");
}

TEST_F(Mlir, untyped_entries_and_block_encodings_are_bytes) {
  EXPECT_EQ(inlined(irpa_file({{.name = "t", .length = 3}}, "abc")), "dense<\"0x616263\"> : tensor<3xi8>");
  testing::GgufFile file;
  file.header(1, 0).tensor("q", {32, 2}, 8, 0).pad().zeros(68).pad();
  EXPECT_EQ(globals(file.bytes()),
            "  util.global private @q = #stream.parameter.named<\"q\"> : tensor<68xi8>\n");
}

TEST_F(Mlir, user_defined_dtypes_are_bytes) {
  const std::array<std::byte, 4> data{};
  ASSERT_TRUE(write(path_, dtype_info<CustomDType>(), std::array<std::int64_t, 2>{2, 1}, data));
  const auto model = Model::open(path_, {.dtypes = {dtype_info<CustomDType>()}}).value();
  EXPECT_THAT(mlir_text(model).value(), ::testing::HasSubstr("> : tensor<4xi8>\n"));
}

TEST_F(Mlir, splats_are_parameters) {
  EXPECT_EQ(globals(irpa_file({{.name = "t",
                                .note = tensor_note("float32", "[2, 3]"),
                                .length = 24,
                                .pattern = std::string("\0\0\x80\x3F", 4)}})),
            "  util.global private @t = #stream.parameter.named<\"t\"> : tensor<2x3xf32>\n");
}

TEST_F(Mlir, dimensions_fit_63_bits) {
  const auto splat_of = [&](std::uint64_t length) {
    return mlir_text(open(irpa_file({{.name = "t", .length = length, .pattern = "\7"}})));
  };
  constexpr auto max_extent = std::uint64_t{1} << 63U;
  EXPECT_THAT(splat_of(max_extent - 1).value(), ::testing::HasSubstr("tensor<9223372036854775807xi8>"));
  for (const auto length : {max_extent, inline_all})
    EXPECT_EQ(refusal(splat_of(length), ErrorCode::size_overflow, "dimensions_fit_63_bits").tensor(), "t");
}

// The library's parsers refuse such names, but a caller's parser may accept them.
TEST_F(Mlir, errors_quote_names_as_utf8) {
  static Entry entry;
  const Format format{
      .name = "test",
      .looks_like = [](Bytes prefix, std::uint64_t) { return prefix.front() == std::byte{'!'}; },
      .parse = [](const FileParts&, std::uint64_t, const ParseOptions&) -> Result<ParseResult> {
        CatalogBuilder builder("test");
        HT_TRY(builder.add(entry));
        return std::move(builder).build();
      }};
  const auto expect_quoted = [&](Entry of, ErrorCode code, std::string_view rule) {
    of.name = "\xFF";
    entry = of;
    const auto model = open(std::vector(64, std::byte{'!'}), {.formats = {format}});
    const auto error = refusal(mlir_text(model, {.inline_below = inline_all}), code, rule);
    EXPECT_TRUE(error.message().starts_with("tensor '\uFFFD': ")) << error.message();
    EXPECT_EQ(error.tensor(), "\xFF");
  };
  constexpr std::array pattern{std::byte{7}};
  expect_quoted({.bytes = std::uint64_t{1} << 63U, .splat = pattern}, ErrorCode::size_overflow,
                "dimensions_fit_63_bits");
  constexpr std::array<std::int64_t, 1> dims{32};
  expect_quoted(
      {.encoding = Q8_0::tag, .dims = dims, .byte_order = ByteOrder::big, .bytes = Q8_0::block_bytes},
      ErrorCode::unsupported_encoding, "inlined_bytes_are_row_major_and_little_endian");
}

TEST_F(Mlir, returns_the_error_of_the_sink) {
  const auto model = open(npy_file("|u1", false, "(300, 300)", std::string(90'000, 'x')));
  int calls = 0;
  const auto done = emit_mlir(model, {.inline_below = inline_all}, [&](std::string_view) -> Result<void> {
    ++calls;
    return fail(Error(ErrorCode::no_space));
  });
  EXPECT_EQ(done.error().code(), ErrorCode::no_space);
  EXPECT_EQ(calls, 1);
}

TEST_F(Mlir, write_can_be_cancelled) {
  const testing::TemporaryFolder folder;
  testing::write_file(folder / "s.irpa",
                      testing::irpa_file({{.name = "s", .length = std::uint64_t{1} << 40, .pattern = "ab"}}));
  const auto model = Model::open(folder / "s.irpa").value();
  std::stop_source stop;
  stop.request_stop();
  const auto written =
      write_mlir(folder / "m.mlir", model, {.inline_below = UINT64_MAX}, {.stop = stop.get_token()});
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code(), ErrorCode::cancelled);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"s.irpa"});
}

TEST_F(Mlir, catalog_suffices_without_inlining) {
  const auto model = open(safetensors_file(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1),
                          {.catalog_only = true});
  EXPECT_TRUE(mlir_text(model));
  EXPECT_EQ(mlir_text(model, {.inline_below = inline_all}).error().code(), ErrorCode::bad_state);
}

}  // namespace
}  // namespace ht::mlir_test
