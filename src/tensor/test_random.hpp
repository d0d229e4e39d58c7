// Random shapes for the property tests of tensors.
#pragma once

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdint>

#include "tensor/test_tools.hpp"

namespace ht::tests {

/// Returns a random number from `first` to `last`, both included.
inline std::int64_t between(std::int64_t first, std::int64_t last) {
  // RapidCheck starts with tiny sizes, at which a short range would always return its first number.
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<std::int64_t>(first, last + 1));
}

inline std::size_t below(std::size_t count) {
  return static_cast<std::size_t>(between(0, static_cast<std::int64_t>(count) - 1));
}

inline Ints random_extents(std::int64_t max_rank, std::int64_t smallest, std::int64_t largest) {
  Ints extents(static_cast<std::size_t>(between(0, max_rank)));
  for (auto& extent : extents) extent = between(smallest, largest);
  return extents;
}

/// Returns one to four extents whose product is `elements`. Some of them may be 1.
inline Ints random_factors(std::int64_t elements) {
  Ints factors(static_cast<std::size_t>(between(1, 4)), 1);
  if (elements == 0) factors[below(factors.size())] = 0;
  for (std::int64_t prime = 2; elements > 1; ++prime) {
    for (; elements % prime == 0; elements /= prime) factors[below(factors.size())] *= prime;
  }
  return factors;
}

/// A random slice within an extent, in either direction.
struct RandomSlice {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t step = 1;

  explicit RandomSlice(std::int64_t extent) {
    if (between(0, 1) == 0) {
      begin = between(0, extent);
      end = between(begin, extent);
      step = between(1, 3);
    } else {
      begin = between(-1, extent - 1);
      end = between(-1, begin);
      step = between(-3, -1);
    }
  }
};

}  // namespace ht::tests
