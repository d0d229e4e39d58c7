// Columns for people.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

namespace ht::cli {

/// Lines of cells, each column as wide as it has to be. These columns, which are numbers, stand to the right.
[[nodiscard]] std::string table(const std::vector<std::vector<std::string>>& lines,
                                std::initializer_list<std::size_t> right);

}  // namespace ht::cli
