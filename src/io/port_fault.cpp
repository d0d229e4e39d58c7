#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "base/fault_registry.hpp"
#include "io/port_parts.hpp"

namespace ht::inline v1::io {
namespace {

constinit std::mutex mutex;
int users = 0;
bool installed = false;
std::uintptr_t page_bytes = 0;

// A disposition of the signal that this handler has replaced. None is changed or freed: a handler on another
// thread may still read it after it is out of use.
struct Replaced {
  struct sigaction action{};
  const Replaced* next = nullptr;
};
constinit const Replaced by_default;
constinit const Replaced* replaced = &by_default;
constinit std::atomic<const Replaced*> previous = &by_default;

bool is_same(const struct sigaction& a, const struct sigaction& b) noexcept {
  return a.sa_handler == b.sa_handler && a.sa_flags == b.sa_flags &&
         std::memcmp(&a.sa_mask, &b.sa_mask, sizeof a.sa_mask) == 0;
}

// Under the mutex.
const Replaced* keep(const struct sigaction& action) {
  const auto* found = replaced;
  while (found != nullptr && !is_same(found->action, action)) found = found->next;
  if (found == nullptr) found = replaced = new Replaced{action, replaced};
  return found;
}

// The default action, now: a fault that is left to be raised again might not be, and the process would go on
// without this handler.
void end_process(int signal, siginfo_t* info, bool is_sent) noexcept {
  struct sigaction ours{};
  ::sigaction(signal, &by_default.action, &ours);
  sigset_t mask{};
  ::sigaddset(&mask, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &mask, nullptr);
  // With its address and cause, for whoever reads the core.
  ::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), ::gettid(), signal, info);
  // The first process of a container is still here. The system does not end it by a signal that was sent.
  if (!is_sent) std::abort();
  ::sigaction(signal, &ours, nullptr);
}

// What the system would do with the signal without this handler.
void pass_on(int signal, siginfo_t* info, void* context) {
  const auto* before = previous.load();
  const auto& action = before->action;
  // The system does not let a process ignore a fault, only a signal that was sent or that tells of a bad page
  // which nobody has touched.
  const bool is_sent = info->si_code <= 0 || info->si_code == BUS_MCEERR_AO;
  if (action.sa_handler == SIG_IGN && is_sent) return;
  if (action.sa_handler == SIG_IGN || action.sa_handler == SIG_DFL) return end_process(signal, info, is_sent);
  const auto has = [&](unsigned flag) { return (static_cast<unsigned>(action.sa_flags) & flag) != 0; };
  // Of two threads, the second finds the default.
  if (has(SA_RESETHAND) && !previous.compare_exchange_strong(before, &by_default)) {
    return pass_on(signal, info, context);
  }
  // The mask is that of the interrupted code again when this handler returns.
  sigset_t mask = action.sa_mask;
  if (!has(SA_NODEFER)) ::sigaddset(&mask, signal);
  ::pthread_sigmask(SIG_BLOCK, &mask, nullptr);
  if (has(SA_SIGINFO)) {
    action.sa_sigaction(signal, info, context);
  } else {
    action.sa_handler(signal);
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

bool map_fixed(std::uintptr_t address, std::uint64_t bytes, int flags, int file,
               std::int64_t offset) noexcept {
  return ::syscall(SYS_mmap, address, bytes, PROT_READ, flags | MAP_FIXED, file, offset) != -1;
}

FaultHandler::FaultHandler() {
  const std::lock_guard lock(mutex);
  if (installed) {
    ++users;
    return;
  }
  if (page_bytes == 0) {
    ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  }
  struct sigaction current{};
  ::sigaction(SIGBUS, nullptr, &current);
  // The earlier disposition is stored before the handler can need it.
  previous = keep(current);
  ++users;
  struct sigaction ours{};
  ours.sa_sigaction = on_sigbus;
  // On the alternate stack of the thread if there is one. The mask of an earlier handler is its own, and a
  // signal that is ignored interrupts no system call.
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART;
  installed = ::sigaction(SIGBUS, &ours, nullptr) == 0;
}

FaultHandler::~FaultHandler() {
  const std::lock_guard lock(mutex);
  if (--users > 0 || !installed) return;
  struct sigaction current{};
  if (::sigaction(SIGBUS, nullptr, &current) != 0) return;
  if ((current.sa_flags & SA_SIGINFO) == 0 || current.sa_sigaction != on_sigbus) return;
  installed = ::sigaction(SIGBUS, &previous.load()->action, nullptr) != 0;
}

}  // namespace ht::inline v1::io
