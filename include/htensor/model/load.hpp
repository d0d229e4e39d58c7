// Loading: the bytes of tensors brought into memory by a strategy, which is named or chosen.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <htensor/base/bytes.hpp>
#include <htensor/base/glob.hpp>
#include <htensor/base/result.hpp>
#include <htensor/io/strategy.hpp>
#include <htensor/model/residency.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace ht::inline v1 {

struct LoadOptions {
  io::Strategy strategy = io::Strategy::automatic;
  /// For `Model::load`: with `few`, `mapped` reads nothing and turns off readahead for these files, until a
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

/// Memory for a tensor: exactly its stored size, and disjoint from all other targets.
struct Target {
  std::string_view name;
  MutableBytes into;
};

}  // namespace ht::inline v1
