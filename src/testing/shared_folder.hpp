// Files of other projects that lie beside this one, where they do.
#pragma once

#include <cstdlib>
#include <filesystem>

/// The path of a file or folder of them; the test is skipped, and says so, where it is not there.
#define HT_SHARED_OR_SKIP(variable, name)                                         \
  const std::filesystem::path variable = ::ht::testing::shared_folder() / (name); \
  if (!std::filesystem::exists(variable)) GTEST_SKIP() << variable << " is not there"

namespace ht::testing {

/// Beside the project, whose folder tests run in, or where HT_SHARED says.
inline std::filesystem::path shared_folder() {
  const char* const folder = std::getenv("HT_SHARED");
  return folder != nullptr ? folder : "../shared";
}

}  // namespace ht::testing
