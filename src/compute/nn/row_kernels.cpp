#include "compute/nn/row_kernels.hpp"

#include <algorithm>
#include <limits>

#include "values/kernel_targets.hpp"
#include "values/strip_statistics.hpp"
#include "values/targets.hpp"

// Highway compiles this file again for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compute/nn/row_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "compute/nn/kernel_math.hpp"

HWY_BEFORE_NAMESPACE();
namespace ht::inline v1::nn::HWY_NAMESPACE {
namespace {

using values::add_pairwise;
using values::interleaved_sums;

constexpr std::int64_t block_elements = 512;

template <class T>
using Tag = hn::CappedTag<T, 32 / sizeof(T)>;
using Doubles = Tag<double>;

// Load and store vectors of doubles from and to either type.
HWY_INLINE hn::Vec<Doubles> load_doubles(const double* from) { return hn::LoadU(Doubles(), from); }
HWY_INLINE hn::Vec<Doubles> load_doubles(const float* from) {
  return hn::PromoteTo(Doubles(), hn::LoadU(hn::Rebind<float, Doubles>(), from));
}
HWY_INLINE void store_rounded(hn::Vec<Doubles> value, double* into) { hn::StoreU(value, Doubles(), into); }
HWY_INLINE void store_rounded(hn::Vec<Doubles> value, float* into) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  // Highway's DemoteTo converts infinity to the largest float on these targets.
  alignas(32) double numbers[hn::MaxLanes(Doubles())];
  hn::Store(value, Doubles(), numbers);
  for (const double number : numbers) *into++ = static_cast<float>(number);
#else
  const hn::Rebind<float, Doubles> floats;
  hn::StoreU(hn::DemoteTo(floats, value), floats, into);
#endif
}

// Functors instead of lambdas: a lambda is not compiled for the target of the enclosing function.

/// out = op(x), vector by vector; the remaining elements use a padded copy.
template <class T, class Op>
HWY_INLINE void map(const Op& op, const T* x, T* out, std::int64_t count) {
  const Tag<T> tag;
  constexpr std::int64_t lanes = hn::MaxLanes(Tag<T>());
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(op(tag, hn::LoadU(tag, x + i)), tag, out + i);
  if (i == count) return;
  alignas(32) T rest[lanes] = {};
  std::copy(x + i, x + count, rest);
  hn::Store(op(tag, hn::Load(tag, rest)), tag, rest);
  std::copy(rest, rest + (count - i), out + i);
}

/// The same as `map`, computed in F64 and rounded once.
template <class T, class Op>
HWY_INLINE void map_doubles(const Op& op, const T* x, T* out, std::int64_t count) {
  constexpr std::int64_t lanes = hn::MaxLanes(Doubles());
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) store_rounded(op(Doubles(), load_doubles(x + i)), out + i);
  if (i == count) return;
  alignas(32) T rest[lanes] = {};
  std::copy(x + i, x + count, rest);
  store_rounded(op(Doubles(), load_doubles(rest)), rest);
  std::copy(rest, rest + (count - i), out + i);
}

template <class T>
bool has_nan(const T* x, std::int64_t count) noexcept {
  const Tag<T> tag;
  constexpr std::int64_t lanes = hn::MaxLanes(Tag<T>());
  auto found = hn::Ne(hn::Zero(tag), hn::Zero(tag));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto value = hn::LoadU(tag, x + i);
    found = hn::Or(found, hn::Ne(value, value));
  }
  bool result = !hn::AllFalse(tag, found);
  for (; i < count; ++i) result = result || x[i] != x[i];
  return result;
}

template <class T>
T largest(const T* x, std::int64_t count) noexcept {
  const Tag<T> tag;
  constexpr std::int64_t lanes = hn::MaxLanes(Tag<T>());
  auto first = hn::Set(tag, x[0]);
  auto second = first;
  std::int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    first = hn::Max(first, hn::LoadU(tag, x + i));
    second = hn::Max(second, hn::LoadU(tag, x + i + lanes));
  }
  T result = hn::GetLane(hn::MaxOfLanes(tag, hn::Max(first, second)));
  for (; i < count; ++i) result = std::max(result, x[i]);
  return result;
}

/// The sum of one block. `Term` has one overload for vectors and one for the remaining elements, fewer than
/// 16.
template <class T, class Term>
HWY_INLINE double sum_block(const Term& term, const T* x, std::int64_t count) {
  constexpr std::int64_t lanes = hn::MaxLanes(Doubles());
  constexpr std::int64_t vectors = interleaved_sums / lanes;
  hn::Vec<Doubles> sums[vectors];
  for (auto& sum : sums) sum = hn::Zero(Doubles());
  const std::int64_t whole = count - count % interleaved_sums;
  for (std::int64_t i = 0; i < whole; i += interleaved_sums) {
    for (std::int64_t v = 0; v < vectors; ++v)
      sums[v] = hn::Add(sums[v], term(load_doubles(x + i + v * lanes)));
  }
  alignas(32) double lane_sums[interleaved_sums];
  for (std::int64_t v = 0; v < vectors; ++v) hn::StoreU(sums[v], Doubles(), lane_sums + v * lanes);
  for (std::int64_t i = whole; i < count; ++i) lane_sums[i - whole] += term(static_cast<double>(x[i]));
  return add_pairwise(lane_sums);
}

template <class T, class Term>
HWY_INLINE double sum_blocks(const Term& term, const T* x, std::int64_t count) {
  double result = 0;
  for (std::int64_t at = 0; at < count; at += block_elements)
    result += sum_block(term, x + at, std::min(block_elements, count - at));
  return result;
}

struct Value {
  HWY_INLINE hn::Vec<Doubles> operator()(hn::Vec<Doubles> x) const { return x; }
  HWY_INLINE double operator()(double x) const { return x; }
};

struct SquaredDistance {
  double mean;
  HWY_INLINE hn::Vec<Doubles> operator()(hn::Vec<Doubles> x) const {
    const auto distance = hn::Sub(x, hn::Set(Doubles(), mean));
    return hn::Mul(distance, distance);
  }
  HWY_INLINE double operator()(double x) const { return (x - mean) * (x - mean); }
};

template <class T>
double sum(const T* x, std::int64_t count) noexcept {
  return sum_blocks(Value(), x, count);
}

template <class T>
double sum_of_squares(const T* x, double mean, std::int64_t count) noexcept {
  return sum_blocks(SquaredDistance{mean}, x, count);
}

template <class T>
struct ExpOfDifference {
  T shift;
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D tag, hn::Vec<D> x) const {
    return exp_of(tag, hn::Sub(x, hn::Set(tag, shift)));
  }
};

template <class T>
double exp_and_sum(const T* x, T shift, T* out, std::int64_t count) noexcept {
  double result = 0;
  for (std::int64_t at = 0; at < count; at += block_elements) {
    const std::int64_t elements = std::min(block_elements, count - at);
    map(ExpOfDifference<T>{shift}, x + at, out + at, elements);
    result += sum_block(Value(), out + at, elements);
  }
  return result;
}

template <class T>
struct Quotient {
  T divisor;
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D tag, hn::Vec<D> x) const {
    return hn::Div(x, hn::Set(tag, divisor));
  }
};

template <class T>
void divide(const T* x, T divisor, T* out, std::int64_t count) noexcept {
  map(Quotient<T>{divisor}, x, out, count);
}

template <class T>
void normalize(const T* x, double mean, double scale, const T* weight, const T* bias, T* out,
               std::int64_t count) noexcept {
  constexpr std::int64_t lanes = hn::MaxLanes(Doubles());
  const auto means = hn::Set(Doubles(), mean);
  const auto scales = hn::Set(Doubles(), scale);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto scaled = hn::Mul(hn::Sub(load_doubles(x + i), means), scales);
    const auto weighted = hn::Mul(scaled, load_doubles(weight + i));
    store_rounded(bias == nullptr ? weighted : hn::Add(weighted, load_doubles(bias + i)), out + i);
  }
  for (; i < count; ++i) {
    const double weighted = (static_cast<double>(x[i]) - mean) * scale * static_cast<double>(weight[i]);
    out[i] = static_cast<T>(bias == nullptr ? weighted : weighted + static_cast<double>(bias[i]));
  }
}

struct Silu {
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D tag, hn::Vec<D> x) const {
    return times_sigmoid(tag, x, x);
  }
};

struct GeluByErf {
  HWY_INLINE hn::Vec<Doubles> operator()(Doubles tag, hn::Vec<Doubles> x) const {
    return gelu_by_erf(tag, x);
  }
};

struct GeluByTanh {
  HWY_INLINE hn::Vec<Doubles> operator()(Doubles tag, hn::Vec<Doubles> x) const {
    return gelu_by_tanh(tag, x);
  }
};

template <class T>
void silu(const T* x, T* out, std::int64_t count) noexcept {
  map(Silu(), x, out, count);
}

template <class T>
void gelu_erf(const T* x, T* out, std::int64_t count) noexcept {
  map_doubles(GeluByErf(), x, out, count);
}

template <class T>
void gelu_tanh(const T* x, T* out, std::int64_t count) noexcept {
  map_doubles(GeluByTanh(), x, out, count);
}

template <class T>
void swiglu(const T* gate, const T* x, T* out, std::int64_t count) noexcept {
  // Uses blocks on the stack, so that `out` may alias either input.
  alignas(32) T gated[block_elements];
  for (std::int64_t at = 0; at < count; at += block_elements) {
    const std::int64_t elements = std::min(block_elements, count - at);
    map(Silu(), gate + at, gated, elements);
    for (std::int64_t i = 0; i < elements; ++i) out[at + i] = gated[i] * x[at + i];
  }
}

template <class T>
void rotate_pairs(const T* x, const T* cosines, const T* sines, T* out, std::int64_t count) noexcept {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const Tag<T> tag;
  constexpr std::int64_t lanes = hn::MaxLanes(Tag<T>());
  for (; i + lanes <= count; i += lanes) {
    const auto pairs = hn::LoadU(tag, x + i);
    const auto straight = hn::Mul(pairs, hn::LoadU(tag, cosines + i));
    const auto crossed = hn::Mul(hn::Reverse2(tag, pairs), hn::LoadU(tag, sines + i));
    hn::StoreU(hn::Add(straight, crossed), tag, out + i);
  }
#endif
  for (; i < count; i += 2) {
    const T first = x[i];
    const T second = x[i + 1];
    out[i] = first * cosines[i] + second * sines[i];
    out[i + 1] = second * cosines[i + 1] + first * sines[i + 1];
  }
}

template <class T>
void rotate_halves(const T* x, const T* cosines, const T* sines, T* out, std::int64_t half) noexcept {
  const Tag<T> tag;
  constexpr std::int64_t lanes = hn::MaxLanes(Tag<T>());
  std::int64_t i = 0;
  for (; i + lanes <= half; i += lanes) {
    const auto first = hn::LoadU(tag, x + i);
    const auto second = hn::LoadU(tag, x + half + i);
    const auto cosine = hn::LoadU(tag, cosines + i);
    const auto sine = hn::LoadU(tag, sines + i);
    hn::StoreU(hn::Sub(hn::Mul(first, cosine), hn::Mul(second, sine)), tag, out + i);
    hn::StoreU(hn::Add(hn::Mul(second, cosine), hn::Mul(first, sine)), tag, out + half + i);
  }
  for (; i < half; ++i) {
    const T first = x[i];
    const T second = x[half + i];
    out[i] = first * cosines[i] - second * sines[i];
    out[half + i] = second * cosines[i] + first * sines[i];
  }
}

template <class T>
constexpr RowKernels<T> all_kernels{
    .has_nan = has_nan<T>,
    .largest = largest<T>,
    .exp_and_sum = exp_and_sum<T>,
    .divide = divide<T>,
    .sum = sum<T>,
    .sum_of_squares = sum_of_squares<T>,
    .normalize = normalize<T>,
    .silu = silu<T>,
    .swiglu = swiglu<T>,
    .gelu_erf = gelu_erf<T>,
    .gelu_tanh = gelu_tanh<T>,
    .rotate_pairs = rotate_pairs<T>,
    .rotate_halves = rotate_halves<T>,
};

const RowKernels<float>* find_f32() noexcept { return &all_kernels<float>; }
const RowKernels<double>* find_f64() noexcept { return &all_kernels<double>; }

}  // namespace
}  // namespace ht::inline v1::nn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ht::inline v1::nn {

template <>
const RowKernels<float>& row_kernels() noexcept {
  return *HT_CHOOSE_TARGET(find_f32)();
}
template <>
const RowKernels<double>& row_kernels() noexcept {
  return *HT_CHOOSE_TARGET(find_f64)();
}

}  // namespace ht::inline v1::nn
#endif
