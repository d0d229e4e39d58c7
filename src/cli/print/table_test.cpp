#include "cli/print/table.hpp"

#include <gtest/gtest.h>

#include <array>

namespace ht::cli::table_test {
namespace {

const std::vector<Column> columns{
    {.title = "name", .shortens = true}, {.title = "shape"}, {.title = "bytes", .right = true}};
constexpr std::array<std::int64_t, 2> dims{4, 1000};

std::string printed(const std::vector<std::string>& names, std::size_t max_columns) {
  std::string text;
  {
    OutputBuffer out(text);
    Table table(out, columns, max_columns);
    const auto add_rows = [&] {
      for (const auto& name : names) {
        table.name(name);
        table.shape(dims);
        table.size(2048);
      }
    };
    add_rows();
    table.start_printing();
    add_rows();
  }
  return text;
}

TEST(Table, columns_are_as_wide_as_their_widest_cell) {
  EXPECT_EQ(printed({"a", "", "模型"}, 0),
            "name  shape      bytes\n"
            "a     [4, 1000]     2K\n"
            "''    [4, 1000]     2K\n"
            "模型  [4, 1000]     2K\n");
}

TEST(Table, names_are_shortened_to_fit_the_terminal) {
  const std::string name = "model.layers.0.weight";
  EXPECT_EQ(printed({name, "b"}, 0),
            "name                   shape      bytes\n"
            "model.layers.0.weight  [4, 1000]     2K\n"
            "b                      [4, 1000]     2K\n");
  EXPECT_EQ(printed({name, "b"}, 30),
            "name          shape      bytes\n"
            "model.…eight  [4, 1000]     2K\n"
            "b             [4, 1000]     2K\n");
}

TEST(Table, names_keep_a_few_columns_in_the_narrowest_terminal) {
  EXPECT_EQ(printed({"model.layers.0.weight"}, 1),
            "name      shape      bytes\n"
            "mode…ght  [4, 1000]     2K\n");
}

TEST(Table, a_very_long_name_does_not_widen_other_rows) {
  const auto text = printed({std::string(100'000, 'x'), "b"}, 0);
  EXPECT_NE(text.find(std::string(100'000, 'x') + "  [4, 1000]     2K\n"), std::string::npos);
  EXPECT_LT(text.size(), 102'000U);
}

TEST(OutputBuffer, text_larger_than_the_buffer_is_printed) {
  std::string text;
  {
    OutputBuffer out(text);
    for (std::uint64_t i = 0; i < 100'000; ++i) {
      out.append(i, '\n');
    }
    out += std::string(200'000, 'x');
    out.append_spaces(200'000);
  }
  EXPECT_EQ(text.size(), 588'890U + 400'000U);
  EXPECT_TRUE(text.starts_with("0\n1\n2\n"));
  EXPECT_EQ(text.find("99999\nxxx"), 588'890U - 6);
}

TEST(OutputBuffer, discarded_text_is_not_printed) {
  std::string text;
  {
    OutputBuffer out(text);
    out += "printed";
    out.flush();
    out += "discarded";
    out.discard();
  }
  EXPECT_EQ(text, "printed");
}

TEST(Table, table_is_built_from_lines_of_cells) {
  EXPECT_EQ(table({{"a", "n"}, {"text", "1"}, {"t", "10"}}, {1}), "a      n\ntext   1\nt     10\n");
}

}  // namespace
}  // namespace ht::cli::table_test
