// From what a file is made of to pieces that are copied one by one. Pure: nothing here reads or writes.
#pragma once

#include <cstddef>
#include <htensor/convert/plan.hpp>
#include <span>
#include <vector>

namespace ht::inline v1 {

/// Gaps up to this size are written as zeros along with their neighbours; larger ones stay holes.
inline constexpr std::uint64_t small_gap_bytes = std::uint64_t{64} << 10;

/// All that is to be written of a file, in order: its header, its parts, small gaps. Bytes that follow each
/// other in the source and in the file are one part.
[[nodiscard]] std::vector<PlannedPart> covered_parts(const PlannedFile& file);

/// The same without its first bytes, or without all behind those.
[[nodiscard]] PlannedPart without_first(const PlannedPart& part, std::uint64_t bytes);
[[nodiscard]] PlannedPart first_of(const PlannedPart& part, std::uint64_t bytes);

/// A stretch of the file that is written at once, made of some parts that follow each other without a gap.
/// Its first and its last may go on outside of it.
struct CopyPiece {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::size_t first_part = 0;
  std::size_t parts = 0;
};

/// The parts cut at multiples of `piece_bytes` in the file.
[[nodiscard]] std::vector<CopyPiece> pieces_of(std::span<const PlannedPart> parts, std::uint64_t piece_bytes);

/// What of a part lies in a piece.
[[nodiscard]] PlannedPart within(const CopyPiece& piece, const PlannedPart& part);

}  // namespace ht::inline v1
