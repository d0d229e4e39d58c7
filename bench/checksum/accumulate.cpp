#include <numeric>
#include <span>

#include "bench/checksum/sums.hpp"

namespace ht::bench {

std::uint64_t by_accumulate(Bytes bytes) {
  const std::span numbers(reinterpret_cast<const std::uint64_t*>(bytes.data()),
                          bytes.size() / sizeof(std::uint64_t));
  return std::accumulate(numbers.begin(), numbers.end(), std::uint64_t{0});
}

}  // namespace ht::bench
