// exp, silu and gelu for Highway's vectors. Included once per target, after highway.h.
//
// Fused operations are not used, so all targets give the same bits. Bounds of errors in units in the last
// place, which row_kernels_test.cpp tests: exp 1.1 in F32 and F64; gelu in its erf form 8 in F64, for results
// of at least 2^-1000.

// Highway includes this file once per target, so the include guard toggles.
#if defined(HT_KERNEL_MATH) == defined(HWY_TARGET_TOGGLE)
#ifdef HT_KERNEL_MATH
#undef HT_KERNEL_MATH
#else
#define HT_KERNEL_MATH
#endif

#include <array>
#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace ht::inline v1::nn::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// Constants of exp for float and double. ln 2 is split so that n · high is exact for all exponents n. Adding
/// 1.5 · 2^(digits - 1) to a number puts its nearest integer into the low bits.
template <class T>
struct ExpFacts;
template <>
struct ExpFacts<float> {
  static constexpr float lowest = -104.0F;  // exp is 0 for smaller x
  static constexpr float highest = 89.0F;   // exp is infinite for larger x
  static constexpr float log2_e = 0x1.715476p+0F;
  static constexpr float ln2_high = 0x1.62e4p-1F;
  static constexpr float ln2_low = 0x1.7f7d1cp-20F;
  static constexpr float to_integer = 0x1.8p+23F;
  static constexpr std::int32_t bias = 127;
  static constexpr int fraction_bits = 23;
  static constexpr int terms = 8;
};
template <>
struct ExpFacts<double> {
  static constexpr double lowest = -746.0;
  static constexpr double highest = 710.0;
  static constexpr double log2_e = 0x1.71547652b82fep+0;
  static constexpr double ln2_high = 0x1.62e42fefa38p-1;
  static constexpr double ln2_low = 0x1.ef35793c7673p-45;
  static constexpr double to_integer = 0x1.8p+52;
  static constexpr std::int64_t bias = 1023;
  static constexpr int fraction_bits = 52;
  static constexpr int terms = 14;
};

/// 1/2!, 1/3!, …: the series of (e^r - 1 - r) / r².
template <class T>
struct ExpSeries {
  static constexpr auto values = [] {
    std::array<T, ExpFacts<T>::terms - 2> inverse_factorials{};
    double factorial = 1;
    for (std::size_t i = 0; i < inverse_factorials.size(); ++i) {
      factorial *= static_cast<double>(i + 2);
      inverse_factorials[i] = static_cast<T>(1 / factorial);
    }
    return inverse_factorials;
  }();
};

/// Σ values[K + 2i] square^i: the polynomial of every second coefficient, from K on. Recursive, because
/// compilers do not unroll a loop of this length at -O2.
template <class Series, std::size_t K, class Tag>
HWY_INLINE hn::Vec<Tag> every_second(Tag tag, hn::Vec<Tag> square) {
  if constexpr (K + 2 >= Series::values.size()) {
    return hn::Set(tag, Series::values[K]);
  } else {
    const auto higher = every_second<Series, K + 2>(tag, square);
    return hn::Add(hn::Mul(higher, square), hn::Set(tag, Series::values[K]));
  }
}

/// Σ values[k] x^k. Even and odd powers are two chains that the processor runs in parallel.
template <class Series, class Tag>
HWY_INLINE hn::Vec<Tag> polynomial(Tag tag, hn::Vec<Tag> x) {
  const auto square = hn::Mul(x, x);
  const auto odd = hn::Mul(x, every_second<Series, 1>(tag, square));
  return hn::Add(every_second<Series, 0>(tag, square), odd);
}

/// 2^n for the integer n in the low bits of a number to which `to_integer` was added.
template <class Tag>
HWY_INLINE hn::Vec<Tag> power_of_two(Tag tag, hn::Vec<Tag> shifted) {
  using Facts = ExpFacts<hn::TFromD<Tag>>;
  const hn::RebindToSigned<Tag> integers;
  const auto exponent = hn::Add(hn::BitCast(integers, shifted), hn::Set(integers, Facts::bias));
  return hn::BitCast(tag, hn::ShiftLeft<Facts::fraction_bits>(exponent));
}

/// e^x, with x = n ln 2 + r and a Taylor series of e^r for |r| ≤ ln 2 / 2. NaN stays NaN.
template <class Tag>
HWY_INLINE hn::Vec<Tag> exp_of(Tag tag, hn::Vec<Tag> x) {
  using T = hn::TFromD<Tag>;
  using Facts = ExpFacts<T>;
  const auto shift = hn::Set(tag, Facts::to_integer);
  const auto bounded = hn::Min(hn::Max(x, hn::Set(tag, Facts::lowest)), hn::Set(tag, Facts::highest));
  const auto n = hn::Sub(hn::Add(hn::Mul(bounded, hn::Set(tag, Facts::log2_e)), shift), shift);
  const auto high = hn::Sub(bounded, hn::Mul(n, hn::Set(tag, Facts::ln2_high)));
  const auto r = hn::Sub(high, hn::Mul(n, hn::Set(tag, Facts::ln2_low)));
  const auto series = polynomial<ExpSeries<T>>(tag, r);
  const auto power = hn::Add(hn::Add(hn::Mul(hn::Mul(r, r), series), r), hn::Set(tag, T{1}));
  // 2^n itself may overflow or underflow, so it is split into two factors. Only the second product rounds.
  const auto half = hn::Add(hn::Mul(n, hn::Set(tag, static_cast<T>(0.5))), shift);
  const auto rest = hn::Add(hn::Sub(n, hn::Sub(half, shift)), shift);
  const auto result = hn::Mul(hn::Mul(power, power_of_two(tag, half)), power_of_two(tag, rest));
  return hn::IfThenElse(hn::Eq(x, x), result, x);
}

/// x · 1 / (1 + e^-v), where v has the sign of x. Returns -0 if e^v underflows to 0.
template <class Tag>
HWY_INLINE hn::Vec<Tag> times_sigmoid(Tag tag, hn::Vec<Tag> x, hn::Vec<Tag> v) {
  const auto zero = hn::Zero(tag);
  const auto one = hn::Set(tag, hn::TFromD<Tag>{1});
  // The argument is never positive, so exp does not overflow and small results keep their precision.
  const auto power = exp_of(tag, hn::Neg(hn::Abs(v)));
  const auto is_negative = hn::Lt(v, zero);
  const auto numerator = hn::Mul(x, hn::IfThenElse(is_negative, power, one));
  const auto result = hn::Div(numerator, hn::Add(one, power));
  return hn::IfThenElse(hn::And(is_negative, hn::Eq(power, zero)), hn::Neg(zero), result);
}

/// Approximates e^(z²) erfc(z) (1 + 2z) for z from 0 to 40 by a polynomial in (z - 3) / (z + 3), interpolated
/// at Chebyshev nodes with 60 digits. The relative error is below 2^-54.
struct ScaledErfc {
  static constexpr std::array<double, 25> values{
      1.2530080582697296,     -0.13562110612458117,    -0.047562294353450135,   0.1296451587027594,
      -0.11927366341533754,   0.06830802734404007,     -0.02377051491815178,    0.0025293918148056836,
      0.0018886903549564283,  -0.0007798322587415983,  -0.00010515977760469622, 0.00012509926957911813,
      4.949402497920878e-06,  -2.0100248846119354e-05, -7.31279016239164e-07,   3.4716263293368087e-06,
      3.5634588091414127e-07, -6.154010906406617e-07,  -1.408491584457718e-07,  1.0064406129145072e-07,
      4.105371434359258e-08,  -1.2646890236633504e-08, -8.062409021070204e-09,  8.260817026800343e-10,
      7.758554298489361e-10};
};

/// e^(-a²/2) for a ≤ 40. exp would multiply the rounding error of a·a by up to 800. Dekker's splitting gives
/// that error exactly, and the result is corrected by it.
template <class Tag>
HWY_INLINE hn::Vec<Tag> bell(Tag tag, hn::Vec<Tag> a) {
  const auto scaled = hn::Mul(a, hn::Set(tag, 134217729.0));
  const auto high = hn::Sub(scaled, hn::Sub(scaled, a));
  const auto low = hn::Sub(a, high);
  const auto square = hn::Mul(a, a);
  const auto cross = hn::Mul(high, low);
  const auto partial = hn::Add(hn::Sub(hn::Mul(high, high), square), hn::Add(cross, cross));
  const auto error = hn::Add(partial, hn::Mul(low, low));
  const auto power = exp_of(tag, hn::Mul(square, hn::Set(tag, -0.5)));
  return hn::Sub(power, hn::Mul(power, hn::Mul(error, hn::Set(tag, 0.5))));
}

/// x Φ(x) = x/2 · erfc(-x/√2). Returns -0 for x below -40.
template <class Tag>
HWY_INLINE hn::Vec<Tag> gelu_by_erf(Tag tag, hn::Vec<Tag> x) {
  const auto one = hn::Set(tag, 1.0);
  const auto limit = hn::Set(tag, 40.0);
  const auto a = hn::Min(hn::Abs(x), limit);
  const auto z = hn::Mul(a, hn::Set(tag, 0.7071067811865476));
  const auto three = hn::Set(tag, 3.0);
  const auto t = hn::Div(hn::Sub(z, three), hn::Add(z, three));
  const auto scale =
      hn::Div(hn::Mul(polynomial<ScaledErfc>(tag, t), hn::Set(tag, 0.5)), hn::Add(one, hn::Add(z, z)));
  const auto tail = hn::Mul(scale, bell(tag, a));
  const auto probability = hn::IfThenElse(hn::Lt(x, hn::Zero(tag)), tail, hn::Sub(one, tail));
  return hn::IfThenElse(hn::Lt(x, hn::Neg(limit)), hn::Neg(hn::Zero(tag)), hn::Mul(x, probability));
}

/// x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³))), which is x times a sigmoid of twice the argument of tanh.
template <class Tag>
HWY_INLINE hn::Vec<Tag> gelu_by_tanh(Tag tag, hn::Vec<Tag> x) {
  const auto cubic = hn::Mul(hn::Mul(x, x), hn::Set(tag, 0.07135481627260025));
  return times_sigmoid(tag, x, hn::Mul(x, hn::Add(cubic, hn::Set(tag, 1.5957691216057308))));
}

}  // namespace
}  // namespace ht::inline v1::nn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
