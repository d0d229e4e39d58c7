// Conversions of short strips of elements to and from F32 and F64. The kernels of each dtype are compiled
// once per Highway target.
//
// promote: exact, except that I64 and U64 are rounded to odd in F64, so that a second rounding gives the
// correct result. demote: rounds once. Pointers to stored elements need no alignment; packed elements start
// at a byte.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <htensor/dtype/dtypes.hpp>
#include <htensor/values/cast.hpp>

namespace ht::inline v1::values {

/// Maximum elements of a strip, a multiple of every block size. The F64 values of a strip, their random bits
/// and their results fit the first-level cache.
inline constexpr std::int64_t strip_elements = 1024;

/// Random bits of a strip for stochastic rounding; unused otherwise.
struct RandomBits {
  alignas(64) std::array<std::uint64_t, strip_elements> words;
};

/// Fills the first `count` words with the random bits of the elements `first` to `first + count - 1`. The
/// bits of an element depend only on the seed and its index.
void fill_random(RandomBits& bits, std::uint64_t seed, std::uint64_t first, std::int64_t count) noexcept;

/// Parameters of a demotion.
struct Demotion {
  Rounding::Mode mode = Rounding::Mode::nearest_even;
  bool saturate = false;
  const RandomBits* random = nullptr;
};

using PromoteF32 = void (*)(const std::byte* stored, float* into, std::int64_t count) noexcept;
using PromoteF64 = void (*)(const std::byte* stored, double* into, std::int64_t count) noexcept;
using DemoteF32 = void (*)(const float* from, std::byte* into, std::int64_t count, const Demotion&) noexcept;
using DemoteF64 = void (*)(const double* from, std::byte* into, std::int64_t count, const Demotion&) noexcept;

/// Kernels of one dtype for this processor. `promote_f32` is null if F32 does not represent all values of the
/// dtype.
struct Kernels {
  PromoteF32 promote_f32 = nullptr;
  PromoteF64 promote_f64 = nullptr;
  DemoteF32 demote_f32 = nullptr;
  DemoteF64 demote_f64 = nullptr;
};

/// Kernels of a real dtype of the library. All are null for C64 and user dtypes.
[[nodiscard]] const Kernels& kernels_of(DTypeTag tag) noexcept;

/// Copies `bytes` with non-temporal stores if the processor supports them. `into` is aligned to 64 bytes and
/// `bytes` is a multiple of 64.
void copy_streaming(const std::byte* from, std::byte* into, std::size_t bytes) noexcept;
/// Orders streaming copies before later stores. Call once after the last `copy_streaming` of a thread's work.
void end_streaming() noexcept;

}  // namespace ht::inline v1::values
