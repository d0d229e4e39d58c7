// Statistics and histograms of the values of one tensor, from one pass over its stored bytes.
//
//   const auto s = HT_TRY(ht::statistics(weights));     // a Tensor of any dtype, or a BlockTensor
//   use(s.min, s.max, s.mean(), s.norm(), s.nans);
//   const auto h = HT_TRY(ht::histogram(weights, {.low = s.min, .high = s.max, .bins = 40}));
//
// The work runs on all processors and uses about 1 MiB of memory per processor, for any strides. Results are
// values; they do not depend on the number of threads or on the processor. Many threads may call the
// functions at once.
//
// Sums are in F64: runs of at most 256 elements are added in sequence, and the sums of runs pairwise. With n
// elements, the error of `sum` is at most (260 + log2(n)) × 2^-53 × Σ|x|. The relative error of `norm` is
// below (260 + log2(n)) × 2^-53. Elements with at most 11 significant bits (BF16, F16, F8 and narrower, 8-bit
// integers) and elements of block encodings are first added pairwise in F32, in groups of eight. This adds
// 3 × 2^-24 × Σ|x| to the error of `sum` and 4 × 2^-24 to the relative error of `norm`.
//
// These bounds hold for magnitudes between 1e-150 and 1e150. Squares of F64 values outside of this range may
// be 0 or infinite. Mean and standard deviation are not finite if a sum is infinite. I64 and U64 elements
// beyond 2^53 are rounded to F64 first; `min` and `max` are rounded values too.
//
// Ownership: a tensor is borrowed during the call; Statistics and Histogram own their numbers and refer to no
// tensor. Errors: `cancelled`, `out_of_memory`, `read_failed` or `changed_underfoot` for an unreadable mapped
// page, and `bad_shape` for an invalid range of a histogram. A tensor without elements has the count 0 and
// NaN as mean, minimum and maximum.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <htensor/base/result.hpp>
#include <htensor/base/work.hpp>
#include <htensor/values/cast.hpp>
#include <limits>
#include <vector>

namespace ht::inline v1 {

/// `count` is the number of all elements, `nans` and `infinities` are the numbers of NaNs and infinities; all
/// other members describe the finite values only. All members are exact counts or numbers in F64; objects are
/// values that any thread may read.
struct Statistics {
  std::uint64_t count = 0;
  std::uint64_t zeros = 0;
  /// The count of subnormal numbers of the stored dtype; of F32 for block encodings.
  std::uint64_t subnormals = 0;
  std::uint64_t nans = 0;
  std::uint64_t infinities = 0;
  /// The smallest and the largest finite value; NaN if there is none.
  double min = std::numeric_limits<double>::quiet_NaN();
  double max = std::numeric_limits<double>::quiet_NaN();
  /// The row-major indices of the first `min` and the first `max`.
  std::uint64_t argmin = 0;
  std::uint64_t argmax = 0;
  double sum = 0;
  double sum_of_squares = 0;
  /// Σ (x - mean)².
  double squared_deviations = 0;

  /// The number of finite values.
  [[nodiscard]] std::uint64_t finite_count() const noexcept { return count - nans - infinities; }
  /// NaN if no value is finite. The same holds for `standard_deviation`.
  [[nodiscard]] double mean() const noexcept;
  /// The population standard deviation: divides by the count of finite values.
  [[nodiscard]] double standard_deviation() const noexcept;
  /// The Euclidean norm.
  [[nodiscard]] double norm() const noexcept;
};

/// The number of values in each bin of a range. `counts` has `range.bins` entries. All counts, with `below`,
/// `above` and `nans`, add up to the number of elements.
struct Histogram {
  /// `bins` intervals of equal width from `low` to `high`. The last interval includes `high`.
  struct Range {
    double low = 0;
    double high = 1;
    std::uint32_t bins = 32;
  };

  Range range;
  std::vector<std::uint64_t> counts;
  /// The number of values below and above the range, including infinities.
  std::uint64_t below = 0;
  std::uint64_t above = 0;
  std::uint64_t nans = 0;
};

namespace detail {

/// Calls `use` with the stored bytes of the elements [first, first + count), in row-major order and native
/// byte order. The range is a whole number of blocks. Called from several threads; `worker` is the index of
/// the calling thread.
using ReadValues = std::function<Result<void>(std::int64_t first, std::int64_t count, std::size_t worker,
                                              const std::function<void(const std::byte*)>& use)>;

[[nodiscard]] Result<Statistics> compute_statistics(const ElementType& type, std::int64_t count,
                                                    const ReadValues& read, const WorkOptions& work);
[[nodiscard]] Result<Histogram> count_values(const ElementType& type, std::int64_t count,
                                             const ReadValues& read, const Histogram::Range& range,
                                             const WorkOptions& work);

/// The size of `count` elements in bytes. `count` must be a whole number of blocks and fill whole bytes.
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

/// Copies `count` elements, starting at the row-major index `first`, to contiguous memory.
template <class D, class S, class Dev>
void gather_elements(const Tensor<D, S, Dev>& tensor, std::int64_t first, std::int64_t count,
                     std::byte* into) {
  using DType = std::remove_const_t<D>;
  const auto& extents = tensor.shape().extents();
  const auto target = elements_at<DType>(into);
  std::array<std::int64_t, S::rank> index{};
  std::int64_t rest = first;
  for (std::size_t i = index.size(); i-- > 0;) {
    index[i] = rest % extents[i];
    rest /= extents[i];
  }
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < index.size(); ++axis) offset += index[axis] * tensor.strides()[axis];
    target[i] = static_cast<typename DType::Element>(tensor.data()[offset]);
    for (std::size_t axis = index.size(); axis-- > 0;) {
      if (++index[axis] < extents[axis]) break;
      index[axis] = 0;
    }
  }
}

/// Calls `compute(read)`, where `read` passes contiguous bytes. Elements that are not contiguous are copied
/// piece by piece.
template <HasValues T, class Compute>
[[nodiscard]] auto with_reader(const T& tensor, Compute compute)
    -> decltype(compute(std::declval<const ReadValues&>())) {
  if constexpr (is_dense_tensor<T>) {
    if (!tensor.bytes()) {
      const ReadValues gather = [&](std::int64_t first, std::int64_t count, std::size_t,
                                    const std::function<void(const std::byte*)>& use) -> Result<void> {
        std::vector<std::byte> piece(static_cast<std::size_t>(bytes_of_elements(stored_type<T>(), count)));
        gather_elements(tensor, first, count, piece.data());
        use(piece.data());
        return {};
      };
      const auto touched = HT_TRY(placement::touched_bytes<typename T::DType>(
          tensor.data(), tensor.shape().extents(), tensor.strides()));
      return guarded(touched, [&] { return compute(gather); });
    }
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
  return guarded(stored, [&] { return compute(read); });
}

}  // namespace detail

/// Returns the Result<Statistics> of all elements. `cancelled` if a stop is requested through `work`. A
/// tensor that is not contiguous is copied piece by piece, so contiguous tensors are faster. Complex tensors
/// do not compile.
template <detail::HasValues T>
[[nodiscard]] auto statistics(const T& tensor, const WorkOptions& work = {}) {
  return detail::with_reader(tensor, [&](const detail::ReadValues& read) {
    return detail::compute_statistics(detail::stored_type<T>(), tensor.elements(), read, work);
  });
}

/// Returns the Result<Histogram> of all elements: the number of values in each bin of `range`. If `low`
/// equals `high`, values equal to both are in bin 0. `bad_shape` if the range has no bins, an end is not
/// finite, or `low` exceeds `high`. `cancelled` after a stop request. Reads the tensor once: call
/// `statistics` first if the range is unknown.
template <detail::HasValues T>
[[nodiscard]] auto histogram(const T& tensor, const Histogram::Range& range, const WorkOptions& work = {}) {
  return detail::with_reader(tensor, [&](const detail::ReadValues& read) {
    return detail::count_values(detail::stored_type<T>(), tensor.elements(), read, range, work);
  });
}

}  // namespace ht::inline v1
