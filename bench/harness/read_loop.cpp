#include "bench/harness/read_loop.hpp"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ht::bench {

std::uint64_t by_plain_read(Bytes bytes) {
  std::uint64_t all = 0;
  while (!bytes.empty()) {
    std::uint64_t number = 0;
    const auto next = std::min(sizeof(number), bytes.size());
    std::memcpy(&number, bytes.data(), next);
    all ^= number;
    bytes = bytes.subspan(next);
  }
  return all;
}

#if defined(__x86_64__)

namespace {

// Eight independent accumulators hide the latency of the exclusive-or, so that the loads are the bottleneck.
constexpr std::size_t lanes = 8;
constexpr std::size_t step = lanes * sizeof(__m256i);
constexpr std::size_t line_bytes = 64;
// The prefetch distance of the library's CRC-64 kernels for x86.
constexpr std::size_t prefetch_bytes = 4096;

template <bool prefetch>
[[gnu::target("avx2")]] std::uint64_t read(Bytes bytes) {
  __m256i sums[lanes]{};
  const std::byte* data = bytes.data();
  for (std::size_t rounds = bytes.size() / step; rounds > 0; --rounds, data += step) {
    if constexpr (prefetch) {
      for (std::size_t i = 0; i < step; i += line_bytes) __builtin_prefetch(data + prefetch_bytes + i, 0, 3);
    }
    for (std::size_t i = 0; i < lanes; ++i) {
      const auto* const from = reinterpret_cast<const __m256i*>(data) + i;
      sums[i] = _mm256_xor_si256(sums[i], _mm256_loadu_si256(from));
    }
  }
  __m256i all = sums[0];
  for (std::size_t i = 1; i < lanes; ++i) all = _mm256_xor_si256(all, sums[i]);
  const __m128i half = _mm_xor_si128(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
  const auto numbers = static_cast<std::uint64_t>(_mm_extract_epi64(half, 0)) ^
                       static_cast<std::uint64_t>(_mm_extract_epi64(half, 1));
  return numbers ^ by_plain_read(bytes.last(bytes.size() % step));
}

}  // namespace

bool has_avx2() { return __builtin_cpu_supports("avx2") != 0; }
std::uint64_t by_avx2_read(Bytes bytes) { return read<false>(bytes); }
std::uint64_t by_avx2_read_with_prefetch(Bytes bytes) { return read<true>(bytes); }

#else

bool has_avx2() { return false; }
std::uint64_t by_avx2_read(Bytes bytes) { return by_plain_read(bytes); }
std::uint64_t by_avx2_read_with_prefetch(Bytes bytes) { return by_plain_read(bytes); }

#endif

}  // namespace ht::bench
