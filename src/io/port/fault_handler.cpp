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
#include "io/port/fault_handler.hpp"

namespace ht::inline v1::io {
namespace {

constinit std::mutex mutex;
int users = 0;
bool installed = false;
std::uintptr_t page_bytes = 0;

// A signal disposition that this handler replaced, in a linked list without duplicates. Never changed or
// freed: a handler on another thread may still read it later.
struct Disposition {
  struct sigaction action{};
  const Disposition* next = nullptr;
};
constinit const Disposition default_disposition;
constinit const Disposition* dispositions = &default_disposition;
constinit std::atomic<const Disposition*> previous = &default_disposition;

// Compares only the part of the mask that the kernel fills in: glibc leaves the rest of a sigset_t
// uninitialized.
bool is_same(const struct sigaction& a, const struct sigaction& b) noexcept {
  constexpr std::size_t mask_bytes = _NSIG / 8;
  return a.sa_handler == b.sa_handler && a.sa_flags == b.sa_flags &&
         std::memcmp(&a.sa_mask, &b.sa_mask, mask_bytes) == 0;
}

// Returns the list's copy of a disposition; adds one if it has none. Called under the mutex.
const Disposition* find_or_add(const struct sigaction& action) {
  const auto* found = dispositions;
  while (found != nullptr && !is_same(found->action, action)) found = found->next;
  if (found == nullptr) found = dispositions = new Disposition{action, dispositions};
  return found;
}

// Runs the default action now. Returning with the default installed is not enough: the fault might not
// repeat, and the process would continue without this handler.
void end_process(int signal, siginfo_t* info, bool is_sent) noexcept {
  struct sigaction ours{};
  ::sigaction(signal, &default_disposition.action, &ours);
  sigset_t mask{};
  ::sigaddset(&mask, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &mask, nullptr);
  // Keeps the address and cause of the fault for the core dump.
  ::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), ::gettid(), signal, info);
  // Reached only in the init process of a container, which the kernel does not terminate by a sent signal.
  if (!is_sent) std::abort();
  ::sigaction(signal, &ours, nullptr);
}

// Does what the system would do if this handler were not installed.
void pass_on(int signal, siginfo_t* info, void* context) {
  const auto* disposition = previous.load();
  const auto& action = disposition->action;
  // A process cannot ignore a fault. It can ignore a sent signal, and a report of a bad page that it has not
  // accessed.
  const bool is_sent = info->si_code <= 0 || info->si_code == BUS_MCEERR_AO;
  if (action.sa_handler == SIG_IGN && is_sent) return;
  if (action.sa_handler == SIG_IGN || action.sa_handler == SIG_DFL) return end_process(signal, info, is_sent);
  const auto has = [&](unsigned flag) { return (static_cast<unsigned>(action.sa_flags) & flag) != 0; };
  // SA_RESETHAND: if two threads fault, the second gets the default action.
  if (has(SA_RESETHAND) && !previous.compare_exchange_strong(disposition, &default_disposition)) {
    return pass_on(signal, info, context);
  }
  // The signal mask of the interrupted code is restored when this handler returns.
  sigset_t mask = action.sa_mask;
  if (!has(SA_NODEFER)) ::sigaddset(&mask, signal);
  ::pthread_sigmask(SIG_BLOCK, &mask, nullptr);
  if (has(SA_SIGINFO)) {
    action.sa_sigaction(signal, info, context);
  } else {
    action.sa_handler(signal);
  }
}

// Replaces unreadable pages by zeros. Returns false if a fault at this address must not be handled, or on
// failure.
bool replace_pages(const void* address) {
  fault::Incident incident(address);
  const auto pages = incident.claim(page_bytes);
  if (!pages) return false;
  const int protection = pages->is_writable ? PROT_READ | PROT_WRITE : PROT_READ;
  return map_fixed(pages->begin, pages->end - pages->begin, protection,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

void on_sigbus(int signal, siginfo_t* info, void* context) {
  const int error_number = errno;
  // Other codes are sent signals, unaligned accesses and defective memory.
  const bool is_unreadable_page = info->si_code == BUS_ADRERR || info->si_code == BUS_OBJERR;
  const bool is_replaced = is_unreadable_page && replace_pages(info->si_addr);
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

bool map_fixed(std::uintptr_t address, std::uint64_t bytes, int protection, int flags, int file,
               std::int64_t offset) noexcept {
  return ::syscall(SYS_mmap, address, bytes, protection, flags | MAP_FIXED, file, offset) != -1;
}

FaultHandler::FaultHandler() {
  const std::lock_guard lock(mutex);
  struct sigaction current{};
  ::sigaction(SIGBUS, nullptr, &current);
  const bool is_reset = current.sa_handler == SIG_DFL || current.sa_handler == SIG_IGN;
  if (installed && !is_reset) {
    ++users;
    return;
  }
  if (page_bytes == 0) {
    ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  }
  // The earlier disposition is stored before the handler can need it.
  previous = find_or_add(current);
  ++users;
  struct sigaction ours{};
  ours.sa_sigaction = on_sigbus;
  // Uses the thread's alternate stack if it has one. SA_NODEFER: an earlier handler's own mask is applied by
  // `pass_on`. SA_RESTART: an ignored signal must not interrupt system calls.
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
