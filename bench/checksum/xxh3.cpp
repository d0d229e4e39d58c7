#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#include "bench/checksum/sums.hpp"

namespace ht::bench {
namespace {

// On x86-64, libxxhash selects the widest registers at run time. On other processors, the width of registers
// was fixed when libxxhash was compiled.
#if defined(__x86_64__)
constexpr auto xxh3_64 = XXH3_64bits_dispatch;
constexpr auto xxh3_128 = XXH3_128bits_dispatch;
#else
constexpr auto xxh3_64 = XXH3_64bits;
constexpr auto xxh3_128 = XXH3_128bits;
#endif

}  // namespace

std::uint64_t by_xxh3_64(Bytes bytes) { return xxh3_64(bytes.data(), bytes.size()); }

std::uint64_t by_xxh3_128(Bytes bytes) {
  const XXH128_hash_t hash = xxh3_128(bytes.data(), bytes.size());
  return combine_ordered(hash.high64, hash.low64, 0);
}

}  // namespace ht::bench
