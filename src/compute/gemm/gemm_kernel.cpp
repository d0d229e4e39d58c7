// Computes one block of the result at a time. Parts of both operands that fit the caches are copied into
// strips, in the order in which the innermost loop reads them, and padded with zeros. The innermost loop
// keeps a tile of the result, 4 rows of 2 vectors, in registers.
#include "compute/gemm/gemm_kernel.hpp"

#include "values/kernel_targets.hpp"
#include "values/targets.hpp"

// Highway compiles this file again for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compute/gemm/gemm_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ht::inline v1::compute::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t tile_rows = 4;
template <class T>
using Lanes = hn::CappedTag<T, 32 / sizeof(T)>;
template <class T>
constexpr std::int64_t tile_columns = 2 * static_cast<std::int64_t>(hn::MaxLanes(Lanes<T>()));

// Packs `lines` lines of `count` elements into strips of `width` lines: first the first elements of all lines
// of a strip, then the second elements, and so on.
template <class T>
void pack(const T* from, std::int64_t line_stride, std::int64_t stride, std::int64_t lines,
          std::int64_t count, std::int64_t width, T* into) {
  for (std::int64_t first = 0; first < lines; first += width) {
    const std::int64_t used = lines - first < width ? lines - first : width;
    const T* const strip = from + first * line_stride;
    for (std::int64_t i = 0; i < count; ++i) {
      const T* const elements = strip + i * stride;
      for (std::int64_t line = 0; line < used; ++line) into[line] = elements[line * line_stride];
      for (std::int64_t line = used; line < width; ++line) into[line] = 0;
      into += width;
    }
  }
}

template <class T>
HWY_INLINE void multiply_tile(const T* HWY_RESTRICT a, const T* HWY_RESTRICT b, std::int64_t depth,
                              T* HWY_RESTRICT tile) {
  const Lanes<T> d;
  constexpr std::int64_t lanes = tile_columns<T> / 2;
  auto c00 = hn::Zero(d);
  auto c01 = c00;
  auto c10 = c00;
  auto c11 = c00;
  auto c20 = c00;
  auto c21 = c00;
  auto c30 = c00;
  auto c31 = c00;
  for (std::int64_t i = 0; i < depth; ++i) {
    const auto b0 = hn::LoadU(d, b);
    const auto b1 = hn::LoadU(d, b + lanes);
    const auto a0 = hn::Set(d, a[0]);
    c00 = hn::MulAdd(a0, b0, c00);
    c01 = hn::MulAdd(a0, b1, c01);
    const auto a1 = hn::Set(d, a[1]);
    c10 = hn::MulAdd(a1, b0, c10);
    c11 = hn::MulAdd(a1, b1, c11);
    const auto a2 = hn::Set(d, a[2]);
    c20 = hn::MulAdd(a2, b0, c20);
    c21 = hn::MulAdd(a2, b1, c21);
    const auto a3 = hn::Set(d, a[3]);
    c30 = hn::MulAdd(a3, b0, c30);
    c31 = hn::MulAdd(a3, b1, c31);
    a += tile_rows;
    b += tile_columns<T>;
  }
  hn::StoreU(c00, d, tile);
  hn::StoreU(c01, d, tile + lanes);
  hn::StoreU(c10, d, tile + 2 * lanes);
  hn::StoreU(c11, d, tile + 3 * lanes);
  hn::StoreU(c20, d, tile + 4 * lanes);
  hn::StoreU(c21, d, tile + 5 * lanes);
  hn::StoreU(c30, d, tile + 6 * lanes);
  hn::StoreU(c31, d, tile + 7 * lanes);
}

template <class T>
void multiply(const KernelBlock<T>& block) {
  constexpr std::int64_t width = tile_columns<T>;
  static_assert(max_strip_lines % width == 0);
  alignas(64) T tile[tile_rows * width];
  for (std::int64_t first = 0; first < block.depth; first += packed_depth) {
    const std::int64_t depth = block.depth - first < packed_depth ? block.depth - first : packed_depth;
    const bool adds = block.adds || first > 0;
    pack(block.a + first * block.column_stride_a, block.row_stride_a, block.column_stride_a, block.rows,
         depth, tile_rows, block.packed_a);
    pack(block.b + first * block.row_stride_b, block.column_stride_b, block.row_stride_b, block.columns,
         depth, width, block.packed_b);
    for (std::int64_t j = 0; j < block.columns; j += width) {
      const std::int64_t columns = block.columns - j < width ? block.columns - j : width;
      for (std::int64_t i = 0; i < block.rows; i += tile_rows) {
        const std::int64_t rows = block.rows - i < tile_rows ? block.rows - i : tile_rows;
        multiply_tile(block.packed_a + i * depth, block.packed_b + j * depth, depth, tile);
        for (std::int64_t row = 0; row < rows; ++row) {
          T* const c = block.c + (i + row) * block.row_stride_c + j;
          const T* const sums = tile + row * width;
          for (std::int64_t column = 0; column < columns; ++column)
            c[column] = adds ? c[column] + sums[column] : sums[column];
        }
      }
    }
  }
}

void multiply_block_f32(const KernelBlock<float>& block) { multiply(block); }
void multiply_block_f64(const KernelBlock<double>& block) { multiply(block); }

}  // namespace
}  // namespace ht::inline v1::compute::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace ht::inline v1::compute {

void multiply_block(const KernelBlock<float>& block) noexcept { HT_CHOOSE_TARGET(multiply_block_f32)(block); }
void multiply_block(const KernelBlock<double>& block) noexcept {
  HT_CHOOSE_TARGET(multiply_block_f64)(block);
}

}  // namespace ht::inline v1::compute

#endif
