#include <htensor/hash/digest.hpp>

#include "bench/checksum/sums.hpp"
#include "bench/harness/must.hpp"

namespace ht::bench {

bool has_sha256() { return digest(HashAlgorithm::sha256, {}).has_value(); }

std::uint64_t by_sha256(Bytes bytes) {
  const auto sum = value_of(digest(HashAlgorithm::sha256, bytes));
  return load_le<std::uint64_t>(sum.bytes());
}

}  // namespace ht::bench
