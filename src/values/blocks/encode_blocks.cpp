#include "values/blocks/encode_blocks.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <htensor/dtype/dtypes.hpp>
#include <htensor/dtype/scalar.hpp>
#include <limits>

#include "values/blocks/fit_scales.hpp"

namespace ht::inline v1 {
namespace {

using namespace fitting;

constexpr float largest_float = std::numeric_limits<float>::max();
constexpr float largest_half = 65504;

float inverse_of(float a) { return a == 0 ? 0 : 1 / a; }

// The bits of magnitudes have the order of the magnitudes; infinity and NaN come last.
std::int32_t magnitude_bits(float value) { return std::bit_cast<std::int32_t>(value) & 0x7fffffff; }

// Replaces NaN and infinity as documented in the header. Returns the largest magnitude.
float make_finite(float* values, int count) {
  constexpr auto infinity = std::bit_cast<std::int32_t>(std::numeric_limits<float>::infinity());
  std::int32_t largest = 0;
  for (int i = 0; i < count; ++i) largest = std::max(largest, magnitude_bits(values[i]));
  if (largest < infinity) return std::bit_cast<float>(largest);

  largest = 0;
  bool has_infinity = false;
  for (int i = 0; i < count; ++i) {
    const std::int32_t bits = magnitude_bits(values[i]);
    if (bits < infinity) largest = std::max(largest, bits);
    if (bits > infinity) values[i] = 0;
    has_infinity |= bits == infinity;
  }
  const float limit = largest == 0 && has_infinity ? largest_half : std::bit_cast<float>(largest);
  for (int i = 0; i < count; ++i) values[i] = std::clamp(values[i], -limit, limit);
  return limit;
}

// Copies values, replaces NaN and infinity, and divides by a power of two, which is returned. The largest
// magnitude is then between 1 and 4, or below 1 if it was subnormal, so sums of squares do not overflow.
float load(const float* from, int count, float* to) {
  std::copy_n(from, count, to);
  const float largest = make_finite(to, count);
  const float power = std::bit_cast<float>(std::bit_cast<std::int32_t>(largest) & 0x7f800000);
  const float unit = std::clamp(power, 0x1p-126F, 0x1p126F);
  const float factor = 1 / unit;
  for (int i = 0; i < count; ++i) to[i] *= factor;
  return unit;
}

struct Half {
  std::uint16_t bits = 0;
  float value = 0;
};

Half half_of_bits(int bits) {
  const auto element = F16::Element::from_bits(static_cast<std::uint16_t>(bits));
  return {element.bits(), static_cast<float>(element)};
}

Half nearest_half(float value) {
  return half_of_bits(F16::Element(std::clamp(value, -largest_half, largest_half)).bits());
}

// Rounds a scale to the nearest half. Subnormal scales are rounded up as documented in the header.
Half scale_half(float value) {
  const float steps = std::abs(value) * 0x1p24F;
  if (steps == 0 || steps >= 1024) return nearest_half(value);
  const float reduced_steps = steps - 0.0625F;
  int code = static_cast<int>(reduced_steps);
  if (static_cast<float>(code) < reduced_steps || code == 0) ++code;
  return half_of_bits(value < 0 ? code | 0x8000 : code);
}

// Computes codes: (value - offset) * inverse, rounded and clamped to [Lowest, Highest]. Stores each code plus
// `ZeroPoint`, which is even, so ties still go to even codes.
template <int Lowest, int Highest, int ZeroPoint, int Count>
void put_codes(const float* values, float offset, float inverse, std::uint8_t* codes) {
  std::int32_t bits[Count];
  for (int i = 0; i < Count; i += Eight::size) {
    const Eight exact = (Eight(values + i) - Eight(offset)) * Eight(inverse);
    put_bits(clamped(exact, Lowest, Highest) + Eight(rounding_constant + static_cast<float>(ZeroPoint)),
             bits + i);
  }
  for (int i = 0; i < Count; ++i) codes[i] = static_cast<std::uint8_t>(bits[i] & 0xff);
}

// The put functions return the end of the bytes that they have written.

std::byte* put_half(Half half, std::byte* to) {
  to[0] = static_cast<std::byte>(half.bits & 0xff);
  to[1] = static_cast<std::byte>(half.bits >> 8);
  return to + 2;
}

// Writes four bits of each code: the first half of the codes in low nibbles, the second half in high nibbles.
std::byte* put_nibbles(const std::uint8_t* codes, int count, std::byte* to) {
  const int half = count / 2;
  for (int i = 0; i < half; ++i)
    to[i] = static_cast<std::byte>((codes[i] & 15) | (codes[i + half] & 15) << 4);
  return to + half;
}

// Writes the fifth bit of each of 32 codes.
std::byte* put_fifth_bits(const std::uint8_t* codes, std::byte* to) {
  for (int byte = 0; byte < 4; ++byte) {
    int bits = 0;
    for (int i = 0; i < 8; ++i) bits |= (codes[8 * byte + i] >> 4 & 1) << i;
    to[byte] = static_cast<std::byte>(bits);
  }
  return to + 4;
}

// Up to eight blocks of 32 elements, each divided by its own unit. Missing blocks are zero.
struct BlockRows {
  Grid<32> grid;
  float units[Eight::size];

  BlockRows(const float* from, int blocks) {
    for (int row = 0; row < Eight::size; ++row) {
      if (row < blocks) {
        units[row] = load(from + std::ptrdiff_t{32} * row, 32, grid.row(row));
      } else {
        units[row] = 1;
        std::fill_n(grid.row(row), 32, 0.0F);
      }
    }
    grid.set_columns();
  }
};

// Q4_0 and Q5_0: a scale, fifth bits in Q5_0, nibbles.
template <int Bits>
void encode_scaled(const float* from, int blocks, std::byte* to) {
  constexpr int limit = 1 << (Bits - 1);
  BlockRows rows(from, blocks);
  const Eight scales = fit_scale<limit>(rows.grid);
  for (int row = 0; row < blocks; ++row) {
    const float unit = rows.units[row];
    const Half scale = scale_half(scales[row] * unit);
    std::uint8_t codes[32];
    put_codes<-limit, limit - 1, limit, 32>(rows.grid.row(row), 0, inverse_of(scale.value / unit), codes);
    to = put_half(scale, to);
    if constexpr (Bits == 5) to = put_fifth_bits(codes, to);
    to = put_nibbles(codes, 32, to);
  }
}

// Q4_1 and Q5_1: a scale, an offset, fifth bits in Q5_1, nibbles.
template <int Bits>
void encode_lines(const float* from, int blocks, std::byte* to) {
  constexpr int highest = (1 << Bits) - 1;
  BlockRows rows(from, blocks);
  Line line = fit_line<highest>(rows.grid, Eight(largest_float));
  Half offset_halves[Eight::size];
  float offsets[Eight::size];
  for (int row = 0; row < Eight::size; ++row) {
    offset_halves[row] = nearest_half(line.offset[row] * rows.units[row]);
    offsets[row] = offset_halves[row].value / rows.units[row];
  }
  // The new step compensates for rounding the offset; that error can exceed the range of the elements.
  line.offset = Eight(offsets);
  line.step = refit_step<highest>(rows.grid, line);
  for (int row = 0; row < blocks; ++row) {
    const float unit = rows.units[row];
    const Half scale = scale_half(line.step[row] * unit);
    std::uint8_t codes[32];
    put_codes<0, highest, 0, 32>(rows.grid.row(row), offsets[row], inverse_of(scale.value / unit), codes);
    to = put_half(scale, to);
    to = put_half(offset_halves[row], to);
    if constexpr (Bits == 5) to = put_fifth_bits(codes, to);
    to = put_nibbles(codes, 32, to);
  }
}

// Q8_0: a scale, codes of 8 bits. With 255 codes a search does not help: the largest element becomes 127.
void encode_q8_0(const float* from, int blocks, std::byte* to) {
  for (int block = 0; block < blocks; ++block) {
    float values[32];
    std::copy_n(from + std::ptrdiff_t{32} * block, 32, values);
    const Half scale = scale_half(make_finite(values, 32) / 127);
    to = put_half(scale, to);
    std::uint8_t codes[32];
    put_codes<-127, 127, 0, 32>(values, 0, inverse_of(scale.value), codes);
    std::memcpy(to, codes, 32);
    to += 32;
  }
}

// Returns twice the F4 value that is nearest to `doubled` / 2, for `doubled` ≥ 0. Doubled F4 values are 1
// apart up to 4, 2 apart up to 8, and end with 12.
Eight nearest_doubled_f4(Eight doubled) {
  const Eight number = clamped(doubled, 0, 12);
  const Eight upper_step = where_less(number, Eight(8.0F), Eight(2.0F), Eight(4.0F));
  const Eight step = where_less(number, Eight(4.0F), Eight(1.0F), upper_step);
  // Rounds to a multiple of the step.
  const Eight step_constant = step * Eight(rounding_constant);
  return (number + step_constant) - step_constant;
}

// Codes 0 to 7 are the doubled values 0, 1, 2, 3, 4, 6, 8 and 12; bit 3 is the sign.
void put_f4_codes(const float* values, float inverse, std::uint8_t* codes) {
  std::int32_t bits[32];
  for (int i = 0; i < 32; i += Eight::size) {
    const Eight doubled = magnitude(Eight(values + i)) * Eight(inverse);
    put_bits(nearest_doubled_f4(doubled) + Eight(rounding_constant), bits + i);
  }
  for (int i = 0; i < 32; ++i) {
    const int doubled = bits[i] & 15;
    const int code = doubled - std::max(doubled - 4, 0) / 2 - std::max(doubled - 8, 0) / 4;
    const int sign = std::bit_cast<std::int32_t>(values[i]) >> 28 & 8;
    codes[i] = static_cast<std::uint8_t>(code == 0 ? 0 : code | sign);
  }
}

int exponent_of(float power_of_two) { return (std::bit_cast<std::int32_t>(power_of_two) >> 23) - 127; }
float power_of_two(int exponent) { return std::bit_cast<float>((exponent + 127) << 23); }

// MXFP4: an exponent, nibbles. The search tries the exponents near that of the largest element.
void encode_mxfp4(const float* from, int blocks, std::byte* to) {
  constexpr int lowest_exponent = -128;
  constexpr int highest_exponent = 124;
  BlockRows rows(from, blocks);
  Eight best_error(largest_float);
  Eight best_scale;
  for (const int shift : {-3, -2, -4}) {
    float scales[Eight::size];
    for (int row = 0; row < Eight::size; ++row) {
      const int unit = exponent_of(rows.units[row]);
      scales[row] = power_of_two(std::clamp(unit + shift, lowest_exponent, highest_exponent) - unit);
    }
    const Eight scale(scales);
    const Eight inverse = Eight(1.0F) / scale;
    Eight error;
    for (int i = 0; i < 32; ++i) {
      const Eight y = magnitude(rows.grid[i]);
      const Eight rest = y - scale * nearest_doubled_f4(y * inverse);
      error += rest * rest;
    }
    best_scale = where_less(error, best_error, scale, best_scale);
    best_error = smaller(error, best_error);
  }
  for (int row = 0; row < blocks; ++row) {
    const float scale = best_scale[row];
    std::uint8_t codes[32];
    put_f4_codes(rows.grid.row(row), 1 / scale, codes);
    *to = static_cast<std::byte>(exponent_of(rows.units[row]) + exponent_of(scale) - lowest_exponent);
    to = put_nibbles(codes, 32, to + 1);
  }
}

// The lines of eight rows, with integer scales and mins: the step is scale * step_half and the offset is
// -min * min_half.
struct PackedLines {
  Half step_half;
  Half min_half;
  Eight scales;
  Eight mins;
};

// Rounds scales and mins together: each row takes the best of the four combinations.
template <int Highest>
PackedLines fit_packed_lines(const Grid<32>& x, float unit) {
  constexpr int max = 63;
  PackedLines packed;
  Line line = fit_line<Highest>(x, Eight());
  packed.min_half = scale_half(largest_of(Eight() - line.offset) / max * unit);
  const Eight min_unit(packed.min_half.value / unit);
  const Eight exact_mins = (Eight() - line.offset) * inverse_of(min_unit);
  line.offset = Eight() - min_unit * code_of(exact_mins, 0, max);
  line.step = refit_step<Highest>(x, line);

  packed.step_half = scale_half(largest_of(line.step) / max * unit);
  const Eight step_unit(packed.step_half.value / unit);
  const Eight exact_scales = line.step * inverse_of(step_unit);
  const Neighbours scale_choices = neighbours_of(exact_scales, 0, max);
  const Neighbours min_choices = neighbours_of(exact_mins, 0, max);
  Eight best_error(largest_float);
  for (const int choice : {0, 1, 2, 3}) {
    const Eight scales = choice % 2 == 0 ? scale_choices.low : scale_choices.high;
    const Eight mins = choice / 2 == 0 ? min_choices.low : min_choices.high;
    const Eight error = error_of<0, Highest>(x, {step_unit * scales, Eight() - min_unit * mins});
    packed.scales = where_less(error, best_error, scales, packed.scales);
    packed.mins = where_less(error, best_error, mins, packed.mins);
    best_error = smaller(error, best_error);
  }
  return packed;
}

// Writes eight scales and eight mins of 6 bits. The low six bits of bytes 0 to 7 are the first four scales
// and the first four mins; their high two bits are the high two bits of the last four. Bytes 8 to 11 have the
// low four bits of the last four: scales in low nibbles, mins in high nibbles.
std::byte* put_scales_and_mins(Eight scales, Eight mins, std::byte* to) {
  for (int row = 0; row < 4; ++row) {
    const auto scale = static_cast<int>(scales[row]);
    const auto min = static_cast<int>(mins[row]);
    const auto last_scale = static_cast<int>(scales[row + 4]);
    const auto last_min = static_cast<int>(mins[row + 4]);
    to[row] = static_cast<std::byte>(scale | last_scale >> 4 << 6);
    to[row + 4] = static_cast<std::byte>(min | last_min >> 4 << 6);
    to[row + 8] = static_cast<std::byte>((last_scale & 15) | (last_min & 15) << 4);
  }
  return to + 12;
}

// Q4_K and Q5_K: `step_half`, `min_half`, eight scales and eight mins, fifth bits in Q5_K, nibbles.
template <int Bits>
void encode_packed_lines(const float* from, int /*blocks*/, std::byte* to) {
  constexpr int highest = (1 << Bits) - 1;
  Grid<32> grid;
  const float unit = load(from, 256, grid.elements);
  // The stored mins are unsigned, so an offset above 0 needs a negative `min_half`. If all elements of the
  // block are positive, encodes the negated elements, then negates `step_half` and `min_half`.
  const bool is_negated = std::ranges::all_of(grid.elements, [](float element) { return element > 0; });
  if (is_negated) std::ranges::transform(grid.elements, grid.elements, std::negate());
  grid.set_columns();
  PackedLines packed = fit_packed_lines<highest>(grid, unit);

  std::uint8_t codes[256];
  for (int row = 0; row < Eight::size; ++row) {
    const float offset = -(packed.min_half.value / unit * packed.mins[row]);
    const float step = packed.step_half.value / unit * packed.scales[row];
    put_codes<0, highest, 0, 32>(grid.row(row), offset, inverse_of(step), codes + std::ptrdiff_t{32} * row);
  }
  if (is_negated) {
    packed.step_half.bits ^= 0x8000;
    packed.min_half.bits ^= 0x8000;
  }
  to = put_half(packed.step_half, to);
  to = put_half(packed.min_half, to);
  to = put_scales_and_mins(packed.scales, packed.mins, to);
  if constexpr (Bits == 5) {
    for (int i = 0; i < 32; ++i) {
      int bits = 0;
      for (int row = 0; row < Eight::size; ++row) bits |= (codes[32 * row + i] >> 4 & 1) << row;
      to[i] = static_cast<std::byte>(bits);
    }
    to += 32;
  }
  for (int row = 0; row < Eight::size; row += 2) to = put_nibbles(codes + std::ptrdiff_t{32} * row, 64, to);
}

// Q6_K: low four bits, high two bits, sixteen 8-bit scales, and the half that multiplies them.
void encode_q6_k(const float* from, int /*blocks*/, std::byte* to) {
  constexpr int limit = 32;
  constexpr int max = 127;
  float elements[256];
  const float unit = load(from, 256, elements);
  Grid<16> grids[2];
  Eight fitted[2];
  for (int half = 0; half < 2; ++half) {
    std::copy_n(elements + std::ptrdiff_t{128} * half, 128, grids[half].elements);
    grids[half].set_columns();
    fitted[half] = fit_scale<limit>(grids[half]);
  }
  const float largest = largest_of(larger(magnitude(fitted[0]), magnitude(fitted[1])));
  const Half scale_unit = scale_half(largest / max * unit);
  const float scale_value = scale_unit.value / unit;
  std::byte* const low_bits = to;
  std::byte* const high_bits = to + 128;
  std::byte* const scale_bytes = to + 192;
  for (int half = 0; half < 2; ++half) {
    const auto [low, high] = neighbours_of(fitted[half] * Eight(inverse_of(scale_value)), -max, max);
    const Eight low_error = error_of<-limit, limit - 1>(grids[half], {Eight(scale_value) * low, Eight()});
    const Eight high_error = error_of<-limit, limit - 1>(grids[half], {Eight(scale_value) * high, Eight()});
    const Eight scales = where_less(high_error, low_error, high, low);
    std::uint8_t codes[128];
    for (int row = 0; row < Eight::size; ++row) {
      scale_bytes[8 * half + row] = static_cast<std::byte>(static_cast<int>(scales[row]));
      put_codes<-limit, limit - 1, limit, 16>(grids[half].row(row), 0, inverse_of(scale_value * scales[row]),
                                              codes + std::ptrdiff_t{16} * row);
    }
    put_nibbles(codes, 128, low_bits + std::ptrdiff_t{64} * half);
    for (int i = 0; i < 32; ++i) {
      const int bits =
          codes[i] >> 4 | codes[i + 32] >> 4 << 2 | codes[i + 64] >> 4 << 4 | codes[i + 96] >> 4 << 6;
      high_bits[32 * half + i] = static_cast<std::byte>(bits);
    }
  }
  put_half(scale_unit, to + 208);
}

// Encodes one or more blocks of up to 256 elements in total.
struct Encoder {
  EncodingTag tag;
  void (*encode)(const float* from, int blocks, std::byte* to);
};

constexpr Encoder encoders[]{
    {Q4_0::tag, encode_scaled<4>},       {Q4_1::tag, encode_lines<4>}, {Q5_0::tag, encode_scaled<5>},
    {Q5_1::tag, encode_lines<5>},        {Q8_0::tag, encode_q8_0},     {Q4_K::tag, encode_packed_lines<4>},
    {Q5_K::tag, encode_packed_lines<5>}, {Q6_K::tag, encode_q6_k},     {MXFP4::tag, encode_mxfp4},
};

const Encoder* find_encoder(EncodingTag encoding) noexcept {
  const auto* const found = std::ranges::find(encoders, encoding, &Encoder::tag);
  return found == std::end(encoders) ? nullptr : found;
}

}  // namespace

bool can_encode(EncodingTag encoding) noexcept { return find_encoder(encoding) != nullptr; }

void encode_blocks(EncodingTag encoding, const float* from, std::int64_t count, std::byte* blocks) noexcept {
  const Encoder* const encoder = find_encoder(encoding);
  const auto facts = find_encoding(encoding);
  if (encoder == nullptr || !facts) return;
  constexpr std::int64_t group = 256;
  for (std::int64_t first = 0; first < count; first += group) {
    const std::int64_t group_blocks = std::min(count - first, group) / facts->block_elements;
    encoder->encode(from + first, static_cast<int>(group_blocks), blocks);
    blocks += group_blocks * facts->block_bytes;
  }
}

}  // namespace ht::inline v1
