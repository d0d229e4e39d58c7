// Numbers that look random, are the same on every machine, and follow from their place alone: whoever makes
// a part of the data makes what is there in the whole.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ht::cli {

// SplitMix64: the nth number is mixed(seed + n * random_step).
inline constexpr std::uint64_t random_step = 0x9e37'79b9'7f4a'7c15;

constexpr std::uint64_t mixed(std::uint64_t z) noexcept {
  z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9;
  z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11eb;
  return z ^ (z >> 31);
}

/// About normal: four uniform numbers added up, of which 16 bits are kept.
constexpr std::size_t bell(std::uint64_t random) noexcept {
  constexpr std::uint64_t lanes = 0x0000'FFFF'0000'FFFF;
  const std::uint64_t pairs = (random & lanes) + ((random >> 16) & lanes);
  return static_cast<std::size_t>(((pairs & 0xFFFF'FFFF) + (pairs >> 32)) >> 2);
}

/// What weights deviate from 0 by.
inline constexpr float usual_deviation = 0.02F;

}  // namespace ht::cli
