// The dict literal of an NPY header, and how errors in the header begin.
#pragma once

#include <cstdint>
#include <htensor/base/result.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ht::inline v1::format_npy {

/// As `broken` of format/common.hpp, with the hint to save the array again.
[[nodiscard]] Error malformed(ErrorCode code, std::string_view rule, std::string message,
                              std::uint64_t offset, SourceLine where = SourceLine::here());

/// A text of the file as a message can show it: the beginning of a long one, in UTF-8.
[[nodiscard]] std::string shown(std::string_view text);

/// What the dict says, and where in the file it says so.
struct Literal {
  std::string_view descr;
  std::uint64_t descr_at = 0;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
  std::uint64_t shape_at = 0;
};

/// Reads the dict literal and nothing else of Python: the three keys once each, in any order. `begin` is
/// where `text` lies in the file. The literal has views into `text`.
[[nodiscard]] Result<Literal> read_literal(std::string_view text, std::uint64_t begin);

}  // namespace ht::inline v1::format_npy
