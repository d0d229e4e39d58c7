// The algorithm of crc64nvme_x86.cpp, with the polynomial multiplication of AArch64.
#include "hash/crc64nvme_kernels.hpp"

#if defined(__aarch64__) && defined(__linux__)

#include <arm_neon.h>
#include <sys/auxv.h>

#include <array>

namespace ht::inline v1::crc64 {
namespace {

using Lane = poly64x2_t;

inline Lane load(const std::byte* data) noexcept {
  return vreinterpretq_p64_u8(vld1q_u8(reinterpret_cast<const std::uint8_t*>(data)));
}

template <std::uint64_t Bytes>
constexpr auto constants = fold_constants(Bytes);

inline Lane lane_of(std::array<std::uint64_t, 2> words) noexcept {
  return vreinterpretq_p64_u64(vld1q_u64(words.data()));
}

inline Lane exclusive_or(Lane a, Lane b) noexcept {
  return vreinterpretq_p64_u64(veorq_u64(vreinterpretq_u64_p64(a), vreinterpretq_u64_p64(b)));
}

[[gnu::target("+crypto")]] inline Lane fold(Lane lane, Lane factors, Lane later) noexcept {
  const auto first = vreinterpretq_p64_p128(vmull_p64(vgetq_lane_p64(lane, 0), vgetq_lane_p64(factors, 0)));
  const auto second = vreinterpretq_p64_p128(vmull_high_p64(lane, factors));
  return exclusive_or(exclusive_or(first, second), later);
}

[[gnu::target("+crypto")]] std::uint64_t by_pmull(const std::byte* data, std::size_t size,
                                                  std::uint64_t sum) noexcept {
  constexpr std::size_t lanes = 8;
  constexpr std::size_t step = lanes * 16;
  constexpr std::size_t prefetch_bytes = 1024;
  if (size < step) return by_table(data, size, sum);
  Lane sums[lanes];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < lanes; ++i) sums[i] = load(data + 16 * i);
  sums[0] = exclusive_or(sums[0], lane_of({sum, 0}));
  const Lane factors = lane_of(constants<step>);
  for (data += step, size -= step; size >= step; data += step, size -= step) {
    __builtin_prefetch(data + prefetch_bytes);
    __builtin_prefetch(data + prefetch_bytes + step / 2);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < lanes; ++i) sums[i] = fold(sums[i], factors, load(data + 16 * i));
  }
  const Lane lane_factors = lane_of(constants<16>);
#pragma GCC unroll 8
  for (std::size_t i = 1; i < lanes; ++i) sums[i] = fold(sums[i - 1], lane_factors, sums[i]);
  Lane last = sums[lanes - 1];
  for (; size >= 16; data += 16, size -= 16) last = fold(last, lane_factors, load(data));
  std::array<std::uint8_t, 16> rest{};
  vst1q_u8(rest.data(), vreinterpretq_u8_p64(last));
  return by_table(data, size, by_table(reinterpret_cast<const std::byte*>(rest.data()), rest.size(), 0));
}

bool has_pmull() noexcept { return (getauxval(AT_HWCAP) & HWCAP_PMULL) != 0; }

constexpr std::array<Kernel, 1> kernels{{{"pmull", by_pmull, has_pmull}}};

}  // namespace

std::span<const Kernel> architecture_kernels() noexcept { return kernels; }

}  // namespace ht::inline v1::crc64

#endif
