// Test files of other projects, in a folder beside this project if present.
#pragma once

#include <cstdlib>
#include <filesystem>

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

}  // namespace ht::testing
