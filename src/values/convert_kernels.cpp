#include "values/convert_kernels.hpp"

#include "values/kernel_targets.hpp"
#include "values/targets.hpp"

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstring>
#include <htensor/dtype/facts.hpp>
#include <htensor/dtype/float_code.hpp>
#include <htensor/dtype/packed.hpp>
#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "values/convert_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <hwy/cache_control.h>

// The kernels are plain loops without branches. They are compiled once for each processor generation, and the
// compiler vectorizes them with its registers.
HWY_BEFORE_NAMESPACE();
namespace ht::inline v1::values::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
HWY_INLINE T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <class T>
HWY_INLINE void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

// A float's or double's layout by the integer that holds its bits.
template <class Word>
inline constexpr FloatLayout native_layout =
    sizeof(Word) == 4 ? FloatLayout{8, 23, 127, Specials::ieee} : FloatLayout{11, 52, 1023, Specials::ieee};

template <class Word>
using Native = std::conditional_t<sizeof(Word) == 4, float, double>;

// The bits of the float that is equal to a code of a layout with at most 8 exponent and 22 mantissa bits.
template <FloatLayout L>
HWY_INLINE std::uint32_t widen(std::uint32_t code) {
  constexpr int code_bits = L.exponent_bits + L.mantissa_bits;
  constexpr auto largest = static_cast<std::uint32_t>(L.largest_code());
  constexpr std::uint32_t infinity = 0x7F800000;
  constexpr std::uint32_t quiet_nan = 0x7FC00000;
  if constexpr (L.specials == Specials::scale) {
    // Powers of two from 2^-127 on, which is subnormal.
    const std::uint32_t power = code == 0 ? 0x00400000 : code << 23;
    return code > largest ? quiet_nan : power;
  } else if constexpr (L.exponent_bits == 8 && L.specials == Specials::ieee) {
    return code << (23 - L.mantissa_bits);
  } else {
    constexpr auto unit = std::bit_cast<float>(static_cast<std::uint32_t>(127 + L.lowest_exponent()) << 23);
    constexpr std::uint32_t first_normal = 1U << L.mantissa_bits;
    const std::uint32_t magnitude = code & ((1U << code_bits) - 1);
    const std::uint32_t moved = magnitude << (23 - L.mantissa_bits);
    const std::uint32_t normal = moved + (static_cast<std::uint32_t>(127 - L.bias) << 23);
    // A conversion and a product instead of a subnormal operand, which slows many processors down.
    const auto subnormal = std::bit_cast<std::uint32_t>(
        static_cast<float>(static_cast<std::int32_t>(magnitude & (first_normal - 1))) * unit);
    // NOLINTNEXTLINE(misc-const-correctness): not every layout has special codes
    std::uint32_t bits = magnitude < first_normal ? subnormal : normal;
    if constexpr (L.specials == Specials::ieee) {
      const std::uint32_t special = infinity | (moved & 0x007FFFFF);
      bits = magnitude > largest ? special : bits;
      bits = magnitude > largest + 1 ? bits | quiet_nan : bits;
    } else if constexpr (L.specials == Specials::nan_at_all_ones) {
      bits = magnitude > largest ? quiet_nan | (moved & 0x007FFFFF) : bits;
    } else if constexpr (L.specials == Specials::nan_at_minus_zero) {
      bits = code == 1U << code_bits ? quiet_nan : bits;
    }
    return bits | (code >> code_bits) << 31;
  }
}

// The values of all codes of 8 bits: looking them up is faster than computing them.
template <FloatLayout L>
constexpr auto values_of_codes = [] {
  std::array<float, 256> values{};
  for (unsigned code = 0; code < values.size(); ++code)
    values[code] = detail::to_native<float>(detail::take_apart(L, code));
  return values;
}();

// The codes that depend on how a demotion treats overflow.
template <FloatLayout L, class Word>
struct Overflow {
  Word finite;
  Word infinite;

  explicit Overflow(const Demotion& demotion) {
    constexpr auto largest = static_cast<Word>(L.largest_code());
    constexpr Word beyond = L.specials == Specials::none ? largest : largest + 1;
    infinite = demotion.saturate ? largest : beyond;
    finite = demotion.mode == RoundingMode::toward_zero ? largest : infinite;
  }
};

// A code of magnitudes with its sign, where the layout has both.
template <FloatLayout L, class Word>
HWY_INLINE Word with_sign(Word code, Word negative) {
  constexpr int code_bits = L.exponent_bits + L.mantissa_bits;
  const Word signed_code = code | negative << code_bits;
  if constexpr (L.specials != Specials::nan_at_minus_zero) return signed_code;
  // Neither zero nor the NaN has a sign.
  return code == 0 || code > static_cast<Word>(L.largest_code()) ? code : signed_code;
}

// The code of the number with these bits, rounded once. `random` decides without `IsNearest`: a number below
// 2^32 or 2^64, 0 to round toward zero.
template <FloatLayout L, bool IsNearest, class Word>
HWY_INLINE Word narrow(Word bits, Word random, const Overflow<L, Word>& overflow) {
  using Int = std::make_signed_t<Word>;
  constexpr FloatLayout source = native_layout<Word>;
  constexpr int word_bits = std::numeric_limits<Word>::digits;
  constexpr int dropped = source.mantissa_bits - L.mantissa_bits;
  constexpr Word implicit = Word{1} << source.mantissa_bits;
  constexpr auto infinity = static_cast<Word>(source.largest_code() + 1);
  constexpr auto largest = static_cast<Word>(L.largest_code());
  // Where the unit of the target's subnormals lies in a source number of exponent 0.
  constexpr Int subnormal_shift = L.lowest_exponent() + source.bias + source.mantissa_bits;

  const Word magnitude = bits & ~(Word{1} << (word_bits - 1));
  const Word negative = bits >> (word_bits - 1);
  const Word field = magnitude >> source.mantissa_bits;
  const auto exponent = static_cast<Int>(field != 0 ? field : Word{1});
  Word significand = (magnitude & (implicit - 1)) | (field != 0 ? implicit : Word{0});
  const Int wanted = std::max<Int>(dropped, subnormal_shift - exponent);
  const Int shift = std::min<Int>(wanted, word_bits - 1);
  Word bias = 0;
  if constexpr (IsNearest) {
    bias = (Word{1} << (shift - 1)) - 1 + ((significand >> shift) & 1);
  } else {
    // A number far below the smallest one keeps its chance of becoming that.
    significand >>= std::min<Int>(wanted - shift, word_bits - 1);
    bias = random & ((Word{1} << shift) - 1);
  }
  const Word rounded = (significand + bias) >> shift;
  // Codes are the magnitudes in order, so that a carry out of the mantissa increments the exponent.
  const Int steps = std::max<Int>(exponent - (subnormal_shift - dropped), 0);
  Word code = (static_cast<Word>(steps) << L.mantissa_bits) + rounded;
  code = code > largest ? overflow.finite : code;
  code = magnitude == infinity ? overflow.infinite : code;
  if constexpr (L.specials == Specials::none) {
    // Without NaN, the sign of NaN means nothing either.
    return magnitude > infinity ? largest : with_sign<L>(code, negative);
  } else {
    Word nan = largest + 1;
    if constexpr (L.specials == Specials::ieee) {
      nan |= Word{1} << (L.mantissa_bits - 1);
      nan |= (magnitude & (implicit - 1)) >> dropped;
    }
    return with_sign<L>(magnitude > infinity ? nan : code, negative);
  }
}

// The same for a layout of powers of two without zero and sign.
template <FloatLayout L, class Word>
HWY_INLINE Word narrow_to_scale(Word bits, Word random, const Demotion& demotion,
                                const Overflow<L, Word>& overflow) {
  constexpr FloatLayout source = native_layout<Word>;
  constexpr int word_bits = std::numeric_limits<Word>::digits;
  constexpr auto infinity = static_cast<Word>(source.largest_code() + 1);
  constexpr auto largest = static_cast<Word>(L.largest_code());
  const Word magnitude = bits & ~(Word{1} << (word_bits - 1));
  if (magnitude > infinity || (magnitude != 0 && magnitude != bits)) return largest + 1;
  if (magnitude == infinity) return overflow.infinite;
  const Magnitude value = source.magnitude(magnitude);
  if (value.significand == 0) return 0;
  const int top = 63 - std::countl_zero(value.significand);
  const int code = top + value.exponent - L.lowest_exponent();
  if (code < 0) return 0;
  // The part below the leading bit, as a fraction of 2^64.
  const std::uint64_t fraction = top == 0 ? 0 : value.significand << (64 - top);
  const bool up = demotion.mode == RoundingMode::nearest_even
                      ? fraction >> 63 != 0
                      : fraction > static_cast<std::uint64_t>(random) << (64 - word_bits);
  const Word rounded = static_cast<Word>(code) + (up ? 1 : 0);
  return rounded > largest ? overflow.finite : rounded;
}

// An integer between `Lowest` and `Highest`: rounded, saturated, 0 for NaN.
template <class Int, Int Lowest, Int Highest>
HWY_INLINE Int round_to_integer(double value, RoundingMode mode, std::uint64_t random) {
  if (value != value) return 0;
  // Exact powers of two, or smaller than 2^53: comparisons are exact.
  if (value <= static_cast<double>(Lowest)) return Lowest;
  if (value >= static_cast<double>(Highest)) return Highest;
  const auto truncated = static_cast<Int>(value);
  const double rest = value - static_cast<double>(truncated);
  const double distance = rest < 0 ? -rest : rest;
  bool away = false;
  if (mode == RoundingMode::nearest_even) {
    away = distance > 0.5 || (distance == 0.5 && truncated % 2 != 0);
  } else if (mode == RoundingMode::stochastic) {
    away = distance * 0x1p53 > static_cast<double>(random >> 11);
  }
  if (!away) return truncated;
  return static_cast<Int>(rest < 0 ? truncated - 1 : truncated + 1);
}

// The magnitude as a double whose last bit is set if it is not exact: rounding again gives the right result.
HWY_INLINE double to_double_odd(std::uint64_t magnitude) {
  const int excess = 11 - std::min(std::countl_zero(magnitude), 11);
  const std::uint64_t kept = magnitude >> excess;
  const bool lost = kept << excess != magnitude;
  return static_cast<double>(static_cast<std::int64_t>(kept | (lost ? 1 : 0))) *
         static_cast<double>(std::uint64_t{1} << excess);
}

// Codes of packed elements, which have a whole number of bytes per eight.
template <class D>
void unpack(const std::byte* stored, std::uint8_t* codes, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    codes[i] = static_cast<std::uint8_t>(detail::load_packed<D>(stored, i).bits());
}

template <class D>
void pack(const std::uint8_t* codes, std::byte* into, std::int64_t count) {
  std::memset(into, 0, static_cast<std::size_t>((count * D::bits + 7) / 8));
  for (std::int64_t i = 0; i < count; ++i) detail::store_packed<D>(into, i, D::Element::from_bits(codes[i]));
}

template <>
void unpack<F4>(const std::byte* stored, std::uint8_t* codes, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto pair = std::to_integer<unsigned>(stored[i / 2]);
    codes[i] = static_cast<std::uint8_t>((pair >> (i % 2 * 4)) & 15);
  }
}

template <class D>
void promote_f32(const std::byte* stored, float* into, std::int64_t count) noexcept {
  if constexpr (std::same_as<D, F32>) {
    std::memcpy(into, stored, static_cast<std::size_t>(count) * sizeof(float));
  } else if constexpr (is_packed<D>) {
    std::uint8_t codes[strip_elements];
    unpack<D>(stored, codes, count);
    for (std::int64_t i = 0; i < count; ++i) {
      if constexpr (IsFloating<D>) {
        into[i] = std::bit_cast<float>(widen<D::layout>(codes[i]));
      } else {
        into[i] = static_cast<float>(static_cast<int>(D::Element::from_bits(codes[i])));
      }
    }
  } else if constexpr (std::same_as<D, Bool>) {
    for (std::int64_t i = 0; i < count; ++i) into[i] = stored[i] != std::byte{0} ? 1.0F : 0.0F;
  } else if constexpr (IsFloating<D>) {
    using Bits = typename D::Element::Bits;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto code = load<Bits>(stored + i * static_cast<std::int64_t>(sizeof(Bits)));
      if constexpr (D::bits == 8) {
        into[i] = values_of_codes<D::layout>[code];
      } else {
        into[i] = std::bit_cast<float>(widen<D::layout>(code));
      }
    }
  } else {
    using Int = typename D::Element;
    for (std::int64_t i = 0; i < count; ++i)
      into[i] = static_cast<float>(load<Int>(stored + i * static_cast<std::int64_t>(sizeof(Int))));
  }
}

template <class D>
void promote_f64(const std::byte* stored, double* into, std::int64_t count) noexcept {
  if constexpr (std::same_as<D, F64>) {
    std::memcpy(into, stored, static_cast<std::size_t>(count) * sizeof(double));
  } else if constexpr (LosslessTo<D, F32>) {
    alignas(64) float floats[strip_elements];
    promote_f32<D>(stored, floats, count);
    for (std::int64_t i = 0; i < count; ++i) into[i] = static_cast<double>(floats[i]);
  } else {
    using Int = typename D::Element;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto value = load<Int>(stored + i * static_cast<std::int64_t>(sizeof(Int)));
      if constexpr (sizeof(Int) == 8) {
        const auto bits = static_cast<std::uint64_t>(value);
        const bool negative = std::is_signed_v<Int> && bits >> 63 != 0;
        const double magnitude = to_double_odd(negative ? 0 - bits : bits);
        into[i] = negative ? -magnitude : magnitude;
      } else {
        into[i] = static_cast<double>(value);
      }
    }
  }
}

// Calls `put(i, code)` with the code of each element.
template <class D, class Word, class Put>
HWY_INLINE void narrow_all(const Native<Word>* from, std::int64_t count, const Demotion& demotion, Put put) {
  const Overflow<D::layout, Word> overflow(demotion);
  const bool is_random = demotion.mode == RoundingMode::stochastic;
  const auto random_at = [&](std::int64_t i) {
    return is_random ? static_cast<Word>(demotion.random->words[static_cast<std::size_t>(i)]) : Word{0};
  };
  // Rounding up at random compares: the largest number never rounds an exact value up.
  if constexpr (D::layout.specials == Specials::scale) {
    const bool down = demotion.mode == RoundingMode::toward_zero;
    for (std::int64_t i = 0; i < count; ++i) {
      const Word random = down ? static_cast<Word>(-1) : random_at(i);
      put(i, narrow_to_scale<D::layout>(std::bit_cast<Word>(from[i]), random, demotion, overflow));
    }
  } else if (demotion.mode == RoundingMode::nearest_even) {
    for (std::int64_t i = 0; i < count; ++i)
      put(i, narrow<D::layout, true, Word>(std::bit_cast<Word>(from[i]), 0, overflow));
  } else if (is_random) {
    for (std::int64_t i = 0; i < count; ++i)
      put(i, narrow<D::layout, false, Word>(std::bit_cast<Word>(from[i]), random_at(i), overflow));
  } else {
    for (std::int64_t i = 0; i < count; ++i)
      put(i, narrow<D::layout, false, Word>(std::bit_cast<Word>(from[i]), 0, overflow));
  }
}

template <class D, class Word>
void demote(const Native<Word>* from, std::byte* into, std::int64_t count,
            const Demotion& demotion) noexcept {
  if constexpr (std::same_as<typename D::Element, Native<Word>>) {
    std::memcpy(into, from, static_cast<std::size_t>(count) * sizeof(Word));
  } else if constexpr (std::same_as<D, F64>) {
    for (std::int64_t i = 0; i < count; ++i)
      store(into + i * std::int64_t{sizeof(double)}, static_cast<double>(from[i]));
  } else if constexpr (std::same_as<D, Bool>) {
    for (std::int64_t i = 0; i < count; ++i) into[i] = from[i] != 0 ? std::byte{1} : std::byte{0};
  } else if constexpr (is_packed<D>) {
    std::uint8_t codes[strip_elements];
    if constexpr (IsFloating<D>) {
      narrow_all<D, Word>(from, count, demotion,
                          [&](std::int64_t i, Word code) { codes[i] = static_cast<std::uint8_t>(code); });
    } else {
      for (std::int64_t i = 0; i < count; ++i) {
        const std::uint64_t random =
            demotion.random != nullptr ? demotion.random->words[static_cast<std::size_t>(i)] : 0;
        const int value = round_to_integer<int, D::Element::lowest, D::Element::highest>(
            static_cast<double>(from[i]), demotion.mode, random);
        codes[i] = static_cast<std::uint8_t>(value & 15);
      }
    }
    pack<D>(codes, into, count);
  } else if constexpr (IsFloating<D>) {
    using Bits = std::conditional_t<D::bits == 32, std::uint32_t,
                                    std::conditional_t<D::bits == 16, std::uint16_t, std::uint8_t>>;
    narrow_all<D, Word>(from, count, demotion, [&](std::int64_t i, Word code) {
      store(into + i * static_cast<std::int64_t>(sizeof(Bits)), static_cast<Bits>(code));
    });
  } else {
    using Int = typename D::Element;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint64_t random =
          demotion.random != nullptr ? demotion.random->words[static_cast<std::size_t>(i)] : 0;
      const auto value =
          round_to_integer<Int, std::numeric_limits<Int>::min(), std::numeric_limits<Int>::max()>(
              static_cast<double>(from[i]), demotion.mode, random);
      store(into + i * static_cast<std::int64_t>(sizeof(Int)), value);
    }
  }
}

template <class D>
constexpr Kernels kernels_for() {
  Kernels kernels;
  if constexpr (D::number.kind != NumberKind::complex) {
    if constexpr (LosslessTo<D, F32>) kernels.promote_f32 = promote_f32<D>;
    kernels.promote_f64 = promote_f64<D>;
    kernels.demote_f32 = demote<D, std::uint32_t>;
    kernels.demote_f64 = demote<D, std::uint64_t>;
  }
  return kernels;
}

constexpr std::size_t tags = 32;

template <class... Ds>
constexpr std::array<Kernels, tags> make_table(DTypeList<Ds...>) {
  std::array<Kernels, tags> table{};
  ((table[static_cast<std::size_t>(Ds::tag)] = kernels_for<Ds>()), ...);
  return table;
}

constexpr std::array<Kernels, tags> table = make_table(AllDTypes{});

const Kernels* find_kernels(DTypeTag tag) {
  const auto at = static_cast<std::size_t>(tag);
  return at < table.size() ? &table[at] : &table[0];
}

void stream(const std::byte* from, std::byte* into, std::size_t bytes) {
  const hn::ScalableTag<std::uint8_t> lanes;
  const auto* const source = reinterpret_cast<const std::uint8_t*>(from);
  auto* const target = reinterpret_cast<std::uint8_t*>(into);
  for (std::size_t i = 0; i < bytes; i += hn::Lanes(lanes))
    hn::Stream(hn::LoadU(lanes, source + i), lanes, target + i);
}

}  // namespace
}  // namespace ht::inline v1::values::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ht::inline v1::values {

const Kernels& kernels_of(DTypeTag tag) noexcept { return *HT_CHOOSE_TARGET(find_kernels)(tag); }

void copy_streaming(const std::byte* from, std::byte* into, std::size_t bytes) noexcept {
  HT_CHOOSE_TARGET(stream)(from, into, bytes);
}

void end_streaming() noexcept { hwy::FlushStream(); }

namespace {

// A mix of 64 bits in which every input bit affects every output bit.
std::uint64_t mix(std::uint64_t word) noexcept {
  word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9;
  word = (word ^ (word >> 27)) * 0x94D049BB133111EB;
  return word ^ (word >> 31);
}

}  // namespace

void fill_random(RandomBits& bits, std::uint64_t seed, std::uint64_t first, std::int64_t count) noexcept {
  const std::uint64_t start = mix(seed);
  for (std::int64_t i = 0; i < count; ++i)
    bits.words[static_cast<std::size_t>(i)] =
        mix(start + (first + static_cast<std::uint64_t>(i)) * 0x9E3779B97F4A7C15);
}

}  // namespace ht::inline v1::values
#endif
