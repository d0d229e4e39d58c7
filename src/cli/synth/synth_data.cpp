#include "cli/synth/synth.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <htensor/dtype/scalar.hpp>
#include <utility>

namespace ht::cli {
namespace {

// Pseudorandom numbers that depend only on the seed and their position, so that any part of the data can be
// generated alone, on any machine. SplitMix64: the nth number is mixed(seed + n * random_step).
constexpr std::uint64_t random_step = 0x9e37'79b9'7f4a'7c15;

constexpr std::uint64_t mixed(std::uint64_t z) noexcept {
  z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9;
  z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11eb;
  return z ^ (z >> 31);
}

// Approximately normal, 16 bits: the mean of four uniform numbers.
constexpr std::size_t bell(std::uint64_t random) noexcept {
  constexpr std::uint64_t lanes = 0x0000'FFFF'0000'FFFF;
  const std::uint64_t pairs = (random & lanes) + ((random >> 16) & lanes);
  return static_cast<std::size_t>(((pairs & 0xFFFF'FFFF) + (pairs >> 32)) >> 2);
}

// Standard deviation of the weights.
constexpr float default_deviation = 0.02F;

constexpr std::uint64_t sparse_elements = 1024;
constexpr std::uint64_t piece_elements = std::uint64_t{1} << 18;

// A weight around 0. Only one product is rounded, so the result is the same on every machine.
float weight(std::size_t bell) {
  constexpr float unit = default_deviation * 1.7320508F / 32768.0F;
  return static_cast<float>(2 * static_cast<std::int32_t>(bell) - 0xFFFF) * unit;
}

// True for floats of at most 8 bits. Real models store them together with a scale, so the standard deviation
// of these weights is 1 and `Values::scale` is ignored.
template <class D>
inline constexpr bool has_unit_deviation = D::number.digits < 8;

// Table of all weights in a narrow dtype: rounding a billion values one by one takes a minute.
template <class D>
const std::vector<typename D::Element>& narrow_weights() {
  static const auto weights = [] {
    constexpr float factor = has_unit_deviation<D> ? 1 / default_deviation : 1.0F;
    std::vector<typename D::Element> all;
    all.reserve(0x10000);
    for (std::size_t i = 0; i < 0x10000; ++i) all.emplace_back(weight(i) * factor);
    return all;
  }();
  return weights;
}

// Floats of at most 16 bits, which use the table.
template <class D>
inline constexpr bool is_narrow_float =
    !IsIntegral<D> && D::number.has_zero && D::bits <= 16 && D::number.kind != NumberFacts::Kind::boolean;

template <class D>
typename D::Element element(std::uint64_t random, float scale = 1, float middle = 0) {
  using Element = typename D::Element;
  if constexpr (D::number.kind == NumberFacts::Kind::boolean) {
    return Element((random & 1) != 0);
  } else if constexpr (D::number.kind == NumberFacts::Kind::complex) {
    return Element(weight(bell(random)), weight(bell(mixed(random + random_step))));
  } else if constexpr (IsIntegral<D> && std::is_integral_v<Element>) {
    return static_cast<Element>(random);
  } else if constexpr (IsIntegral<D>) {
    return Element::from_bits(static_cast<std::uint8_t>(random & 0xF));
  } else if constexpr (!D::number.has_zero) {
    return Element::from_bits(static_cast<std::uint8_t>(123 + random % 9));  // scales around 1
  } else {
    return static_cast<Element>(middle + scale * weight(bell(random)));
  }
}

template <class D>
Result<void> fill(const Values& values, std::uint64_t seed, std::uint64_t position, std::uint64_t count,
                  MutableBytes into) {
  auto tensor = HT_TRY(Tensor<D, Rank<1>>::over(HT_TRY(Storage::borrowed(into)), Rank<1>(count)));
  std::uint64_t state = seed + position * random_step;
  const float middle = values.has_mean_one ? 1.0F : 0.0F;
  if constexpr (is_narrow_float<D>) {
    if (!values.has_mean_one && (has_unit_deviation<D> || values.scale == 1.0F)) {
      const auto& weights = narrow_weights<D>();
      for (auto&& slot : tensor) slot = weights[bell(mixed(state += random_step))];
      return {};
    }
  }
  for (auto&& slot : tensor) slot = element<D>(mixed(state += random_step), values.scale, middle);
  return {};
}

// `index_in_tensor` is the index of the first element in its tensor. `position` is its index in the sequence
// of all elements of all tensors; `seed` and `position` determine the random values.
Result<void> fill(const StorageType& type, const Values& values, std::uint64_t seed,
                  std::uint64_t index_in_tensor, std::uint64_t position, std::uint64_t count,
                  MutableBytes into) {
  if (!values.exact.empty()) {
    for (std::uint64_t i = 0; i < count; ++i)
      store_le(into.subspan(i * sizeof(float)), values.exact[index_in_tensor + i]);
    return {};
  }
  if (type.encoding != EncodingTag::dense)
    return fill_blocks(type.encoding, seed, position, into, values.scale);
  return visit_dtype(type.dtype, [&]<class D>(D) { return fill<D>(values, seed, position, count, into); });
}

// Standard deviation of the 16 bits of `bell`.
constexpr float bell_deviation = 9459.0F;

// The random numbers of one block: one for each element, and others for the scales.
class BlockRandom {
 public:
  BlockRandom(std::uint64_t seed, std::uint64_t position) : elements_(seed + position * random_step) {}

  // A quantized element of `bits` bits, approximately normal around the middle of the range.
  [[nodiscard]] unsigned quant(std::uint64_t element, int bits) const {
    return static_cast<unsigned>(bell(mixed(elements_ + (element + 1) * random_step)) >> (16 - bits));
  }
  [[nodiscard]] std::uint64_t scales(std::uint64_t number) const { return mixed(mixed(~elements_) + number); }

 private:
  std::uint64_t elements_;
};

void put_byte(MutableBytes block, std::uint64_t at, unsigned value) {
  block[static_cast<std::size_t>(at)] = static_cast<std::byte>(value & 0xFFU);
}

void put_half(MutableBytes block, std::size_t at, float value) {
  store_le(block.subspan(at), F16::Element(value).bits());
}

// From 3/4 to 5/4, so that blocks differ.
float varied(std::uint64_t random) { return 0.75F + static_cast<float>(random & 0xFF) / 512.0F; }

// { f16 d, dmin; u8 scales[12]; u8 quants[128] }: an element is d * scale * quant - dmin * min, with a scale
// and a min of 6 bits for each 32 elements.
void make_q4_k(const BlockRandom& random, MutableBytes block, float weight_scale) {
  // The mins are equal to the scales, and dmin maps the middle of the quants to 0.
  constexpr float middle = 7.5F;
  constexpr float mean_scale = 48.4F;
  constexpr float default_d = default_deviation / (mean_scale * bell_deviation / 4096.0F);
  const std::uint64_t bits = random.scales(0);
  const float d = default_d * weight_scale * varied(bits);
  put_half(block, 0, d);
  put_half(block, 2, d * middle);

  std::array<unsigned, 8> scales{};
  for (std::size_t i = 0; i < 8; ++i) scales[i] = 32U + static_cast<unsigned>((bits >> (8 + 5 * i)) & 31U);
  // Four scales have their own bytes, whose free bits hold the upper bits of the other four.
  for (std::size_t i = 0; i < 4; ++i) {
    const unsigned own = scales[i] | (scales[i + 4] >> 4 << 6);
    put_byte(block, 4 + i, own);
    put_byte(block, 8 + i, own);
    put_byte(block, 12 + i, (scales[i + 4] & 15U) * 0x11U);
  }

  // The two elements of a byte are 32 apart.
  for (std::uint64_t i = 0; i < 128; ++i) {
    const std::uint64_t low = i / 32 * 64 + i % 32;
    put_byte(block, 16 + i, random.quant(low, 4) | (random.quant(low + 32, 4) << 4));
  }
}

// { u8 low[128], high[64]; i8 scales[16]; f16 d }: an element is d * scale * (quant - 32), with a scale for
// each 16 elements and four bits of the quant in `low`, two in `high`.
void make_q6_k(const BlockRandom& random, MutableBytes block, float weight_scale) {
  constexpr float mean_scale = 97.2F;
  constexpr float default_d = default_deviation / (mean_scale * bell_deviation / 1024.0F);
  for (std::uint64_t half = 0; half < 2; ++half) {
    for (std::uint64_t i = 0; i < 32; ++i) {
      std::array<unsigned, 4> quants{};
      for (std::uint64_t j = 0; j < 4; ++j) quants[j] = random.quant(128 * half + 32 * j + i, 6);
      put_byte(block, 64 * half + i, (quants[0] & 15U) | (quants[2] << 4));
      put_byte(block, 64 * half + 32 + i, (quants[1] & 15U) | (quants[3] << 4));
      put_byte(block, 128 + 32 * half + i,
               (quants[0] >> 4) | (quants[1] >> 4 << 2) | (quants[2] >> 4 << 4) | (quants[3] >> 4 << 6));
    }
  }
  // Scales have either sign, so that the mean is 0 although the middle of the quants is 31.5 and not 32.
  for (std::uint64_t i = 0; i < 16; ++i) {
    const auto bits = static_cast<unsigned>(random.scales(1 + i));
    const unsigned scale = 64U + (bits & 63U);
    put_byte(block, 192 + i, (bits & 64U) != 0 ? 256U - scale : scale);
  }
  put_half(block, 208, default_d * weight_scale * varied(random.scales(0)));
}

// { f16 d; i8 quants[32] }: an element is d * quant.
void make_q8_0(const BlockRandom& random, MutableBytes block, float weight_scale) {
  constexpr float default_d = default_deviation / (bell_deviation / 256.0F);
  put_half(block, 0, default_d * weight_scale * varied(random.scales(0)));
  // Rounded, so that the mean is 0.
  for (std::uint64_t i = 0; i < 32; ++i)
    put_byte(block, 2 + i, std::min((random.quant(i, 9) + 1) / 2, 255U) - 128U);
}

// Consecutive elements of one tensor.
struct Run {
  std::uint64_t offset;           // of the first element in the file
  std::uint64_t elements_before;  // in its tensor and all tensors before it
  std::uint64_t bytes_before;     // of these elements
  std::uint64_t count;
  StorageType type;
  Values values;
  std::uint64_t index_in_tensor;  // of the first element
};

// All elements. For sparse data, the first elements, extended to whole groups, and the last ones, which begin
// at the next whole group.
std::vector<Run> runs_of(const std::vector<TensorPlace>& places, bool sparse) {
  std::uint64_t total = 0;
  for (const auto& place : places) total += place.elements;
  const std::uint64_t first_end = sparse ? sparse_elements : total;
  const std::uint64_t last_begin = total - std::min(total, sparse_elements);
  std::vector<Run> runs;
  std::uint64_t elements_before = 0;
  std::uint64_t bytes_before = 0;
  for (const auto& [offset, elements, type, values] : places) {
    // Maps `element`, an index over all tensors, to an index in this tensor: the start of the first group at
    // or after `element`.
    const auto group_at = [&](std::uint64_t element) {
      const std::uint64_t groups =
          (element - std::min(element, elements_before) + type.group_elements - 1) / type.group_elements;
      return std::min(groups * type.group_elements, elements);
    };
    const auto add = [&](std::uint64_t begin, std::uint64_t end) {
      const std::uint64_t bytes = type.bytes_for(begin);
      if (begin < end)
        runs.push_back({offset + bytes, elements_before + begin, bytes_before + bytes, end - begin, type,
                        values, begin});
    };
    const std::uint64_t head = group_at(first_end);
    add(0, head);
    add(std::max(head, group_at(last_begin)), elements);
    elements_before += elements;
    bytes_before += type.bytes_for(elements);
  }
  return runs;
}

}  // namespace

Result<void> fill_blocks(EncodingTag encoding, std::uint64_t seed, std::uint64_t position,
                         MutableBytes blocks, float scale) {
  const auto facts = find_encoding(encoding).value_or(Encoding{});
  const auto make = facts.name == "Q4_K"   ? make_q4_k
                    : facts.name == "Q6_K" ? make_q6_k
                    : facts.name == "Q8_0" ? make_q8_0
                                           : nullptr;
  if (make == nullptr) {
    return fail(Error(ErrorCode::unsupported_encoding, "synth_supports_the_encoding",
                      fmt::format("cannot generate blocks of {}", facts.name))
                    .with_hint("use Q8_0, Q4_K or Q6_K"));
  }
  for (; !blocks.empty(); blocks = blocks.subspan(facts.block_bytes), position += facts.block_elements)
    make(BlockRandom(seed, position), blocks.first(facts.block_bytes), scale);
  return {};
}

DataSource synth_data(const std::vector<TensorPlace>& places, std::uint64_t seed, bool sparse,
                      WorkWithBar& work) {
  std::uint64_t total = 0;
  for (const auto& place : places) total += place.type.bytes_for(place.elements);
  return [&work, seed, total, runs = runs_of(places, sparse), next = std::size_t{0}, done = std::uint64_t{0},
          buffer = std::vector<std::byte>()]() mutable -> Result<std::optional<DataPiece>> {
    if (is_interrupted())
      return fail(interruption(fmt::format("{} of {} bytes written; the target is unchanged", done, total)));
    if (next == runs.size()) return std::nullopt;
    auto& run = runs[next];
    work.update({.done_bytes = run.bytes_before, .total_bytes = total});
    const std::uint64_t count = std::min(run.count, piece_elements);
    const std::uint64_t bytes = run.type.bytes_for(count);
    // The bits after the last element are zero.
    buffer.assign(static_cast<std::size_t>(bytes), std::byte{});
    HT_TRY(fill(run.type, run.values, seed, run.index_in_tensor, run.elements_before, count, buffer));
    const DataPiece piece{run.offset, buffer};
    run.offset += bytes;
    run.elements_before += count;
    run.bytes_before += bytes;
    run.count -= count;
    run.index_in_tensor += count;
    done = run.bytes_before;
    if (run.count == 0) ++next;
    return piece;
  };
}

}  // namespace ht::cli
