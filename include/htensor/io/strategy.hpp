// How bytes get from sources to where they are needed; docs/io.md says when which strategy wins.
//
// A strategy answers each request with exactly one event: the done event of its kind, or RequestFailed. This
// is the only way from tensors to the bytes of a source. A strategy of the caller's is used by
// `LoadOptions::custom`: it gets a LoadRequest for each tensor and answers with the memory that it has put
// the tensor into.
#pragma once

#include <cstdint>
#include <functional>
#include <htensor/base/bytes.hpp>
#include <htensor/base/error.hpp>
#include <htensor/io/source.hpp>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ht::inline v1::io {

enum class StrategyKind : std::uint8_t {
  automatic,  ///< one of the others, chosen from facts about sources and machine
  mapped,     ///< the file's own pages, read when they are touched or fetched before
  read,       ///< memory of the model's own, filled by large reads
  staged,     ///< a ring of buffers whose contents are handed to a consumer: for one pass
  external,   ///< memory of the caller's, filled by large reads
};

[[nodiscard]] std::string_view to_string(StrategyKind kind) noexcept;

/// The purpose of a load.
enum class Use : std::uint8_t {
  few,       ///< some bytes will be read
  all,       ///< all bytes, repeatedly
  one_pass,  ///< all bytes, once and in order
};

/// A strategy and the reason for it.
struct Choice {
  StrategyKind strategy = StrategyKind::automatic;
  /// For programs.
  std::string_view code{};
  /// For people: the facts that led to it, and after a load, how bytes were fetched and how fast.
  std::string reason{};
};

// Requests.

/// The range in place.
struct MapRequest {
  FileRange range;
};
/// The range in memory.
struct LoadRequest {
  FileRange range{};
  /// Alignment of the memory, where the strategy allocates it.
  std::uint64_t alignment = 1;
  /// The caller's memory, for `external`.
  MutableBytes into{};
};
/// Announces how the range is going to be used.
struct AdviseRequest {
  FileRange range;
  Advice advice = Advice::normal;
};
/// Gives memory back that a MapDone or LoadDone has handed out; reset unless the request fails.
struct ReleaseRequest {
  Memory* memory = nullptr;
};
using Request = std::variant<MapRequest, LoadRequest, AdviseRequest, ReleaseRequest>;

// Events.

struct MapDone {
  /// Begins with the first byte of the range.
  Memory memory;
  /// Whether the memory is a part of a mapping of the whole source, which stays as long as the strategy.
  bool is_whole = false;
};
/// The memory is empty where the strategy keeps nothing.
struct LoadDone {
  Memory memory;
};
struct AdviseDone {};
struct ReleaseDone {};
/// The request changed nothing.
struct RequestFailed {
  /// Shared by requests that failed together.
  std::shared_ptr<const Error> error;
};
using Answer = std::variant<MapDone, LoadDone, AdviseDone, ReleaseDone, RequestFailed>;

/// The limits of a load and its callbacks.
struct LoadWork {
  /// The most memory to allocate.
  std::uint64_t budget_bytes = UINT64_MAX;
  std::stop_token stop{};
  /// Called with all bytes loaded so far, by one thread at a time.
  std::function<void(std::uint64_t done_bytes)> on_progress{};
  /// Called with every loaded part, in order, by one thread at a time. An error ends the load.
  std::function<Result<void>(const FileRange& range, Bytes bytes)> on_loaded{};
};

class Strategy {
 public:
  Strategy() = default;
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;
  virtual ~Strategy() = default;

  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// One answer. A request that the strategy does not know fails with `unsupported_strategy`.
  [[nodiscard]] virtual Answer answer(const Request& request) = 0;
  /// Loads, whose reads may be in flight together: one answer each, in the same order. The default answers
  /// one after the other, calls the callbacks, and fails all after the first failure.
  [[nodiscard]] virtual std::vector<Answer> load(std::span<const LoadRequest> requests, const LoadWork& work);
};

/// The answer to a request that a strategy does not know.
[[nodiscard]] RequestFailed not_supported(const Strategy& strategy, std::string_view request);
[[nodiscard]] RequestFailed request_failed(Error error);

}  // namespace ht::inline v1::io
