// Writing of data that a caller supplies piece by piece.
#pragma once

#include <cstdint>
#include <htensor/convert/save.hpp>

#include "convert/copy/copy_engine.hpp"

namespace ht::inline v1 {

/// Data that a caller supplies piece by piece and that is written to a file.
struct Pieces {
  const DataSource& source;
  /// Offset of the data in the file; offsets of pieces are relative to it.
  std::uint64_t begin = 0;
  /// The minimum offset of a piece: the size of the header if `begin` is 0, else 0.
  std::uint64_t min_offset = 0;
  std::uint64_t bytes = 0;
  /// Whether disk space is allocated for all of the data, because the pieces leave no hole.
  bool is_dense = false;
};

/// Writes the pieces at their offsets, then the header at offset 0. Returns whether they leave no hole in the
/// data. `out_of_bounds` for a piece that is out of order or outside the data, `cancelled`, or the Error of
/// the source.
[[nodiscard]] Result<bool> write_pieces(const PlannedFile& file, const Pieces& pieces, io::AtomicFile& target,
                                        const CopyOptions& options);

}  // namespace ht::inline v1
