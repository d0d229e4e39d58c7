#include "cli/table.hpp"

#include <algorithm>

#include "cli/text.hpp"

namespace ht::cli {

std::string table(const std::vector<std::vector<std::string>>& lines,
                  std::initializer_list<std::size_t> right) {
  std::vector<std::size_t> widths;
  for (const auto& line : lines) {
    widths.resize(std::max(widths.size(), line.size()));
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], character_count(line[i]));
  }
  std::string out;
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::size_t padding = widths[i] - character_count(line[i]);
      const bool to_the_right = std::ranges::find(right, i) != right.end();
      if (i > 0) out += "  ";
      if (to_the_right) out.append(padding, ' ');
      out += line[i];
      if (!to_the_right && i + 1 < line.size()) out.append(padding, ' ');
    }
    out += '\n';
  }
  return out;
}

}  // namespace ht::cli
