#include "bench/process.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace ht::process_test {
namespace {

// Returns the message of the exception that a run of the command throws.
std::string message_of(const std::vector<std::string>& command) {
  try {
    static_cast<void>(bench::run_process(command));
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no exception";
}

TEST(RunProcess, names_the_program_that_failed) {
  EXPECT_EQ(message_of({"/bin/sh", "-c", "exit 3"}), "/bin/sh -c exit 3: exited with status 3");
  EXPECT_EQ(message_of({"/bin/sh", "-c", "kill -9 $$"}), "/bin/sh -c kill -9 $$: killed by signal 9");
  EXPECT_EQ(message_of({"/nonexistent"}), "/nonexistent: No such file or directory");
}

TEST(RunProcess, measures_a_program) {
  EXPECT_GT(bench::run_process({"/bin/sh", "-c", "exit 0"}).wall_ms, 0);
}

}  // namespace
}  // namespace ht::process_test
