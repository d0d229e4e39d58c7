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
// What the signal meant before. The handler reads it; it changes only while the handler is not in place.
struct sigaction previous{};
std::uintptr_t page_bytes = 0;

void pass_on(int signal, siginfo_t* info, void* context) {
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN) {
    // The fault comes again as soon as this returns, and then has its usual end. Ignoring it cannot be meant:
    // the system does not allow that either.
    struct sigaction usual{};
    usual.sa_handler = SIG_DFL;
    ::sigaction(signal, &usual, nullptr);
    // One that somebody sent does not come again by itself.
    if (info->si_code <= 0) ::raise(signal);
  } else {
    previous.sa_handler(signal);
  }
}

void on_sigbus(int signal, siginfo_t* info, void* context) {
  const int error_number = errno;
  // Sent by somebody, or by an access that is not aligned: not about a page that is gone.
  const bool about_a_page = info->si_code == BUS_ADRERR || info->si_code == BUS_OBJERR;
  const auto hit = about_a_page ? fault::find(info->si_addr) : std::nullopt;
  if (hit) {
    fault::Report report(*hit);
    const auto page = reinterpret_cast<std::uintptr_t>(info->si_addr) / page_bytes * page_bytes;
    if (map_fixed(page, hit->end - page, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
      report.set_zeros(info->si_addr, page);
      errno = error_number;
      return;
    }
  }
  errno = error_number;
  pass_on(signal, info, context);
}

}  // namespace

FaultHandler::FaultHandler() noexcept {
  const std::lock_guard lock(mutex);
  if (users++ > 0 || installed) return;
  page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction ours{};
  ours.sa_sigaction = on_sigbus;
  // On the thread's other stack where it has one; and not blocked while an earlier handler runs, which may
  // not come back.
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  // Known before it can be needed.
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
