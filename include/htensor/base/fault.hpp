// Mapped pages that cannot be read become an Error instead of ending the process.
//
// A mapped file is read when its pages are accessed. If the file was truncated, or its disk or network has
// failed, the system sends SIGBUS, which terminates the process by default. `guarded(ranges, body)` runs
// `body` and returns its result, or an Error if any thread failed to read a page of `ranges` meanwhile:
//
//   const auto sum = HT_TRY(ht::guarded(tensor.storage().bytes(), [&] { return sum_of(tensor); }));
//
// A call of `guarded` opens a section over its ranges, the guarded ranges. A fault does not stop `body`: a
// signal handler replaces unreadable pages with zeros, `body` runs to its end, and the section discards the
// result. The handler replaces the unreadable page and the pages after it, up to the nearest of these: the
// end of a guarded range that contains the unreadable page, the beginning of another guarded range, the end
// of the mapping. Each section restores the pages of the file in its ranges when it begins and when it ends.
// Every section that was open over a replaced page reports the fault, even if another section restored the
// page first: `changed_underfoot` if the file shrank below the page, else `read_failed`. Threads without a
// section read zeros until the pages are restored. A fault outside of all sections calls the previously
// installed handler, or terminates the process, unless the policy is `zero_fill`. Without a fault, a section
// costs two atomic exchanges per range.
//
// Private, writable mappings (`AnyTensor::private_storage`) are an exception, because they may contain
// writes. In such a mapping, the handler replaces only the unreadable page, and sections do not restore it.
// Every later section over this page, or over a page after it in the mapping, reports the fault.
//
// Bytes between the end of a truncated file and the end of its last page read as zeros without a fault.
//
// A thread that reads mapped pages must not block SIGBUS: if it does, a fault terminates the process. Threads
// of the library unblock SIGBUS; a program that blocks all signals must leave SIGBUS unblocked.
//
// All routines of the library that return a Result guard the mapped bytes that they read; `operator()`,
// iterators and `bytes` do not. `guarded` does not own the memory: the caller keeps it mapped during the
// call.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

namespace ht::inline v1 {

/// The behaviour when a page of a mapped file cannot be read.
enum class FaultPolicy : std::uint8_t {
  /// An Error in routines of the library and under `guarded`; elsewhere SIGBUS as without the library.
  guarded,
  /// No signal handler is installed for the file, so an access to an unreadable mapped page is SIGBUS, also
  /// under `guarded`. Routines that take a Model or an AnyTensor read the file with system calls instead, so
  /// an unreadable page is an Error. Routines that take a Tensor, a Storage or bytes access the mapped pages:
  /// `Tensor::at`, `Tensor::copy`, `cast`, arithmetic, `write`, `save`, `verify`.
  off,
  /// Same as `guarded`, but outside of all sections, an unreadable page reads as zeros, and only this page is
  /// replaced. `Model::fault` reports the first replaced page, even if a section contains it.
  zero_fill,
};

namespace fault {

struct SectionSlot;

/// Reports faults in ranges of memory between construction and `end`. Sections nest, and several threads may
/// have sections open over the same ranges. A section begins and ends on one thread. Prefer `guarded`.
class Section {
 public:
  explicit Section(std::span<const Bytes> ranges) noexcept;
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;
  ~Section();

  /// False if out of memory: the section then does not cover all ranges.
  [[nodiscard]] bool has_begun() const noexcept { return has_begun_; }
  /// Ends the section and returns the first fault of one of its ranges, if any. `body_error` is the Error of
  /// a failed body, or null. If its cause is EFAULT, a system call may have failed on an unreadable page, and
  /// `end` reads the ranges to find that page.
  [[nodiscard]] std::optional<Error> end(const Error* body_error = nullptr) noexcept;

 private:
  SectionSlot* slots_ = nullptr;  // one for each range that is not empty
  bool has_begun_ = true;
};

}  // namespace fault

/// Runs `body` and returns its result, or the Error of a page in `ranges` that any thread failed to read
/// meanwhile. Exceptions of `body` propagate. Faults outside of the ranges are not covered.
template <class Body>
[[nodiscard]] auto guarded(std::span<const Bytes> ranges, Body&& body) {
  using BodyResult = std::invoke_result_t<Body>;
  using Guarded = std::conditional_t<is_result<BodyResult>, BodyResult, Result<BodyResult>>;
  fault::Section section(ranges);
  if (!section.has_begun()) return Guarded(fail(Error(ErrorCode::out_of_memory)));
  if constexpr (std::is_void_v<BodyResult>) {
    std::forward<Body>(body)();
    auto error = section.end();
    return error ? Guarded(fail(*std::move(error))) : Guarded();
  } else {
    Guarded result = std::forward<Body>(body)();
    // A result that was computed from zeros is invalid, whether a value or an Error.
    if (auto error = section.end(result ? nullptr : &result.error())) result = fail(*std::move(error));
    return result;
  }
}
template <class Body>
[[nodiscard]] auto guarded(Bytes range, Body&& body) {
  return guarded(std::span<const Bytes>(&range, 1), std::forward<Body>(body));
}

}  // namespace ht::inline v1
