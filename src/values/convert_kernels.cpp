#include "values/convert_kernels.hpp"

#include "base/memory_hints.hpp"
#include "values/kernel_targets.hpp"
#include "values/targets.hpp"

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstring>
#include <htensor/dtype/dtypes.hpp>
#include <htensor/dtype/packed.hpp>
#include <htensor/dtype/scalar.hpp>
#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "values/convert_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <hwy/cache_control.h>

// Codes of floating-point dtypes are converted by SIMD instructions. Conversions of integers, conversions to
// E8M0, and packing are plain loops. All are compiled once per Highway target.
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

// The layout of float or double, by the integer type of its bits.
template <class Word>
inline constexpr FloatLayout native_layout =
    sizeof(Word) == 4 ? FloatLayout{8, 23, 127, FloatLayout::Specials::ieee}
                      : FloatLayout{11, 52, 1023, FloatLayout::Specials::ieee};

template <class Word>
using Native = std::conditional_t<sizeof(Word) == 4, float, double>;

// Vectors of one word per element.
template <class Word>
using Words = hn::CappedTag<Word, 32 / sizeof(Word)>;

// Converts codes of a layout with at most 8 exponent and 22 mantissa bits to floats.
template <FloatLayout L, class Tag>
HWY_INLINE hn::Vec<hn::RebindToFloat<Tag>> widen(Tag words, hn::Vec<Tag> code) {
  const hn::RebindToFloat<Tag> floats;
  const hn::RebindToSigned<Tag> ints;
  constexpr int code_bits = L.exponent_bits + L.mantissa_bits;
  constexpr auto largest = static_cast<std::int32_t>(L.largest_code());
  constexpr int moved_by = 23 - L.mantissa_bits;
  const auto above = [&](auto value, std::int32_t limit) {
    return hn::Gt(hn::BitCast(ints, value), hn::Set(ints, limit));
  };
  const auto select = [&](auto mask, auto yes, auto no) {
    return hn::IfThenElse(hn::RebindMask(words, mask), yes, no);
  };
  const auto quiet_nan = hn::Set(words, 0x7FC00000U);
  if constexpr (L.specials == FloatLayout::Specials::scale) {
    // Powers of two, starting with the subnormal 2^-127.
    const auto power =
        select(above(code, 0), hn::ShiftLeft<23>(code), hn::Set(words, std::uint32_t{0x00400000}));
    return hn::BitCast(floats, select(above(code, largest), quiet_nan, power));
  } else if constexpr (L.exponent_bits == 8 && L.specials == FloatLayout::Specials::ieee) {
    return hn::BitCast(floats, hn::ShiftLeft<moved_by>(code));
  } else {
    constexpr auto unit = std::bit_cast<float>(static_cast<std::uint32_t>(127 + L.lowest_exponent()) << 23);
    constexpr std::int32_t first_normal = 1 << L.mantissa_bits;
    constexpr std::uint32_t rebias = static_cast<std::uint32_t>(127 - L.bias) << 23;
    const auto magnitude = hn::And(code, hn::Set(words, (1U << code_bits) - 1));
    const auto moved = hn::ShiftLeft<moved_by>(magnitude);
    const auto normal = hn::Add(moved, hn::Set(words, rebias));
    // An integer conversion and a product avoid a subnormal operand, which is slow on many processors.
    const auto subnormal = hn::BitCast(
        words, hn::Mul(hn::ConvertTo(floats, hn::BitCast(ints, magnitude)), hn::Set(floats, unit)));
    // NOLINTNEXTLINE(misc-const-correctness): not every layout has special codes
    auto bits = select(above(magnitude, first_normal - 1), normal, subnormal);
    const auto payload = hn::And(moved, hn::Set(words, 0x007FFFFFU));
    if constexpr (L.specials == FloatLayout::Specials::ieee) {
      const auto special = hn::Or(payload, hn::Set(words, 0x7F800000U));
      bits = select(above(magnitude, largest), special, bits);
      bits = select(above(magnitude, largest + 1), hn::Or(bits, quiet_nan), bits);
    } else if constexpr (L.specials == FloatLayout::Specials::nan_at_all_ones) {
      bits = select(above(magnitude, largest), hn::Or(payload, quiet_nan), bits);
    }
    bits = hn::Or(bits, hn::ShiftLeft<31>(hn::ShiftRight<code_bits>(code)));
    if constexpr (L.specials == FloatLayout::Specials::nan_at_minus_zero) {
      const auto minus_zero = hn::Eq(code, hn::Set(words, 1U << code_bits));
      bits = hn::IfThenElse(minus_zero, hn::Set(words, 0xFFC00000U), bits);
    }
    return hn::BitCast(floats, bits);
  }
}

// The codes for numbers beyond the largest finite number: the largest code, or that of infinity or NaN.
template <FloatLayout L, class Word>
struct Overflow {
  Word of_finite;
  Word of_infinity;

  explicit Overflow(const Demotion& demotion) {
    constexpr auto largest = static_cast<Word>(L.largest_code());
    constexpr Word beyond = L.specials == FloatLayout::Specials::none ? largest : largest + 1;
    of_infinity = demotion.saturate ? largest : beyond;
    of_finite = demotion.mode == Rounding::Mode::toward_zero ? largest : of_infinity;
  }
};

// Rounds the numbers with these bits to codes, with one rounding. `IsNearest` selects rounding to nearest
// even. Otherwise `random` is added before truncation: random numbers below 2^32 or 2^64 for stochastic
// rounding, 0 for rounding toward zero.
template <FloatLayout L, bool IsNearest, class Tag>
HWY_INLINE hn::Vec<Tag> narrow(Tag words, hn::Vec<Tag> bits, hn::Vec<Tag> random,
                               const Overflow<L, hn::TFromD<Tag>>& overflow) {
  using Word = hn::TFromD<Tag>;
  using Int = std::make_signed_t<Word>;
  const hn::RebindToSigned<Tag> ints;
  constexpr FloatLayout source = native_layout<Word>;
  constexpr int word_bits = std::numeric_limits<Word>::digits;
  constexpr int dropped = source.mantissa_bits - L.mantissa_bits;
  constexpr int code_bits = L.exponent_bits + L.mantissa_bits;
  constexpr Word implicit = Word{1} << source.mantissa_bits;
  constexpr auto infinity = static_cast<Int>(source.largest_code() + 1);
  constexpr auto largest = static_cast<Word>(L.largest_code());
  const auto one = hn::Set(words, Word{1});
  // Magnitudes and codes are below half of the range of Word, so signed comparisons are correct.
  const auto above = [&](auto value, Int limit) {
    return hn::RebindMask(words, hn::Gt(hn::BitCast(ints, value), hn::Set(ints, limit)));
  };

  const auto magnitude = hn::And(bits, hn::Set(words, static_cast<Word>(~(Word{1} << (word_bits - 1)))));
  const auto negative = hn::ShiftRight<word_bits - 1>(bits);
  auto code = hn::Zero(words);
  if constexpr (L.exponent_bits == source.exponent_bits) {
    // The exponent fields are equal, so codes are the leading bits.
    const auto rest = hn::Set(words, (Word{1} << dropped) - 1);
    if constexpr (IsNearest) {
      const auto odd = hn::And(hn::ShiftRight<dropped>(magnitude), one);
      code = hn::Add(hn::Add(magnitude, hn::ShiftRight<1>(rest)), odd);
    } else {
      code = hn::Add(magnitude, hn::And(random, rest));
    }
    code = hn::ShiftRight<dropped>(code);
  } else {
    // A significand with exponent field e (1 for subnormal numbers) is shifted right by
    // `subnormal_shift` - e bits to count units of the target's smallest subnormal number.
    constexpr Int subnormal_shift = L.lowest_exponent() + source.bias + source.mantissa_bits;
    const auto field = hn::ShiftRight<source.mantissa_bits>(magnitude);
    const auto has_implicit = above(field, 0);
    const auto exponent = hn::BitCast(ints, hn::IfThenElse(has_implicit, field, one));
    auto significand = hn::Or(hn::And(magnitude, hn::Set(words, implicit - 1)),
                              hn::IfThenElseZero(has_implicit, hn::Set(words, implicit)));
    const auto limit = hn::Set(ints, Int{word_bits - 1});
    const auto requested_bits =
        hn::Max(hn::Set(ints, Int{dropped}), hn::Sub(hn::Set(ints, subnormal_shift), exponent));
    const auto shift_bits = hn::Min(requested_bits, limit);
    const auto shift = hn::BitCast(words, shift_bits);
    auto bias = hn::Zero(words);
    if constexpr (IsNearest) {
      const auto odd = hn::And(significand >> shift, one);
      bias = hn::Add(hn::Sub(one << hn::Sub(shift, one), one), odd);
    } else {
      // Preserves the probability that a number far below the smallest code is rounded up to that code.
      significand = significand >> hn::BitCast(words, hn::Min(hn::Sub(requested_bits, shift_bits), limit));
      bias = hn::And(random, hn::Sub(one << shift, one));
    }
    const auto rounded = hn::Add(significand, bias) >> shift;
    // Codes are in the order of magnitudes, so a carry out of the mantissa increments the exponent.
    const auto steps = hn::Max(hn::Sub(exponent, hn::Set(ints, subnormal_shift - dropped)), hn::Zero(ints));
    code = hn::Add(hn::ShiftLeft<L.mantissa_bits>(hn::BitCast(words, steps)), rounded);
  }
  if constexpr (L.exponent_bits == source.exponent_bits) {
    // Infinity is already the code after the largest one, and rounding toward zero never reaches it.
    code = hn::BitCast(
        words, hn::Min(hn::BitCast(ints, code), hn::Set(ints, static_cast<Int>(overflow.of_infinity))));
  } else {
    code = hn::IfThenElse(above(code, static_cast<Int>(largest)), hn::Set(words, overflow.of_finite), code);
    const auto is_infinite = hn::Eq(magnitude, hn::Set(words, static_cast<Word>(infinity)));
    code = hn::IfThenElse(is_infinite, hn::Set(words, overflow.of_infinity), code);
  }
  const auto is_nan = above(magnitude, infinity);
  const auto sign = hn::ShiftLeft<code_bits>(negative);
  if constexpr (L.specials == FloatLayout::Specials::none) {
    // In a layout without NaN, the sign of a NaN is dropped.
    return hn::IfThenElse(is_nan, hn::Set(words, largest), hn::Or(code, sign));
  } else {
    auto nan = hn::Set(words, static_cast<Word>(largest + 1));
    if constexpr (L.specials == FloatLayout::Specials::ieee) {
      nan = hn::Or(nan, hn::Set(words, Word{1} << (L.mantissa_bits - 1)));
      nan = hn::Or(nan, hn::ShiftRight<dropped>(hn::And(magnitude, hn::Set(words, implicit - 1))));
    }
    code = hn::IfThenElse(is_nan, nan, code);
    if constexpr (L.specials != FloatLayout::Specials::nan_at_minus_zero) return hn::Or(code, sign);
    // Zero and NaN have no sign.
    const auto has_sign = hn::AndNot(above(code, static_cast<Int>(largest)), above(code, 0));
    return hn::Or(code, hn::IfThenElseZero(has_sign, sign));
  }
}

// Like `narrow`, for a layout of powers of two, which has no zero and no sign.
template <FloatLayout L, class Word>
HWY_INLINE Word narrow_to_scale(Word bits, Word random, const Demotion& demotion,
                                const Overflow<L, Word>& overflow) {
  constexpr FloatLayout source = native_layout<Word>;
  constexpr int word_bits = std::numeric_limits<Word>::digits;
  constexpr auto infinity = static_cast<Word>(source.largest_code() + 1);
  constexpr auto largest = static_cast<Word>(L.largest_code());
  const Word magnitude = bits & ~(Word{1} << (word_bits - 1));
  if (magnitude > infinity || (magnitude != 0 && magnitude != bits)) return largest + 1;
  if (magnitude == infinity) return overflow.of_infinity;
  const NumberFacts::Magnitude value = source.magnitude(magnitude);
  if (value.significand == 0) return 0;
  const int top = 63 - std::countl_zero(value.significand);
  const int code = top + value.exponent - L.lowest_exponent();
  if (code < 0) return 0;
  // The bits below the leading bit, in units of 2^-64.
  const std::uint64_t fraction = top == 0 ? 0 : value.significand << (64 - top);
  const bool up = demotion.mode == Rounding::Mode::nearest_even
                      ? fraction >> 63 != 0
                      : fraction > static_cast<std::uint64_t>(random) << (64 - word_bits);
  const Word rounded = static_cast<Word>(code) + (up ? 1 : 0);
  return rounded > largest ? overflow.of_finite : rounded;
}

// Rounds to an integer and saturates at `Lowest` and `Highest`. NaN becomes 0.
template <class Int, Int Lowest, Int Highest>
HWY_INLINE Int round_to_integer(double value, Rounding::Mode mode, std::uint64_t random) {
  if (value != value) return 0;
  // As doubles, the limits are powers of two or below 2^53, so comparisons are exact.
  if (value <= static_cast<double>(Lowest)) return Lowest;
  if (value >= static_cast<double>(Highest)) return Highest;
  const auto truncated = static_cast<Int>(value);
  const double rest = value - static_cast<double>(truncated);
  const double distance = rest < 0 ? -rest : rest;
  bool away = false;
  if (mode == Rounding::Mode::nearest_even) {
    away = distance > 0.5 || (distance == 0.5 && truncated % 2 != 0);
  } else if (mode == Rounding::Mode::stochastic) {
    away = distance * 0x1p53 > static_cast<double>(random >> 11);
  }
  if (!away) return truncated;
  return static_cast<Int>(rest < 0 ? truncated - 1 : truncated + 1);
}

// Returns the magnitude as a double. If the conversion is inexact, the last bit is set (round to odd), so
// that a second rounding is correct.
HWY_INLINE double to_double_odd(std::uint64_t magnitude) {
  const int excess = 11 - std::min(std::countl_zero(magnitude), 11);
  const std::uint64_t quotient = magnitude >> excess;
  const bool lost = quotient << excess != magnitude;
  return static_cast<double>(static_cast<std::int64_t>(quotient | (lost ? 1 : 0))) *
         static_cast<double>(std::uint64_t{1} << excess);
}

// Unpacks codes of packed elements in groups of eight, which are whole bytes.
template <class D>
void unpack(const std::byte* stored, std::uint8_t* codes, std::int64_t count) {
  constexpr std::uint64_t mask = (1U << D::bits) - 1U;
  const std::int64_t groups = count / 8;
  for (std::int64_t group = 0; group < groups; ++group) {
    std::uint64_t word = 0;
    std::memcpy(&word, stored + group * D::bits, D::bits);
    for (int i = 0; i < 8; ++i)
      codes[group * 8 + i] = static_cast<std::uint8_t>((word >> (i * D::bits)) & mask);
  }
  for (std::int64_t i = groups * 8; i < count; ++i)
    codes[i] = static_cast<std::uint8_t>(detail::load_packed<D>(stored, i).bits());
}

template <class D>
void pack(const std::uint8_t* codes, std::byte* into, std::int64_t count) {
  const std::int64_t groups = count / 8;
  for (std::int64_t group = 0; group < groups; ++group) {
    std::uint64_t word = 0;
    for (int i = 0; i < 8; ++i) word |= std::uint64_t{codes[group * 8 + i]} << (i * D::bits);
    std::memcpy(into + group * D::bits, &word, D::bits);
  }
  const std::int64_t rest = count - groups * 8;
  std::memset(into + groups * D::bits, 0, static_cast<std::size_t>((rest * D::bits + 7) / 8));
  for (std::int64_t i = groups * 8; i < count; ++i)
    detail::store_packed<D>(into, i, D::Element::from_bits(codes[i]));
}

// Calls `convert(from, into)` for each vector of elements. The last vector is padded with zeros.
template <std::size_t Lanes, class From, class To, class Convert>
HWY_INLINE void for_each_vector(const From* from, To* into, std::int64_t count, Convert convert) {
  constexpr std::int64_t lanes = Lanes;
  // Elements may be unaligned. memcpy from a typed pointer would assert the alignment of its type.
  const auto bytes_from = [&](std::int64_t at) {
    return reinterpret_cast<const std::byte*>(from) + at * std::int64_t{sizeof(From)};
  };
  const auto bytes_into = [&](std::int64_t at) {
    return reinterpret_cast<std::byte*>(into) + at * std::int64_t{sizeof(To)};
  };
  std::int64_t i = 0;
  if constexpr (Lanes == 1) {
    // The scalar target requires aligned loads and stores.
    for (; i < count; ++i) {
      From number;
      To result;
      std::memcpy(&number, bytes_from(i), sizeof(From));
      convert(&number, &result);
      std::memcpy(bytes_into(i), &result, sizeof(To));
    }
  } else {
    for (; i + lanes <= count; i += lanes) {
      prefetch(from + i);
      convert(from + i, into + i);
    }
    const std::size_t rest = static_cast<std::size_t>(count - i) % Lanes;
    if (rest == 0) return;
    From padded[Lanes]{};
    To results[Lanes];
    std::memcpy(padded, bytes_from(i), rest * sizeof(From));
    convert(padded, results);
    std::memcpy(bytes_into(i), results, rest * sizeof(To));
  }
}

#if HWY_TARGET == HWY_AVX2
// Converts 8-bit codes through F16, whose conversion instruction handles subnormals and NaN. The exponent of
// E5M2 is that of F16; the exponent of E4M3 differs by a constant.
template <class D>
HWY_INLINE void promote_bytes(const std::uint8_t* codes, float* into, std::int64_t count) {
  const hn::ScalableTag<std::int16_t> shorts;
  const hn::Rebind<std::int8_t, hn::ScalableTag<std::int16_t>> bytes;
  const hn::ScalableTag<float> floats;
  const hn::Rebind<hwy::float16_t, hn::ScalableTag<float>> halves;
  const hn::Half<hn::ScalableTag<std::int16_t>> half_shorts;
  constexpr std::int64_t lanes = hn::MaxLanes(floats);
  for_each_vector<2 * lanes>(codes, into, count, [&](const std::uint8_t* from, float* result) HWY_ATTR {
    const auto code = hn::PromoteTo(shorts, hn::LoadU(bytes, reinterpret_cast<const std::int8_t*>(from)));
    const auto to_floats = [&](auto half)
                               HWY_ATTR { return hn::PromoteTo(floats, hn::BitCast(halves, half)); };
    if constexpr (std::same_as<D, F8_E5M2>) {
      const auto bits = hn::ShiftLeft<8>(code);
      hn::StoreU(to_floats(hn::LowerHalf(half_shorts, bits)), floats, result);
      hn::StoreU(to_floats(hn::UpperHalf(half_shorts, bits)), floats, result + lanes);
    } else {
      // Sign extension fills the bits above the code; one of them becomes the sign of the F16.
      const auto moved = hn::ShiftLeft<7>(code);
      const auto magnitude = hn::And(moved, hn::Set(shorts, std::int16_t{0x3F80}));
      const auto is_nan = hn::Eq(magnitude, hn::Set(shorts, std::int16_t{0x3F80}));
      const auto exponent = hn::And(hn::VecFromMask(shorts, is_nan), hn::Set(shorts, std::int16_t{0x7C00}));
      const auto sign = hn::And(moved, hn::Set(shorts, std::int16_t{-0x8000}));
      const auto bits = hn::Or(hn::Or(magnitude, exponent), sign);
      const auto scale = hn::Set(floats, 256.0F);
      hn::StoreU(hn::Mul(to_floats(hn::LowerHalf(half_shorts, bits)), scale), floats, result);
      hn::StoreU(hn::Mul(to_floats(hn::UpperHalf(half_shorts, bits)), scale), floats, result + lanes);
    }
  });
}
#endif

template <class D, class Code>
void promote_codes(const Code* codes, float* into, std::int64_t count) {
#if HWY_TARGET == HWY_AVX2
  if constexpr (std::same_as<D, F8_E4M3> || std::same_as<D, F8_E5M2>)
    return promote_bytes<D>(codes, into, count);
#endif
  const Words<std::uint32_t> words;
  const hn::RebindToFloat<Words<std::uint32_t>> floats;
  const hn::Rebind<Code, Words<std::uint32_t>> narrow;
  for_each_vector<hn::MaxLanes(words)>(codes, into, count, [&](const Code* from, float* result) HWY_ATTR {
#if HWY_TARGET == HWY_AVX2
    if constexpr (std::same_as<D, F16>) {
      const hn::Rebind<hwy::float16_t, Words<std::uint32_t>> halves;
      hn::StoreU(hn::PromoteTo(floats, hn::BitCast(halves, hn::LoadU(narrow, from))), floats, result);
      return;
    }
#endif
    hn::StoreU(widen<D::layout>(words, hn::PromoteTo(words, hn::LoadU(narrow, from))), floats, result);
  });
}

template <class D>
void promote_f32(const std::byte* stored, float* into, std::int64_t count) noexcept {
  if constexpr (std::same_as<D, F32>) {
    std::memcpy(into, stored, static_cast<std::size_t>(count) * sizeof(float));
  } else if constexpr (is_packed<D>) {
    std::uint8_t codes[strip_elements];
    unpack<D>(stored, codes, count);
    if constexpr (IsFloating<D>) {
      promote_codes<D>(codes, into, count);
    } else {
      for (std::int64_t i = 0; i < count; ++i)
        into[i] = static_cast<float>(static_cast<int>(D::Element::from_bits(codes[i])));
    }
  } else if constexpr (std::same_as<D, Bool>) {
    for (std::int64_t i = 0; i < count; ++i) into[i] = stored[i] != std::byte{0} ? 1.0F : 0.0F;
  } else if constexpr (IsFloating<D>) {
    promote_codes<D>(reinterpret_cast<const typename D::Element::Bits*>(stored), into, count);
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

// Converts numbers to codes, as unsigned integers of the dtype's width.
template <class D, bool IsNearest, class Word, class Code>
HWY_INLINE void narrow_all(const Native<Word>* from, Code* codes, std::int64_t count,
                           const Demotion& demotion) {
  const Words<Word> words;
  const hn::Rebind<Code, Words<Word>> narrow_words;
  const Overflow<D::layout, Word> overflow(demotion);
  const std::uint64_t* random_words =
      !IsNearest && demotion.random != nullptr ? demotion.random->words.data() : nullptr;
  constexpr std::size_t lanes = hn::MaxLanes(words);
  for_each_vector<lanes>(from, codes, count, [&](const Native<Word>* numbers, Code* result) HWY_ATTR {
    auto random = hn::Zero(words);
    if (random_words != nullptr) {
      Word low[lanes];
      for (std::size_t i = 0; i < lanes; ++i) low[i] = static_cast<Word>(random_words[i]);
      random = hn::LoadU(words, low);
      random_words += lanes;
    }
    const auto bits = hn::LoadU(words, reinterpret_cast<const Word*>(numbers));
    hn::StoreU(hn::TruncateTo(narrow_words, narrow<D::layout, IsNearest>(words, bits, random, overflow)),
               narrow_words, result);
  });
}

template <class D, class Word, class Code>
HWY_INLINE void demote_floats(const Native<Word>* from, Code* codes, std::int64_t count,
                              const Demotion& demotion) {
  const bool is_nearest = demotion.mode == Rounding::Mode::nearest_even;
  if constexpr (D::layout.specials == FloatLayout::Specials::scale) {
    const Overflow<D::layout, Word> overflow(demotion);
    for (std::int64_t i = 0; i < count; ++i) {
      // Rounds up if the fraction exceeds `random`; no fraction exceeds a `random` of all ones.
      Word random = demotion.mode == Rounding::Mode::toward_zero ? static_cast<Word>(-1) : Word{0};
      if (demotion.random != nullptr)
        random = static_cast<Word>(demotion.random->words[static_cast<std::size_t>(i)]);
      codes[i] = static_cast<Code>(
          narrow_to_scale<D::layout>(std::bit_cast<Word>(from[i]), random, demotion, overflow));
    }
    return;
  }
#if HWY_TARGET == HWY_AVX2
  if constexpr (std::same_as<D, F16> && std::same_as<Word, std::uint32_t>) {
    if (is_nearest && !demotion.saturate) {
      const hn::RebindToFloat<Words<Word>> floats;
      const hn::Rebind<hwy::float16_t, Words<Word>> halves;
      const hn::Rebind<Code, Words<Word>> narrow_words;
      for_each_vector<hn::MaxLanes(floats)>(
          from, codes, count, [&](const float* numbers, Code* result) HWY_ATTR {
            const auto rounded = hn::DemoteTo(halves, hn::LoadU(floats, numbers));
            hn::StoreU(hn::BitCast(narrow_words, rounded), narrow_words, result);
          });
      return;
    }
  }
#endif
  if constexpr (D::layout.specials != FloatLayout::Specials::scale) {
    if (is_nearest) {
      narrow_all<D, true, Word>(from, codes, count, demotion);
    } else {
      narrow_all<D, false, Word>(from, codes, count, demotion);
    }
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
      demote_floats<D, Word>(from, codes, count, demotion);
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
    demote_floats<D, Word>(from, reinterpret_cast<Bits*>(into), count, demotion);
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
  if constexpr (D::number.kind != NumberFacts::Kind::complex) {
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

// Mixes 64 bits: every input bit affects every output bit.
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
