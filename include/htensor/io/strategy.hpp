// The ways in which bytes get from a file to where they are wanted; docs/io.md says when which wins.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ht::inline v1::io {

enum class Strategy : std::uint8_t {
  automatic,  ///< one of the others, by what is known of the files and the machine
  mapped,     ///< the file's own pages, read when they are touched or fetched ahead of that
  read,       ///< memory of one's own, filled by large reads
  staged,     ///< a ring of pieces that are handed on one after the other: for one pass
  external,   ///< memory of the caller's, filled by large reads
};

/// What the bytes are wanted for.
enum class Use : std::uint8_t {
  few,       ///< some of them will be looked at
  all,       ///< all of them, over and over
  one_pass,  ///< all of them, once and in order
};

/// A strategy and why it is that one.
struct Choice {
  Strategy strategy = Strategy::automatic;
  /// For programs.
  std::string_view code{};
  /// For people: facts that led to it, and after a load, how bytes were fetched and how fast.
  std::string reason{};
};

[[nodiscard]] std::string_view to_string(Strategy strategy) noexcept;

}  // namespace ht::inline v1::io
