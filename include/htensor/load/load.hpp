// Loading: brings the bytes of tensors into memory by a strategy, which is named or chosen.
//
//   const auto loaded = HT_TRY(ht::load(model));  // all tensors, by a strategy that is chosen
//   HT_TRY(ht::load_into(model, [&](const ht::AnyTensor& t) { return arena.place(t.byte_size()); }));
//
// All functions may be called from many threads. Loads into a model's own memory run one after the other.
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
  /// A strategy of the caller's, used instead of the named one by ht::load.
  std::shared_ptr<io::Strategy> custom{};
  /// For ht::load: with `few`, `mapped` reads nothing and turns off readahead for these files, until a
  /// load with `all`. A stream is always for one pass.
  io::Use use = io::Use::all;
  /// The tensors to load, by name.
  NameFilter glob{};
  /// The most memory to use; 0 is seven eighths of the available memory. `mapped` and `read` keep all bytes,
  /// so a larger load by one of them is `budget_too_small` and loads nothing. `automatic` streams a larger
  /// load through a ring and keeps nothing of it. A stream uses a smaller ring, or maps fewer pages at a
  /// time.
  std::uint64_t budget_bytes = 0;
  /// Reads in flight, from 1 to 64, and the bytes of each, a multiple of 4096.
  std::uint32_t chunks = 8;
  std::uint64_t chunk_bytes = std::uint64_t{2} << 20;
  /// Drop the files' pages from the page cache afterwards, also after a failure.
  bool drop_after = false;
  /// Check headers and sizes first, then each byte on its way, against the model's seal or a `.ht`'s own
  /// checksum. `checksum_mismatch` names the tensor; `not_sealed` without a seal or a checksum. A stream
  /// hands over bytes before all of their chunk of 4 MiB is checked.
  bool verify = false;
  /// Cancellation and progress. A callback must not load from the same model.
  WorkOptions work{};
};

/// The result of a load that did not fail: all tensors were loaded, `wanted_bytes == bytes + resident_bytes`
/// (except with `few`, which loads nothing: `bytes` is 0). Bytes that tensors share count once, except in
/// `load_into`, where each target counts.
struct Loaded {
  io::Choice choice;
  /// Stored bytes of all tensors that were asked for.
  std::uint64_t wanted_bytes = 0;
  /// Bytes that this load has brought in: mapped with their pages present, read, or streamed through.
  std::uint64_t bytes = 0;
  /// Bytes that an earlier load has read into the model's own memory; they were not loaded again.
  std::uint64_t resident_bytes = 0;
  /// How many of `bytes` were in the page cache before, estimated by samples; nullopt: the kernel does not
  /// report it. `mapped` reads the other ones only.
  std::optional<std::uint64_t> cached_bytes{};
  /// How many of `bytes` passed through a ring and were not kept: all or none.
  std::uint64_t streamed_bytes = 0;
  /// How many of `bytes` were read past the page cache.
  std::uint64_t direct_bytes = 0;
  /// Bytes whose checksums were verified; 0 with `few`.
  std::uint64_t verified_bytes = 0;
  std::chrono::nanoseconds elapsed{};
};

/// A part of a tensor's stored bytes.
struct TensorPiece {
  /// The tensor's number in the catalog.
  std::size_t index = 0;
  /// Of the part's first byte in the tensor.
  std::uint64_t offset = 0;
  /// Valid during the call.
  Bytes bytes{};
};

/// Called with the pieces of each tensor in order, every byte once; bytes that two tensors share come once
/// for each. An error ends the stream.
using PieceConsumer = std::function<Result<void>(const TensorPiece&)>;

/// Memory for a tensor: exactly its size, and disjoint from all other targets.
struct Target {
  std::string_view name;
  MutableBytes into;
};

/// Returns the memory for a tensor: exactly its size, or empty to leave the tensor out.
using Placement = std::function<MutableBytes(const AnyTensor& tensor)>;

/// Loads all tensors whose names match and reports how. `mapped` brings their pages into the page cache.
/// `read` copies them into the model's own memory; later look-ups return that memory, independent of the
/// file. `automatic` takes one of the two, or streams the bytes through a ring (`Loaded::streamed_bytes`) if
/// they exceed the memory budget; the tensors are mapped then. `budget_too_small` where `mapped` or `read` is
/// named and exceeds the budget. `unsupported_strategy` for `staged` and `external`, which are the next two
/// functions. After a failure or a stop the load can be repeated.
[[nodiscard]] Result<Loaded> load(const Model& model, const LoadOptions& options = {});

/// Hands all bytes of the matching tensors to the consumer, once, in file order. `staged` needs memory for
/// its ring only, however large the model is; `mapped` copies nothing that is in the page cache.
[[nodiscard]] Result<Loaded> stream(const Model& model, const PieceConsumer& consumer,
                                    const LoadOptions& options = {});

/// Reads the stored bytes of tensors into the caller's memory; splats are expanded. `size_mismatch` unless
/// each target has the size of its tensor, `overlap` where two targets do. The options' strategy, use and
/// glob are ignored.
[[nodiscard]] Result<Loaded> load_into(const Model& model, std::span<const Target> targets,
                                       const LoadOptions& options = {});
/// The same for all tensors that match the options' glob and that `place` has memory for.
[[nodiscard]] Result<Loaded> load_into(const Model& model, const Placement& place,
                                       const LoadOptions& options = {});

/// Brings the tensors whose names match into memory, so that touching them does not wait for the disk, and
/// returns their number of bytes. `not_found` where no tensor matches.
[[nodiscard]] Result<std::uint64_t> prefetch(const Model& model, const NameFilter& glob = {},
                                             const WorkOptions& options = {});
/// Takes them out of memory, and out of the page cache where no other process has them mapped. They can be
/// used as before, and come from the disk again. Pages that a tensor shares with one that stays, stay. A
/// tensor that was loaded by `read` and is held by another owner is `in_use`; all others are evicted then.
[[nodiscard]] Result<std::uint64_t> evict(const Model& model, const NameFilter& glob = {});

/// Where tensors are, in file order, from the tensor `first` on, `count` at most. The page cache of each file
/// is queried once per call.
[[nodiscard]] Result<std::vector<TensorResidency>> residency(const Model& model, std::size_t first = 0,
                                                             std::size_t count = SIZE_MAX);

}  // namespace ht::inline v1
