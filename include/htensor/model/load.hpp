// Loading: bytes brought to where they are wanted, by a strategy that is named or picked.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <htensor/base/bytes.hpp>
#include <htensor/base/glob.hpp>
#include <htensor/base/result.hpp>
#include <htensor/io/strategy.hpp>
#include <htensor/model/residency.hpp>
#include <string>
#include <string_view>

namespace ht::inline v1 {

struct LoadOptions {
  io::Strategy strategy = io::Strategy::automatic;
  /// For `Model::load`: with `few`, `mapped` fetches nothing, and the system is told not to read along what
  /// lies around a page of these files that is touched, until somebody loads all. A stream is always for one
  /// pass.
  io::Use use = io::Use::all;
  /// The tensors to load, by name.
  NameFilter glob{};
  /// The most memory that may be taken: by `read` in all; by `staged` for its ring, which gets smaller for
  /// it; by `mapped` for the pages that are fetched, or, in a stream, mapped at a time. 0 is most of what is
  /// available.
  std::uint64_t budget_bytes = 0;
  /// Reads that are under way at once, from 1 to 64, and the bytes of each, a multiple of 4096.
  std::uint32_t chunks = 8;
  std::uint64_t chunk_bytes = std::uint64_t{2} << 20;
  /// Whether the page cache is to have nothing of it afterwards, also where it failed.
  bool drop_after = false;
  /// Whether each byte is held against the model's seal, or a `.ht`'s own checksum, as it comes in, and
  /// headers and sizes before that. `checksum_mismatch` names the tensor; `not_sealed` where there is nothing
  /// to hold it against. A stream hands bytes on before it knows of all in their chunk of 4 MiB.
  bool verify = false;
  /// To stop it, and to hear how far it has got. A callback must not load from the same model.
  WorkOptions work{};
};

/// What was done, and how.
struct Loaded {
  io::Choice choice;
  /// Those that were brought in: without what was in memory of the model's own already, or stays to be read
  /// when it is touched. What tensors share counts once, unless it is wanted twice.
  std::uint64_t bytes = 0;
  /// Those of them that went past the page cache.
  std::uint64_t direct_bytes = 0;
  /// Those that are as they were sealed; with `few`, which reads none, 0.
  std::uint64_t verified_bytes = 0;
  std::chrono::nanoseconds elapsed{};
};

/// A part of a tensor as it is stored.
struct TensorPiece {
  /// The tensor's number in the catalog.
  std::size_t index = 0;
  /// Where the part begins in the tensor.
  std::uint64_t offset = 0;
  /// There only during the call.
  Bytes bytes{};
};

/// Gets the pieces of each tensor in order, every byte of it once; what two tensors share, for both. What it
/// fails with ends the stream.
using PieceConsumer = std::function<Result<void>(const TensorPiece&)>;

/// Where a tensor is wanted: as many bytes as it has in its file, apart from all other targets.
struct Target {
  std::string_view name;
  MutableBytes into;
};

}  // namespace ht::inline v1
