// Strategies that move bytes from sources to memory; docs/io.md compares them.
//
// A strategy answers each request with exactly one Answer: MapDone for a MapRequest and so on, or
// RequestFailed. Tensors map and load the bytes of a source through a strategy only.
// `LoadOptions::custom` is a strategy of the caller: it receives a LoadRequest for each tensor and answers
// with memory of the size of the range, and an owner that keeps this memory valid.
//
//   class IntoArena final : public ht::io::Strategy {     // reads each tensor into memory of the caller
//     std::string_view name() const noexcept override { return "into the arena"; }
//     Answer answer(const Request& request) override {
//       if (const auto* const load = std::get_if<LoadRequest>(&request)) {
//         ht::io::Memory memory = …;                        // load->range.bytes bytes, with an owner
//         return LoadDone{memory};
//       }
//       if (const auto* const release = std::get_if<ReleaseRequest>(&request)) {
//         *release->memory = {};
//         return ReleaseDone{};
//       }
//       return ht::io::not_supported(*this, "answer this request");
//     }
//   };
//   HT_TRY(ht::load(model, {.custom = std::make_shared<IntoArena>()}));
//
// The model shares ownership of the strategy and of the memory until the tensors are evicted or the model and
// its tensors are destroyed. `load` is called on the thread of `ht::load`, by one thread at a time per model.
// `answer` may be called at the same time with a ReleaseRequest, on a thread that evicts tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/io/source.hpp>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ht::inline v1::io {

class Strategy {
 public:
  enum class Kind : std::uint8_t {
    automatic,  ///< the library chooses from facts about the sources and the machine
    mapped,     ///< pages of the file, read on first access or prefetched
    read,       ///< the model's own memory, filled by large reads
    staged,     ///< a ring of buffers whose contents are passed to a consumer: for one pass
    external,   ///< the caller's memory, filled by large reads
  };

  /// The purpose of a load.
  enum class Use : std::uint8_t {
    few,       ///< some bytes will be read
    all,       ///< all bytes, repeatedly
    one_pass,  ///< all bytes, once and in order
  };

  /// A strategy and the reason for it.
  struct Choice {
    Kind strategy = Kind::automatic;
    /// The reason, for programs: a code.
    std::string_view code{};
    /// The reason, for people: the facts behind the choice and, after a load, how bytes were read and how
    /// fast.
    std::string reason{};
  };

  /// The expected use of mapped pages, or an action on them (madvise).
  enum class Advice : std::uint8_t {
    normal,
    random,      ///< do not read ahead
    will_need,   ///< start to read them in, without waiting
    populate,    ///< read them in now, so that later access does not wait for the disk
    allocate,    ///< for private memory: allocate pages now, so that writes do not fault
    drop,        ///< drop them from this process; the page cache keeps them
    evict,       ///< drop them from this process and, unless mapped elsewhere, from the page cache
    huge_pages,  ///< for private memory: use huge pages
  };

  // Requests.

  /// Requests the range in place.
  struct MapRequest {
    FileRange range;
    /// Private, writable memory: writes are visible only through private requests, never in the source.
    bool is_private = false;
  };
  /// Requests the range in memory.
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
  /// Releases memory from a MapDone or LoadDone; `*memory` is reset unless the request fails.
  struct ReleaseRequest {
    Memory* memory = nullptr;
  };
  using Request = std::variant<MapRequest, LoadRequest, AdviseRequest, ReleaseRequest>;

  // Answers.

  struct MapDone {
    /// The memory that begins with the first byte of the range.
    Memory memory;
    /// Whether another object owns the memory, too, such as the strategy, which keeps a mapping of the whole
    /// source. If false, the memory is released with the last copy of `memory.owner`.
    bool has_other_owner = false;
  };
  /// `memory` contains the whole range and has an owner.
  struct LoadDone {
    Memory memory;
  };
  struct AdviseDone {};
  struct ReleaseDone {};
  /// The request failed and changed nothing.
  struct RequestFailed {
    /// One object for all requests of a failed `load`.
    std::shared_ptr<const Error> error;
  };
  using Answer = std::variant<MapDone, LoadDone, AdviseDone, ReleaseDone, RequestFailed>;

  /// The limits of a load and its callbacks.
  struct LoadWork {
    /// The maximum memory to allocate.
    std::uint64_t budget_bytes = UINT64_MAX;
    std::stop_token stop{};
    /// Called with the total of bytes loaded so far, by one thread at a time.
    std::function<void(std::uint64_t done_bytes)> on_progress{};
    /// Called with every loaded part, in order, by one thread at a time. An Error ends the load. With
    /// `LoadOptions::verify`, ht::load passes a callback that verifies the parts. For a strategy of the
    /// caller, ht::load leaves `on_loaded` empty, and verifies the memory that the strategy returned.
    std::function<Result<void>(const FileRange& range, Bytes bytes)> on_loaded{};
  };

  Strategy() = default;
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;
  virtual ~Strategy() = default;

  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// Answers one request. A request that the strategy does not support fails with `unsupported_strategy`.
  [[nodiscard]] virtual Answer answer(const Request& request) = 0;
  /// Answers several loads, whose reads may be in flight together: one answer each, in the same order. The
  /// default implementation answers one after another and calls the callbacks. After a failure it stops, and
  /// every answer is that failure, also for loads that had succeeded.
  [[nodiscard]] virtual std::vector<Answer> load(std::span<const LoadRequest> requests, const LoadWork& work);
};

[[nodiscard]] std::string_view to_string(Strategy::Kind kind) noexcept;

/// The answer to a request that a strategy does not support. `action` completes the message "strategy 'NAME'
/// cannot …": "load into memory".
[[nodiscard]] Strategy::RequestFailed not_supported(const Strategy& strategy, std::string_view action);
/// The answer with this Error. May throw std::bad_alloc.
[[nodiscard]] Strategy::RequestFailed request_failed(Error error);

}  // namespace ht::inline v1::io
