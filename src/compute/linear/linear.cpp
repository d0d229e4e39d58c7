#include <htensor/compute/linear.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "base/format_text.hpp"
#include "base/workers.hpp"
#include "compute/gemm/gemm.hpp"
#include "compute/linear/dot_rows.hpp"
#include "values/convert_kernels.hpp"
#include "values/convert_values.hpp"

namespace ht::inline v1::detail {
namespace {

// Minimum bytes per thread: for less work, starting a thread takes longer than the thread saves.
constexpr std::int64_t min_part_bytes = std::int64_t{64} << 10;
// Bytes that a thread takes from its range at once. Small steps let all threads finish at about the same
// time; large products use larger ones, because each step starts a kernel.
constexpr std::int64_t min_step_bytes = std::int64_t{128} << 10;
constexpr std::int64_t max_step_bytes = std::int64_t{1} << 20;
constexpr std::int64_t steps_per_thread = 64;

// From `min_batch` vectors on, it is faster to decode the weights once and call gemm than to run the dot
// kernels. The kernels for int8 vectors are faster than gemm for every batch.
template <class T>
bool uses_panels(const WeightRows& weights, std::int64_t batch) {
  const bool is_f32 = !weights.type.is_block_encoded() && weights.type.dtype == F32::tag;
  const std::int64_t min_batch = sizeof(T) == sizeof(double) ? 4 : is_f32 ? 16 : 32;
  return batch >= min_batch && weights.columns > 0;
}

// The first 4 vectors together cost about as much as reading the row.
std::int64_t row_cost(const WeightRows& weights, std::int64_t batch) noexcept {
  const auto row_bytes = static_cast<std::int64_t>(values::stored_bytes(weights.type, weights.columns));
  return std::max<std::int64_t>(row_bytes, 1) * std::max<std::int64_t>(batch / 4, 1);
}

// The rows of one thread. Threads that have finished their own rows take steps from other ranges.
struct RowRange {
  alignas(64) std::atomic<std::int64_t> next;
  std::int64_t end;
};

// The work of several products. Rows are numbered consecutively over all products.
struct Work {
  std::int64_t rows = 0;
  std::int64_t total_cost = 0;
  std::int64_t max_row_cost = 1;
};

template <class T>
Work work_of(std::span<const LinearProduct<T>> products, std::int64_t batch) {
  // The sum is limited: this much work is enough for any number of threads.
  constexpr std::int64_t max_cost_sum = std::int64_t{1} << 60;
  Work work;
  for (const auto& product : products) {
    const std::int64_t cost = row_cost(product.weights, batch);
    work.rows += product.weights.count;
    work.total_cost =
        std::min(work.total_cost + std::min(product.weights.count, max_cost_sum / cost) * cost, max_cost_sum);
    work.max_row_cost = std::max(work.max_row_cost, cost);
  }
  return work;
}

// Returns the number of rows, counted from the first row of the first product, whose costs add up to about
// `cost_before`.
template <class T>
std::int64_t row_after_cost(std::span<const LinearProduct<T>> products, std::int64_t batch,
                            std::int64_t cost_before) {
  std::int64_t row = 0;
  for (const auto& product : products) {
    const std::int64_t cost = row_cost(product.weights, batch);
    const std::int64_t rows = std::min(product.weights.count, (cost_before / cost + 1) / 2 * 2);
    row += rows;
    if (rows < product.weights.count) break;
    cost_before = std::max<std::int64_t>(cost_before - rows * cost, 0);
  }
  return row;
}

// Returns `count` ranges of rows of about the same cost.
template <class T>
std::vector<RowRange> equal_ranges(std::span<const LinearProduct<T>> products, std::int64_t batch,
                                   const Work& work, std::int64_t count) {
  const auto boundary = [&](std::int64_t i) {
    return row_after_cost(products, batch, work.total_cost / count * i);
  };
  std::vector<RowRange> ranges(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    RowRange& range = ranges[static_cast<std::size_t>(i)];
    range.next.store(boundary(i), std::memory_order_relaxed);
    range.end = i + 1 == count ? work.rows : boundary(i + 1);
  }
  return ranges;
}

// Calls `run(product, from, to)` for each product that has rows in [first, end). `first` and `end` are
// counted over all products, `from` and `to` within the product.
template <class T, class Run>
void run_range(std::span<const LinearProduct<T>> products, std::int64_t first, std::int64_t end,
               const Run& run) {
  std::int64_t begin = 0;
  for (const auto& product : products) {
    const std::int64_t from = std::max(first, begin);
    const std::int64_t to = std::min(end, begin + product.weights.count);
    if (from < to) run(product, from - begin, to - begin);
    begin += product.weights.count;
  }
}

// Calls `run(product, from, to)` for ranges of rows of each product on several threads, or on the calling
// thread if there is only one range. Results do not depend on how rows are split.
template <class T, class Run>
Result<void> split_rows(std::span<const LinearProduct<T>> products, std::int64_t batch, Workers* workers,
                        const Run& run) {
  const Work work = work_of(products, batch);
  const Workers& pool = workers != nullptr ? *workers : Workers::shared();
  const std::int64_t count =
      std::min({static_cast<std::int64_t>(pool.threads()), work.total_cost / min_part_bytes, work.rows / 2});
  if (count <= 1) {
    run_range(products, 0, work.rows, run);
    return {};
  }
  const std::int64_t step_cost =
      std::clamp(work.total_cost / count / steps_per_thread, min_step_bytes, max_step_bytes);
  // Some kernels take rows in pairs.
  const std::int64_t step = std::max<std::int64_t>(step_cost / work.max_row_cost / 2 * 2, 2);
  std::vector<RowRange> ranges = equal_ranges(products, batch, work, count);
  // A thread works through its own range in order, so that the rows of its next step are prefetched. It then
  // takes steps from other ranges.
  return run_all({.count = ranges.size(),
                  .threads = 0,
                  .run = [&](std::size_t job, std::size_t) -> Result<void> {
                    for (std::size_t i = 0; i < ranges.size(); ++i) {
                      RowRange& range = ranges[(job + i) % ranges.size()];
                      while (true) {
                        const std::int64_t first = range.next.fetch_add(step, std::memory_order_relaxed);
                        if (first >= range.end) break;
                        run_range(products, first, std::min(first + step, range.end), run);
                      }
                    }
                    return {};
                  },
                  .meanwhile = {},
                  .workers = workers});
}

template <class T>
void add_bias(const LinearProduct<T>& product, std::int64_t batch, std::int64_t first, std::int64_t end) {
  if (product.bias == nullptr) return;
  for (std::int64_t b = 0; b < batch; ++b) {
    T* const into = product.into + b * product.weights.count;
    for (std::int64_t i = first; i < end; ++i) into[i] += product.bias[i];
  }
}

const std::byte* row_at(const WeightRows& weights, std::int64_t row) {
  return weights.first + row * weights.row_bytes;
}

// Multiplies one row with all vectors. Decodes the row to F64 once per vector, in strips. 8 independent sums
// keep additions from waiting for each other.
void dot_f64(const LinearProduct<double>& product, const LinearInput<double>& input, std::int64_t row) {
  const WeightRows& weights = product.weights;
  constexpr std::int64_t strip = 512;
  constexpr std::int64_t lanes = 8;
  alignas(64) double decoded[strip];
  for (std::int64_t b = 0; b < input.batch; ++b) {
    const double* const x = input.x + b * weights.columns;
    double sums[lanes] = {};
    for (std::int64_t at = 0; at < weights.columns; at += strip) {
      const std::int64_t count = std::min(strip, weights.columns - at);
      values::read_f64(weights.type, row_at(weights, row) + values::stored_bytes(weights.type, at), decoded,
                       count);
      std::int64_t i = 0;
      for (; i + lanes <= count; i += lanes) {
        for (std::int64_t lane = 0; lane < lanes; ++lane) sums[lane] += decoded[i + lane] * x[at + i + lane];
      }
      for (; i < count; ++i) sums[i % lanes] += decoded[i] * x[at + i];
    }
    for (std::int64_t half = lanes / 2; half > 0; half /= 2) {
      for (std::int64_t i = 0; i < half; ++i) sums[i] += sums[i + half];
    }
    product.into[b * weights.count + row] = sums[0];
  }
}

void read_strip(const ElementType& type, const std::byte* stored, float* into, std::int64_t count) {
  values::read_f32(type, stored, into, count);
}
void read_strip(const ElementType& type, const std::byte* stored, double* into, std::int64_t count) {
  values::read_f64(type, stored, into, count);
}

// Decodes the rows `first` to `first + count` contiguously.
template <class T>
Result<void> decode_rows(const WeightRows& weights, std::int64_t first, std::int64_t count, T* into,
                         Workers* workers) {
  return run_all({.count = static_cast<std::size_t>(count),
                  .threads = 0,
                  .run = [&](std::size_t job, std::size_t) -> Result<void> {
                    const auto row = static_cast<std::int64_t>(job);
                    const std::byte* const stored = row_at(weights, first + row);
                    for (std::int64_t at = 0; at < weights.columns; at += values::strip_elements) {
                      read_strip(weights.type, stored + values::stored_bytes(weights.type, at),
                                 into + row * weights.columns + at,
                                 std::min(values::strip_elements, weights.columns - at));
                    }
                    return {};
                  },
                  .meanwhile = {},
                  .workers = workers});
}

// Returns the weights as a matrix if they are stored as elements of T.
template <class T>
std::optional<compute::Matrix<const T>> as_matrix(const WeightRows& weights) {
  constexpr DTypeTag tag = sizeof(T) == sizeof(float) ? F32::tag : F64::tag;
  constexpr auto size = static_cast<std::int64_t>(sizeof(T));
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(weights.first) % alignof(T) == 0;
  if (weights.type.is_block_encoded() || weights.type.dtype != tag || !is_aligned ||
      weights.row_bytes % size != 0)
    return std::nullopt;
  return compute::Matrix<const T>{reinterpret_cast<const T*>(weights.first), weights.count, weights.columns,
                                  weights.row_bytes / size, 1};
}

// Computes the product with gemm. Weights that are not aligned elements of T are decoded in panels that fit a
// cache.
template <class T>
Result<void> run_by_panels(const LinearProduct<T>& product, const LinearInput<T>& input, Workers* workers) {
  const WeightRows& weights = product.weights;
  constexpr std::int64_t panel_elements = std::int64_t{1} << 19;
  const compute::GemmOptions options{.workers = workers};
  const compute::Matrix<const T> x{input.x, input.batch, weights.columns, weights.columns, 1};
  const compute::Matrix<T> into{product.into, input.batch, weights.count, weights.count, 1};
  if (const auto matrix = as_matrix<T>(weights)) {
    HT_TRY(compute::gemm(x, matrix->transposed(), into, options));
  } else {
    const std::int64_t rows = std::clamp<std::int64_t>(panel_elements / weights.columns, 16,
                                                       std::max<std::int64_t>(weights.count, 16));
    const auto panel = std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(rows * weights.columns));
    for (std::int64_t first = 0; first < weights.count; first += rows) {
      const std::int64_t count = std::min(rows, weights.count - first);
      HT_TRY(decode_rows(weights, first, count, panel.get(), workers));
      const compute::Matrix<const T> decoded{panel.get(), count, weights.columns, weights.columns, 1};
      HT_TRY(compute::gemm(x, decoded.transposed(), into.block(0, first, input.batch, count), options));
    }
  }
  add_bias(product, input.batch, 0, weights.count);
  return {};
}

}  // namespace

Result<void> check_inner_extents(layout::Extents x, layout::Extents weights, std::size_t dimension) {
  if (x[dimension] == weights[1]) return {};
  return fail(
      Error(
          ErrorCode::shape_mismatch, "inner_extents_are_equal",
          format_text("x of shape {} has {} elements in dimension {} but rows of weights of shape {} have {}",
                      layout::to_text(x), x[dimension], dimension, layout::to_text(weights), weights[1]))
          .with_hint(format_text("use weights of shape [outputs, {}]", x[dimension])));
}

Result<void> check_bias_extent(layout::Extents bias, layout::Extents weights) {
  if (bias[0] == weights[0]) return {};
  return fail(Error(ErrorCode::shape_mismatch, "bias_size_matches_the_rows",
                    format_text("bias of shape {} does not fit weights of shape {}, which have {} rows",
                                layout::to_text(bias), layout::to_text(weights), weights[0]))
                  .with_hint("use a bias with an element for each row of the weights"));
}

Result<void> run_linear(std::span<const LinearProduct<float>> products, const LinearInput<float>& input,
                        const LinearOptions& options) {
  // Without vectors, the result is empty, so its memory does not limit the number of rows: weights that are a
  // broadcast view may have 2^50 rows. Returns before any loop over rows.
  if (input.batch == 0) return {};
  return without_bad_alloc([&]() -> Result<void> {
    // Vectors of int8 have one scale per block of the weights.
    std::vector<compute::Int8Vectors> rounded;
    const auto find_rounded = [&](const ElementType& type) {
      if (!options.int8_activations || !compute::has_int8_kernel(type)) return rounded.end();
      return std::ranges::find(rounded, type.block_elements, &compute::Int8Vectors::block_elements);
    };
    std::vector<LinearProduct<float>> by_rows;
    for (const auto& product : products) {
      const WeightRows& weights = product.weights;
      const bool is_rounded = options.int8_activations && compute::has_int8_kernel(weights.type);
      if (!is_rounded && uses_panels<float>(weights, input.batch)) {
        HT_TRY(run_by_panels(product, input, options.workers));
        continue;
      }
      by_rows.push_back(product);
      if (is_rounded && find_rounded(weights.type) == rounded.end())
        rounded.emplace_back(weights.type, input.x, weights.columns, input.batch, weights.columns);
    }
    const auto run = [&](const LinearProduct<float>& product, std::int64_t first, std::int64_t end) {
      const WeightRows& weights = product.weights;
      WeightRows rows = weights;
      rows.first = row_at(weights, first);
      rows.count = end - first;
      if (const auto x = find_rounded(weights.type); x != rounded.end()) {
        compute::dot_rows_int8(rows, *x, product.into + first, weights.count);
      } else {
        compute::dot_rows(rows, input.x, weights.columns, input.batch, product.into + first, weights.count);
      }
      add_bias(product, input.batch, first, end);
    };
    return split_rows<float>(by_rows, input.batch, options.workers, run);
  });
}

Result<void> run_linear(std::span<const LinearProduct<double>> products, const LinearInput<double>& input,
                        const LinearOptions& options) {
  if (input.batch == 0) return {};
  return without_bad_alloc([&]() -> Result<void> {
    std::vector<LinearProduct<double>> by_rows;
    for (const auto& product : products) {
      if (uses_panels<double>(product.weights, input.batch)) {
        HT_TRY(run_by_panels(product, input, options.workers));
      } else {
        by_rows.push_back(product);
      }
    }
    const auto run = [&](const LinearProduct<double>& product, std::int64_t first, std::int64_t end) {
      for (std::int64_t row = first; row < end; ++row) dot_f64(product, input, row);
      add_bias(product, input.batch, first, end);
    };
    return split_rows<double>(by_rows, input.batch, options.workers, run);
  });
}

}  // namespace ht::inline v1::detail
