#include "bench/process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "bench/harness/must.hpp"

extern char** environ;

namespace ht::bench {
namespace {

std::string text_of(const std::vector<std::string>& command) {
  std::string text = command[0];
  for (std::size_t i = 1; i < command.size(); ++i) text += ' ' + command[i];
  return text;
}

}  // namespace

ProcessCost run_process(const std::vector<std::string>& command, const std::filesystem::path& output) {
  std::vector<char*> arguments;
  for (const auto& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                   0600);
  pid_t child = 0;
  const auto begin = std::chrono::steady_clock::now();
  errno = posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  system_must(errno == 0, text_of(command));
  int status = 0;
  rusage usage{};
  system_must(wait4(child, &status, 0, &usage) == child, "wait4");
  const std::chrono::duration<double, std::milli> wall = std::chrono::steady_clock::now() - begin;
  must(status == 0, text_of(command) + (WIFSIGNALED(status)
                                            ? ": killed by signal " + std::to_string(WTERMSIG(status))
                                            : ": exited with status " + std::to_string(WEXITSTATUS(status))));
  const auto ms = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
  };
  return ProcessCost{wall.count(), ms(usage.ru_utime) + ms(usage.ru_stime)};
}

}  // namespace ht::bench
