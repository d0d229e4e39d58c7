// The `automatic` strategy: which of the others, and why.
#pragma once

#include <cstdint>
#include <htensor/io/port.hpp>
#include <string_view>

namespace ht::inline v1::io {

enum class Strategy : std::uint8_t { mapped, read, staged };

/// What the bytes are wanted for.
enum class Use : std::uint8_t {
  few,       ///< some of them will be looked at
  all,       ///< all of them, over and over
  one_pass,  ///< all of them, once and in order
};

struct Facts {
  FileSystem file_system = FileSystem::unknown;
  std::uint64_t bytes = 0;
  std::uint64_t cached_bytes = 0;
  std::uint64_t available_memory = 0;
  /// Whether the system maps files at all.
  bool can_map = true;
  Use use = Use::all;
};

struct Choice {
  Strategy strategy;
  /// For programs.
  std::string_view code;
  /// For people: a whole sentence.
  std::string_view reason;
};

[[nodiscard]] Choice choose(const Facts& facts) noexcept;

[[nodiscard]] std::string_view to_string(Strategy strategy) noexcept;

}  // namespace ht::inline v1::io
