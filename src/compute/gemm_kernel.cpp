// A block of the result at a time: parts of both operands that fit the caches are copied into strips, in the
// order in which the innermost loop reads them, and padded with zeros. That loop keeps a tile of the result,
// 4 rows of 2 vectors, in registers.
#include "compute/gemm_kernel.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/jobs.hpp"
#include "values/kernel_targets.hpp"
#include "values/targets.hpp"

#ifndef HT_GEMM_KERNEL_ONCE
#define HT_GEMM_KERNEL_ONCE

namespace ht::inline v1::compute {
namespace {

constexpr std::int64_t tile_rows = 4;
// Extents of what one job has in its caches: 128 KiB of a in F32, 256 KiB of b in F32 and F64.
constexpr std::int64_t block_depth = 256;
constexpr std::int64_t block_rows = 128;
template <class T>
constexpr std::int64_t block_columns = 1024 / static_cast<std::int64_t>(sizeof(T));
// A multiple of the columns of a tile for every target.
constexpr std::int64_t max_tile_columns = 32;

template <class T>
struct Block {
  const T* a;
  std::int64_t row_stride_a, column_stride_a;
  const T* b;
  std::int64_t row_stride_b, column_stride_b;
  T* c;
  std::int64_t row_stride_c;
  std::int64_t rows, columns, depth;
  bool adds;
  // Room for the strips.
  T* packed_a;
  T* packed_b;
};

}  // namespace
}  // namespace ht::inline v1::compute

#endif

// Highway compiles this file again for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compute/gemm_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ht::inline v1::compute::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Lanes = hn::CappedTag<T, 32 / sizeof(T)>;
template <class T>
constexpr std::int64_t tile_columns = 2 * static_cast<std::int64_t>(hn::MaxLanes(Lanes<T>()));

// `lines` lines of `count` elements, in strips of `width` lines: the first elements of all lines of the
// strip, then the second ones.
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
void multiply_block(const Block<T>& block) {
  constexpr std::int64_t width = tile_columns<T>;
  static_assert(max_tile_columns % width == 0);
  alignas(64) T tile[tile_rows * width];
  for (std::int64_t first = 0; first < block.depth; first += block_depth) {
    const std::int64_t depth = block.depth - first < block_depth ? block.depth - first : block_depth;
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

void multiply_block_f32(const Block<float>& block) { multiply_block(block); }
void multiply_block_f64(const Block<double>& block) { multiply_block(block); }

}  // namespace
}  // namespace ht::inline v1::compute::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace ht::inline v1::compute {
namespace {

auto block_function(float) noexcept { return HT_CHOOSE_TARGET(multiply_block_f32); }
auto block_function(double) noexcept { return HT_CHOOSE_TARGET(multiply_block_f64); }

struct Free {
  void operator()(void* memory) const noexcept { std::free(memory); }
};

std::int64_t round_up(std::int64_t number, std::int64_t multiple) {
  return (number + multiple - 1) / multiple * multiple;
}

template <class T>
Result<void> multiply(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c,
                      const GemmOptions& options) {
  const auto multiply_this = block_function(T{});
  const std::int64_t blocks_down = (c.rows + block_rows - 1) / block_rows;
  const std::int64_t blocks_across = (c.columns + block_columns<T> - 1) / block_columns<T>;
  const std::int64_t depth = std::min(a.columns, block_depth);
  const std::int64_t room_a = depth * round_up(std::min(c.rows, block_rows), max_tile_columns);
  const std::int64_t room_b = depth * round_up(std::min(c.columns, block_columns<T>), max_tile_columns);
  const auto room = static_cast<std::size_t>(room_a + room_b) * sizeof(T);

  Jobs jobs;
  jobs.count = static_cast<std::size_t>(blocks_down * blocks_across);
  jobs.workers = options.workers;
  std::vector<std::unique_ptr<void, Free>> buffers(workers_for(jobs));
  jobs.run = [&](std::size_t job, std::size_t worker) -> Result<void> {
    auto& buffer = buffers[worker];
    if (!buffer)
      buffer.reset(
          std::aligned_alloc(64, static_cast<std::size_t>(round_up(static_cast<std::int64_t>(room), 64))));
    if (!buffer) return fail(Error(ErrorCode::out_of_memory));
    // Down first: jobs that run at once share columns of b.
    const std::int64_t row = static_cast<std::int64_t>(job) % blocks_down * block_rows;
    const std::int64_t column = static_cast<std::int64_t>(job) / blocks_down * block_columns<T>;
    T* const strips = static_cast<T*>(buffer.get());
    multiply_this({.a = a.data + row * a.row_stride,
                   .row_stride_a = a.row_stride,
                   .column_stride_a = a.column_stride,
                   .b = b.data + column * b.column_stride,
                   .row_stride_b = b.row_stride,
                   .column_stride_b = b.column_stride,
                   .c = c.data + row * c.row_stride + column,
                   .row_stride_c = c.row_stride,
                   .rows = std::min(block_rows, c.rows - row),
                   .columns = std::min(block_columns<T>, c.columns - column),
                   .depth = a.columns,
                   .adds = options.adds,
                   .packed_a = strips,
                   .packed_b = strips + room_a});
    return {};
  };
  return run_all(jobs);
}

}  // namespace

Result<void> multiply_by_kernel(const Matrix<const float>& a, const Matrix<const float>& b,
                                const Matrix<float>& c, const GemmOptions& options) {
  return without_bad_alloc([&] { return multiply(a, b, c, options); });
}
Result<void> multiply_by_kernel(const Matrix<const double>& a, const Matrix<const double>& b,
                                const Matrix<double>& c, const GemmOptions& options) {
  return without_bad_alloc([&] { return multiply(a, b, c, options); });
}

}  // namespace ht::inline v1::compute

#endif
