// Text tables with aligned columns.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/print/output.hpp"

namespace ht::cli {

struct Column {
  std::string_view title;
  /// Numbers are aligned to the right.
  bool right = false;
  /// Whether the middle of a text may be left out if the terminal is too narrow.
  bool shortens = false;
};

/// A table that is printed in two passes over its rows, so that no row is kept: the first pass measures
/// the columns, and after `start_printing` the second pass prints the same rows.
///
///   table.print([&] {
///     for (const auto& row : rows) table.name(row.name), table.size(row.bytes);
///   });
///
/// Cells are added from left to right; a row ends with its last column.
class Table {
 public:
  /// The titles must outlive the table. A table wider than `max_columns` is shortened; 0 means unlimited.
  /// Unless given, the limit is the terminal's width if standard output is a terminal.
  Table(OutputBuffer& out, const std::vector<Column>& columns);
  Table(OutputBuffer& out, const std::vector<Column>& columns, std::size_t max_columns);

  /// Runs both passes. `add_rows` adds all cells and is called twice.
  template <class AddRows>
  void print(const AddRows& add_rows) {
    add_rows();
    start_printing();
    add_rows();
  }
  void start_printing();

  /// A text, escaped to be printable.
  void text(std::string_view text);
  /// The same, with '' for an empty name.
  void name(std::string_view name) { text(name.empty() ? std::string_view("''") : name); }
  void number(std::uint64_t number);
  /// A size such as 2.5G.
  void size(std::uint64_t bytes);
  /// A shape such as [4, 8].
  void shape(std::span<const std::int64_t> dims);

 private:
  struct SizedColumn {
    Column column;
    std::size_t width;
    bool is_shortened = false;
  };

  void printable_text(std::string_view text, std::size_t width);
  /// Calls `print` for a cell of this width, with the spaces that align it.
  template <class Print>
  void cell(std::size_t width, const Print& print);
  void fit();

  OutputBuffer& out_;
  std::vector<SizedColumn> columns_;
  std::size_t max_columns_;
  std::size_t next_ = 0;
  bool printing_ = false;
};

/// A table of these lines, the first being its titles. The columns in `right` are numbers; the others are
/// shortened if the terminal is too narrow.
[[nodiscard]] std::string table(const std::vector<std::vector<std::string>>& lines,
                                std::initializer_list<std::size_t> right);

}  // namespace ht::cli
