// What residency asks of io, and what io answers: the only words between the two. Every request is answered
// exactly once, with what was done or with why it was not.
#pragma once

#include <htensor/base/bytes.hpp>
#include <htensor/base/error.hpp>
#include <htensor/io/port.hpp>
#include <memory>
#include <variant>

#include "io/chunks.hpp"
#include "io/handles.hpp"

namespace ht::inline v1::io {

/// Its pages in place.
struct MapRequest {
  FileRange range;
};
/// Its bytes in memory.
struct LoadRequest {
  FileRange range{};
  /// What the memory is to be aligned to, where that is the strategy's own.
  std::uint64_t alignment = 1;
  /// The caller's memory, for `external`.
  MutableBytes into{};
};
/// What is going to happen with a part of what a handle names. What is dropped leaves the page cache, too.
struct AdviseRequest {
  Handle handle;
  Advice advice;
  FileRange part;
};
struct ReleaseRequest {
  Handle handle;
};
using Request = std::variant<MapRequest, LoadRequest, AdviseRequest, ReleaseRequest>;

struct MapDone {
  Handle handle;
};
/// Where the strategy keeps nothing, the handle is one of nothing.
struct LoadDone {
  Handle handle;
};
struct AdviseDone {};
struct ReleaseDone {};
/// What the request was about is as it was before.
struct RequestFailed {
  /// Many may share one.
  std::shared_ptr<const Error> error;
};
using Answer = std::variant<MapDone, LoadDone, AdviseDone, ReleaseDone, RequestFailed>;

}  // namespace ht::inline v1::io
