#include <htensor/compute/linear.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "base/format_text.hpp"
#include "base/jobs.hpp"
#include "compute/dot_rows.hpp"
#include "compute/gemm.hpp"
#include "values/convert_kernels.hpp"
#include "values/convert_values.hpp"

namespace ht::inline v1::detail {
namespace {

// Enough work for a thread to start.
constexpr std::int64_t min_part_bytes = std::int64_t{64} << 10;
// The steps in which a thread works through its part: small, so that all threads end at about the same time.
constexpr std::int64_t step_bytes = std::int64_t{128} << 10;

// With as many vectors, decoding weights once and a product of matrices are faster than the kernels. Those
// for vectors of int8 are always faster.
template <class T>
bool uses_panels(const WeightRows& weights, std::int64_t batch) {
  const bool is_stored = !weights.type.is_blocks() && weights.type.dtype == F32::tag;
  const std::int64_t min_batch = sizeof(T) == sizeof(double) ? 4 : is_stored ? 16 : 32;
  return batch >= min_batch && weights.columns > 0;
}

// A range of rows that belongs to one thread until another one has nothing left to do.
struct Part {
  alignas(64) std::atomic<std::int64_t> next;
  std::int64_t end;
};

// Calls `run(first, end)` for ranges of rows on several threads, or here where one range has all. A result
// never depends on where rows are cut.
template <class Run>
Result<void> split_rows(const WeightRows& weights, std::int64_t batch, Workers* workers, const Run& run) {
  const auto row_bytes = static_cast<std::int64_t>(values::stored_bytes(weights.type, weights.columns));
  // The first 4 vectors take about as long as reading the row.
  const std::int64_t cost = std::max<std::int64_t>(row_bytes, 1) * std::max<std::int64_t>(batch / 4, 1);
  const Workers& pool = workers != nullptr ? *workers : Workers::shared();
  const std::int64_t part_rows = std::max<std::int64_t>(min_part_bytes / cost, 2);
  const std::int64_t count = std::min(static_cast<std::int64_t>(pool.threads()), weights.count / part_rows);
  if (count <= 1) {
    run(0, weights.count);
    return {};
  }
  // Kernels take rows in pairs.
  const std::int64_t step = std::max<std::int64_t>(step_bytes / cost / 2 * 2, 2);
  const std::int64_t rows = (weights.count / count + 1) / 2 * 2;
  std::vector<Part> parts(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    Part& part = parts[static_cast<std::size_t>(i)];
    part.next.store(std::min(i * rows, weights.count), std::memory_order_relaxed);
    part.end = i + 1 == count ? weights.count : std::min((i + 1) * rows, weights.count);
  }
  // A thread goes through its part in order, so that it has prefetched the rows of its next step, and takes
  // steps of other parts at the end.
  return run_all({.count = parts.size(),
                  .threads = 0,
                  .run = [&](std::size_t job, std::size_t) -> Result<void> {
                    for (std::size_t i = 0; i < parts.size(); ++i) {
                      Part& part = parts[(job + i) % parts.size()];
                      while (true) {
                        const std::int64_t first = part.next.fetch_add(step, std::memory_order_relaxed);
                        if (first >= part.end) break;
                        run(first, std::min(first + step, part.end));
                      }
                    }
                    return {};
                  },
                  .meanwhile = {},
                  .workers = workers});
}

template <class T>
void add_bias(const LinearTask<T>& task, std::int64_t stride, std::int64_t first, std::int64_t end) {
  if (task.bias == nullptr) return;
  for (std::int64_t b = 0; b < task.batch; ++b) {
    for (std::int64_t i = first; i < end; ++i) task.into[b * stride + i] += task.bias[i];
  }
}

const std::byte* row_at(const WeightRows& weights, std::int64_t row) {
  return weights.first + row * weights.row_bytes;
}

// One row decoded to F64 with one vector. 8 sums, so that additions need not wait for each other.
void dot_f64(const WeightRows& weights, const LinearTask<double>& task, std::int64_t row) {
  constexpr std::int64_t strip = 512;
  constexpr std::int64_t lanes = 8;
  alignas(64) double decoded[strip];
  for (std::int64_t b = 0; b < task.batch; ++b) {
    const double* const x = task.x + b * weights.columns;
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
    task.into[b * weights.count + row] = sums[0];
  }
}

void read_strip(const ElementType& type, const std::byte* stored, float* into, std::int64_t count) {
  values::read_f32(type, stored, into, count);
}
void read_strip(const ElementType& type, const std::byte* stored, double* into, std::int64_t count) {
  values::read_f64(type, stored, into, count);
}

// The rows `first` to `first + count`, decoded one behind another.
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

// The weights as a matrix, if they are stored as elements of T.
template <class T>
std::optional<compute::Matrix<const T>> as_matrix(const WeightRows& weights) {
  constexpr DTypeTag tag = sizeof(T) == sizeof(float) ? F32::tag : F64::tag;
  constexpr auto size = static_cast<std::int64_t>(sizeof(T));
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(weights.first) % alignof(T) == 0;
  if (weights.type.is_blocks() || weights.type.dtype != tag || !is_aligned || weights.row_bytes % size != 0)
    return std::nullopt;
  return compute::Matrix<const T>{reinterpret_cast<const T*>(weights.first), weights.count, weights.columns,
                                  weights.row_bytes / size, 1};
}

// By the product of matrices: weights of other types are decoded panel by panel, each of which fits a cache.
template <class T>
Result<void> run_by_panels(const WeightRows& weights, const LinearTask<T>& task, Workers* workers) {
  constexpr std::int64_t panel_elements = std::int64_t{1} << 19;
  const compute::GemmOptions options{.workers = workers};
  const compute::Matrix<const T> x{task.x, task.batch, weights.columns, weights.columns, 1};
  const compute::Matrix<T> into{task.into, task.batch, weights.count, weights.count, 1};
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
      HT_TRY(compute::gemm(x, decoded.transposed(), into.block(0, first, task.batch, count), options));
    }
  }
  add_bias(task, weights.count, 0, weights.count);
  return {};
}

}  // namespace

Result<void> check_inner_extents(layout::Extents x, layout::Extents weights, std::size_t of_x) {
  if (x[of_x] == weights[1]) return {};
  return fail(
      Error(
          ErrorCode::shape_mismatch, "inner_extents_are_equal",
          format_text("x of shape {} has {} elements in dimension {} but rows of weights of shape {} have {}",
                      layout::to_text(x), x[of_x], of_x, layout::to_text(weights), weights[1]))
          .with_hint("use weights of [out, in], where in is that extent of x"));
}

Result<void> check_bias_extent(layout::Extents bias, layout::Extents weights) {
  if (bias[0] == weights[0]) return {};
  return fail(Error(ErrorCode::shape_mismatch, "bias_has_an_element_for_each_row",
                    format_text("bias of shape {} does not fit weights of shape {}, which have {} rows",
                                layout::to_text(bias), layout::to_text(weights), weights[0]))
                  .with_hint("use a bias with an element for each row of the weights"));
}

Result<void> run_linear(const WeightRows& weights, const LinearTask<float>& task,
                        const LinearOptions& options) {
  return without_bad_alloc([&]() -> Result<void> {
    std::optional<compute::Int8Vectors> rounded;
    if (options.int8_activations && compute::has_int8_kernel(weights.type)) {
      rounded.emplace(weights.type, task.x, weights.columns, task.batch, weights.columns);
    } else if (uses_panels<float>(weights, task.batch)) {
      return run_by_panels(weights, task, options.workers);
    }
    return split_rows(weights, task.batch, options.workers, [&](std::int64_t first, std::int64_t end) {
      const compute::Rows rows{.type = weights.type,
                               .first = row_at(weights, first),
                               .row_bytes = weights.row_bytes,
                               .count = end - first,
                               .columns = weights.columns};
      if (rounded) {
        compute::dot_rows_int8(rows, *rounded, task.into + first, weights.count);
      } else {
        compute::dot_rows(rows, task.x, weights.columns, task.batch, task.into + first, weights.count);
      }
      add_bias(task, weights.count, first, end);
    });
  });
}

Result<void> run_linear(const WeightRows& weights, const LinearTask<double>& task,
                        const LinearOptions& options) {
  return without_bad_alloc([&]() -> Result<void> {
    if (uses_panels<double>(weights, task.batch)) return run_by_panels(weights, task, options.workers);
    return split_rows(weights, task.batch, options.workers, [&](std::int64_t first, std::int64_t end) {
      for (std::int64_t row = first; row < end; ++row) dot_f64(weights, task, row);
      add_bias(task, weights.count, first, end);
    });
  });
}

}  // namespace ht::inline v1::detail
