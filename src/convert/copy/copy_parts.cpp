#include "convert/copy/copy_parts.hpp"

#include <algorithm>

namespace ht::inline v1 {
namespace {

std::uint64_t end_of(const PlannedFile::Part& part) { return part.offset + part.bytes; }

// Whether the second part continues the first, in the file and in its source.
bool is_adjacent(const PlannedFile::Part& first, const PlannedFile::Part& second) {
  const auto* const a = std::get_if<PartOrigin::Stored>(&first.from);
  const auto* const b = std::get_if<PartOrigin::Stored>(&second.from);
  return a != nullptr && b != nullptr && end_of(first) == second.offset && a->file == b->file &&
         a->offset + first.bytes == b->offset;
}

void add(std::vector<PlannedFile::Part>& parts, const PlannedFile::Part& part) {
  if (part.bytes == 0) return;
  if (!parts.empty()) {
    const std::uint64_t end = end_of(parts.back());
    if (part.offset > end && part.offset - end <= small_gap_bytes) {
      parts.push_back({.offset = end, .bytes = part.offset - end, .from = PartOrigin::Repeated{}});
    }
    if (is_adjacent(parts.back(), part)) {
      parts.back().bytes += part.bytes;
      return;
    }
  }
  parts.push_back(part);
}

}  // namespace

std::vector<PlannedFile::Part> covered_parts(const PlannedFile& file) {
  std::vector<PlannedFile::Part> parts;
  parts.reserve(file.parts.size() + 2);
  add(parts, {.offset = 0, .bytes = file.header.size(), .from = Bytes(file.header)});
  for (const auto& part : file.parts) add(parts, part);
  // A small gap at the end of the file is written as zeros.
  const std::uint64_t end = parts.empty() ? 0 : end_of(parts.back());
  if (end < file.bytes && file.bytes - end <= small_gap_bytes) {
    parts.push_back({.offset = end, .bytes = file.bytes - end, .from = PartOrigin::Repeated{}});
  }
  return parts;
}

PlannedFile::Part without_first(const PlannedFile::Part& part, std::uint64_t bytes) {
  PlannedFile::Part rest{.offset = part.offset + bytes, .bytes = part.bytes - bytes, .from = part.from};
  if (auto* const stored = std::get_if<PartOrigin::Stored>(&rest.from)) stored->offset += bytes;
  if (auto* const reordered = std::get_if<PartOrigin::Reordered>(&rest.from))
    reordered->result_offset += bytes;
  if (auto* const converted = std::get_if<PartOrigin::Converted>(&rest.from))
    converted->result_offset += bytes;
  if (auto* const memory = std::get_if<Bytes>(&rest.from)) {
    *memory = memory->subspan(static_cast<std::size_t>(bytes));
  }
  if (auto* const repeated = std::get_if<PartOrigin::Repeated>(&rest.from)) {
    const auto used = static_cast<std::ptrdiff_t>(bytes % repeated->pattern_bytes);
    std::rotate(repeated->pattern.begin(), repeated->pattern.begin() + used,
                repeated->pattern.begin() + repeated->pattern_bytes);
  }
  return rest;
}

PlannedFile::Part first_of(const PlannedFile::Part& part, std::uint64_t bytes) {
  PlannedFile::Part first{.offset = part.offset, .bytes = bytes, .from = part.from};
  if (auto* const memory = std::get_if<Bytes>(&first.from)) {
    *memory = memory->first(static_cast<std::size_t>(bytes));
  }
  return first;
}

std::vector<CopyPiece> pieces_of(std::span<const PlannedFile::Part> parts, std::uint64_t piece_bytes) {
  std::vector<CopyPiece> pieces;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (std::uint64_t at = parts[i].offset; at < end_of(parts[i]);) {
      const std::uint64_t end = std::min((at / piece_bytes + 1) * piece_bytes, end_of(parts[i]));
      const bool continues_piece =
          !pieces.empty() && at % piece_bytes != 0 && pieces.back().offset + pieces.back().bytes == at;
      if (continues_piece) {
        pieces.back().bytes += end - at;
        ++pieces.back().parts;
      } else {
        pieces.push_back({.offset = at, .bytes = end - at, .first_part = i, .parts = 1});
      }
      at = end;
    }
  }
  return pieces;
}

PlannedFile::Part within(const CopyPiece& piece, const PlannedFile::Part& part) {
  const std::uint64_t begin = std::max(piece.offset, part.offset);
  const std::uint64_t end = std::min(piece.offset + piece.bytes, end_of(part));
  return first_of(without_first(part, begin - part.offset), end - begin);
}

}  // namespace ht::inline v1
