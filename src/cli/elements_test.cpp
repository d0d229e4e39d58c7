#include "cli/elements.hpp"

#include <gtest/gtest.h>

#include "format/safetensors/test_file.hpp"
#include "model/test_formats.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::cli {
namespace {

using testing::irpa_file;
using testing::npy_file;
using testing::tensor_note;

class Elements : public ::testing::Test {
 protected:
  // The elements of the only tensor, with spaces between.
  std::string elements(const std::vector<std::byte>& file, std::vector<std::int64_t> indices) {
    testing::write_file(folder_ / "t", file);
    auto printer = ElementPrinter::of(Model::open(folder_ / "t").value().at(0).value(), false).value();
    fmt::memory_buffer out;
    for (const auto index : indices) {
      if (out.size() != 0) out.push_back(' ');
      EXPECT_TRUE(printer.append(out, index));
    }
    return fmt::to_string(out);
  }
  std::string splat(std::string_view dtype, std::string_view shape, std::uint64_t bytes, std::string pattern,
                    std::vector<std::int64_t> indices) {
    const auto note = tensor_note(dtype, shape);
    return elements(irpa_file({{.name = "t", .note = note, .length = bytes, .pattern = std::move(pattern)}}),
                    std::move(indices));
  }

  testing::TemporaryFolder folder_;
};

TEST_F(Elements, of_both_byte_orders_are_read) {
  EXPECT_EQ(elements(npy_file("<u2", false, "(2,)", std::string("\0\1\2\3", 4)), {0, 1}), "256 770");
  EXPECT_EQ(elements(npy_file(">u2", false, "(2,)", std::string("\0\1\2\3", 4)), {1, 0}), "515 1");
}

TEST_F(Elements, complex_numbers_are_swapped_by_halves) {
  // 1 and 2 as big-endian F32.
  EXPECT_EQ(elements(npy_file(">c8", false, "(1,)", std::string("\x3F\x80\0\0\x40\0\0\0", 8)), {0}), "(1,2)");
}

TEST_F(Elements, are_counted_in_row_major_order) {
  EXPECT_EQ(elements(npy_file("|u1", true, "(2, 3)", "\1\4\2\5\3\6"), {0, 1, 2, 3, 4, 5}), "1 2 3 4 5 6");
}

TEST_F(Elements, are_found_in_any_order) {
  std::string data;
  for (int i = 0; i < 10'000; ++i) data += {static_cast<char>(i & 0xFF), static_cast<char>(i >> 8)};
  EXPECT_EQ(
      elements(npy_file("<u2", false, "(10000,)", data), {9999, 0, 7, 8, 4095, 4096, 4097, 8192, 5, 9998}),
      "9999 0 7 8 4095 4096 4097 8192 5 9998");
}

TEST_F(Elements, splats_of_any_size_cost_a_group) {
  const std::uint64_t large = std::uint64_t{1} << 50;
  EXPECT_EQ(splat("uint8", "[1125899906842624]", large, "\1\2", {0, 1, 2, 1'125'899'906'842'623}), "1 2 1 2");
  // An element is made of two patterns.
  EXPECT_EQ(splat("uint32", "[281474976710656]", large, "\1\2", {0, 281'474'976'710'655}),
            "33620481 33620481");
}

TEST_F(Elements, packed_ones_are_read_from_within_a_byte) {
  EXPECT_EQ(splat("uint4", "[64]", 32, "\x21", {0, 1, 2, 63}), "1 2 1 2");
  EXPECT_EQ(splat("float6_e2m3fn", "[64]", 48, std::string(16, '\0'), {0, 1, 63}), "0 0 0");
}

}  // namespace
}  // namespace ht::cli
