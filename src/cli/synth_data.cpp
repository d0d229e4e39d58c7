#include "cli/synth_data.hpp"

#include <algorithm>
#include <utility>

namespace ht::cli {
namespace {

constexpr std::uint64_t sparse_elements = 1024;
constexpr std::uint64_t piece_elements = std::uint64_t{1} << 18;

// SplitMix64: element i of a seed is the same on every machine and in every piece.
constexpr std::uint64_t step = 0x9e37'79b9'7f4a'7c15;

std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9;
  z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11eb;
  return z ^ (z >> 31);
}

// About normal: four uniform numbers added up, of which 16 bits are kept.
std::size_t bell(std::uint64_t random) {
  constexpr std::uint64_t lanes = 0x0000'FFFF'0000'FFFF;
  const std::uint64_t pairs = (random & lanes) + ((random >> 16) & lanes);
  return static_cast<std::size_t>(((pairs & 0xFFFF'FFFF) + (pairs >> 32)) >> 2);
}

// Around 0 with a deviation of 0.02, as weights are. All of it is exact but one product, so that no machine
// rounds otherwise.
float weight(std::size_t bell) {
  constexpr float deviation = 0.02F * 1.7320508F / 32768.0F;
  return static_cast<float>(2 * static_cast<std::int32_t>(bell) - 0xFFFF) * deviation;
}

// What each of them becomes in a narrow dtype: rounding a billion of them one by one takes a minute.
template <class D>
const std::vector<typename D::Element>& narrow_weights() {
  static const auto weights = [] {
    // Narrow types are used with a scale, so they have a deviation of 1.
    constexpr float scale = D::number.digits < 8 ? 50.0F : 1.0F;
    std::vector<typename D::Element> all;
    all.reserve(0x10000);
    for (std::size_t i = 0; i < 0x10000; ++i) all.emplace_back(weight(i) * scale);
    return all;
  }();
  return weights;
}

// Floats of at most 16 bits, which are looked up.
template <class D>
inline constexpr bool is_narrow_float =
    !IsIntegral<D> && D::number.has_zero && D::bits <= 16 && D::number.kind != NumberKind::boolean;

template <class D>
typename D::Element element(std::uint64_t random) {
  using Element = typename D::Element;
  if constexpr (D::number.kind == NumberKind::boolean) {
    return Element((random & 1) != 0);
  } else if constexpr (D::number.kind == NumberKind::complex) {
    return Element(weight(bell(random)), weight(bell(mixed(random + step))));
  } else if constexpr (IsIntegral<D> && std::is_integral_v<Element>) {
    return static_cast<Element>(random);
  } else if constexpr (IsIntegral<D>) {
    return Element::from_bits(static_cast<std::uint8_t>(random & 0xF));
  } else if constexpr (!D::number.has_zero) {
    return Element::from_bits(static_cast<std::uint8_t>(123 + random % 9));  // scales around 1
  } else {
    return static_cast<Element>(weight(bell(random)));
  }
}

template <class D>
Result<void> fill(std::uint64_t seed, std::uint64_t first, std::uint64_t count, MutableBytes into) {
  auto tensor = HT_TRY((Tensor<D, Rank<1>>::over(HT_TRY(Storage::borrowed(into)), Rank<1>(count))));
  std::uint64_t state = seed + first * step;
  if constexpr (is_narrow_float<D>) {
    const auto& weights = narrow_weights<D>();
    for (auto&& slot : tensor) slot = weights[bell(mixed(state += step))];
  } else {
    for (auto&& slot : tensor) slot = element<D>(mixed(state += step));
  }
  return {};
}

std::uint64_t round_up_to_8(std::uint64_t n) { return (n + 7) / 8 * 8; }

std::uint64_t total_elements(const std::vector<TensorPlace>& places) {
  std::uint64_t total = 0;
  for (const auto& place : places) total += place.elements;
  return total;
}

}  // namespace

SynthData::SynthData(std::vector<TensorPlace> places, const Options& options, const Common& common)
    : places_(std::move(places)),
      options_(options),
      elements_(total_elements(places_)),
      progress_(bytes_for(elements_, options.dtype.bits).value_or(0), common) {}

void SynthData::advance() {
  const std::uint64_t last = elements_ - std::min(elements_, sparse_elements);
  for (; tensor_ < places_.size(); before_ += places_[tensor_++].elements, at_ = 0) {
    const std::uint64_t elements = places_[tensor_].elements;
    const bool in_hole = options_.sparse && before_ + at_ >= sparse_elements && before_ + at_ < last;
    if (in_hole) at_ = before_ + elements <= last ? elements : round_up_to_8(last - before_);
    if (at_ < elements) return;
  }
}

Result<std::optional<DataPiece>> SynthData::next() {
  if (interrupted()) return fail(interruption());
  advance();
  if (tensor_ == places_.size()) return std::nullopt;
  const auto& place = places_[tensor_];
  std::uint64_t count = std::min(place.elements - at_, piece_elements);
  // The first ones of a sparse file, up to the end of a byte.
  if (options_.sparse && before_ + at_ < sparse_elements)
    count = std::min(count, round_up_to_8(sparse_elements - before_ - at_));
  const int bits = options_.dtype.bits;
  buffer_.resize(static_cast<std::size_t>(*bytes_for(count, bits)));
  // The bits after the last element are zero.
  if (bits % 8 != 0) std::ranges::fill(buffer_, std::byte{});
  HT_TRY(visit_dtype(options_.dtype.tag, [&]<class D>(D) {
    return fill<D>(options_.seed, before_ + at_, count, MutableBytes(buffer_));
  }));
  progress_.update(*bytes_for(before_ + at_, bits));
  const std::uint64_t begin = place.offset + *bytes_for(at_, bits);
  at_ += count;
  return DataPiece{begin, buffer_};
}

}  // namespace ht::cli
