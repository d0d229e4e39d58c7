#include <algorithm>
#include <htensor/base/bytes.hpp>
#include <htensor/compute/conv.hpp>
#include <vector>

#include "base/format_text.hpp"
#include "compute/nn/conv_kernels.hpp"
#include "compute/nn/rows.hpp"

namespace ht::inline v1::detail {
namespace {

// Products of two options up to this limit do not overflow.
constexpr std::int64_t max_option = (std::int64_t{1} << 31) - 1;

bool is_in_range(const Conv2dOptions& options) {
  const auto within = [](const std::array<std::int64_t, 2>& pair, std::int64_t min_value) {
    return std::ranges::all_of(pair,
                               [&](std::int64_t value) { return value >= min_value && value <= max_option; });
  };
  return within(options.stride, 1) && within(options.dilation, 1) && within(options.padding, 0) &&
         options.groups >= 1;
}

// Returns the number of kernel positions along one dimension; nullopt if it is zero or a number overflows.
std::optional<std::int64_t> count_positions(std::int64_t extent, std::int64_t kernel, std::int64_t stride,
                                            std::int64_t padding, std::int64_t dilation) {
  const auto padded = checked::add(extent, 2 * padding);
  const auto reach = checked::multiply(kernel - 1, dilation);
  if (!padded || !reach || kernel < 1 || *reach >= *padded) return std::nullopt;
  return (*padded - 1 - *reach) / stride + 1;
}

// The positions [first, last) in a row of results.
struct Span {
  std::int64_t first;
  std::int64_t last;
};

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return a <= 0 ? 0 : (a - 1) / b + 1; }

// Returns the positions of `part` for which position · stride + offset is from 0 to `extent` - 1.
Span positions_inside(std::int64_t offset, std::int64_t extent, std::int64_t stride, Span part) {
  const std::int64_t first = std::clamp(divide_up(-offset, stride), part.first, part.last);
  return {first, std::clamp(divide_up(extent - offset, stride), first, part.last)};
}

// One convolution of contiguous elements.
template <class T>
class Convolution {
 public:
  Convolution(const Conv2dPlan& plan, const T* x, const T* weight, const T* bias, T* into, Workers* workers)
      : plan_(plan),
        x_(x),
        weight_(weight),
        bias_(bias),
        into_(into),
        workers_(workers),
        group_outputs_(plan.outputs / plan.options.groups),
        depth_(plan.group_channels * plan.kernel_height * plan.kernel_width),
        positions_(plan.out_height * plan.out_width) {}

  [[nodiscard]] Result<void> run() const {
    // Without outputs, the number of groups has no limit, and products with it could overflow.
    if (plan_.images * plan_.outputs * positions_ == 0) return {};
    const auto form = plan_.options.form;
    const bool is_direct =
        form == Conv2dOptions::Form::direct || (form == Conv2dOptions::Form::automatic && group_outputs_ < 4);
    return is_direct ? run_direct() : run_by_columns();
  }

 private:
  // `dimension` is 0 for vertical, 1 for horizontal.
  [[nodiscard]] std::int64_t offset_of(std::size_t dimension, std::int64_t in_kernel) const {
    return in_kernel * plan_.options.dilation[dimension] - plan_.options.padding[dimension];
  }
  [[nodiscard]] const T* channel_of(std::int64_t image, std::int64_t group, std::int64_t channel) const {
    return x_ +
           (image * plan_.channels + group * plan_.group_channels + channel) * plan_.height * plan_.width;
  }
  // The cost of a job for `divide_work`. An overflow only makes jobs smaller.
  [[nodiscard]] std::int64_t cost_of(std::int64_t results) const {
    return checked::multiply(results, std::max<std::int64_t>(depth_, 1)).value_or(INT64_MAX);
  }

  [[nodiscard]] Result<void> run_direct() const {
    return nn::divide_work(plan_.images * plan_.outputs, cost_of(positions_), workers_,
                           [&](std::int64_t first, std::int64_t last) -> Result<void> {
                             for (std::int64_t i = first; i < last; ++i)
                               fill_output(i / plan_.outputs, i % plan_.outputs, into_ + i * positions_);
                             return {};
                           });
  }

  // Adds the terms of one output channel to `out`, which must be zero on entry.
  void fill_output(std::int64_t image, std::int64_t output, T* out) const {
    const T* weight = weight_ + output * depth_;
    for (std::int64_t channel = 0; channel < plan_.group_channels; ++channel) {
      const T* const from = channel_of(image, output / group_outputs_, channel);
      for (std::int64_t u = 0; u < plan_.kernel_height; ++u) {
        for (std::int64_t v = 0; v < plan_.kernel_width; ++v) add_weighted(*weight++, from, u, v, out);
      }
    }
    if (bias_ == nullptr) return;
    for (std::int64_t i = 0; i < positions_; ++i) out[i] += bias_[output];
  }

  void add_weighted(T factor, const T* from, std::int64_t u, std::int64_t v, T* out) const {
    const std::int64_t stride = plan_.options.stride[1];
    const std::int64_t column_offset = offset_of(1, v);
    const Span rows =
        positions_inside(offset_of(0, u), plan_.height, plan_.options.stride[0], {0, plan_.out_height});
    const Span columns = positions_inside(column_offset, plan_.width, stride, {0, plan_.out_width});
    for (std::int64_t r = rows.first; r < rows.last; ++r) {
      const T* const row = from + (r * plan_.options.stride[0] + offset_of(0, u)) * plan_.width;
      T* const to = out + r * plan_.out_width;
      if (stride == 1 && columns.first < columns.last) {
        kernels_.add_scaled(factor, row + (columns.first + column_offset), to + columns.first,
                            columns.last - columns.first);
      } else {
        for (std::int64_t c = columns.first; c < columns.last; ++c)
          to[c] += factor * row[c * stride + column_offset];
      }
    }
  }

  [[nodiscard]] Result<void> run_by_columns() const {
    // Columns of a tile stay in the second-level cache.
    constexpr std::int64_t tile_elements = std::int64_t{1} << 16;
    const std::int64_t steps = std::clamp<std::int64_t>(
        tile_elements / std::max<std::int64_t>(depth_, 1) / nn::tile_step, 1, 256 / nn::tile_step);
    const std::int64_t width = steps * nn::tile_step;
    const std::int64_t tiles = (positions_ + width - 1) / width;
    const std::int64_t jobs = plan_.images * plan_.options.groups * tiles;
    // Without channels, kernels still calculate addresses in the tile.
    const auto tile_size = static_cast<std::size_t>(std::max<std::int64_t>(depth_, 1) * width);
    return nn::divide_work(jobs, cost_of(width * std::max<std::int64_t>(group_outputs_, 1)), workers_,
                           [&](std::int64_t first, std::int64_t last) -> Result<void> {
                             std::vector<T> columns(tile_size);
                             for (std::int64_t job = first; job < last; ++job) {
                               const std::int64_t group = job / tiles % plan_.options.groups;
                               fill_tile(job / tiles / plan_.options.groups, group, job % tiles * width,
                                         width, columns.data());
                             }
                             return {};
                           });
  }

  // Computes the results of one group at `width` positions. `columns` is a buffer for a matrix: one row per
  // kernel element, one column per position.
  void fill_tile(std::int64_t image, std::int64_t group, std::int64_t first, std::int64_t width,
                 T* columns) const {
    const std::int64_t valid = std::min(width, positions_ - first);
    T* row = columns;
    for (std::int64_t channel = 0; channel < plan_.group_channels; ++channel) {
      const T* const from = channel_of(image, group, channel);
      for (std::int64_t u = 0; u < plan_.kernel_height; ++u) {
        for (std::int64_t v = 0; v < plan_.kernel_width; ++v, row += width) {
          copy_covered(from, u, v, first, valid, row);
          std::fill(row + valid, row + width, T{0});
        }
      }
    }
    const std::int64_t output = group * group_outputs_;
    T* const out = into_ + (image * plan_.outputs + output) * positions_ + first;
    kernels_.multiply(weight_ + output * depth_, group_outputs_, depth_, columns, width, out, positions_,
                      valid);
    if (bias_ == nullptr) return;
    for (std::int64_t i = 0; i < group_outputs_; ++i) {
      for (std::int64_t j = 0; j < valid; ++j) out[i * positions_ + j] += bias_[output + i];
    }
  }

  // Fills one row of the matrix of columns: the inputs that one kernel element covers at `count` positions,
  // in row-major order of the results.
  void copy_covered(const T* from, std::int64_t u, std::int64_t v, std::int64_t first, std::int64_t count,
                    T* into) const {
    const std::int64_t stride = plan_.options.stride[1];
    const std::int64_t column_offset = offset_of(1, v);
    for (std::int64_t position = first; position < first + count;) {
      const std::int64_t r = position / plan_.out_width;
      const std::int64_t start = position % plan_.out_width;
      const Span part{start, std::min(plan_.out_width, start + first + count - position)};
      const std::int64_t y = r * plan_.options.stride[0] + offset_of(0, u);
      const bool has_row = y >= 0 && y < plan_.height;
      const Span inside =
          has_row ? positions_inside(column_offset, plan_.width, stride, part) : Span{part.last, part.last};
      into = std::fill_n(into, inside.first - part.first, T{0});
      if (inside.first < inside.last) {
        const T* const row = from + (y * plan_.width + inside.first * stride + column_offset);
        const std::int64_t elements = inside.last - inside.first;
        if (stride == 1) {
          into = std::copy_n(row, elements, into);
        } else {
          for (std::int64_t i = 0; i < elements; ++i) *into++ = row[i * stride];
        }
      }
      into = std::fill_n(into, part.last - inside.last, T{0});
      position += part.last - part.first;
    }
  }

  const Conv2dPlan& plan_;
  const T* x_;
  const T* weight_;
  const T* bias_;
  T* into_;
  Workers* workers_;
  std::int64_t group_outputs_;
  std::int64_t depth_;
  std::int64_t positions_;
  const nn::ConvKernels<T>& kernels_ = nn::conv_kernels<T>();
};

}  // namespace

Result<Conv2dPlan> plan_conv2d(layout::Extents x, layout::Extents weight, std::optional<std::int64_t> biases,
                               const Conv2dOptions& options) {
  if (!is_in_range(options)) {
    return fail(
        Error(ErrorCode::bad_shape, "convolution_options_are_in_range",
              format_text("stride [{}, {}], padding [{}, {}], dilation [{}, {}] or groups {} is out of range",
                          options.stride[0], options.stride[1], options.padding[0], options.padding[1],
                          options.dilation[0], options.dilation[1], options.groups))
            .with_hint("use strides and dilations from 1 to 2^31 - 1, paddings from 0 to 2^31 - 1, and 1 "
                       "group or more"));
  }
  const auto channels = checked::multiply(weight[1], options.groups);
  if (channels != x[1]) {
    return fail(
        Error(ErrorCode::shape_mismatch, "channels_match_the_weight",
              format_text("input of shape {} and weight of shape {} in {} groups differ in channels",
                          layout::to_text(x), layout::to_text(weight), options.groups))
            .with_hint("use a weight of [outputs, channels / groups, rows, columns], or other groups"));
  }
  if (weight[0] % options.groups != 0) {
    return fail(Error(ErrorCode::bad_shape, "groups_divide_outputs",
                      format_text("{} groups do not divide the outputs of a weight of shape {}",
                                  options.groups, layout::to_text(weight)))
                    .with_hint("use groups that divide the first extent of the weight"));
  }
  if (biases && *biases != weight[0]) {
    return fail(Error(ErrorCode::shape_mismatch, "bias_size_matches_the_outputs",
                      format_text("bias of shape [{}] does not match a weight of shape {}", *biases,
                                  layout::to_text(weight)))
                    .with_hint("use a bias with as many elements as the first extent of the weight"));
  }
  const auto rows =
      count_positions(x[2], weight[2], options.stride[0], options.padding[0], options.dilation[0]);
  const auto columns =
      count_positions(x[3], weight[3], options.stride[1], options.padding[1], options.dilation[1]);
  if (!rows || !columns) {
    return fail(Error(ErrorCode::bad_shape, "kernel_is_inside_the_padded_input",
                      format_text("weight of shape {} with dilation [{}, {}] is empty or larger than the "
                                  "input of shape {} with padding [{}, {}]",
                                  layout::to_text(weight), options.dilation[0], options.dilation[1],
                                  layout::to_text(x), options.padding[0], options.padding[1]))
                    .with_hint("use a smaller kernel or dilation, or a larger padding"));
  }
  return Conv2dPlan{.images = x[0],
                    .channels = x[1],
                    .height = x[2],
                    .width = x[3],
                    .outputs = weight[0],
                    .group_channels = weight[1],
                    .kernel_height = weight[2],
                    .kernel_width = weight[3],
                    .out_height = *rows,
                    .out_width = *columns,
                    .options = options};
}

template <class T>
Result<void> run_conv2d(const Conv2dPlan& plan, const T* x, const T* weight, const T* bias, T* into,
                        const ComputeOptions& options) {
  return Convolution<T>(plan, x, weight, bias, into, options.workers).run();
}

template Result<void> run_conv2d(const Conv2dPlan&, const float*, const float*, const float*, float*,
                                 const ComputeOptions&);
template Result<void> run_conv2d(const Conv2dPlan&, const double*, const double*, const double*, double*,
                                 const ComputeOptions&);

}  // namespace ht::inline v1::detail
