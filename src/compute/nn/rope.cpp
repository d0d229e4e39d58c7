#include <algorithm>
#include <cmath>
#include <htensor/compute/nn.hpp>
#include <vector>

#include "base/format_text.hpp"
#include "compute/nn/row_kernels.hpp"
#include "compute/nn/rows.hpp"

namespace ht::inline v1 {
namespace {

std::vector<double> frequencies_of(const RopeOptions& rope, std::int64_t pairs) {
  std::vector<double> frequencies(static_cast<std::size_t>(pairs));
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = std::pow(rope.base, -static_cast<double>(i) / static_cast<double>(pairs));
    if (!rope.frequency_factors.empty()) frequencies[i] /= rope.frequency_factors[i];
  }
  return frequencies;
}

double position_of(const RopeOptions& rope, std::int64_t token) {
  return static_cast<double>(rope.first_position) + static_cast<double>(token);
}

// Cosines and sines of one token, in the layout that the kernel for the pairs reads.
template <class T>
class Angles {
 public:
  Angles(const std::vector<double>& frequencies, RopeOptions::Pairs pairs)
      : frequencies_(frequencies),
        copies_(pairs == RopeOptions::Pairs::interleaved ? 2 : 1),
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

Result<std::int64_t> count_rotated(layout::Extents extents, const RopeOptions& rope) {
  const std::int64_t head_size = extents[2];
  const std::int64_t rotated = rope.rotated_elements == 0 ? head_size : rope.rotated_elements;
  if (rotated < 0 || rotated > head_size) {
    return fail(Error(ErrorCode::bad_shape, "rotated_elements_are_in_a_head",
                      format_text("{} rotated elements are outside heads of shape {}", rotated,
                                  layout::to_text(extents)))
                    .with_hint("use a number from 0 to the head size"));
  }
  if (rotated % 2 != 0) {
    return fail(Error(ErrorCode::bad_shape, "rotated_elements_are_pairs",
                      format_text("{} rotated elements of heads of shape {} are not pairs", rotated,
                                  layout::to_text(extents)))
                    .with_hint("rotate an even number of elements"));
  }
  const auto factors = static_cast<std::int64_t>(rope.frequency_factors.size());
  if (factors != 0 && factors != rotated / 2) {
    return fail(Error(ErrorCode::shape_mismatch, "each_pair_has_a_frequency_factor",
                      format_text("{} frequency factors were given for {} rotated pairs of heads of shape {}",
                                  factors, rotated / 2, layout::to_text(extents)))
                    .with_hint("use the factors of the same model, or none"));
  }
  return rotated;
}

template <class T>
Result<void> fill_rope_angles(const RopeOptions& rope, std::int64_t tokens, std::int64_t pairs, T* cosines,
                              T* sines) {
  return without_bad_alloc([&]() -> Result<void> {
    const auto frequencies = frequencies_of(rope, pairs);
    for (std::int64_t token = 0; token < tokens; ++token) {
      for (const double frequency : frequencies) {
        const double angle = position_of(rope, token) * frequency;
        *cosines++ = static_cast<T>(std::cos(angle));
        *sines++ = static_cast<T>(std::sin(angle));
      }
    }
    return {};
  });
}

template <class T>
Result<void> rope(const HostView<T>& x, const RopeOptions& rope, T* into, const ComputeOptions& options) {
  const std::int64_t rotated = HT_TRY(count_rotated(x.extents, rope));
  const auto& kernels = nn::row_kernels<T>();
  const nn::Rows<T> rows(x);
  const std::int64_t heads = x.extents[1];
  const std::int64_t head_size = x.extents[2];
  if (rows.count() == 0) return {};
  return without_bad_alloc([&]() -> Result<void> {
    const auto frequencies = frequencies_of(rope, rotated / 2);
    return nn::divide_work(
        x.extents[0], heads * head_size, options.workers,
        [&](std::int64_t first, std::int64_t last) -> Result<void> {
          auto scratch = rows.make_scratch();
          Angles<T> angles(frequencies, rope.pairs);
          for (std::int64_t token = first; token < last; ++token) {
            angles.set_position(position_of(rope, token));
            for (std::int64_t head = token * heads; head < (token + 1) * heads; ++head) {
              const T* const from = rows.row(head, scratch);
              T* const to = into + head * head_size;
              if (rope.pairs == RopeOptions::Pairs::interleaved) {
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

template Result<void> fill_rope_angles(const RopeOptions&, std::int64_t, std::int64_t, float*, float*);
template Result<void> fill_rope_angles(const RopeOptions&, std::int64_t, std::int64_t, double*, double*);
template Result<void> rope(const HostView<float>&, const RopeOptions&, float*, const ComputeOptions&);
template Result<void> rope(const HostView<double>&, const RopeOptions&, double*, const ComputeOptions&);

}  // namespace detail
}  // namespace ht::inline v1
