// CRC by carry-less multiplication. A lane of 16 bytes is folded into a later lane: its two words are
// multiplied by factors for the distance, and the products are added to the later lane. Folding does not
// change the CRC of all bytes; it is repeated until a single lane is left. Several lanes are folded in
// parallel, because a product takes several cycles.
#include "hash/crc64nvme_kernels.hpp"

#if defined(__x86_64__)

#include <immintrin.h>

#include <array>

namespace ht::inline v1::crc64 {
namespace {

// Prefetches one page ahead: hardware prefetchers stop at the end of a page and do not read far ahead.
constexpr std::size_t prefetch_bytes = 4096;
constexpr std::size_t line_bytes = 64;

template <std::uint64_t Bytes>
constexpr auto constants = fold_constants(Bytes);

inline void prefetch(const std::byte* data) noexcept { __builtin_prefetch(data, 0, 2); }

inline __m128i load(const std::byte* data) noexcept {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(data));
}

template <std::uint64_t Bytes>
__m128i constants_128() noexcept {
  return _mm_set_epi64x(static_cast<long long>(constants<Bytes>[1]),
                        static_cast<long long>(constants<Bytes>[0]));
}

// Returns the later lane after `lane` was folded into it.
[[gnu::target("pclmul")]] inline __m128i fold(__m128i lane, __m128i factors, __m128i later) noexcept {
  return _mm_xor_si128(
      _mm_xor_si128(_mm_clmulepi64_si128(lane, factors, 0x00), _mm_clmulepi64_si128(lane, factors, 0x11)),
      later);
}

// Folds the remaining bytes into the lane and returns the CRC.
[[gnu::target("pclmul")]] std::uint64_t finish(__m128i lane, const std::byte* data,
                                               std::size_t size) noexcept {
  const __m128i factors = constants_128<16>();
  for (; size >= 16; data += 16, size -= 16) lane = fold(lane, factors, load(data));
  std::array<std::byte, 16> rest{};
  _mm_storeu_si128(reinterpret_cast<__m128i*>(rest.data()), lane);
  return by_table(data, size, by_table(rest.data(), rest.size(), 0));
}

[[gnu::target("pclmul")]] std::uint64_t by_pclmul(const std::byte* data, std::size_t size,
                                                  std::uint64_t sum) noexcept {
  constexpr std::size_t lanes = 8;
  constexpr std::size_t step = lanes * 16;
  if (size < step) return by_table(data, size, sum);
  __m128i sums[lanes];  // std::array would drop the type's alignment attribute
#pragma GCC unroll 8
  for (std::size_t i = 0; i < lanes; ++i) sums[i] = load(data + 16 * i);
  sums[0] = _mm_xor_si128(sums[0], _mm_set_epi64x(0, static_cast<long long>(sum)));
  const __m128i factors = constants_128<step>();
  for (data += step, size -= step; size >= step; data += step, size -= step) {
    prefetch(data + prefetch_bytes);
    prefetch(data + prefetch_bytes + line_bytes);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < lanes; ++i) sums[i] = fold(sums[i], factors, load(data + 16 * i));
  }
  const __m128i lane_factors = constants_128<16>();
#pragma GCC unroll 8
  for (std::size_t i = 1; i < lanes; ++i) sums[i] = fold(sums[i - 1], lane_factors, sums[i]);
  return finish(sums[lanes - 1], data, size);
}

[[gnu::target("avx2,vpclmulqdq")]] inline __m256i load_256(const std::byte* data) noexcept {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data));
}

template <std::uint64_t Bytes>
[[gnu::target("avx2,vpclmulqdq")]] __m256i constants_256() noexcept {
  return _mm256_broadcastsi128_si256(constants_128<Bytes>());
}

[[gnu::target("avx2,vpclmulqdq")]] inline __m256i fold(__m256i lane, __m256i factors,
                                                       __m256i later) noexcept {
  return _mm256_xor_si256(_mm256_xor_si256(_mm256_clmulepi64_epi128(lane, factors, 0x00),
                                           _mm256_clmulepi64_epi128(lane, factors, 0x11)),
                          later);
}

[[gnu::target("avx2,pclmul,vpclmulqdq")]] std::uint64_t by_vpclmul(const std::byte* data, std::size_t size,
                                                                   std::uint64_t sum) noexcept {
  constexpr std::size_t lanes = 8;
  constexpr std::size_t step = lanes * 32;
  if (size < step) return by_pclmul(data, size, sum);
  __m256i sums[lanes];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < lanes; ++i) sums[i] = load_256(data + 32 * i);
  sums[0] = _mm256_xor_si256(sums[0], _mm256_set_epi64x(0, 0, 0, static_cast<long long>(sum)));
  const __m256i factors = constants_256<step>();
  for (data += step, size -= step; size >= step; data += step, size -= step) {
    for (std::size_t i = 0; i < step; i += line_bytes) prefetch(data + prefetch_bytes + i);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < lanes; ++i) sums[i] = fold(sums[i], factors, load_256(data + 32 * i));
  }
  const __m256i lane_factors = constants_256<32>();
#pragma GCC unroll 8
  for (std::size_t i = 1; i < lanes; ++i) sums[i] = fold(sums[i - 1], lane_factors, sums[i]);
  for (; size >= 32; data += 32, size -= 32)
    sums[lanes - 1] = fold(sums[lanes - 1], lane_factors, load_256(data));
  const __m128i first = _mm256_castsi256_si128(sums[lanes - 1]);
  const __m128i second = _mm256_extracti128_si256(sums[lanes - 1], 1);
  return finish(fold(first, constants_128<16>(), second), data, size);
}

bool has_pclmul() noexcept { return __builtin_cpu_supports("pclmul") != 0; }
bool has_vpclmul() noexcept {
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("vpclmulqdq") != 0 && has_pclmul();
}

constexpr std::array<Kernel, 2> kernels{
    {{"pclmulqdq", by_pclmul, has_pclmul}, {"vpclmulqdq", by_vpclmul, has_vpclmul}}};

}  // namespace

std::span<const Kernel> architecture_kernels() noexcept { return kernels; }

}  // namespace ht::inline v1::crc64

#endif
