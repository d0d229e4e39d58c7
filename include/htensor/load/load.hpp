// Loading: brings the bytes of tensors into memory by a strategy that the caller names or the library
// chooses. `Window` keeps a part of a model in memory if the whole model does not fit.
//
//   const auto loaded = HT_TRY(ht::load(model));  // all tensors, strategy chosen automatically
//   const auto part = HT_TRY(ht::load(model, {.filter = "blk.*", .verify = true}));
//   print(part.choice.reason, part.bytes, part.elapsed);
//   HT_TRY(ht::load_into(model, [&](const ht::AnyTensor& t) { return arena.place(t.byte_size()); }));
//
// Ownership: memory of the strategy `read` belongs to the model; `load_into` fills memory of the caller. All
// functions are thread-safe. Loads into a model's own memory run one after the other.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/base/work.hpp>
#include <htensor/format/names.hpp>
#include <htensor/io/strategy.hpp>
#include <htensor/model/model.hpp>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace ht::inline v1 {

struct LoadOptions {
  io::Strategy::Kind strategy = io::Strategy::Kind::automatic;
  /// The caller's strategy; ht::load uses it instead of `strategy`.
  std::shared_ptr<io::Strategy> custom{};
  /// For ht::load: `few` with the strategy `mapped` loads no bytes and disables readahead for the files; a
  /// later load with `all` enables it again. ht::stream always uses `one_pass`.
  io::Strategy::Use use = io::Strategy::Use::all;
  /// The tensors to load, by name.
  NameFilter filter{};
  /// The memory limit; 0 is 7/8 of the available memory. `mapped` and `read` keep all bytes in memory: a
  /// larger load is `budget_too_small` and loads nothing. `automatic` streams a larger load through a ring of
  /// buffers and keeps no bytes. A stream uses a smaller ring, or maps fewer pages at a time.
  std::uint64_t budget_bytes = 0;
  /// Reads in flight, from 1 to 64, and the bytes of each, a multiple of 4096.
  std::uint32_t chunks = 8;
  std::uint64_t chunk_bytes = std::uint64_t{2} << 20;
  /// Drops the files' pages from the page cache after the load, also if it failed.
  bool drop_after = false;
  /// Verifies headers and sizes first, then each byte during the load, against the model's seal or the
  /// checksum in a `.ht` file. `checksum_mismatch` names the tensor; `not_sealed` if the model has neither. A
  /// stream delivers bytes before their chunk of at most 4 MiB is verified; the checksum in a `.ht` file is
  /// verified after the last byte of the data was read.
  bool verify = false;
  /// Cancellation and progress. A callback must not load from the same model.
  WorkOptions work{};
};

/// The result of a successful load. All tensors were loaded: `requested_bytes == bytes + resident_bytes`
/// (except for `mapped` with `few`, which loads nothing: `bytes` is 0). Bytes that tensors share count once,
/// except in `load_into`, where each target counts.
struct LoadReport {
  io::Strategy::Choice choice;
  /// Stored bytes of all requested tensors.
  std::uint64_t requested_bytes = 0;
  /// Bytes that this load brought in: mapped with their pages resident, read, or streamed.
  std::uint64_t bytes = 0;
  /// Bytes that an earlier load read into the model's own memory; they were not loaded again.
  std::uint64_t resident_bytes = 0;
  /// How many of `bytes` were in the page cache before, estimated by samples; nullopt if the kernel does not
  /// report it. `mapped` reads only the other bytes.
  std::optional<std::uint64_t> cached_bytes{};
  /// Equal to `bytes` if the bytes were streamed and not kept in memory; else 0.
  std::uint64_t streamed_bytes = 0;
  /// How many of `bytes` were read by direct I/O.
  std::uint64_t direct_bytes = 0;
  /// Bytes whose checksums were verified, including `resident_bytes`. `mapped` with `few` loads nothing and
  /// verifies only `resident_bytes`.
  std::uint64_t verified_bytes = 0;
  /// The peak resident memory of the process after the load, including pages of mapped files; nullopt if the
  /// system does not report it.
  std::optional<std::uint64_t> peak_memory_bytes{};
  std::chrono::nanoseconds elapsed{};
};

/// A part of a tensor's stored bytes.
struct TensorPiece {
  /// Index of the tensor in the catalog.
  std::size_t index = 0;
  /// Offset of the first byte in the tensor.
  std::uint64_t offset = 0;
  /// Valid during the call of the consumer.
  Bytes bytes{};
};

/// Called with the pieces of each tensor in order: every stored byte of a tensor once, so that bytes that two
/// tensors share are passed for both. A splat has no stored bytes. An error ends the stream.
using PieceConsumer = std::function<Result<void>(const TensorPiece&)>;

/// The caller's memory for a tensor: exactly of its size, and without overlap with other targets.
struct Target {
  std::string_view name;
  MutableBytes into;
};

/// Returns the caller's memory for a tensor: exactly of its size, or empty to skip the tensor.
using PlaceTensor = std::function<MutableBytes(const AnyTensor& tensor)>;

/// Loads all tensors whose names match. `mapped` brings their pages into the page cache. `read` copies the
/// tensors into the model's own memory; later look-ups return that memory, independent of the file.
/// `automatic` uses one of the two. If the bytes exceed the memory budget, `automatic` streams them through a
/// ring (`LoadReport::streamed_bytes`) and keeps no bytes; a later access maps the tensors.
/// `budget_too_small` if `mapped` or `read` is named and the bytes exceed the budget. `unsupported_strategy`
/// for `staged` and `external`: use `stream` and `load_into`. `not_found` if a filter matches no tensor. A
/// load that failed or was cancelled can be repeated.
[[nodiscard]] Result<LoadReport> load(const Model& model, const LoadOptions& options = {});

/// Passes the stored bytes of each matching tensor to the consumer once, in file order. `staged` needs memory
/// only for its ring of buffers, independent of the size of the model. `mapped` does not copy bytes that are
/// in the page cache. `not_found` if a filter matches no tensor; an Error of the consumer is returned.
[[nodiscard]] Result<LoadReport> stream(const Model& model, const PieceConsumer& consumer,
                                        const LoadOptions& options = {});

/// Reads the stored bytes of tensors into the caller's memory; splats are expanded. `not_found` for a name
/// that the model does not have, `size_mismatch` unless each target has the size of its tensor, `overlap` if
/// two targets overlap. The options' strategy, use and filter are ignored.
[[nodiscard]] Result<LoadReport> load_into(const Model& model, std::span<const Target> targets,
                                           const LoadOptions& options = {});
/// The same for all tensors that match the options' filter and for which `place` returns memory. `not_found`
/// if the filter matches no tensor.
[[nodiscard]] Result<LoadReport> load_into(const Model& model, const PlaceTensor& place,
                                           const LoadOptions& options = {});

/// Bytes that this process can allocate within the system's available memory and its own limits.
/// `unsupported_platform` if the system does not report it.
[[nodiscard]] Result<std::uint64_t> available_memory(io::Port* port = nullptr);

/// Brings the tensors whose names match into memory, so that access does not wait for the disk. Returns their
/// size in the files; bytes that tensors share count once, and tensors in the model's own memory do not
/// count. `not_found` if no tensor matches.
[[nodiscard]] Result<std::uint64_t> prefetch(const Model& model, const NameFilter& filter = {},
                                             const WorkOptions& options = {});
/// Evicts the tensors whose names match from memory, and from the page cache unless another process has them
/// mapped. Evicted tensors stay usable and are read from disk again. Pages shared with a tensor that is not
/// evicted stay. `in_use` if a handle still refers to a tensor that was loaded by `read`; all other tensors
/// are evicted. Returns the size of the matching tensors in bytes; bytes that tensors share count once, and
/// bytes that a missing or incomplete file lacks (`OpenOptions::allow_incomplete`) do not count. `not_found`
/// if no tensor matches, `unsupported_strategy` if the system cannot drop pages.
[[nodiscard]] Result<std::uint64_t> evict(const Model& model, const NameFilter& filter = {});

/// The residency of at most `count` tensors from index `first` on, in file order. The page cache of each file
/// is queried once per call. Bytes that a missing or incomplete file lacks are not cached.
[[nodiscard]] Result<std::vector<TensorResidency>> residency(const Model& model, std::size_t first = 0,
                                                             std::size_t count = SIZE_MAX);

// A window over a model that may exceed memory: layers are fetched and dropped within a byte budget.
//
//   auto window = HT_TRY(ht::Window::open(model, {.budget_bytes = std::uint64_t{8} << 30}));
//   for (int pass = 0; pass < passes; ++pass) {
//     for (std::size_t i = 0; i < window.size(); ++i) {
//       HT_TRY(window.enter(i));  // its bytes are in memory; the next layer is being fetched
//       for (const auto t : window.layer(i).tensors) compute(model, model.catalog()[t].name);
//     }
//   }
//
// Enter layers in order, and the first again after the last. While the caller computes with one layer, the
// next layers are fetched and past layers are dropped. Other orders are correct but wait more often. If the
// budget holds all layers, all stay in memory. Otherwise the window reserves room for the two largest layers
// to be fetched, and keeps as many layers as fit into the rest of the budget. The kept layers are spread
// evenly, so that the disk is never idle and each pass reads as little as possible. After every layer was
// entered once, `enter` does not allocate.
//
// Ownership: a Window keeps the model's files open and owns no tensor bytes. It acts on pages of the files'
// mappings; look up tensors in the model as usual. A tensor of a dropped layer can still be used: its pages
// are read from disk on access, outside of the budget. The destructor leaves resident pages in memory;
// `ht::evict` removes them.
//
// Threads: a Window is not thread-safe. Its own worker thread fetches and drops layers; the destructor joins
// it and waits for at most one piece of 16 MiB.
//
// Budget: the budget limits the bytes of layers that this window has fetched and not yet dropped. The system
// may reclaim page cache pages earlier; access then waits for the disk. A dropped layer leaves this process,
// and leaves the page cache unless another process has it mapped. Pages that a layer shares with other data
// stay, a few at each end. Some file systems drop page cache only in units of up to 2 MiB. Bytes that two
// layers share count twice. Resident pages are not checked again: compute under `ht::guarded` if a file may
// be truncated meanwhile.

struct WindowOptions {
  /// Assigns tensors to layers by name: a `NameFilter` pattern in which `{}` is the layer number, such as
  /// "blk.{}.*". `{}` may match any of the first 16 numbers in the name. Without `{}`, the layer number is
  /// the first dot-separated part of the name that is a number. An empty pattern matches all tensors. Tensors
  /// without a layer are ignored. Numbers above 64 bits do not count; 007 is 7.
  std::string layers{};
  /// The maximum bytes of layers in memory at once; 0 is 7/8 of the memory available at `open`.
  std::uint64_t budget_bytes = 0;
  /// Whether dropped layers also leave the page cache. If false, the system may keep them in the page cache,
  /// and fetching them again is then fast.
  bool drop_page_cache = true;
  /// Whether a worker thread fetches and drops while the caller computes. If false, or if the thread cannot
  /// be started, `enter` fetches and drops.
  bool use_worker = true;
  /// Cancels the window: `enter` returns `cancelled`, and so does a call of `enter` that is waiting.
  std::stop_token stop{};
};

class Window {
 public:
  struct Layer {
    /// The number in the tensor names.
    std::uint64_t number = 0;
    /// The bytes of its tensors in the files. Bytes that tensors share count once; splats have 0.
    std::uint64_t bytes = 0;
    /// Whether the layer stays in memory after it was entered.
    bool is_kept = false;
    /// Indices of its tensors in the catalog, in file order. Valid as long as the window.
    std::span<const std::size_t> tensors{};
  };
  struct Statistics {
    std::uint64_t fetched_bytes = 0;
    std::uint64_t dropped_bytes = 0;
    /// The number of calls of `enter`, and the number of calls whose layer was not yet in memory.
    std::uint64_t enters = 0;
    std::uint64_t waits = 0;
  };

  /// Opens a window without reading data. `not_found` if no tensor is in a layer, `bad_state` if the pattern
  /// has two `{}`, `budget_too_small` if the largest layer exceeds the budget, and the errors of looking up a
  /// tensor of a layer.
  [[nodiscard]] static Result<Window> open(const Model& model, const WindowOptions& options = {});

  // A moved-from Window has no layers and can only be assigned to or destroyed.
  Window(Window&&) noexcept;
  Window& operator=(Window&&) noexcept;
  ~Window();

  /// The number of layers. Layers are ordered by their numbers, which may have gaps.
  [[nodiscard]] std::size_t size() const noexcept;
  /// `index` must be less than `size`.
  [[nodiscard]] const Layer& layer(std::size_t index) const noexcept;
  /// The budget from the options, or the default.
  [[nodiscard]] std::uint64_t budget_bytes() const noexcept;

  /// Waits until the layer's bytes are in memory. They are not dropped before the next `enter`. An error of
  /// prefetching a layer is returned when that layer is entered; an error of dropping is returned by the next
  /// `enter`. After an error no layer is entered; call `enter` again to retry. `out_of_bounds` if there is no
  /// such layer.
  [[nodiscard]] Result<void> enter(std::size_t index);

  /// Counts since `open`.
  [[nodiscard]] Statistics statistics() const;

 private:
  class Shell;
  explicit Window(std::shared_ptr<Shell> shell) noexcept;
  std::shared_ptr<Shell> shell_;
};

}  // namespace ht::inline v1
