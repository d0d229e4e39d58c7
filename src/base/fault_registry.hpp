// What a signal handler may do with registered memory. It may run on any thread at any moment, so nothing
// here locks, allocates or waits.
#pragma once

#include <cstdint>
#include <optional>

namespace ht::inline v1::fault {

struct Slot;

/// Registered memory around an address.
struct Hit {
  Slot* slot;
  std::uintptr_t end;
};

[[nodiscard]] std::optional<Hit> find(const void* address) noexcept;

/// Tells all sections that something happens to this memory: made before zeros are put there, so that nobody
/// can find them and not hear of it.
class Report {
 public:
  explicit Report(const Hit& hit) noexcept;
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;
  ~Report();

  /// Zeros stand in for what could not be read, from this page on. Else it was a false alarm.
  void set_zeros(const void* address, std::uintptr_t page) noexcept;

 private:
  Hit hit_;
  std::uint64_t number_;
  std::uintptr_t address_ = 0;
  std::uintptr_t page_ = 0;
};

}  // namespace ht::inline v1::fault
