// Test files of other projects, in a folder beside this project if present.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

/// Sets `variable` to the path of a shared file or folder; skips the test with a message if it does not
/// exist.
#define HT_SHARED_OR_SKIP(variable, name)                                         \
  const std::filesystem::path variable = ::ht::testing::shared_folder() / (name); \
  if (!std::filesystem::exists(variable)) GTEST_SKIP() << variable << " does not exist"

namespace ht::testing {

/// The value of HT_SHARED, or else `../shared`. Tests run in the folder of the project.
inline std::filesystem::path shared_folder() {
  const char* const folder = std::getenv("HT_SHARED");
  return folder != nullptr ? folder : "../shared";
}

/// Returns the rows of a tab-separated table below its heading, each with as many cells as the heading.
inline std::vector<std::vector<std::string>> rows_of(const std::filesystem::path& table) {
  std::vector<std::vector<std::string>> rows;
  std::ifstream file(table);
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> cells;
    std::istringstream in(line + '\t');
    for (std::string cell; std::getline(in, cell, '\t');) cells.push_back(cell);
    if (!rows.empty()) cells.resize(rows[0].size());
    rows.push_back(std::move(cells));
  }
  EXPECT_GT(rows.size(), 1U) << table;
  if (!rows.empty()) rows.erase(rows.begin());
  return rows;
}

}  // namespace ht::testing
