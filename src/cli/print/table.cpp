#include "cli/print/table.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "cli/print/text.hpp"

namespace ht::cli {
namespace {

constexpr std::string_view gap = "  ";

// A shorter name is not recognisable.
constexpr std::size_t min_shortened = 8;
// Longer names are not aligned, so that one very long name does not pad all other rows.
constexpr std::size_t max_aligned = 256;

}  // namespace

Table::Table(OutputBuffer& out, const std::vector<Column>& columns)
    : Table(out, columns, terminal_columns(STDOUT_FILENO)) {}

Table::Table(OutputBuffer& out, const std::vector<Column>& columns, std::size_t max_columns)
    : out_(out), max_columns_(max_columns) {
  columns_.reserve(columns.size());
  for (const auto& column : columns) columns_.push_back({column, display_width(column.title)});
}

void Table::start_printing() {
  if (max_columns_ > 0) fit();
  for (auto& each : columns_) each.width = std::min(each.width, max_aligned);
  printing_ = true;
  for (const auto& each : columns_) printable_text(each.column.title, display_width(each.column.title));
}

// Narrows the widest column that may be shortened, one character at a time, until the table fits or all such
// columns have the minimum width.
void Table::fit() {
  const std::size_t max_column_width = std::max(max_columns_, min_shortened);
  std::size_t total = gap.size() * (columns_.size() - 1);
  for (auto& each : columns_) {
    if (each.column.shortens && each.width > max_column_width) {
      each.width = max_column_width;
      each.is_shortened = true;
    }
    total += each.width;
  }
  for (; total > max_columns_; --total) {
    const auto width = [](const SizedColumn& each) { return each.column.shortens ? each.width : 0; };
    const auto widest = std::ranges::max_element(columns_, {}, width);
    if (width(*widest) <= min_shortened) return;
    --widest->width;
    widest->is_shortened = true;
  }
}

template <class Print>
void Table::cell(std::size_t width, const Print& print) {
  auto& [column, column_width, is_shortened] = columns_[next_];
  const bool is_last = ++next_ == columns_.size();
  if (is_last) next_ = 0;
  if (!printing_) {
    column_width = std::max(column_width, width);
    return;
  }
  const std::size_t padding = column_width - std::min(width, column_width);
  if (column.right) out_.append_spaces(padding);
  print();
  if (is_last) {
    out_ += '\n';
    return;
  }
  out_.append_spaces(gap.size() + (column.right ? 0 : padding));
}

void Table::printable_text(std::string_view text, std::size_t width) {
  const auto& column = columns_[next_];
  if (printing_ && column.is_shortened && width > column.width) {
    const std::string cut = shorten_middle(text, column.width);
    return cell(display_width(cut), [&] { out_ += cut; });
  }
  cell(width, [&] { out_ += text; });
}

void Table::text(std::string_view text) {
  if (is_plain(text)) return printable_text(text, text.size());
  const std::string clean = printable(text);
  printable_text(clean, display_width(clean));
}

void Table::number(std::uint64_t number) {
  cell(digit_count(number), [&] { out_ += number; });
}

void Table::size(std::uint64_t bytes) {
  SizeBuffer buffer;
  const std::size_t length = write_size(buffer, bytes);
  cell(length, [&] { out_ += std::string_view(buffer.data(), length); });
}

void Table::shape(std::span<const std::int64_t> dims) {
  std::size_t width = 2 + (dims.empty() ? 0 : 2 * (dims.size() - 1));
  for (const std::int64_t dim : dims) width += digit_count(static_cast<std::uint64_t>(dim));
  cell(width, [&] { append_shape(out_, dims, ", "); });
}

std::string table(const std::vector<std::vector<std::string>>& lines,
                  std::initializer_list<std::size_t> right) {
  std::vector<Column> columns;
  for (const auto& title : lines.front()) {
    const bool is_number = std::ranges::find(right, columns.size()) != right.end();
    columns.push_back({title, is_number, !is_number});
  }
  std::string text;
  {
    OutputBuffer out(text);
    Table printed(out, columns);
    printed.print([&] {
      for (const auto& line : std::span(lines).subspan(1)) {
        for (const auto& cell : line) printed.text(cell);
      }
    });
  }
  return text;
}

}  // namespace ht::cli
