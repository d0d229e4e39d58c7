#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <mutex>

#include "base/fault_registry.hpp"
#include "io/fault_handler.hpp"
#include "io/port_map_fixed.hpp"

namespace ht::inline v1::io {
namespace {

constinit std::mutex mutex;
int users = 0;
bool installed = false;
// The disposition of the signal before. The handler reads it; it changes only while the handler is not
// installed.
struct sigaction previous{};
std::uintptr_t page_bytes = 0;

void pass_on(int signal, siginfo_t* info, void* context) {
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN) {
    // The fault is raised again as soon as this returns, and then ends the process. The system does not let
    // a process ignore a fault either.
    struct sigaction usual{};
    usual.sa_handler = SIG_DFL;
    ::sigaction(signal, &usual, nullptr);
    // A signal that another process sent is not raised again by itself.
    if (info->si_code <= 0) ::raise(signal);
  } else {
    previous.sa_handler(signal);
  }
}

// Whether pages were put in place of those that cannot be read.
bool replace_pages(const void* address) {
  fault::Incident incident(address);
  const auto pages = incident.claim(page_bytes);
  return pages && map_fixed(pages->begin, pages->end - pages->begin,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

void on_sigbus(int signal, siginfo_t* info, void* context) {
  const int error_number = errno;
  // Other codes are signals that were sent, and accesses that are not aligned.
  const bool about_a_page = info->si_code == BUS_ADRERR || info->si_code == BUS_OBJERR;
  const bool is_replaced = about_a_page && replace_pages(info->si_addr);
  errno = error_number;
  if (!is_replaced) pass_on(signal, info, context);
}

void before_fork() {
  mutex.lock();
  fault::before_fork();
}
void after_fork_in_parent() {
  fault::after_fork_in_parent();
  mutex.unlock();
}
void after_fork_in_child() {
  fault::after_fork_in_child();
  mutex.unlock();
}

}  // namespace

FaultHandler::FaultHandler() noexcept {
  const std::lock_guard lock(mutex);
  if (users++ > 0 || installed) return;
  if (page_bytes == 0) ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction ours{};
  ours.sa_sigaction = on_sigbus;
  // On the alternate stack of the thread if there is one; and not blocked while an earlier handler runs,
  // which may not return.
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  // The earlier disposition is stored before the handler can need it.
  installed = ::sigaction(SIGBUS, nullptr, &previous) == 0 && ::sigaction(SIGBUS, &ours, nullptr) == 0;
}

FaultHandler::~FaultHandler() {
  const std::lock_guard lock(mutex);
  if (--users > 0 || !installed) return;
  struct sigaction current{};
  if (::sigaction(SIGBUS, nullptr, &current) != 0) return;
  if ((current.sa_flags & SA_SIGINFO) == 0 || current.sa_sigaction != on_sigbus) return;
  installed = ::sigaction(SIGBUS, &previous, nullptr) != 0;
}

}  // namespace ht::inline v1::io
