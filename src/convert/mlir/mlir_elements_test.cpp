#include <algorithm>

#include "convert/mlir/mlir_test.hpp"
#include "format/gguf/gguf_test_file.hpp"
#include "model/test_models.hpp"

namespace ht::mlir_elements_test {
namespace {

using testing::inline_all;
using testing::irpa_file;
using testing::npy_file;
using testing::refusal;

class MlirElementsTest : public testing::MlirTest {};

TEST_F(MlirElementsTest, elements_are_inlined_in_hexadecimal) {
  EXPECT_EQ(inlined_entry("uint8", "[3]", "\x01\xAB\xFF"), "dense<\"0x01ABFF\"> : tensor<3xi8>");
  EXPECT_EQ(inlined_entry("float32", "[]", std::string("\0\0\x80\x3F", 4)),
            "dense<\"0x0000803F\"> : tensor<f32>");
  EXPECT_EQ(inlined_entry("int16", "[2, 1]", "\x01\x02\x03\x04"), "dense<\"0x01020304\"> : tensor<2x1xi16>");
}

TEST_F(MlirElementsTest, empty_tensors_are_inlined_without_bytes) {
  EXPECT_EQ(inlined_entry("float32", "[0, 4]", ""), "dense<> : tensor<0x4xf32>");
  EXPECT_EQ(inlined_entry("bool", "[2, 0]", ""), "dense<> : tensor<2x0xi1>");
  EXPECT_EQ(inlined(irpa_file({{.name = "t"}})), "dense<> : tensor<0xi8>");
}

TEST_F(MlirElementsTest, elements_of_4_bits_have_a_byte_each_when_inlined) {
  EXPECT_EQ(inlined_entry("int4", "[4]", "\x21\xF3"), "dense<\"0x0102030F\"> : tensor<4xi4>");
  EXPECT_EQ(inlined_entry("float4_e2m1fn", "[3]", "\x21\xF3"), "dense<\"0x010203\"> : tensor<3xf4E2M1FN>");
}

TEST_F(MlirElementsTest, elements_of_6_bits_are_the_bytes_that_they_are_packed_in) {
  EXPECT_EQ(inlined_entry("float6_e2m3fn", "[2, 2]", "\x01\x02\x03"), "dense<\"0x010203\"> : tensor<3xi8>");
}

TEST_F(MlirElementsTest, booleans_are_nested_lists) {
  const std::string_view bytes("\0\1\2\0\0\xFF", 6);
  EXPECT_EQ(inlined_entry("bool", "[2, 3]", bytes),
            "dense<[[false, true, true], [false, false, true]]> : tensor<2x3xi1>");
  EXPECT_EQ(inlined_entry("bool", "[3, 1, 2]", bytes),
            "dense<[[[false, true]], [[true, false]], [[false, true]]]> : tensor<3x1x2xi1>");
  EXPECT_EQ(inlined_entry("bool", "[]", "\1"), "dense<true> : tensor<i1>");
}

TEST_F(MlirElementsTest, splats_are_inlined_as_one_element) {
  EXPECT_EQ(inlined_splat("float32", "[2, 3]", 24, std::string("\0\0\x80\x3F", 4)),
            "dense<\"0x0000803F\"> : tensor<2x3xf32>");
  // For any length, and for a pattern that is a part of an element or several elements.
  EXPECT_EQ(inlined_splat("float32", "[1073741824]", std::uint64_t{1} << 32U, std::string(1, '\0')),
            "dense<\"0x00000000\"> : tensor<1073741824xf32>");
  EXPECT_EQ(inlined_splat("int16", "[6]", 12, "\1\2\1\2"), "dense<\"0x0102\"> : tensor<6xi16>");
  EXPECT_EQ(inlined_splat("complex64", "[4]", 32, "\1\2\3\4\5\6\7\x08"),
            "dense<\"0x0102030405060708\"> : tensor<4xcomplex<f32>>");
  EXPECT_EQ(inlined_splat("int4", "[5]", 3, "\x33"), "dense<\"0x03\"> : tensor<5xi4>");
  EXPECT_EQ(inlined_splat("bool", "[5]", 5, "\2"), "dense<true> : tensor<5xi1>");
  EXPECT_EQ(inlined(irpa_file({{.name = "t", .length = 1000, .pattern = "\7"}})),
            "dense<\"0x07\"> : tensor<1000xi8>");
}

TEST_F(MlirElementsTest, splats_whose_elements_differ_are_written_out) {
  EXPECT_EQ(inlined_splat("int8", "[6]", 6, "\1\2"), "dense<\"0x010201020102\"> : tensor<6xi8>");
  EXPECT_EQ(inlined_splat("int4", "[3]", 2, "\x21"), "dense<\"0x010201\"> : tensor<3xi4>");
  EXPECT_EQ(inlined_splat("bool", "[4]", 4, std::string("\0\1", 2)),
            "dense<[false, true, false, true]> : tensor<4xi1>");
}

TEST_F(MlirElementsTest, column_major_and_big_endian_data_is_normalized) {
  const auto big = [](std::initializer_list<int> numbers) {
    std::string text;
    for (const int number : numbers) text += {'\0', static_cast<char>(number)};
    return text;
  };
  EXPECT_EQ(inlined(npy_file("|u1", true, "(2, 3)", "\1\2\3\4\5\6")),
            "dense<\"0x010305020406\"> : tensor<2x3xi8>");
  EXPECT_EQ(inlined(npy_file("|u1", true, "(2, 2, 2)", "\1\2\3\4\5\6\7\x08")),
            "dense<\"0x0105030702060408\"> : tensor<2x2x2xi8>");
  EXPECT_EQ(inlined(npy_file(">i2", false, "(2,)", big({1, 2}))), "dense<\"0x01000200\"> : tensor<2xi16>");
  EXPECT_EQ(inlined(npy_file(">i2", true, "(2, 2)", big({1, 2, 3, 4}))),
            "dense<\"0x0100030002000400\"> : tensor<2x2xi16>");
  EXPECT_EQ(inlined(npy_file(">c8", false, "(1,)", "\1\2\3\4\5\6\7\x08")),
            "dense<\"0x0403020108070605\"> : tensor<1xcomplex<f32>>");
  EXPECT_EQ(inlined(npy_file("|b1", true, "(2, 2)", std::string("\1\1\0\0", 4))),
            "dense<[[true, false], [true, false]]> : tensor<2x2xi1>");
  EXPECT_EQ(inlined(npy_file("<f4", true, "(3, 0, 2)", "")), "dense<> : tensor<3x0x2xf32>");
}

TEST_F(MlirElementsTest, inlined_bytes_are_row_major_and_little_endian) {
  testing::GgufFile file(std::endian::big);
  file.header(1, 0).tensor("q", {32}, 8, 0).pad().zeros(34).pad();
  const auto model = open(file.bytes());
  ASSERT_EQ(model.catalog()[0].byte_order, ByteOrder::big);
  const auto error = refusal(mlir_text(model, {.inline_below = inline_all}), ErrorCode::unsupported_encoding,
                             "inlined_bytes_are_row_major_and_little_endian");
  EXPECT_EQ(error.tensor(), "q");
  EXPECT_EQ(error.path(), path_.string());
  // A tensor that is not inlined keeps its byte order in the archive.
  EXPECT_TRUE(mlir_text(model, {.inline_below = 34}));
}

// Data that exceeds one part, in both element orders.
TEST_F(MlirElementsTest, long_data_is_written_in_parts) {
  constexpr int side = 300;
  std::string rows;
  std::string columns;
  std::string expected;
  for (int i = 0; i < side; ++i) {
    for (int j = 0; j < side; ++j) {
      const int code = (i * 7 + j) & 0xFF;
      rows += static_cast<char>(code);
      columns += static_cast<char>((j * 7 + i) & 0xFF);
      constexpr std::string_view digits = "0123456789ABCDEF";
      expected += {digits[static_cast<unsigned>(code) >> 4U], digits[static_cast<unsigned>(code) & 0xFU]};
    }
  }
  expected = "dense<\"0x" + expected + "\"> : tensor<300x300xi8>";
  EXPECT_EQ(inlined(npy_file("|u1", false, "(300, 300)", rows)), expected);
  EXPECT_EQ(inlined(npy_file("|u1", true, "(300, 300)", columns)), expected);

  std::size_t longest = 0;
  std::size_t parts = 0;
  ASSERT_TRUE(emit_mlir(Model::open(path_).value(), {.inline_below = inline_all},
                        [&](std::string_view part) -> Result<void> {
                          longest = std::max(longest, part.size());
                          ++parts;
                          return {};
                        }));
  EXPECT_LT(longest, 80'000U);
  EXPECT_GT(parts, 2U);
}

TEST_F(MlirElementsTest, many_booleans_are_written_in_parts) {
  std::string bytes(50'000, '\0');
  bytes[49'999] = '\1';
  const auto text = inlined_entry("bool", "[50000]", bytes);
  EXPECT_THAT(text, ::testing::StartsWith("dense<[false, false, "));
  EXPECT_THAT(text, ::testing::EndsWith(", false, true]> : tensor<50000xi1>"));
  EXPECT_EQ(std::ranges::count(text, ','), 49'999);
}

TEST_F(MlirElementsTest, unreadable_pages_are_errors) {
  const auto model = open(npy_file("|u1", false, "(65536,)", std::string(65536, 'x')));
  std::filesystem::resize_file(path_, 4096);
  std::string text;
  const auto done =
      emit_mlir(model, {.inline_below = inline_all}, [&](std::string_view part) -> Result<void> {
        text += part;
        return {};
      });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), ErrorCode::changed_underfoot) << to_string(done.error());
  EXPECT_EQ(done.error().tensor(), "t");
  // The fault handler replaces an unreadable page by zeros, which the module must not contain.
  EXPECT_EQ(text.find("00"), std::string::npos);
}

}  // namespace
}  // namespace ht::mlir_elements_test
