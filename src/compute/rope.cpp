#include <algorithm>
#include <cmath>
#include <htensor/compute/nn.hpp>
#include <vector>

#include "base/format_text.hpp"
#include "compute/row_kernels.hpp"
#include "compute/rows.hpp"

namespace ht::inline v1 {
namespace {

Result<std::int64_t> count_rotated(layout::Extents extents, const RopeOptions& options) {
  const std::int64_t head_size = extents[2];
  const std::int64_t rotated = options.rotated == 0 ? head_size : options.rotated;
  if (rotated < 0 || rotated > head_size) {
    return fail(Error(ErrorCode::bad_shape, "rotated_elements_are_in_a_head",
                      format_text("{} rotated elements are outside heads of shape {}", rotated,
                                  layout::to_text(extents)))
                    .with_hint("use a number from 0 to the head size"));
  }
  if (rotated % 2 != 0) {
    return fail(ErrorCode::bad_shape, "rotated_elements_are_pairs",
                format_text("{} rotated elements of heads of shape {} are not pairs", rotated,
                            layout::to_text(extents)));
  }
  const auto factors = static_cast<std::int64_t>(options.frequency_factors.size());
  if (factors != 0 && factors != rotated / 2) {
    return fail(Error(ErrorCode::shape_mismatch, "each_pair_has_a_frequency_factor",
                      format_text("{} frequency factors were given for {} rotated pairs of heads of shape {}",
                                  factors, rotated / 2, layout::to_text(extents)))
                    .with_hint("use the factors of the same model, or none"));
  }
  return rotated;
}

// Cosines and sines of one token, laid out as the kernel of the pairs reads them.
template <class T>
class Angles {
 public:
  Angles(const std::vector<double>& frequencies, RopePairs pairs)
      : frequencies_(frequencies),
        copies_(pairs == RopePairs::interleaved ? 2 : 1),
        cosines(frequencies.size() * copies_),
        sines(frequencies.size() * copies_) {}

  void set_position(double position) {
    for (std::size_t i = 0; i < frequencies_.size(); ++i) {
      const double angle = position * frequencies_[i];
      const auto cosine = static_cast<T>(std::cos(angle));
      const auto sine = static_cast<T>(std::sin(angle));
      cosines[i * copies_] = cosine;
      sines[i * copies_] = copies_ == 2 ? -sine : sine;
      if (copies_ == 1) continue;
      cosines[2 * i + 1] = cosine;
      sines[2 * i + 1] = sine;
    }
  }

 private:
  const std::vector<double>& frequencies_;
  std::size_t copies_;

 public:
  std::vector<T> cosines;
  std::vector<T> sines;
};

}  // namespace

namespace detail {

template <class T>
Result<void> rope(const HostView<T>& x, const RopeOptions& options, T* into) {
  const std::int64_t rotated = HT_TRY(count_rotated(x.extents, options));
  const auto& kernels = nn::row_kernels<T>();
  const nn::Rows<T> rows(x);
  const std::int64_t heads = x.extents[1];
  const std::int64_t head_size = x.extents[2];
  if (rows.count() == 0) return {};
  return without_bad_alloc([&]() -> Result<void> {
    std::vector<double> frequencies(static_cast<std::size_t>(rotated / 2));
    for (std::size_t i = 0; i < frequencies.size(); ++i) {
      frequencies[i] = std::pow(options.base, -2.0 * static_cast<double>(i) / static_cast<double>(rotated));
      if (!options.frequency_factors.empty()) frequencies[i] /= options.frequency_factors[i];
    }
    return nn::divide_work(
        x.extents[0], heads * head_size, [&](std::int64_t first, std::int64_t last) -> Result<void> {
          auto scratch = rows.make_scratch();
          Angles<T> angles(frequencies, options.pairs);
          for (std::int64_t token = first; token < last; ++token) {
            angles.set_position(static_cast<double>(options.first_position) + static_cast<double>(token));
            for (std::int64_t head = token * heads; head < (token + 1) * heads; ++head) {
              const T* const from = rows.row(head, scratch);
              T* const to = into + head * head_size;
              if (options.pairs == RopePairs::interleaved) {
                kernels.rotate_pairs(from, angles.cosines.data(), angles.sines.data(), to, rotated);
              } else {
                kernels.rotate_halves(from, angles.cosines.data(), angles.sines.data(), to, rotated / 2);
              }
              std::copy(from + rotated, from + head_size, to + rotated);
            }
          }
          return {};
        });
  });
}

template Result<void> rope(const HostView<float>&, const RopeOptions&, float*);
template Result<void> rope(const HostView<double>&, const RopeOptions&, double*);

}  // namespace detail
}  // namespace ht::inline v1
