#include "cli/synth_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/synth_blocks.hpp"
#include "cli/synth_random.hpp"

namespace ht::cli {
namespace {

constexpr std::uint64_t sparse_elements = 1024;
constexpr std::uint64_t piece_elements = std::uint64_t{1} << 18;

// Around 0, as weights are. All of it is exact but one product, so that no machine
// rounds otherwise.
float weight(std::size_t bell) {
  constexpr float unit = usual_deviation * 1.7320508F / 32768.0F;
  return static_cast<float>(2 * static_cast<std::int32_t>(bell) - 0xFFFF) * unit;
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
    return Element(weight(bell(random)), weight(bell(mixed(random + random_step))));
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
  auto tensor = HT_TRY(Tensor<D, Rank<1>>::over(HT_TRY(Storage::borrowed(into)), Rank<1>(count)));
  std::uint64_t state = seed + first * random_step;
  if constexpr (is_narrow_float<D>) {
    const auto& weights = narrow_weights<D>();
    for (auto&& slot : tensor) slot = weights[bell(mixed(state += random_step))];
  } else {
    for (auto&& slot : tensor) slot = element<D>(mixed(state += random_step));
  }
  return {};
}

Result<void> fill(const StoredAs& type, std::uint64_t seed, std::uint64_t first, std::uint64_t count,
                  MutableBytes into) {
  if (type.encoding != EncodingTag::dense) return fill_blocks(type.encoding, seed, first, into);
  return visit_dtype(type.dtype, [&]<class D>(D) { return fill<D>(seed, first, count, into); });
}

std::uint64_t total_elements(const std::vector<TensorPlace>& places) {
  std::uint64_t total = 0;
  for (const auto& place : places) total += place.elements;
  return total;
}

std::uint64_t total_bytes(const std::vector<TensorPlace>& places) {
  std::uint64_t total = 0;
  for (const auto& place : places) total += place.type.bytes_for(place.elements);
  return total;
}

}  // namespace

SynthData::SynthData(std::vector<TensorPlace> places, const Options& options, const Common& common)
    : places_(std::move(places)),
      options_(options),
      elements_(total_elements(places_)),
      progress_(total_bytes(places_), common) {}

void SynthData::advance() {
  const std::uint64_t last = elements_ - std::min(elements_, sparse_elements);
  for (; tensor_ < places_.size(); ++tensor_, at_ = 0) {
    const auto& [offset, elements, type] = places_[tensor_];
    const bool in_hole = options_.sparse && before_ + at_ >= sparse_elements && before_ + at_ < last;
    if (in_hole) at_ = before_ + elements <= last ? elements : type.next_group(last - before_);
    if (at_ < elements) return;
    before_ += elements;
    bytes_before_ += type.bytes_for(elements);
  }
}

Result<std::optional<DataPiece>> SynthData::next() {
  if (interrupted()) {
    const auto done =
        tensor_ < places_.size() ? bytes_before_ + places_[tensor_].type.bytes_for(at_) : bytes_before_;
    return fail(
        interruption(fmt::format("{} of {} bytes written, nothing left behind", done, total_bytes(places_))));
  }
  advance();
  if (tensor_ == places_.size()) return std::nullopt;
  const auto& [offset, elements, type] = places_[tensor_];
  std::uint64_t count = std::min(elements - at_, piece_elements);
  // The first ones of a sparse file, up to the end of a group.
  if (options_.sparse && before_ + at_ < sparse_elements)
    count = std::min(count, type.next_group(sparse_elements - before_ - at_));
  // The bits after the last element are zero.
  buffer_.assign(static_cast<std::size_t>(type.bytes_for(count)), std::byte{});
  HT_TRY(fill(type, options_.seed, before_ + at_, count, buffer_));
  const std::uint64_t begin = type.bytes_for(at_);
  progress_.update(bytes_before_ + begin);
  at_ += count;
  return DataPiece{offset + begin, buffer_};
}

}  // namespace ht::cli
