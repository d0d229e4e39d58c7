#include "testing/child_process.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <memory>

namespace ht::testing {
namespace {

// `noexcept`: an exception ends the child instead of continuing with the other tests.
int run(const std::function<int()>& body) noexcept { return body(); }

pid_t start(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(run(body));
  return child;
}

// The status as waitpid returns it.
int wait_for(pid_t child) {
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) ADD_FAILURE() << "cannot start a child process";
  return status;
}

}  // namespace

int status_in_child(const std::function<int()>& body) {
  const int status = wait_for(start(body));
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool finishes_in_child(const std::function<bool()>& body, const std::function<void(pid_t)>& meanwhile) {
  const pid_t child = start([&] { return body() ? 0 : 1; });
  if (meanwhile && child > 0) meanwhile(child);
  const int status = wait_for(child);
  if (WIFSIGNALED(status)) {
    EXPECT_EQ(WTERMSIG(status), SIGKILL);
    return false;
  }
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the child failed";
  return true;
}

void kill_before(FaultyPort& port, int nth, bool (*is_counted)(Call)) {
  // Several threads may make calls.
  const auto left = std::make_shared<std::atomic<int>>(nth);
  port.before_each([left, is_counted](Call call, int) {
    if (is_counted(call) && (*left)-- == 0) raise(SIGKILL);
  });
}

bool hide_mounts() {
  return unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

bool mount_small_disk(const std::filesystem::path& folder, const std::string& size) {
  return hide_mounts() && mount("none", folder.c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0;
}

}  // namespace ht::testing
