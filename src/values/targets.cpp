#include "values/targets.hpp"

namespace ht::inline v1 {

namespace detail {

constinit std::atomic<std::int64_t> chosen_targets{0};

// A target requires the features of all lower targets, and the features that Highway enables for it.
std::int64_t find_targets() noexcept {
  std::int64_t targets = HWY_STATIC_TARGET;
#if defined(__x86_64__)
  const bool ssse3 = __builtin_cpu_supports("ssse3") != 0;
  const bool sse4 = ssse3 && __builtin_cpu_supports("sse4.1") != 0 && __builtin_cpu_supports("sse4.2") != 0 &&
                    __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("aes") != 0;
  const bool avx2 = sse4 && __builtin_cpu_supports("avx") != 0 && __builtin_cpu_supports("avx2") != 0 &&
                    __builtin_cpu_supports("bmi") != 0 && __builtin_cpu_supports("bmi2") != 0 &&
                    __builtin_cpu_supports("fma") != 0 && __builtin_cpu_supports("f16c") != 0;
  const bool avx3 = avx2 && __builtin_cpu_supports("avx512f") != 0 &&
                    __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
                    __builtin_cpu_supports("avx512bw") != 0;
  if (ssse3) targets |= HWY_SSSE3;
  if (sse4) targets |= HWY_SSE4;
  if (avx2) targets |= HWY_AVX2;
  if (avx3) targets |= HWY_AVX3;
#endif
  chosen_targets.store(targets, std::memory_order_relaxed);
  return targets;
}

}  // namespace detail

void set_targets_for_test(std::int64_t targets) noexcept {
  detail::chosen_targets.store(targets, std::memory_order_relaxed);
}

}  // namespace ht::inline v1
