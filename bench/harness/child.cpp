#include "bench/harness/child.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <fstream>

#include "bench/harness/must.hpp"

extern char** environ;

namespace ht::bench {
namespace {

// Redirects stdout and stderr to `output`.
pid_t start(const std::vector<std::string>& command, int output) {
  std::vector<char*> arguments;
  for (const auto& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  pid_t child = -1;
  errno = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  system_must(errno == 0, command[0]);
  return child;
}

std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    const auto count = ::read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

ChildResult run_child(const std::vector<std::string>& command) {
  std::array<int, 2> ends{};
  system_must(::pipe2(ends.data(), O_CLOEXEC) == 0, "pipe2");
  pid_t child = -1;
  try {
    child = start(command, ends[1]);
  } catch (...) {
    ::close(ends[0]);
    ::close(ends[1]);
    throw;
  }
  ::close(ends[1]);
  ChildResult result{.captured = read_all(ends[0])};
  ::close(ends[0]);
  system_must(::waitpid(child, &result.wait_status, 0) == child, "waitpid");
  return result;
}

std::string run_or_fail(const std::vector<std::string>& command) {
  auto result = run_child(command);
  must(result.wait_status == 0, command[0] + " failed: " + result.captured);
  return std::move(result.captured);
}

std::vector<std::string> dd_command(const std::filesystem::path& source,
                                    const std::filesystem::path& target) {
  return {"dd",        "if=" + source.string(), "of=" + target.string(),
          "bs=4M",     "iflag=direct",          "oflag=direct",
          "conv=fsync"};
}

RunningChild::RunningChild(const std::vector<std::string>& command) {
  const int null_device = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  system_must(null_device >= 0, "/dev/null");
  child_ = start(command, null_device);
  ::close(null_device);
}

bool RunningChild::has_ended() {
  if (child_ > 0 && ::waitpid(child_, nullptr, WNOHANG) == child_) child_ = -1;
  return child_ < 0;
}

void RunningChild::end() {
  if (child_ < 0) return;
  ::kill(child_, SIGTERM);
  ::waitpid(child_, nullptr, 0);
  child_ = -1;
}

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

std::uint64_t status_bytes(std::string_view field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(std::string(field) + ':')) return std::stoull(line.substr(field.size() + 1)) * 1024;
  }
  throw std::runtime_error("the system does not report " + std::string(field));
}

}  // namespace ht::bench
