// Blocks SIGBUS, like a program that handles its signals on one thread.
#pragma once

#include <csignal>

namespace ht::testing {

class BlockedSigbus {
 public:
  BlockedSigbus() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGBUS);
    pthread_sigmask(SIG_BLOCK, &signals, &before_);
  }
  BlockedSigbus(const BlockedSigbus&) = delete;
  BlockedSigbus& operator=(const BlockedSigbus&) = delete;
  ~BlockedSigbus() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  /// Whether the calling thread blocks SIGBUS.
  [[nodiscard]] static bool is_blocked() {
    sigset_t signals;
    pthread_sigmask(SIG_BLOCK, nullptr, &signals);
    return sigismember(&signals, SIGBUS) == 1;
  }

 private:
  sigset_t before_{};
};

}  // namespace ht::testing
