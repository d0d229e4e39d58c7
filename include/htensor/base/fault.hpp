// Pages that cannot be read become an Error instead of ending the process.
//
// A mapped file is read when it is touched. By then it may have been truncated, its disk may be broken, its
// network gone; the system then sends SIGBUS, whose default is to kill. While a mapping is registered here, a
// handler puts zero pages in the place of what cannot be read and remembers where, and whoever touched it
// under `guarded` gets the Error:
//
//   const auto sum = HT_TRY(ht::guarded([&] { return sum_of(tensor); }));
//
// What was computed from the zeros is thrown away. Nothing jumps out of a handler, so the fault may come on
// any thread, in any library's code. Whoever touches mapped bytes outside of `guarded` lives on, and sees
// zeros. Without a fault, a section costs a few loads.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

namespace ht::inline v1 {
namespace fault {

/// What registered memory is a view of.
class Source {
 public:
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;

  /// What is wrong with the byte at `offset` of the memory.
  [[nodiscard]] virtual Error describe(std::uint64_t offset) const = 0;
  /// Puts the source's own pages back from `offset` (a multiple of a page) to the end, so that touching them
  /// tells again. Whether that could be done.
  [[nodiscard]] virtual bool restore(std::uint64_t offset) noexcept = 0;
};

/// Memory is registered as long as this lives. It begins at a page; `source` has to outlive it.
class Range {
 public:
  Range() noexcept = default;
  [[nodiscard]] static Result<Range> add(Bytes memory, Source& source);

  Range(Range&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}
  Range& operator=(Range&& other) noexcept {
    std::swap(slot_, other.slot_);
    return *this;
  }
  ~Range();

 private:
  explicit Range(void* slot) noexcept : slot_(slot) {}
  void* slot_ = nullptr;
};

/// A stretch of time that wants to know of faults, on whatever thread they come: where one has put zeros, all
/// others find zeros. Sections nest and may be open on many threads at once.
class Section {
 public:
  /// Those in these pieces of memory alone, which have to be named for as long as the section is used;
  /// without any, all faults are told.
  explicit Section(std::span<const Bytes> touched = {}) noexcept;

  /// The first fault since it began.
  [[nodiscard]] std::optional<Error> error() const;

 private:
  std::span<const Bytes> touched_;
  std::uint64_t begin_;
};

/// Reads a byte of every page, so that a section hears of those that cannot be read.
void touch(Bytes memory) noexcept;

}  // namespace fault

/// Runs `body` and gives its answer, or the Error of a page that could not be read meanwhile. What `body`
/// throws goes through. Where it is known what is touched, faults that others have elsewhere at the same time
/// do not count.
template <class Body>
[[nodiscard]] auto guarded(std::span<const Bytes> touched, Body&& body) {
  using Answer = std::invoke_result_t<Body>;
  const fault::Section section(touched);
  if constexpr (std::is_void_v<Answer>) {
    std::forward<Body>(body)();
    auto error = section.error();
    return error ? Result<void>(fail(*std::move(error))) : Result<void>();
  } else {
    using Guarded = std::conditional_t<is_result<Answer>, Answer, Result<Answer>>;
    Guarded answer = std::forward<Body>(body)();
    // What the body says of zeros that were not there is no answer, be it good or bad.
    if (auto error = section.error()) answer = fail(*std::move(error));
    return answer;
  }
}
template <class Body>
[[nodiscard]] auto guarded(Bytes touched, Body&& body) {
  return guarded(std::span<const Bytes>(&touched, 1), std::forward<Body>(body));
}
template <class Body>
[[nodiscard]] auto guarded(Body&& body) {
  return guarded(std::span<const Bytes>(), std::forward<Body>(body));
}

}  // namespace ht::inline v1
