// Data that a caller hands out piece by piece, on its way into a file.
#pragma once

#include <htensor/convert/write.hpp>

#include "convert/copy_engine.hpp"
#include "io/atomic_file.hpp"

namespace ht::inline v1 {

struct Pieces {
  const DataSource& source;
  /// Where the data begins in the file: offsets of pieces count from here.
  std::uint64_t begin = 0;
  /// The first byte of the data that a piece may cover, as a header may be part of the data.
  std::uint64_t first = 0;
  std::uint64_t bytes = 0;
  /// Whether room on the disk is reserved for all of it, as no piece leaves a hole.
  bool is_dense = false;
};

/// Writes the pieces behind the header of the file. Returns whether they leave no hole in the data.
/// `out_of_bounds` for a piece that is out of order or outside, `cancelled`, or the Error of the source.
[[nodiscard]] Result<bool> copy_pieces(const PlannedFile& file, const Pieces& pieces, io::AtomicFile& target,
                                       const CopyOptions& options);

}  // namespace ht::inline v1
