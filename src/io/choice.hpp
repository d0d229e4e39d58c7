// The `automatic` strategy: which of the others, and why.
#pragma once

#include <cstdint>
#include <htensor/io/port.hpp>
#include <htensor/io/strategy.hpp>
#include <optional>

namespace ht::inline v1::io {

struct Facts {
  FileSystem file_system = FileSystem::unknown;
  std::uint64_t bytes = 0;
  /// nullopt: the kernel does not report it (see `Port::cached`), and no choice is based on it.
  std::optional<std::uint64_t> cached_bytes = 0;
  /// What they take by `read`, which is a little more.
  std::uint64_t memory_bytes = 0;
  /// What may be taken.
  std::uint64_t budget_bytes = 0;
  /// Whether the system maps files at all.
  bool can_map = true;
  Use use = Use::all;
};

/// What may be taken of available memory: the rest is for whoever else needs some meanwhile.
[[nodiscard]] constexpr std::uint64_t most_of(std::uint64_t available_memory) noexcept {
  return available_memory / 8 * 7;
}

/// One of `mapped`, `read` and `staged`.
[[nodiscard]] Choice choose(const Facts& facts);

}  // namespace ht::inline v1::io
