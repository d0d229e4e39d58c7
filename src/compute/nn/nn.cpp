#include <algorithm>
#include <cmath>
#include <htensor/compute/nn.hpp>
#include <limits>
#include <vector>

#include "base/format_text.hpp"
#include "compute/nn/row_kernels.hpp"
#include "compute/nn/rows.hpp"

namespace ht::inline v1 {
namespace {

using detail::HostView;
using nn::for_each_piece;
using nn::for_each_row;
using nn::row_kernels;
using nn::Rows;

template <class T>
constexpr T infinity = std::numeric_limits<T>::infinity();

// Computes e^(x - max) of a row of at least one element. Returns the sum, 0 if all elements are -∞.
template <class T>
double exp_of_row(const nn::RowKernels<T>& kernels, const T* row, T largest, T* into, std::int64_t length) {
  if (largest != -infinity<T> || kernels.has_nan(row, length))
    return kernels.exp_and_sum(row, largest, into, length);
  std::fill_n(into, length, T{0});
  return 0;
}

std::int64_t last_of(layout::Extents extents) { return extents.empty() ? 1 : extents.back(); }

}  // namespace

namespace detail {

Result<void> check_row_weight(layout::Extents extents, layout::Extents weight) {
  if (weight[0] == last_of(extents)) return {};
  return fail(Error(ErrorCode::shape_mismatch, "weight_size_matches_the_row",
                    format_text("weight of shape {} does not match rows of shape {}", layout::to_text(weight),
                                layout::to_text(extents)))
                  .with_hint("use a weight with as many elements as the last extent"));
}

Result<void> check_rows_have_elements(layout::Extents extents) {
  const bool has_rows = std::ranges::find(extents.first(extents.size() - 1), 0) == extents.end() - 1;
  if (last_of(extents) != 0 || !has_rows) return {};
  return fail(Error(ErrorCode::bad_shape, "rows_have_elements",
                    format_text("shape {}: rows have 0 elements", layout::to_text(extents)))
                  .with_hint("check the shape before the call"));
}

template <class T>
Result<void> softmax(const HostView<T>& x, T* into, const ComputeOptions& options) {
  const auto& kernels = row_kernels<T>();
  const std::int64_t length = last_of(x.extents);
  return for_each_row(x, options.workers, [&](std::int64_t index, const T* row) {
    T* const result = into + index * length;
    const double sum = exp_of_row(kernels, row, kernels.largest(row, length), result, length);
    if (sum != 0) kernels.divide(result, static_cast<T>(sum), result, length);
  });
}

template <class T>
Result<void> log_softmax(const HostView<T>& x, T* into, const ComputeOptions& options) {
  const auto& kernels = row_kernels<T>();
  const std::int64_t length = last_of(x.extents);
  return for_each_row(x, options.workers, [&](std::int64_t index, const T* row) {
    T* const result = into + index * length;
    const T largest = kernels.largest(row, length);
    const double sum = exp_of_row(kernels, row, largest, result, length);
    const double logarithm = std::log(sum);
    const auto shift = static_cast<double>(largest);
    for (std::int64_t i = 0; i < length; ++i) {
      result[i] = sum == 0 ? -infinity<T> : static_cast<T>((static_cast<double>(row[i]) - shift) - logarithm);
    }
  });
}

template <class T>
Result<void> rms_norm(const HostView<T>& x, const T* weight, double epsilon, T* into,
                      const ComputeOptions& options) {
  const auto& kernels = row_kernels<T>();
  const std::int64_t length = last_of(x.extents);
  return for_each_row(x, options.workers, [&](std::int64_t index, const T* row) {
    const double mean = kernels.sum_of_squares(row, 0, length) / static_cast<double>(length);
    kernels.normalize(row, 0, 1 / std::sqrt(mean + epsilon), weight, nullptr, into + index * length, length);
  });
}

template <class T>
Result<void> layer_norm(const HostView<T>& x, const T* weight, const T* bias, double epsilon, T* into,
                        const ComputeOptions& options) {
  const auto& kernels = row_kernels<T>();
  const std::int64_t length = last_of(x.extents);
  return for_each_row(x, options.workers, [&](std::int64_t index, const T* row) {
    const double mean = kernels.sum(row, length) / static_cast<double>(length);
    const double variance = kernels.sum_of_squares(row, mean, length) / static_cast<double>(length);
    kernels.normalize(row, mean, 1 / std::sqrt(variance + epsilon), weight, bias, into + index * length,
                      length);
  });
}

template <class T>
Result<void> silu(const HostView<T>& x, T* into, const ComputeOptions& options) {
  const auto& kernels = row_kernels<T>();
  return for_each_piece(x, options.workers, [&](std::int64_t first, const T* elements, std::int64_t count) {
    kernels.silu(elements, into + first, count);
  });
}

template <class T>
Result<void> gelu(const HostView<T>& x, GeluForm form, T* into, const ComputeOptions& options) {
  const auto& kernels = row_kernels<T>();
  const auto kernel = form == GeluForm::exact ? kernels.gelu_erf : kernels.gelu_tanh;
  return for_each_piece(x, options.workers, [&](std::int64_t first, const T* elements, std::int64_t count) {
    kernel(elements, into + first, count);
  });
}

template <class T>
Result<void> swiglu(const HostView<T>& gate, const HostView<T>& x, T* into, const ComputeOptions& options) {
  const auto& kernels = row_kernels<T>();
  const bool is_dense =
      layout::is_row_major(gate.extents, gate.strides) && layout::is_row_major(x.extents, x.strides);
  if (is_dense) {
    return for_each_piece(gate, options.workers,
                          [&](std::int64_t first, const T* elements, std::int64_t count) {
                            kernels.swiglu(elements, x.data + first, into + first, count);
                          });
  }
  const Rows<T> gates(gate);
  const Rows<T> others(x);
  const std::int64_t length = gates.length();
  return nn::divide_work(
      gates.count(), length, options.workers, [&](std::int64_t first, std::int64_t last) -> Result<void> {
        auto gate_scratch = gates.make_scratch();
        auto other_scratch = others.make_scratch();
        for (std::int64_t i = first; i < last; ++i)
          kernels.swiglu(gates.row(i, gate_scratch), others.row(i, other_scratch), into + i * length, length);
        return {};
      });
}

template <class T>
Result<void> argmax(const HostView<T>& x, std::int64_t* into, const ComputeOptions& options) {
  const std::int64_t length = last_of(x.extents);
  const auto& kernels = row_kernels<T>();
  return for_each_row(x, options.workers, [&](std::int64_t index, const T* row) {
    const bool has_nan = kernels.has_nan(row, length);
    const T largest = kernels.largest(row, length);
    const auto* const best = has_nan
                                 ? std::find_if(row, row + length, [](T value) { return std::isnan(value); })
                                 : std::find(row, row + length, largest);
    into[index] = best - row;
  });
}

template Result<void> softmax(const HostView<float>&, float*, const ComputeOptions&);
template Result<void> log_softmax(const HostView<float>&, float*, const ComputeOptions&);
template Result<void> rms_norm(const HostView<float>&, const float*, double, float*, const ComputeOptions&);
template Result<void> layer_norm(const HostView<float>&, const float*, const float*, double, float*,
                                 const ComputeOptions&);
template Result<void> silu(const HostView<float>&, float*, const ComputeOptions&);
template Result<void> gelu(const HostView<float>&, GeluForm, float*, const ComputeOptions&);
template Result<void> swiglu(const HostView<float>&, const HostView<float>&, float*, const ComputeOptions&);
template Result<void> argmax(const HostView<float>&, std::int64_t*, const ComputeOptions&);
template Result<void> softmax(const HostView<double>&, double*, const ComputeOptions&);
template Result<void> log_softmax(const HostView<double>&, double*, const ComputeOptions&);
template Result<void> rms_norm(const HostView<double>&, const double*, double, double*,
                               const ComputeOptions&);
template Result<void> layer_norm(const HostView<double>&, const double*, const double*, double, double*,
                                 const ComputeOptions&);
template Result<void> silu(const HostView<double>&, double*, const ComputeOptions&);
template Result<void> gelu(const HostView<double>&, GeluForm, double*, const ComputeOptions&);
template Result<void> swiglu(const HostView<double>&, const HostView<double>&, double*,
                             const ComputeOptions&);
template Result<void> argmax(const HostView<double>&, std::int64_t*, const ComputeOptions&);

}  // namespace detail
}  // namespace ht::inline v1
