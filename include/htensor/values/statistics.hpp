// Facts about the values of one tensor, from one pass over its stored bytes.
//
//   const auto s = HT_TRY(ht::statistics(weights));     // a Tensor of any dtype, or a BlockTensor
//   use(s.min, s.max, s.mean(), s.norm(), s.nans);
//   const auto h = HT_TRY(ht::histogram(weights, {.low = s.min, .high = s.max, .bins = 40}));
//
// All processors take part, and memory stays below a few hundred KiB per processor. Results do not depend on
// the number of threads or on the processor. Sums are added in F64: 16 interleaved sums for each 1024
// elements, then pairwise. The error of `sum` is at most (68 + log2(count)) × 2^-53 × Σ|x|; the relative
// error of `norm` is below the same factor. I64 and U64 elements beyond 2^53 are rounded to F64 first.
#pragma once

#include <cstdint>
#include <functional>
#include <htensor/base/result.hpp>
#include <htensor/base/work.hpp>
#include <htensor/values/cast.hpp>
#include <limits>
#include <vector>

namespace ht::inline v1 {

/// Infinities and NaN are counted; all other facts are about the finite values.
struct Statistics {
  std::uint64_t count = 0;
  std::uint64_t zeros = 0;
  /// By the dtype that is stored; of F32 for block encodings.
  std::uint64_t subnormals = 0;
  std::uint64_t nans = 0;
  std::uint64_t infinities = 0;
  /// NaN if no value is finite.
  double min = std::numeric_limits<double>::quiet_NaN();
  double max = std::numeric_limits<double>::quiet_NaN();
  /// Row-major indexes of the first `min` and `max`.
  std::uint64_t argmin = 0;
  std::uint64_t argmax = 0;
  double sum = 0;
  double sum_of_squares = 0;
  /// Σ (x - mean)².
  double squared_deviations = 0;

  [[nodiscard]] std::uint64_t finite() const noexcept { return count - nans - infinities; }
  /// NaN if no value is finite, like `standard_deviation`.
  [[nodiscard]] double mean() const noexcept;
  /// Of the whole population: divided by the count of finite values.
  [[nodiscard]] double standard_deviation() const noexcept;
  /// The Euclidean norm.
  [[nodiscard]] double norm() const noexcept;
};

/// `bins` intervals of equal width from `low` to `high`, which belongs to the last one.
struct HistogramRange {
  double low = 0;
  double high = 1;
  std::uint32_t bins = 32;
};

struct Histogram {
  HistogramRange range;
  std::vector<std::uint64_t> counts;
  /// Outside of the range, infinities included.
  std::uint64_t below = 0;
  std::uint64_t above = 0;
  std::uint64_t nans = 0;
};

namespace detail {

/// Hands `use` the stored bytes of the elements `first` to `first + count`, which are whole blocks, in
/// row-major order and this machine's byte order. Called from several threads; `worker` is their number.
using ReadValues = std::function<Result<void>(std::int64_t first, std::int64_t count, std::size_t worker,
                                              const std::function<void(const std::byte*)>& use)>;

[[nodiscard]] Result<Statistics> measure_values(const ElementType& type, std::int64_t count,
                                                const ReadValues& read, const WorkOptions& work);
[[nodiscard]] Result<Histogram> count_values(const ElementType& type, std::int64_t count,
                                             const ReadValues& read, const HistogramRange& range,
                                             const WorkOptions& work);

/// Bytes of `count` elements that are whole blocks and whole bytes.
[[nodiscard]] std::int64_t bytes_of_elements(const ElementType& type, std::int64_t count) noexcept;

/// A tensor whose values can be read as numbers.
template <class T>
concept HasValues = (is_block_tensor<T> || is_dense_tensor<T>) && HostAccessible<typename T::Device> &&
                    LibraryReal<typename T::DType>;

template <class T>
[[nodiscard]] constexpr ElementType stored_type() noexcept {
  if constexpr (is_block_tensor<T>) {
    return element_type_of<typename T::EncodingType>();
  } else {
    return element_type_of<typename T::DType>();
  }
}

/// Calls `measure(read)` with a reader of contiguous bytes. A tensor with other strides is copied.
template <HasValues T, class Measure>
[[nodiscard]] auto with_reader(const T& tensor, Measure measure)
    -> decltype(measure(std::declval<const ReadValues&>())) {
  if constexpr (is_dense_tensor<T>) {
    if (!tensor.bytes()) return with_reader(HT_TRY(tensor.copy()), measure);
  }
  Bytes stored;
  if constexpr (is_block_tensor<T>) {
    stored = tensor.bytes();
  } else {
    stored = HT_TRY(tensor.bytes());
  }
  const ReadValues read = [&](std::int64_t first, std::int64_t, std::size_t,
                              const std::function<void(const std::byte*)>& use) -> Result<void> {
    use(stored.data() + bytes_of_elements(stored_type<T>(), first));
    return {};
  };
  return guarded(stored, [&] { return measure(read); });
}

}  // namespace detail

/// `cancelled` where `work` is stopped.
template <detail::HasValues T>
[[nodiscard]] Result<Statistics> statistics(const T& tensor, const WorkOptions& work = {}) {
  return detail::with_reader(tensor, [&](const detail::ReadValues& read) {
    return detail::measure_values(detail::stored_type<T>(), tensor.elements(), read, work);
  });
}

/// `bad_shape` for a range without bins or width.
template <detail::HasValues T>
[[nodiscard]] Result<Histogram> histogram(const T& tensor, const HistogramRange& range,
                                          const WorkOptions& work = {}) {
  return detail::with_reader(tensor, [&](const detail::ReadValues& read) {
    return detail::count_values(detail::stored_type<T>(), tensor.elements(), read, range, work);
  });
}

}  // namespace ht::inline v1
