// Selects the Highway target of a kernel at run time.
//
// Highway's headers compile a kernel for several targets. Highway's library, which would select one, is not
// used. Debian ships it as a shared library only, and loading it measures the processor's clock for 4 ms in
// every process.
//
//   HWY_BEFORE_NAMESPACE();
//   namespace ht::inline v1::HWY_NAMESPACE { namespace { void kernel(int) {…} } }
//   HWY_AFTER_NAMESPACE();
//   #if HWY_ONCE
//   namespace ht::inline v1 { void run(int n) { HT_CHOOSE_TARGET(kernel)(n); } }
//   #endif
#pragma once

#include <hwy/detect_targets.h>

#include <atomic>
#include <cstdint>
#include <type_traits>

/// The function of that name in the namespace of the best target. Requires Highway's highway.h.
#define HT_CHOOSE_TARGET(name)                                                                  \
  ::ht::choose_target(&HWY_STATIC_DISPATCH(name), HWY_CHOOSE_AVX3(name), HWY_CHOOSE_AVX2(name), \
                      HWY_CHOOSE_SSE4(name), HWY_CHOOSE_SSSE3(name))

namespace ht::inline v1 {

namespace detail {

/// Bits of Highway's targets; 0 before first use.
extern std::atomic<std::int64_t> chosen_targets;

std::int64_t find_targets() noexcept;

}  // namespace detail

/// The targets of this processor, as bits of HWY_TARGETS. Always includes the static target of the build.
[[nodiscard]] inline std::int64_t supported_targets() noexcept {
  const std::int64_t chosen = detail::chosen_targets.load(std::memory_order_relaxed);
  return chosen != 0 ? chosen : detail::find_targets();
}

/// For tests: later calls use the best of these targets. 0 restores the targets of the processor.
void set_targets_for_test(std::int64_t targets) noexcept;

/// Returns the first non-null function whose target is supported, else `fallback`.
template <class Function>
[[nodiscard]] Function choose_target(Function fallback, std::type_identity_t<Function> avx3,
                                     std::type_identity_t<Function> avx2, std::type_identity_t<Function> sse4,
                                     std::type_identity_t<Function> ssse3) noexcept {
  const std::int64_t targets = supported_targets();
  if (avx3 != nullptr && (targets & HWY_AVX3) != 0) return avx3;
  if (avx2 != nullptr && (targets & HWY_AVX2) != 0) return avx2;
  if (sse4 != nullptr && (targets & HWY_SSE4) != 0) return sse4;
  if (ssse3 != nullptr && (targets & HWY_SSSE3) != 0) return ssse3;
  return fallback;
}

}  // namespace ht::inline v1
