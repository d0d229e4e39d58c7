// Loading: brings the bytes of tensors into memory by a strategy that the caller names or the library
// chooses.
//
//   const auto loaded = HT_TRY(ht::load(model));  // all tensors, strategy chosen automatically
//   HT_TRY(ht::load_into(model, [&](const ht::AnyTensor& t) { return arena.place(t.byte_size()); }));
//
// All functions are thread-safe. Loads into a model's own memory run one after the other.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <htensor/base/bytes.hpp>
#include <htensor/base/glob.hpp>
#include <htensor/base/result.hpp>
#include <htensor/base/work.hpp>
#include <htensor/io/strategy.hpp>
#include <htensor/model/model.hpp>
#include <htensor/model/residency.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ht::inline v1 {

struct LoadOptions {
  io::StrategyKind strategy = io::StrategyKind::automatic;
  /// The caller's strategy; ht::load uses it instead of `strategy`.
  std::shared_ptr<io::Strategy> custom{};
  /// For ht::load: with `few`, `mapped` reads nothing and turns off readahead for these files, until a load
  /// with `all`. ht::stream always uses `one_pass`.
  io::Use use = io::Use::all;
  /// The tensors to load, by name.
  NameFilter glob{};
  /// The memory limit; 0 is 7/8 of the available memory. `mapped` and `read` keep all bytes in memory: a
  /// larger load is `budget_too_small` and loads nothing. `automatic` streams a larger load through a ring
  /// and keeps no bytes. A stream uses a smaller ring, or maps fewer pages at a time.
  std::uint64_t budget_bytes = 0;
  /// Reads in flight, from 1 to 64, and the bytes of each, a multiple of 4096.
  std::uint32_t chunks = 8;
  std::uint64_t chunk_bytes = std::uint64_t{2} << 20;
  /// Drop the files' pages from the page cache afterwards, also after a failure.
  bool drop_after = false;
  /// Verify headers and sizes first, then each byte during the load, against the model's seal or the checksum
  /// in a `.ht` file. `checksum_mismatch` names the tensor; `not_sealed` if there is neither. A stream
  /// delivers bytes before their whole chunk of 4 MiB is verified.
  bool verify = false;
  /// Cancellation and progress. A callback must not load from the same model.
  WorkOptions work{};
};

/// The result of a successful load. All tensors were loaded: `wanted_bytes == bytes + resident_bytes` (except
/// with `few`, which loads nothing: `bytes` is 0). Bytes that tensors share count once, except in
/// `load_into`, where each target counts.
struct Loaded {
  io::Choice choice;
  /// Stored bytes of all requested tensors.
  std::uint64_t wanted_bytes = 0;
  /// Bytes that this load brought in: mapped with their pages resident, read, or streamed.
  std::uint64_t bytes = 0;
  /// Bytes that an earlier load read into the model's own memory; they were not loaded again.
  std::uint64_t resident_bytes = 0;
  /// How many of `bytes` were in the page cache before, estimated by samples; nullopt if the kernel does not
  /// report it. `mapped` reads only the other bytes.
  std::optional<std::uint64_t> cached_bytes{};
  /// How many of `bytes` passed through a ring and were not kept: all or 0.
  std::uint64_t streamed_bytes = 0;
  /// How many of `bytes` were read by direct I/O.
  std::uint64_t direct_bytes = 0;
  /// Bytes whose checksums were verified; 0 with `few`.
  std::uint64_t verified_bytes = 0;
  std::chrono::nanoseconds elapsed{};
};

/// A part of a tensor's stored bytes.
struct TensorPiece {
  /// Index of the tensor in the catalog.
  std::size_t index = 0;
  /// Offset of the first byte in the tensor.
  std::uint64_t offset = 0;
  /// Valid during the call.
  Bytes bytes{};
};

/// Called with the pieces of each tensor in order, every byte once; bytes that two tensors share are passed
/// once for each. An error ends the stream.
using PieceConsumer = std::function<Result<void>(const TensorPiece&)>;

/// Memory for a tensor: exactly its size, and disjoint from all other targets.
struct Target {
  std::string_view name;
  MutableBytes into;
};

/// Returns the memory for a tensor: exactly its size, or empty to skip the tensor.
using Placement = std::function<MutableBytes(const AnyTensor& tensor)>;

/// Loads all tensors whose names match. `mapped` brings their pages into the page cache. `read` copies the
/// tensors into the model's own memory; later look-ups return that memory, independent of the file.
/// `automatic` uses one of the two. If the bytes exceed the memory budget, it streams them through a ring
/// (`Loaded::streamed_bytes`) and the tensors are mapped. `budget_too_small` if `mapped` or `read` is named
/// and the bytes exceed the budget. `unsupported_strategy` for `staged` and `external`: use `stream` and
/// `load_into`. A load that failed or was cancelled can be repeated.
[[nodiscard]] Result<Loaded> load(const Model& model, const LoadOptions& options = {});

/// Passes all bytes of the matching tensors to the consumer, once, in file order. `staged` needs memory only
/// for its ring, independent of the size of the model. `mapped` does not copy bytes that are in the page
/// cache.
[[nodiscard]] Result<Loaded> stream(const Model& model, const PieceConsumer& consumer,
                                    const LoadOptions& options = {});

/// Reads the stored bytes of tensors into the caller's memory; splats are expanded. `size_mismatch` unless
/// each target has the size of its tensor, `overlap` if two targets overlap. The options' strategy, use and
/// glob are ignored.
[[nodiscard]] Result<Loaded> load_into(const Model& model, std::span<const Target> targets,
                                       const LoadOptions& options = {});
/// The same for all tensors that match the options' glob and for which `place` returns memory.
[[nodiscard]] Result<Loaded> load_into(const Model& model, const Placement& place,
                                       const LoadOptions& options = {});

/// Brings the tensors whose names match into memory, so that access does not wait for the disk, and returns
/// their number of bytes. `not_found` if no tensor matches.
[[nodiscard]] Result<std::uint64_t> prefetch(const Model& model, const NameFilter& glob = {},
                                             const WorkOptions& options = {});
/// Evicts the tensors whose names match from memory, and from the page cache unless another process has them
/// mapped. Evicted tensors stay usable and are read from disk again. Pages shared with a tensor that is not
/// evicted stay. `in_use` if a tensor that was loaded by `read` has another owner; all other tensors are
/// evicted.
[[nodiscard]] Result<std::uint64_t> evict(const Model& model, const NameFilter& glob = {});

/// The residency of at most `count` tensors from the tensor `first` on, in file order. The page cache of each
/// file is queried once per call.
[[nodiscard]] Result<std::vector<TensorResidency>> residency(const Model& model, std::size_t first = 0,
                                                             std::size_t count = SIZE_MAX);

}  // namespace ht::inline v1
