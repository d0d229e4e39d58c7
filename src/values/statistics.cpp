#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <htensor/dtype/relations.hpp>
#include <htensor/values/statistics.hpp>
#include <optional>
#include <span>

#include "base/format_text.hpp"
#include "base/workers.hpp"
#include "values/convert_kernels.hpp"
#include "values/convert_values.hpp"
#include "values/strip_statistics.hpp"

namespace ht::inline v1 {
namespace {

using values::strip_elements;
using values::Summation;

// Number of elements whose F32 values fit the first-level cache.
constexpr std::int64_t decoded_elements = 4 * strip_elements;

// The elements are divided into jobs, jobs into pieces, pieces into units. A piece is one read, a unit one
// call of a kernel. Values are decoded in strips of a unit.
//
// A unit of BF16 is four times as large as other units: its sums are computed without decoding, so no F32
// values need to fit the cache. Groups of eight are added in F32 first, so each interleaved sum still has at
// most 256 additions, as htensor/values/statistics.hpp states.
constexpr std::int64_t max_unit_elements = 4 * decoded_elements;
std::int64_t unit_elements(const ElementType& type) {
  return type.dtype == BF16::tag ? max_unit_elements : decoded_elements;
}

// The statistics of `a` followed by `b`.
Statistics joined(const Statistics& a, const Statistics& b) {
  if (a.finite_count() == 0 || b.finite_count() == 0) {
    Statistics result = a.finite_count() == 0 ? b : a;
    result.count = a.count + b.count;
    result.nans = a.nans + b.nans;
    result.infinities = a.infinities + b.infinities;
    return result;
  }
  Statistics result{.count = a.count + b.count,
                    .zeros = a.zeros + b.zeros,
                    .subnormals = a.subnormals + b.subnormals,
                    .nans = a.nans + b.nans,
                    .infinities = a.infinities + b.infinities,
                    .min = a.min,
                    .max = a.max,
                    .argmin = a.argmin,
                    .argmax = a.argmax,
                    .sum = a.sum + b.sum,
                    .sum_of_squares = a.sum_of_squares + b.sum_of_squares};
  if (b.min < a.min) {
    result.min = b.min;
    result.argmin = b.argmin;
  }
  if (b.max > a.max) {
    result.max = b.max;
    result.argmax = b.argmax;
  }
  const auto count_a = static_cast<double>(a.finite_count());
  const auto count_b = static_cast<double>(b.finite_count());
  const double distance = b.mean() - a.mean();
  result.squared_deviations = a.squared_deviations + b.squared_deviations +
                              distance * distance * (count_a * (count_b / (count_a + count_b)));
  return result;
}

// Joins parts of equal size, like carries of a binary counter, so that sums are added pairwise.
class PairwiseJoin {
 public:
  void add(const Statistics& part) {
    Statistics carry = part;
    for (auto& level : levels_) {
      if (!level) {
        level = carry;
        return;
      }
      carry = joined(*level, carry);
      level.reset();
    }
    levels_.emplace_back(carry);
  }
  [[nodiscard]] Statistics result() const {
    std::optional<Statistics> all;
    for (const auto& level : levels_) {
      if (level) all = all ? joined(*level, *all) : *level;
    }
    return all.value_or(Statistics{});
  }

 private:
  std::vector<std::optional<Statistics>> levels_;
};

// Accepts any values: infinities and NaN are excluded from the sums.
template <class T>
Statistics summarize_each(const T* values, std::int64_t count, std::uint64_t first, double first_normal) {
  Statistics result{.count = static_cast<std::uint64_t>(count)};
  std::array<double, values::interleaved_sums> sums{};
  std::array<double, values::interleaved_sums> squares{};
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(values[i]);
    if (std::isnan(value)) {
      ++result.nans;
      continue;
    }
    if (std::isinf(value)) {
      ++result.infinities;
      continue;
    }
    const auto lane = static_cast<std::size_t>(i % values::interleaved_sums);
    sums[lane] += value;
    squares[lane] += value * value;
    result.zeros += value == 0 ? 1 : 0;
    result.subnormals += value != 0 && std::abs(value) < first_normal ? 1 : 0;
    const std::uint64_t index = first + static_cast<std::uint64_t>(i);
    if (!(value >= result.min)) {
      result.min = value;
      result.argmin = index;
    }
    if (!(value <= result.max)) {
      result.max = value;
      result.argmax = index;
    }
  }
  result.sum = values::add_pairwise(sums.data());
  result.sum_of_squares = values::add_pairwise(squares.data());
  return result;
}

template <class T>
void fill_deviations(Statistics& strip, const T* values, std::int64_t count) {
  if (strip.finite_count() == 0) return;
  const double mean = strip.mean();
  const double difference = strip.sum_of_squares - strip.sum * mean;
  // If the difference loses precision by cancellation, deviations are added one by one.
  if (difference > strip.sum_of_squares * 1e-6) {
    strip.squared_deviations = difference;
    return;
  }
  std::array<double, values::interleaved_sums> squares{};
  for (std::int64_t i = 0; i < count; ++i) {
    const double deviation = static_cast<double>(values[i]) - mean;
    if (std::isfinite(deviation))
      squares[static_cast<std::size_t>(i % values::interleaved_sums)] += deviation * deviation;
  }
  strip.squared_deviations = values::add_pairwise(squares.data());
}

// The smallest normal magnitude of the dtype.
double first_normal_of(const ElementType& type) {
  double first = 0;
  if (type.is_block_encoded()) return 0x1p-126;
  static_cast<void>(visit_dtype(type.dtype, [&]<class D>(D) {
    if constexpr (IsFloating<D>) {
      if constexpr (D::layout.has_sign()) first = std::ldexp(1.0, 1 - D::layout.bias);
    }
  }));
  return first;
}

// If elements have at most the digits of F16, a sum of eight in F32 has an error below the rounding error of
// the elements. The values of block encodings are approximations anyway.
Summation summation_of(const ElementType& type) {
  if (type.is_block_encoded()) return Summation::groups_of_floats;
  Summation summation = Summation::doubles;
  static_cast<void>(visit_dtype(type.dtype, [&]<class D>(D) {
    if constexpr (D::number.digits <= F16::number.digits) summation = Summation::groups_of_floats;
  }));
  return summation;
}

// Computes the statistics of units of one type. `argmin` and `argmax` only identify the unit that contains
// the extreme: each is the index of some element of this unit. `find_in_unit` later finds the first element
// that equals the extreme.
class UnitSummarizer {
 public:
  explicit UnitSummarizer(const ElementType& type)
      : type_(type),
        first_normal_(first_normal_of(type)),
        // At least 1, so that zeros are counted.
        tiny_below_(std::max(std::bit_cast<std::uint32_t>(static_cast<float>(first_normal_)), 1U)),
        reads_as_f32_(values::reads_as_f32(type)),
        summation_(summation_of(type)) {}

  [[nodiscard]] Statistics summarize(const std::byte* stored, std::int64_t count, std::uint64_t first) {
    if (type_.is_block_encoded() && type_.encoding == Q4_K::tag) {
      if (const auto unit = summarize_q4_k(stored, count, first)) return *unit;
    }
    if (reads_as_f32_) {
      if (const auto unit = summarize_fast(stored, count, first)) return *unit;
    }
    PairwiseJoin unit;
    for (std::int64_t at = 0; at < count; at += strip_elements) {
      const std::byte* const strip = stored + values::stored_bytes(type_, at);
      const std::int64_t elements = std::min(strip_elements, count - at);
      values::read_f64(type_, strip, doubles_, elements);
      const std::uint64_t index = first + static_cast<std::uint64_t>(at);
      Statistics summary = summarize_each(doubles_, elements, index, first_normal_);
      fill_deviations(summary, doubles_, elements);
      unit.add(summary);
    }
    return unit.result();
  }

 private:
  // Returns nullopt if a value is not finite, if squares leave the range of F32, or if the deviation loses
  // precision by cancellation.
  std::optional<Statistics> summarize_fast(const std::byte* stored, std::int64_t count, std::uint64_t first) {
    const float* floats = type_.dtype == BF16::tag ? nullptr : floats_of(stored, count);
    const auto summary = floats != nullptr ? values::summarize_f32(floats, count, summation_)
                                           : values::summarize_bf16(stored, count);
    if (!std::isfinite(summary.squares) || !squares_are_in_range(summary)) return std::nullopt;
    Statistics unit{.count = static_cast<std::uint64_t>(count),
                    .min = static_cast<double>(summary.min()),
                    .max = static_cast<double>(summary.max()),
                    .argmin = first,
                    .argmax = first,
                    .sum = summary.sum,
                    .sum_of_squares = summary.squares};
    if (!set_deviations(unit)) return std::nullopt;

    if (summary.min_magnitude < tiny_below_) {
      if (floats == nullptr) floats = floats_of(stored, count);
      const auto small = values::count_small(floats, count, tiny_below_);
      unit.zeros = small.zeros;
      unit.subnormals = small.tiny - small.zeros;
    }
    return unit;
  }

  // Returns nullopt if a scale is not finite, or if the deviation loses precision by cancellation.
  //
  // `min` and `max` of the result are those of this and the earlier units of the piece. Blocks within this
  // range are not decoded, so the extremes of this unit alone are unknown.
  std::optional<Statistics> summarize_q4_k(const std::byte* stored, std::int64_t count, std::uint64_t first) {
    static_assert(decoded_elements / Q4_K::block_elements <= values::max_blocks_per_call);
    values::BlockSums sums;
    values::ValueRange range = range_;
    // Starts with few blocks: later blocks are not decoded if they are within the range of earlier blocks.
    const std::int64_t blocks = count / Q4_K::block_elements;
    std::int64_t step = range.min <= range.max ? blocks : 1;
    for (std::int64_t done = 0; done < blocks; done += step, step = std::min(done, blocks - done)) {
      if (!values::summarize_q4_k(stored + done * Q4_K::block_bytes, step, sums, range)) return std::nullopt;
    }
    if (range.min < range_.min) argmin_ = first;
    if (range.max > range_.max) argmax_ = first;
    range_ = range;
    Statistics unit{.count = static_cast<std::uint64_t>(count),
                    .zeros = sums.zeros,
                    .min = static_cast<double>(range.min),
                    .max = static_cast<double>(range.max),
                    .argmin = argmin_,
                    .argmax = argmax_,
                    .sum = sums.sum,
                    .sum_of_squares = sums.squares};
    if (!set_deviations(unit)) return std::nullopt;
    return unit;
  }

  // Sets `squared_deviations`. Returns false if the difference loses precision by cancellation.
  [[nodiscard]] bool set_deviations(Statistics& unit) const {
    const double difference = unit.sum_of_squares - unit.sum * unit.mean();
    const double min_fraction = summation_ == Summation::doubles ? 1e-6 : 0.25;
    if (difference <= unit.sum_of_squares * min_fraction && unit.sum_of_squares != 0) return false;
    unit.squared_deviations = difference;
    return true;
  }

  // Squares are accurate in F32 unless all magnitudes are very small.
  [[nodiscard]] bool squares_are_in_range(const values::StripStatistics& summary) const {
    const bool all_zero = summary.max_signed <= 0 && (summary.max_unsigned & 0x7FFFFFFF) == 0;
    return summation_ == Summation::doubles || all_zero || summary.squares > 0x1p-80;
  }

  const float* floats_of(const std::byte* stored, std::int64_t count) {
    const bool is_aligned = reinterpret_cast<std::uintptr_t>(stored) % alignof(float) == 0;
    if (type_.dtype == F32::tag && is_aligned) return reinterpret_cast<const float*>(stored);
    for (std::int64_t at = 0; at < count; at += strip_elements) {
      values::read_f32(type_, stored + values::stored_bytes(type_, at), floats_ + at,
                       std::min(strip_elements, count - at));
    }
    return floats_;
  }

  ElementType type_;
  double first_normal_;
  std::uint32_t tiny_below_;
  bool reads_as_f32_;
  Summation summation_;
  values::ValueRange range_;
  std::uint64_t argmin_ = 0;
  std::uint64_t argmax_ = 0;
  alignas(64) float floats_[max_unit_elements];
  alignas(64) double doubles_[strip_elements];
};

// Number of elements per read.
constexpr std::int64_t piece_elements = std::int64_t{1} << 17;

// Divides the work into at most 4096 jobs of whole pieces. The division depends only on the number of
// elements.
struct Split {
  std::int64_t job_elements;
  std::size_t jobs;

  explicit Split(std::int64_t count) {
    constexpr std::int64_t max_jobs = 4096;
    const std::int64_t pieces = (count + piece_elements - 1) / piece_elements;
    const std::int64_t pieces_per_job = std::max<std::int64_t>((pieces + max_jobs - 1) / max_jobs, 1);
    job_elements = pieces_per_job * piece_elements;
    jobs = static_cast<std::size_t>((pieces + pieces_per_job - 1) / pieces_per_job);
  }
};

Error stop_error(std::uint64_t done, std::uint64_t total) {
  return {ErrorCode::cancelled, "work_is_completed",
          format_text("stopped: {} of {} bytes read", done, total)};
}

// Reads all pieces in parallel and calls `use(job, worker, stored, first, count)` for each.
template <class Use>
Result<void> for_each_piece(const ElementType& type, std::int64_t count, const detail::ReadValues& read,
                            const WorkOptions& work, Use use) {
  const Split split(count);
  const auto started = std::chrono::steady_clock::now();
  Progress progress{.total_bytes = values::stored_bytes(type, count)};
  std::atomic<std::uint64_t> done = 0;
  Jobs jobs;
  jobs.count = split.jobs;
  jobs.run = [&](std::size_t job, std::size_t worker) -> Result<void> {
    const auto begin = static_cast<std::int64_t>(job) * split.job_elements;
    const std::int64_t end = std::min(begin + split.job_elements, count);
    for (std::int64_t first = begin; first < end; first += piece_elements) {
      if (work.stop.stop_requested()) return fail(stop_error(done, progress.total_bytes));
      const std::int64_t elements = std::min(piece_elements, end - first);
      HT_TRY(read(first, elements, worker,
                  [&](const std::byte* stored) { use(job, worker, stored, first, elements); }));
      done += values::stored_bytes(type, elements);
    }
    return {};
  };
  jobs.meanwhile = [&]() -> Result<void> {
    const std::uint64_t done_bytes = done;  // read once: jobs may end meanwhile
    if (work.stop.stop_requested() && done_bytes < progress.total_bytes)
      return fail(stop_error(done_bytes, progress.total_bytes));
    if (work.on_progress) {
      progress.done_bytes = done_bytes;
      progress.elapsed = std::chrono::steady_clock::now() - started;
      work.on_progress(progress);
    }
    return {};
  };
  // Small tensors run on the calling thread.
  if (jobs.count <= 1) {
    if (jobs.count == 1) HT_TRY(without_bad_alloc([&] { return jobs.run(0, 0); }));
    return jobs.meanwhile();
  }
  return run_all(jobs);
}

}  // namespace

double Statistics::mean() const noexcept {
  return finite_count() == 0 ? std::numeric_limits<double>::quiet_NaN()
                             : sum / static_cast<double>(finite_count());
}

double Statistics::standard_deviation() const noexcept {
  return finite_count() == 0 ? std::numeric_limits<double>::quiet_NaN()
                             : std::sqrt(squared_deviations / static_cast<double>(finite_count()));
}

double Statistics::norm() const noexcept { return std::sqrt(sum_of_squares); }

namespace {

// Returns the index of the first element equal to `extreme` in the unit that contains element `within`.
Result<std::uint64_t> find_in_unit(const ElementType& type, std::int64_t count,
                                   const detail::ReadValues& read, std::uint64_t within, double extreme) {
  const std::int64_t unit = unit_elements(type);
  const auto first = static_cast<std::int64_t>(within) / unit * unit;
  const std::int64_t elements = std::min(unit, count - first);
  std::uint64_t found = within;
  HT_TRY(read(first, elements, 0, [&](const std::byte* stored) {
    alignas(64) double strip[strip_elements];
    for (std::int64_t at = 0; at < elements; at += strip_elements) {
      const std::int64_t in_strip = std::min(strip_elements, elements - at);
      values::read_f64(type, stored + values::stored_bytes(type, at), strip, in_strip);
      const std::span<const double> all(strip, static_cast<std::size_t>(in_strip));
      if (const auto position = std::ranges::find(all, extreme); position != all.end()) {
        found = static_cast<std::uint64_t>(first + at + (position - all.begin()));
        return;
      }
    }
  }));
  return found;
}

}  // namespace

namespace detail {

std::int64_t bytes_of_elements(const ElementType& type, std::int64_t count) noexcept {
  return static_cast<std::int64_t>(values::stored_bytes(type, count));
}

Result<Statistics> compute_statistics(const ElementType& type, std::int64_t count, const ReadValues& read,
                                      const WorkOptions& work) {
  return without_bad_alloc([&]() -> Result<Statistics> {
    std::vector<PairwiseJoin> job_results(Split(count).jobs);
    HT_TRY(for_each_piece(type, count, read, work,
                          [&](std::size_t job, std::size_t, const std::byte* stored, std::int64_t first,
                              std::int64_t elements) {
                            UnitSummarizer summarizer(type);
                            PairwiseJoin piece;
                            const std::int64_t unit = unit_elements(type);
                            for (std::int64_t at = 0; at < elements; at += unit) {
                              piece.add(summarizer.summarize(stored + bytes_of_elements(type, at),
                                                             std::min(unit, elements - at),
                                                             static_cast<std::uint64_t>(first + at)));
                            }
                            job_results[job].add(piece.result());
                          }));
    PairwiseJoin all;
    for (const auto& job_result : job_results) all.add(job_result.result());
    Statistics result = all.result();
    if (result.finite_count() == 0) return result;
    // Converts -0 to +0, so that the result does not depend on which zero came first.
    result.min += 0.0;
    result.max += 0.0;
    result.argmin = HT_TRY(find_in_unit(type, count, read, result.argmin, result.min));
    result.argmax = HT_TRY(find_in_unit(type, count, read, result.argmax, result.max));
    return result;
  });
}

Result<Histogram> count_values(const ElementType& type, std::int64_t count, const ReadValues& read,
                               const Histogram::Range& range, const WorkOptions& work) {
  if (range.bins == 0 || !(range.low <= range.high) || !std::isfinite(range.low) ||
      !std::isfinite(range.high)) {
    return fail(Error(ErrorCode::bad_shape, "histogram_has_a_range",
                      format_text("histogram of {} bins from {} to {} has no intervals", range.bins,
                                  range.low, range.high))
                    .with_hint("use one bin or more, and finite ends with low <= high"));
  }
  return without_bad_alloc([&]() -> Result<Histogram> {
    // One histogram per worker. Counts are integers, so the order of adding them does not matter.
    Jobs jobs;
    jobs.count = Split(count).jobs;
    std::vector<Histogram> worker_histograms(std::max<std::size_t>(workers_for(jobs), 1));
    for (auto& histogram : worker_histograms) histogram.counts.resize(range.bins);
    // A range wider than the largest double is halved. If bins / width overflows, values are divided by the
    // width.
    const double unit = std::isfinite(range.high - range.low) ? 1.0 : 0.5;
    const double low = range.low * unit;
    const double width = range.high * unit - low;
    const double scale = width > 0 ? range.bins / width : 0;
    const bool divides = !std::isfinite(scale);
    HT_TRY(for_each_piece(
        type, count, read, work,
        [&](std::size_t, std::size_t worker, const std::byte* stored, std::int64_t, std::int64_t elements) {
          Histogram& histogram = worker_histograms[worker];
          alignas(64) double values[strip_elements];
          for (std::int64_t at = 0; at < elements; at += strip_elements) {
            const std::int64_t in_strip = std::min(strip_elements, elements - at);
            values::read_f64(type, stored + bytes_of_elements(type, at), values, in_strip);
            for (std::int64_t i = 0; i < in_strip; ++i) {
              const double value = values[i];
              if (std::isnan(value)) {
                ++histogram.nans;
              } else if (value < range.low) {
                ++histogram.below;
              } else if (value > range.high) {
                ++histogram.above;
              } else {
                const double distance = value * unit - low;
                const auto bin =
                    static_cast<std::uint32_t>(divides ? distance / width * range.bins : distance * scale);
                ++histogram.counts[std::min(bin, range.bins - 1)];
              }
            }
          }
        }));
    Histogram all{.range = range, .counts = std::vector<std::uint64_t>(range.bins)};
    for (const auto& part : worker_histograms) {
      for (std::size_t i = 0; i < part.counts.size(); ++i) all.counts[i] += part.counts[i];
      all.below += part.below;
      all.above += part.above;
      all.nans += part.nans;
    }
    return all;
  });
}

}  // namespace detail

}  // namespace ht::inline v1
