#include "compute/nn/conv_kernels.hpp"

#include <algorithm>

#include "values/kernel_targets.hpp"
#include "values/targets.hpp"

// Highway compiles this file again for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compute/nn/conv_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ht::inline v1::nn::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::CappedTag<T, 32 / sizeof(T)>;

template <class T>
void add_scaled(T factor, const T* x, T* out, std::int64_t count) noexcept {
  const Tag<T> tag;
  constexpr std::int64_t lanes = hn::MaxLanes(Tag<T>());
  const auto factors = hn::Set(tag, factor);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::Add(hn::LoadU(tag, out + i), hn::Mul(factors, hn::LoadU(tag, x + i))), tag, out + i);
  for (; i < count; ++i) out[i] += factor * x[i];
}

/// `Rows` rows of two vectors of columns, with all sums in registers.
template <std::int64_t Rows, class T>
HWY_INLINE void multiply_block(const T* weight, std::int64_t depth, const T* columns, std::int64_t width,
                               T* out, std::int64_t out_stride, std::int64_t valid) {
  const Tag<T> tag;
  constexpr std::int64_t lanes = hn::MaxLanes(Tag<T>());
  hn::Vec<Tag<T>> low[Rows];
  hn::Vec<Tag<T>> high[Rows];
  for (std::int64_t i = 0; i < Rows; ++i) low[i] = high[i] = hn::Zero(tag);
  for (std::int64_t k = 0; k < depth; ++k) {
    const auto first = hn::LoadU(tag, columns + k * width);
    const auto second = hn::LoadU(tag, columns + k * width + lanes);
    for (std::int64_t i = 0; i < Rows; ++i) {
      const auto factor = hn::Set(tag, weight[i * depth + k]);
      low[i] = hn::Add(low[i], hn::Mul(factor, first));
      high[i] = hn::Add(high[i], hn::Mul(factor, second));
    }
  }
  for (std::int64_t i = 0; i < Rows; ++i) {
    alignas(32) T row[2 * lanes];
    hn::Store(low[i], tag, row);
    hn::Store(high[i], tag, row + lanes);
    std::copy_n(row, std::min(valid, 2 * lanes), out + i * out_stride);
  }
}

template <class T>
void multiply(const T* weight, std::int64_t rows, std::int64_t depth, const T* columns, std::int64_t width,
              T* out, std::int64_t out_stride, std::int64_t valid) noexcept {
  constexpr std::int64_t step = 2 * hn::MaxLanes(Tag<T>());
  static_assert(tile_step % step == 0);
  for (std::int64_t j = 0; j < valid; j += step) {
    std::int64_t i = 0;
    for (; i + 4 <= rows; i += 4)
      multiply_block<4>(weight + i * depth, depth, columns + j, width, out + i * out_stride + j, out_stride,
                        valid - j);
    for (; i < rows; ++i)
      multiply_block<1>(weight + i * depth, depth, columns + j, width, out + i * out_stride + j, out_stride,
                        valid - j);
  }
}

template <class T>
constexpr ConvKernels<T> all_kernels{.add_scaled = add_scaled<T>, .multiply = multiply<T>};

const ConvKernels<float>* find_f32() noexcept { return &all_kernels<float>; }
const ConvKernels<double>* find_f64() noexcept { return &all_kernels<double>; }

}  // namespace
}  // namespace ht::inline v1::nn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ht::inline v1::nn {

template <>
const ConvKernels<float>& conv_kernels() noexcept {
  return *HT_CHOOSE_TARGET(find_f32)();
}
template <>
const ConvKernels<double>& conv_kernels() noexcept {
  return *HT_CHOOSE_TARGET(find_f64)();
}

}  // namespace ht::inline v1::nn
#endif
