// Cuts a planned file into pieces that are copied one by one. No function here does I/O.
#pragma once

#include <cstddef>
#include <htensor/convert/convert.hpp>
#include <span>
#include <vector>

namespace ht::inline v1 {

/// Gaps up to this size are written as zeros along with their neighbours; larger ones stay holes.
inline constexpr std::uint64_t small_gap_bytes = std::uint64_t{64} << 10;

/// All parts of a file to write, in order: its header, its parts, small gaps. Ranges that are adjacent in
/// both the source and the file are merged.
[[nodiscard]] std::vector<PlannedFile::Part> covered_parts(const PlannedFile& file);

/// The part without its first bytes, or its first bytes only.
[[nodiscard]] PlannedFile::Part without_first(const PlannedFile::Part& part, std::uint64_t bytes);
[[nodiscard]] PlannedFile::Part first_of(const PlannedFile::Part& part, std::uint64_t bytes);

/// A range of the file that is written at once. It consists of adjacent parts; the first and the last one may
/// extend beyond it.
struct CopyPiece {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::size_t first_part = 0;
  std::size_t parts = 0;
};

/// The parts cut at multiples of `piece_bytes` in the file.
[[nodiscard]] std::vector<CopyPiece> pieces_of(std::span<const PlannedFile::Part> parts,
                                               std::uint64_t piece_bytes);

/// The section of the part that is inside the piece.
[[nodiscard]] PlannedFile::Part within(const CopyPiece& piece, const PlannedFile::Part& part);

}  // namespace ht::inline v1
