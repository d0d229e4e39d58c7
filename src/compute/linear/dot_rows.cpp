// Kernels for F32 vectors. Highway compiles them once per target, and the processor selects the target.
//
// `add_step` widens one step of a row in element order and adds its products with all vectors to the sums. A
// step is 8 blocks of Q8_0, one block of another encoding, or 32 dense elements. For Q4_K, Q5_K and Q6_K,
// `add_part` does this for one part of a step. src/values/blocks/decode_reference.hpp has the byte maps.
// Except for Q8_0, the functions scale each element and pass 32 elements at a time to a sink, which
// multiplies and adds. Q8_0, which has no offset, adds two products q · x before it scales them
// (dot_rows.hpp). With offsets, this order would exceed the bound of dot_rows.hpp: the bound is relative to
// Σ|row[j] · x[j]|, which is small where scale · q and the offset nearly cancel.
#include "compute/linear/dot_rows.hpp"

#include "compute/linear/dot_targets.hpp"
#include "values/targets.hpp"

#include <algorithm>
#include <array>
#include <htensor/dtype/dtypes.hpp>
#include <htensor/dtype/encoding.hpp>
#include <type_traits>

#include "values/blocks/iq_tables.hpp"
#include "values/convert_kernels.hpp"
#include "values/convert_values.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compute/linear/dot_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "compute/linear/dot_vectors.hpp"

HWY_BEFORE_NAMESPACE();
namespace ht::inline v1::compute::HWY_NAMESPACE {
namespace {

/// Number of dense elements in a step.
constexpr std::size_t dense_step = 32;
/// Number of blocks of Q8_0 in a step. A step of 272 bytes prefetches 5 lines; 4 steps of 68 bytes would
/// prefetch 8.
constexpr std::size_t q8_0_step_blocks = 8;
constexpr std::size_t max_batch = 4;
/// Number of steps whose scales are prepared together.
constexpr std::size_t max_prepared = 8;

using Sixteen = Floats<16>;
using ThirtyTwo = Floats<32>;

HT_DOT_INLINE ThirtyTwo join(Sixteen first, Sixteen second) {
  ThirtyTwo result;
  for (std::size_t i = 0; i < parts<16>; ++i) {
    result.part[i] = first.part[i];
    result.part[parts<16> + i] = second.part[i];
  }
  return result;
}

/// The sums of one row with B vectors.
template <std::size_t B>
struct Sink {
  const float* x[B];
  ThirtyTwo sums[B];

  /// Adds the products of 32 elements, from element `at` of the row on.
  HT_DOT_INLINE void add(std::size_t at, ThirtyTwo elements) {
#pragma GCC unroll 4
    for (std::size_t b = 0; b < B; ++b) sums[b] = multiply_add(elements, load_floats<32>(x[b] + at), sums[b]);
  }
  HT_DOT_INLINE void add(std::size_t at, Sixteen first, Sixteen second) { add(at, join(first, second)); }
};

HT_DOT_INLINE ThirtyTwo floats_at(F32, Block b) {
  ThirtyTwo result;
  for (std::size_t i = 0; i < parts<32>; ++i)
    result.part[i] = load_bytes(FloatTag<32>(), b + 4 * lanes<32> * i);
  return result;
}

HT_DOT_INLINE ThirtyTwo floats_at(BF16, Block b) {
  ThirtyTwo result;
  for (std::size_t i = 0; i < parts<32>; ++i) {
    const auto words = hn::PromoteTo(WordTag<32>(), load_bytes(HalfTag<32>(), b + 2 * lanes<32> * i));
    result.part[i] = hn::BitCast(FloatTag<32>(), hn::ShiftLeft<16>(words));
  }
  return result;
}

HT_DOT_INLINE ThirtyTwo floats_at(F16, Block b) {
  ThirtyTwo result;
  for (std::size_t i = 0; i < parts<32>; ++i)
    result.part[i] = half_floats<32>(load_bytes(HalfTag<32>(), b + 2 * lanes<32> * i));
  return result;
}

// F8_E5M2 is the upper byte of an F16.
HT_DOT_INLINE ThirtyTwo floats_at(F8_E5M2, Block b) {
  ThirtyTwo result;
  for (std::size_t i = 0; i < parts<32>; ++i) {
    const auto codes = hn::PromoteTo(HalfTag<32>(), hn::LoadU(ByteTag<32>(), b + lanes<32> * i));
    result.part[i] = half_floats<32>(hn::ShiftLeft<8>(codes));
  }
  return result;
}

// F16 has one exponent bit more: a code without its sign, shifted left by 7 bits, is an F16 of 2^-8 times the
// value. The largest code is NaN.
HT_DOT_INLINE ThirtyTwo floats_at(F8_E4M3, Block b) {
  const hn::Rebind<std::int16_t, FloatTag<32>> words;
  ThirtyTwo result;
  for (std::size_t i = 0; i < parts<32>; ++i) {
    const auto extended = hn::PromoteTo(words, hn::LoadU(SignedByteTag<32>(), as_int8(b) + lanes<32> * i));
    const auto moved = hn::ShiftLeft<7>(extended);
    const auto magnitude = hn::And(moved, hn::Set(words, std::int16_t{0x3F80}));
    const auto sign = hn::And(extended, hn::Set(words, INT16_MIN));
    const auto is_nan = hn::Eq(magnitude, hn::Set(words, std::int16_t{0x3F80}));
    const auto code = hn::Or(hn::Or(magnitude, sign), hn::VecFromMask(words, is_nan));
    const auto small = half_floats<32>(hn::BitCast(HalfTag<32>(), code));
    result.part[i] = hn::Mul(small, hn::Set(FloatTag<32>(), 256.F));
  }
  return result;
}

template <class D, std::size_t B>
HT_DOT_INLINE void add_step(D dtype, Block b, std::size_t at, Sink<B>& sink) {
  sink.add(at, floats_at(dtype, b));
}

/// Adds the products of a block to the first or the second 16 sums.
template <std::size_t Half, std::size_t B>
HT_DOT_INLINE void add_block_q8_0(Block b, std::size_t at, Sink<B>& sink) {
  const Sixteen scale = set_half<16>(b);
  const std::int8_t* const elements = as_int8(b + 2);
  const Sixteen first = to_floats(widen_signed<16>(elements));
  const Sixteen second = to_floats(widen_signed<16>(elements + 16));
#pragma GCC unroll 4
  for (std::size_t v = 0; v < B; ++v) {
    const float* const x = sink.x[v] + at;
    const Sixteen both = multiply_add(second, load_floats<16>(x + 16), first * load_floats<16>(x));
    for (std::size_t i = 0; i < parts<16>; ++i) {
      auto& sum = sink.sums[v].part[Half * parts<16> + i];
      sum = multiply_add_part(both.part[i], scale.part[i], sum);
    }
  }
}

template <std::size_t B>
HT_DOT_INLINE void add_step(Q8_0, Block b, std::size_t at, Sink<B>& sink) {
  for (std::size_t i = 0; i < q8_0_step_blocks; i += 2) {
    add_block_q8_0<0>(b + i * Q8_0::block_bytes, at + i * Q8_0::block_elements, sink);
    add_block_q8_0<1>(b + (i + 1) * Q8_0::block_bytes, at + (i + 1) * Q8_0::block_elements, sink);
  }
}

/// The last blocks of a row, fewer than a step.
template <std::size_t B>
HT_DOT_INLINE void add_last_blocks(Q8_0, Block b, std::size_t at, std::size_t end, Sink<B>& sink) {
  for (bool is_odd = false; at < end; is_odd = !is_odd) {
    if (is_odd) {
      add_block_q8_0<1>(b, at, sink);
    } else {
      add_block_q8_0<0>(b, at, sink);
    }
    b += Q8_0::block_bytes;
    at += Q8_0::block_elements;
  }
}

#if HWY_TARGET == HWY_AVX3
/// The values of all 16 nibbles. A lookup is one instruction that ignores the upper bits of its index.
using NibbleValues = Sixteen;

HT_DOT_INLINE Sixteen low_values(Ints<16> bytes, NibbleValues values) {
  Sixteen result;
  result.part[0].raw = _mm512_permutexvar_ps(bytes.part[0].raw, values.part[0].raw);
  return result;
}
HT_DOT_INLINE Sixteen high_values(Ints<16> bytes, NibbleValues values) {
  return low_values(shift_right<4>(bytes), values);
}
/// The numbers 0 to 15.
HT_DOT_INLINE Sixteen all_nibbles() {
  Sixteen result;
  result.part[0] = hn::Iota(FloatTag<16>(), 0.F);
  return result;
}
#endif

template <std::size_t B>
HT_DOT_INLINE void add_step(Q4_0, Block b, std::size_t at, Sink<B>& sink) {
  const Sixteen scale = set_half<16>(b);
  const Ints<16> both = widen_unsigned<16>(b + 2);
#if HWY_TARGET == HWY_AVX3
  const NibbleValues values = (all_nibbles() - set_floats<16>(8.F)) * scale;
  sink.add(at, low_values(both, values), high_values(both, values));
#else
  const Ints<16> zero_point = set_ints<16>(8);
  sink.add(at, to_floats((both & set_ints<16>(15)) - zero_point) * scale,
           to_floats(shift_right<4>(both) - zero_point) * scale);
#endif
}

template <std::size_t B>
HT_DOT_INLINE void add_step(MXFP4, Block b, std::size_t at, Sink<B>& sink) {
  const std::uint32_t exponent = b[0];
  const auto scale =
      set_floats<16>(std::bit_cast<float>(exponent < 2 ? 0x00200000U << exponent : (exponent - 1) << 23));
#if HWY_TARGET == HWY_AVX3
  const NibbleValues values = to_floats(widen_signed<16>(iq::fp4_values.data())) * scale;
  const Ints<16> codes = widen_unsigned<16>(b + 1);
  sink.add(at, low_values(codes, values), high_values(codes, values));
#else
  alignas(32) std::int8_t elements[32];
#if HWY_TARGET == HWY_SCALAR
  for (std::size_t i = 0; i < 16; ++i) {
    elements[i] = iq::fp4_values[b[1 + i] & 15];
    elements[i + 16] = iq::fp4_values[b[1 + i] >> 4];
  }
#else
  const BytesTag<16> tag;
  const hn::RebindToSigned<BytesTag<16>> integers;
  const auto values = hn::LoadDup128(integers, iq::fp4_values.data());
  const auto both = hn::LoadU(tag, b + 1);
  const auto low = hn::BitCast(integers, hn::And(both, hn::Set(tag, std::uint8_t{15})));
  const auto high = hn::BitCast(integers, hn::ShiftRight<4>(both));
  hn::StoreU(hn::TableLookupBytes(values, low), integers, elements);
  hn::StoreU(hn::TableLookupBytes(values, high), integers, elements + 16);
#endif
  sink.add(at, to_floats(widen_signed<16>(elements)) * scale,
           to_floats(widen_signed<16>(elements + 16)) * scale);
#endif
}

/// q · scale - offset. Products have at most 22 significant bits in Q4_K and Q5_K, so a fused instruction
/// gives the same result.
struct GroupScale {
  HT_DOT_INLINE Sixteen operator()(Sixteen q) const {
    for (std::size_t i = 0; i < parts<16>; ++i)
      q.part[i] = hn::MulSub(q.part[i], scale.part[i], offset.part[i]);
    return q;
  }
  Sixteen scale;
  Sixteen offset;
};

/// The scales of the eight groups of a block of Q4_K or Q5_K, followed by their offsets.
struct GroupScales {
  alignas(64) float numbers[16];

  HT_DOT_INLINE GroupScale operator[](std::size_t group) const {
    return {set_floats<16>(numbers[group]), set_floats<16>(numbers[8 + group])};
  }
};

/// The scales of a block of Q6_K, for 16 elements each.
struct SixteenScales {
  alignas(64) float scales[16];
};

struct NoScales {};

/// Unpacks the scales of encodings for which unpacking is slow. Scales of several blocks are prepared before
/// the first block is multiplied, so multiplications do not wait for them.
template <class T>
HT_DOT_INLINE void prepare(T /*type*/, Block /*b*/, NoScales& /*into*/) {}
HT_DOT_INLINE void prepare(Q4_K, Block b, GroupScales& into) {
  k_scales(b, into.numbers);
  // High nibbles are masked, not shifted, because more execution units can mask. Both factors are exact.
  alignas(32) constexpr float factors[8] = {1.F, 0x1p-4F, 1.F, 0x1p-4F, 1.F, 0x1p-4F, 1.F, 0x1p-4F};
  store_floats(load_floats<8>(into.numbers) * load_floats<8>(factors), into.numbers);
}
HT_DOT_INLINE void prepare(Q5_K, Block b, GroupScales& into) { k_scales(b, into.numbers); }
HT_DOT_INLINE void prepare(Q6_K, Block b, SixteenScales& into) {
  store_floats(to_floats(widen_signed<16>(as_int8(b + 192))) * set_half<16>(b + 208), into.scales);
}

template <class T>
struct PreparedOf {
  using type = NoScales;
};
template <>
struct PreparedOf<Q4_K> {
  using type = GroupScales;
};
template <>
struct PreparedOf<Q5_K> {
  using type = GroupScales;
};
template <>
struct PreparedOf<Q6_K> {
  using type = SixteenScales;
};
template <class T>
using Prepared = typename PreparedOf<T>::type;

/// Number of parts of a step. Each part is multiplied for all rows in turn: while additions to the sums of
/// one row wait for earlier additions, the processor works on the other rows.
template <class T>
constexpr std::size_t step_parts = 1;
template <>
constexpr std::size_t step_parts<Q4_K> = 4;

template <std::size_t B>
HT_DOT_INLINE void add_part(Q4_K, Block b, const GroupScales& groups, std::size_t part, std::size_t at,
                            Sink<B>& sink) {
  const Block nibbles = b + 16 + 32 * part;
  const Ints<16> first = widen_unsigned<16>(nibbles);
  const Ints<16> second = widen_unsigned<16>(nibbles + 16);
  const GroupScale low = groups[2 * part];
  const GroupScale high = groups[2 * part + 1];
  const std::size_t from = at + 64 * part;
#if HWY_TARGET == HWY_AVX3
  // Half of the elements are looked up and half are computed, because lookups and widening share a port.
  const NibbleValues table = low(all_nibbles());
  sink.add(from, low_values(first, table), low_values(second, table));
#else
  const Ints<16> mask = set_ints<16>(15);
  sink.add(from, low(to_floats(first & mask)), low(to_floats(second & mask)));
#endif
  // The masked nibble is 16 times the element; its scale is divided by 16.
  const Ints<16> high_mask = set_ints<16>(0xF0);
  sink.add(from + 32, high(to_floats(first & high_mask)), high(to_floats(second & high_mask)));
}

template <std::size_t B>
HT_DOT_INLINE void add_part(Q5_K, Block b, const GroupScales& groups, std::size_t /*part*/, std::size_t at,
                            Sink<B>& sink) {
  alignas(64) std::int8_t elements[256];
  q5_k_elements(b, elements);
  for (std::size_t i = 0; i < 8; ++i) {
    const GroupScale group = groups[i];
    sink.add(at + 32 * i, group(to_floats(widen_signed<16>(elements + 32 * i))),
             group(to_floats(widen_signed<16>(elements + 32 * i + 16))));
  }
}

template <std::size_t B>
HT_DOT_INLINE void add_part(Q6_K, Block b, const SixteenScales& scales, std::size_t /*part*/, std::size_t at,
                            Sink<B>& sink) {
  alignas(64) std::int8_t elements[256];
  q6_k_elements(b, b + 128, elements);
  q6_k_elements(b + 64, b + 160, elements + 128);
  for (std::size_t i = 0; i < 16; i += 2) {
    const Sixteen first = set_floats<16>(scales.scales[i]);
    const Sixteen second = set_floats<16>(scales.scales[i + 1]);
    sink.add(at + 16 * i, to_floats(widen_signed<16>(elements + 16 * i)) * first,
             to_floats(widen_signed<16>(elements + 16 * i + 16)) * second);
  }
}

/// Elements and bytes of one step of a row.
template <class T>
constexpr std::size_t step_elements() {
  if constexpr (std::is_same_v<T, Q8_0>) {
    return q8_0_step_blocks * T::block_elements;
  } else if constexpr (IsEncoding<T>) {
    return T::block_elements;
  } else {
    return dense_step;
  }
}
template <class T>
constexpr std::size_t step_bytes() {
  if constexpr (IsEncoding<T>) {
    return step_elements<T>() / T::block_elements * T::block_bytes;
  } else {
    return dense_step * T::bits / 8;
  }
}

/// The sums of R rows with B vectors.
template <std::size_t R, std::size_t B>
struct Sinks {
  HT_DOT_INLINE Sinks(const float* const* vectors, const float* rest) : rest_of_vectors(rest) {
#pragma GCC unroll 4
    for (std::size_t b = 0; b < B; ++b) {
#pragma GCC unroll 4
      for (auto& sink : row) {
        sink.x[b] = vectors[b];
        sink.sums[b] = set_floats<32>(0.F);
      }
    }
  }

  /// Adds the products of `columns` elements, the first of which is element `from` of the vectors. Every call
  /// but the last ends at a multiple of 32.
  template <class T>
  HT_DOT_INLINE void add(T type, const Block* rows, std::size_t from, std::size_t columns) {
    constexpr std::size_t step = step_elements<T>();
    constexpr std::size_t bytes = step_bytes<T>();
    std::size_t at = 0;
    std::size_t offset = 0;
    const RowPrefetch<R> ahead(rows, columns / step * bytes);
    if constexpr (std::is_same_v<Prepared<T>, NoScales>) {
#pragma GCC unroll 2
      for (; at + step <= columns; at += step) {
        ahead.template step<bytes>(rows, offset);
#pragma GCC unroll 4
        for (std::size_t r = 0; r < R; ++r) add_step(type, rows[r] + offset, from + at, row[r]);
        offset += bytes;
      }
    } else {
      while (at + step <= columns) {
        const std::size_t steps = std::min(max_prepared, (columns - at) / step);
        Prepared<T> prepared[max_prepared][R];
        for (std::size_t i = 0; i < steps; ++i) {
          for (std::size_t r = 0; r < R; ++r) prepare(type, rows[r] + offset + bytes * i, prepared[i][r]);
        }
        reload(prepared);
        for (std::size_t i = 0; i < steps; ++i) {
          ahead.template step<bytes>(rows, offset);
#pragma GCC unroll 1
          for (std::size_t part = 0; part < step_parts<T>; ++part) {
#pragma GCC unroll 4
            for (std::size_t r = 0; r < R; ++r)
              add_part(type, rows[r] + offset, prepared[i][r], part, from + at, row[r]);
          }
          at += step;
          offset += bytes;
        }
      }
    }
    if constexpr (std::is_same_v<T, Q8_0>) {
      for (std::size_t r = 0; r < R && at < columns; ++r)
        add_last_blocks(type, rows[r] + offset, from + at, from + columns, row[r]);
    } else if constexpr (!IsEncoding<T>) {
      for (std::size_t r = 0; r < R && at < columns; ++r)
        row[r] = add_rest(type, rows[r] + offset, columns - at, row[r], rest_of_vectors);
    }
  }

  /// Adds the last elements, fewer than 32. The zeros after them do not change any sum. Sums are passed by
  /// value, so that they stay in registers until this call.
  template <class T>
  static HWY_NOINLINE Sink<B> add_rest(T type, Block stored, std::size_t count, Sink<B> sink,
                                       const float* rest_of_vectors) {
    std::uint8_t elements[step_bytes<T>()] = {};
    std::memcpy(elements, stored, count * T::bits / 8);
    Sink<B> rest = sink;
    for (std::size_t b = 0; b < B; ++b) rest.x[b] = rest_of_vectors + b * dense_step;
    add_step(type, elements, 0, rest);
    for (std::size_t b = 0; b < B; ++b) sink.sums[b] = rest.sums[b];
    return sink;
  }

  /// The last elements of each vector, padded with zeros to 32.
  const float* rest_of_vectors;
  Sink<B> row[R];
};

/// Up to 4 vectors and their results: row r with vector b is into[b * into_stride + r].
struct Tile {
  /// If there are fewer than 4 vectors, the last one is repeated.
  const float* x[max_batch];
  /// The last elements of each vector, padded with zeros to 32.
  alignas(64) float rest[max_batch * dense_step];
  std::int64_t batch;
  float* into;
  std::int64_t into_stride;
};

/// Multiplies all rows, R at a time, with B vectors. `add_rows` adds the products of R rows with the vectors
/// to the sums of these rows.
template <std::size_t R, std::size_t B, class AddRows>
HT_DOT_INLINE void dot_groups(const WeightRows& rows, const Tile& tile, AddRows add_rows) {
  for (std::int64_t row = 0; row < rows.count; row += std::int64_t{R}) {
    // If fewer than R rows are left, the last one is repeated.
    std::int64_t numbers[R];
    Block stored[R];
    for (std::size_t r = 0; r < R; ++r) {
      numbers[r] = std::min(row + static_cast<std::int64_t>(r), rows.count - 1);
      stored[r] = reinterpret_cast<Block>(rows.first + numbers[r] * rows.row_bytes);
    }
    Sinks<R, B> sinks(tile.x, tile.rest);
    add_rows(stored, sinks);
    for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (std::size_t b = 0; b < B; ++b) {
        const auto vector = static_cast<std::int64_t>(b);
        if (vector < tile.batch)
          tile.into[vector * tile.into_stride + numbers[r]] = sum_of_lanes(sinks.row[r].sums[b]);
      }
    }
  }
}

template <class T, std::size_t R, std::size_t B>
void dot(const WeightRows& rows, const Tile& tile) {
  const auto columns = static_cast<std::size_t>(rows.columns);
  dot_groups<R, B>(rows, tile, [&](const Block* stored, Sinks<R, B>& sinks) HWY_ATTR {
    sinks.add(T{}, stored, 0, columns);
  });
}

/// The same as `dot` for types without an `add_step` or `add_part`: elements are first decoded to strips.
template <std::size_t R, std::size_t B>
void dot_decoded(const WeightRows& rows, const Tile& tile) {
  constexpr std::int64_t strip = 512;
  alignas(64) float floats[R][strip];
  Block strips[R];
  for (std::size_t r = 0; r < R; ++r) strips[r] = reinterpret_cast<Block>(floats[r]);
  dot_groups<R, B>(rows, tile, [&](const Block* stored, Sinks<R, B>& sinks) HWY_ATTR {
    for (std::int64_t at = 0; at < rows.columns; at += strip) {
      const std::int64_t count = std::min(strip, rows.columns - at);
      const auto offset = values::stored_bytes(rows.type, at);
      for (std::size_t r = 0; r < R; ++r)
        values::read_f32(rows.type, reinterpret_cast<const std::byte*>(stored[r]) + offset, floats[r], count);
      sinks.add(F32{}, strips, static_cast<std::size_t>(at), static_cast<std::size_t>(count));
    }
  });
}

/// The kernels of a type for 1, 2 and 4 vectors.
using Dots = void (*const[3])(const WeightRows& rows, const Tile& tile);

/// One dense row at a time is read fastest, because it is one stream for the prefetchers. With two rows of
/// blocks at a time, the processor works on one row while the other waits for its sums or its memory.
template <class T>
constexpr std::size_t rows_at_once = IsEncoding<T> ? 2 : 1;

template <class T>
constexpr Dots dots_of = {&dot<T, rows_at_once<T>, 1>, &dot<T, 1, 2>, &dot<T, 1, 4>};

constexpr Dots dots_decoded = {&dot_decoded<2, 1>, &dot_decoded<1, 2>, &dot_decoded<1, 4>};

#if HWY_TARGET == HWY_SCALAR
// Without SIMD registers, kernels are as slow as decoders. Q8_0 still has a kernel, because its order of
// operations differs.
const Dots& find_dots(const ElementType& type) {
  return type.is_block_encoded() && type.encoding == Q8_0::tag ? dots_of<Q8_0> : dots_decoded;
}
#else
template <class... Ts, class Tag>
const Dots& find_among(Tag tag) {
  const Dots* found = &dots_decoded;
  static_cast<void>(((Ts::tag == tag ? (found = &dots_of<Ts>, true) : false) || ...));
  return *found;
}

const Dots& find_dots(const ElementType& type) {
  return type.is_block_encoded() ? find_among<Q8_0, Q4_0, MXFP4, Q4_K, Q5_K, Q6_K>(type.encoding)
                                 : find_among<F32, BF16, F16, F8_E4M3, F8_E5M2>(type.dtype);
}
#endif

void dot_all(const WeightRows& rows, const float* x, std::int64_t x_stride, std::int64_t batch, float* into,
             std::int64_t into_stride) noexcept {
  // Rows of a panel stay in the second-level cache while all vectors are multiplied.
  constexpr std::int64_t panel_bytes = std::int64_t{128} << 10;
  const auto bytes_of_row = static_cast<std::int64_t>(values::stored_bytes(rows.type, rows.columns));
  const std::int64_t panel =
      batch <= static_cast<std::int64_t>(max_batch)
          ? rows.count
          : std::max<std::int64_t>(panel_bytes / std::max<std::int64_t>(bytes_of_row, 1), 2);
  const Dots& dots = find_dots(rows.type);
  const std::int64_t whole = rows.columns / std::int64_t{dense_step} * std::int64_t{dense_step};
  const auto rest_bytes = static_cast<std::size_t>(rows.columns - whole) * sizeof(float);
  Tile tile = {};
  tile.into_stride = into_stride;
  for (std::int64_t first = 0; first < rows.count; first += panel) {
    WeightRows panel_rows = rows;
    panel_rows.first = rows.first + first * rows.row_bytes;
    panel_rows.count = std::min(panel, rows.count - first);
    for (std::int64_t b = 0; b < batch; b += max_batch) {
      tile.batch = std::min<std::int64_t>(batch - b, max_batch);
      tile.into = into + b * into_stride + first;
      for (std::int64_t i = 0; i < std::int64_t{max_batch}; ++i) {
        tile.x[i] = x + (b + std::min(i, tile.batch - 1)) * x_stride;
        if (rest_bytes > 0)
          std::memcpy(tile.rest + i * std::int64_t{dense_step}, tile.x[i] + whole, rest_bytes);
      }
      dots[tile.batch == 1 ? 0 : tile.batch == 2 ? 1 : 2](panel_rows, tile);
    }
  }
}

}  // namespace
}  // namespace ht::inline v1::compute::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace ht::inline v1::compute {

void dot_rows(const WeightRows& rows, const float* x, std::int64_t x_stride, std::int64_t batch, float* into,
              std::int64_t into_stride) noexcept {
  HT_CHOOSE_TARGET(dot_all)(rows, x, x_stride, batch, into, into_stride);
}

}  // namespace ht::inline v1::compute

#endif
