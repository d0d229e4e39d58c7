// Mapped pages that cannot be read become an Error instead of ending the process.
//
// A mapped file is read when its pages are touched. By then the file may have been truncated, its disk may
// have failed, its network may be gone; the system then sends SIGBUS, which ends the process by default.
// `guarded` names the bytes that a computation reads and returns an Error if one of their pages cannot be
// read meanwhile, on whatever thread:
//
//   const auto sum = HT_TRY(ht::guarded(tensor.storage().bytes(), [&] { return sum_of(tensor); }));
//
// The computation runs to its end: a signal handler replaces the unreadable pages with zeros, the result is
// discarded, and the file's own pages are back when `guarded` returns. A section that begins or ends over
// replaced pages restores them, also where other sections are open over them: these have their Error already,
// and fault again if they read on. Threads that read replaced pages unguarded meanwhile read zeros. Without a
// covering section the fault is the process's own: the handler that was installed before, else the end of the
// process. Without a fault, a section costs two atomic exchanges.
//
// A thread that reads mapped pages must not block SIGBUS: the system ends a process that faults in such a
// thread. Threads of the library unblock it; a program that blocks all signals leaves SIGBUS out.
//
// All routines of the library that return a Result guard the mapped bytes that they read; `operator()`,
// iterators and `bytes` do not.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

namespace ht::inline v1 {

/// What a page of a mapped file that cannot be read becomes.
enum class FaultPolicy : std::uint8_t {
  /// An Error in routines of the library and under `guarded`; elsewhere the process's own fault.
  guarded,
  /// The process's own fault everywhere: no signal handler is installed for the file. Routines that take a
  /// Model or an AnyTensor read the file by system calls. Routines that take a Tensor, a Storage or bytes
  /// touch
  /// its pages: `Tensor::at` and `copy`, `cast`, arithmetic, `write`, `save`, `validate` of a Storage or
  /// Tensor.
  off,
  /// The same as `guarded`, but zeros where no section covers the page; `Model::fault` reports the first.
  zero_fill,
};

namespace fault {

struct SectionSlot;

/// A stretch of time in which faults in some ranges of memory are reported. Sections nest, and may be open on
/// many threads over the same ranges. Use `guarded`.
class Section {
 public:
  explicit Section(std::span<const Bytes> ranges) noexcept;
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;
  ~Section() {
    if (slots_ != nullptr) static_cast<void>(end());
  }

  /// False if out of memory: the ranges are not published.
  [[nodiscard]] bool has_begun() const noexcept { return has_begun_; }
  /// Ends the section and returns its first fault. A body that failed passes its Error: "bad address" of a
  /// system call may be a page that cannot be read.
  [[nodiscard]] std::optional<Error> end(const Error* of_body = nullptr) noexcept;

 private:
  SectionSlot* slots_ = nullptr;  // one for each range that is not empty
  bool has_begun_ = true;
};

}  // namespace fault

/// Runs `body` and returns its result, or the Error of a page in `ranges` that could not be read meanwhile.
/// Exceptions of `body` pass through. Faults outside of the ranges are not covered.
template <class Body>
[[nodiscard]] auto guarded(std::span<const Bytes> ranges, Body&& body) {
  using Answer = std::invoke_result_t<Body>;
  using Guarded = std::conditional_t<is_result<Answer>, Answer, Result<Answer>>;
  fault::Section section(ranges);
  if (!section.has_begun()) return Guarded(fail(Error(ErrorCode::out_of_memory)));
  if constexpr (std::is_void_v<Answer>) {
    std::forward<Body>(body)();
    auto error = section.end();
    return error ? Guarded(fail(*std::move(error))) : Guarded();
  } else {
    Guarded answer = std::forward<Body>(body)();
    // A result that was computed from zeros is void, be it a value or an Error.
    if (auto error = section.end(answer ? nullptr : &answer.error())) answer = fail(*std::move(error));
    return answer;
  }
}
template <class Body>
[[nodiscard]] auto guarded(Bytes range, Body&& body) {
  return guarded(std::span<const Bytes>(&range, 1), std::forward<Body>(body));
}

}  // namespace ht::inline v1
