// Kernels for F32 vectors. Highway compiles them once per target, and the processor selects the target.
//
// `unpack` widens one step of a row (a block, or 32 dense elements) in element order. It passes 16 elements
// at a time to a sink, which multiplies and adds. src/values/decode_reference.hpp has the byte maps. Except
// in Q8_0, each element is multiplied by its scale, not the sum of its group. Where scale · q and the offset
// of Q4_K nearly cancel, the error of such a sum would not be bounded by the products.
#include "compute/dot_rows.hpp"

#include "compute/dot_targets.hpp"
#include "values/targets.hpp"

#include <algorithm>
#include <array>
#include <htensor/dtype/dtypes.hpp>
#include <htensor/dtype/encoding.hpp>
#include <type_traits>

#include "values/convert_kernels.hpp"
#include "values/convert_values.hpp"
#include "values/iq_tables.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compute/dot_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "compute/dot_vectors.hpp"

HWY_BEFORE_NAMESPACE();
namespace ht::inline v1::compute::HWY_NAMESPACE {
namespace {

/// Number of dense elements in a step.
constexpr std::size_t dense_step = 32;
constexpr std::size_t max_batch = 4;
/// Number of steps whose scales are prepared together.
constexpr std::size_t max_prepared = 8;

/// 16 elements of a row.
using Sixteen = Floats<16>;

/// The sums of one row with B vectors.
template <std::size_t B>
struct Sink {
  const float* x[B];
  Sixteen sums[B];

  /// Adds the products of 16 elements, from element `at` of the row on.
  HT_DOT_INLINE void add(std::size_t at, Sixteen elements) {
#pragma GCC unroll 4
    for (std::size_t b = 0; b < B; ++b) sums[b] = multiply_add(elements, load_floats<16>(x[b] + at), sums[b]);
  }
};

HT_DOT_INLINE Sixteen floats_at(F32, Block b) {
  Sixteen result;
  for (std::size_t i = 0; i < parts<16>; ++i)
    result.part[i] = load_bytes(FloatTag<16>(), b + 4 * lanes<16> * i);
  return result;
}

HT_DOT_INLINE Sixteen floats_at(BF16, Block b) {
  Sixteen result;
  for (std::size_t i = 0; i < parts<16>; ++i) {
    const auto words = hn::PromoteTo(WordTag<16>(), load_bytes(HalfTag<16>(), b + 2 * lanes<16> * i));
    result.part[i] = hn::BitCast(FloatTag<16>(), hn::ShiftLeft<16>(words));
  }
  return result;
}

HT_DOT_INLINE Sixteen floats_at(F16, Block b) {
  Sixteen result;
  for (std::size_t i = 0; i < parts<16>; ++i)
    result.part[i] = half_floats<16>(load_bytes(HalfTag<16>(), b + 2 * lanes<16> * i));
  return result;
}

// F8_E5M2 is the upper byte of an F16.
HT_DOT_INLINE Sixteen floats_at(F8_E5M2, Block b) {
  Sixteen result;
  for (std::size_t i = 0; i < parts<16>; ++i) {
    const auto codes = hn::PromoteTo(HalfTag<16>(), hn::LoadU(ByteTag<16>(), b + lanes<16> * i));
    result.part[i] = half_floats<16>(hn::ShiftLeft<8>(codes));
  }
  return result;
}

// The code without its sign, shifted below one additional exponent bit, is an F16 of 2^-8 times the value.
// The largest code is NaN.
HT_DOT_INLINE Sixteen floats_at(F8_E4M3, Block b) {
  const hn::Rebind<std::int16_t, FloatTag<16>> words;
  Sixteen result;
  for (std::size_t i = 0; i < parts<16>; ++i) {
    const auto extended = hn::PromoteTo(words, hn::LoadU(SignedByteTag<16>(), as_int8(b) + lanes<16> * i));
    const auto moved = hn::ShiftLeft<7>(extended);
    const auto magnitude = hn::And(moved, hn::Set(words, std::int16_t{0x3F80}));
    const auto sign = hn::And(extended, hn::Set(words, INT16_MIN));
    const auto is_nan = hn::Eq(magnitude, hn::Set(words, std::int16_t{0x3F80}));
    const auto code = hn::Or(hn::Or(magnitude, sign), hn::VecFromMask(words, is_nan));
    const auto small = half_floats<16>(hn::BitCast(HalfTag<16>(), code));
    result.part[i] = hn::Mul(small, hn::Set(FloatTag<16>(), 256.F));
  }
  return result;
}

template <class D, std::size_t B>
HT_DOT_INLINE void unpack(D dtype, Block b, std::size_t at, Sink<B>& sink) {
  sink.add(at, floats_at(dtype, b));
  sink.add(at + 16, floats_at(dtype, b + 2 * D::bits));
}

template <std::size_t B>
HT_DOT_INLINE void unpack(Q8_0, Block b, std::size_t at, Sink<B>& sink) {
  const Sixteen scale = set_half<16>(b);
  const std::int8_t* const elements = as_int8(b + 2);
  const Sixteen first = to_floats(widen_signed<16>(elements));
  const Sixteen second = to_floats(widen_signed<16>(elements + 16));
#pragma GCC unroll 4
  for (std::size_t v = 0; v < B; ++v) {
    const float* const x = sink.x[v] + at;
    const Sixteen both = multiply_add(second, load_floats<16>(x + 16), first * load_floats<16>(x));
    sink.sums[v] = multiply_add(both, scale, sink.sums[v]);
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
HT_DOT_INLINE void unpack(Q4_0, Block b, std::size_t at, Sink<B>& sink) {
  const Sixteen scale = set_half<16>(b);
  const Ints<16> both = widen_unsigned<16>(b + 2);
#if HWY_TARGET == HWY_AVX3
  const NibbleValues values = (all_nibbles() - set_floats<16>(8.F)) * scale;
  sink.add(at, low_values(both, values));
  sink.add(at + 16, high_values(both, values));
#else
  const Ints<16> zero = set_ints<16>(8);
  sink.add(at, to_floats((both & set_ints<16>(15)) - zero) * scale);
  sink.add(at + 16, to_floats(shift_right<4>(both) - zero) * scale);
#endif
}

template <std::size_t B>
HT_DOT_INLINE void unpack(MXFP4, Block b, std::size_t at, Sink<B>& sink) {
  const std::uint32_t exponent = b[0];
  const auto scale =
      set_floats<16>(std::bit_cast<float>(exponent < 2 ? 0x00200000U << exponent : (exponent - 1) << 23));
#if HWY_TARGET == HWY_AVX3
  const NibbleValues values = to_floats(widen_signed<16>(iq::fp4_values.data())) * scale;
  const Ints<16> codes = widen_unsigned<16>(b + 1);
  sink.add(at, low_values(codes, values));
  sink.add(at + 16, high_values(codes, values));
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
  sink.add(at, to_floats(widen_signed<16>(elements)) * scale);
  sink.add(at + 16, to_floats(widen_signed<16>(elements + 16)) * scale);
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

struct Nothing {};

/// Unpacks the scales of encodings for which that is slow. Scales of several blocks are prepared before the
/// first block is multiplied, so multiplications do not wait for them.
template <class T>
HT_DOT_INLINE void prepare(T /*type*/, Block /*b*/, Nothing& /*into*/) {}
HT_DOT_INLINE void prepare(Q4_K, Block b, GroupScales& into) {
  k_scales(b, into.numbers);
#if HWY_TARGET != HWY_AVX3
  // High nibbles are masked, not shifted, because more execution units can do that. Both factors are exact.
  alignas(32) constexpr float factors[8] = {1.F, 0x1p-4F, 1.F, 0x1p-4F, 1.F, 0x1p-4F, 1.F, 0x1p-4F};
  store_floats(load_floats<8>(into.numbers) * load_floats<8>(factors), into.numbers);
#endif
}
HT_DOT_INLINE void prepare(Q5_K, Block b, GroupScales& into) { k_scales(b, into.numbers); }
HT_DOT_INLINE void prepare(Q6_K, Block b, SixteenScales& into) {
  store_floats(to_floats(widen_signed<16>(as_int8(b + 192))) * set_half<16>(b + 208), into.scales);
}

template <class T>
struct PreparedOf {
  using type = Nothing;
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

/// Number of parts of a step. Each part is multiplied for all rows in turn, so sums of several rows do not
/// wait for each other.
template <class T>
constexpr std::size_t parts_of = 1;
template <>
constexpr std::size_t parts_of<Q4_K> = 4;

template <std::size_t B>
HT_DOT_INLINE void unpack_part(Q4_K, Block b, const GroupScales& groups, std::size_t part, std::size_t at,
                               Sink<B>& sink) {
  const Block nibbles = b + 16 + 32 * part;
  const Ints<16> first = widen_unsigned<16>(nibbles);
  const Ints<16> second = widen_unsigned<16>(nibbles + 16);
  const GroupScale low = groups[2 * part];
  const GroupScale high = groups[2 * part + 1];
  const std::size_t from = at + 64 * part;
#if HWY_TARGET == HWY_AVX3
  const NibbleValues low_table = low(all_nibbles());
  const NibbleValues high_table = high(all_nibbles());
  sink.add(from, low_values(first, low_table));
  sink.add(from + 16, low_values(second, low_table));
  sink.add(from + 32, high_values(first, high_table));
  sink.add(from + 48, high_values(second, high_table));
#else
  const Ints<16> mask = set_ints<16>(15);
  sink.add(from, low(to_floats(first & mask)));
  sink.add(from + 16, low(to_floats(second & mask)));
  // The masked nibble is 16 times the element; its scale is divided by 16.
  const Ints<16> high_mask = set_ints<16>(0xF0);
  sink.add(from + 32, high(to_floats(first & high_mask)));
  sink.add(from + 48, high(to_floats(second & high_mask)));
#endif
}

template <std::size_t B>
HT_DOT_INLINE void unpack_part(Q5_K, Block b, const GroupScales& groups, std::size_t /*part*/, std::size_t at,
                               Sink<B>& sink) {
  alignas(64) std::int8_t elements[256];
  q5_k_elements(b, elements);
  for (std::size_t i = 0; i < 8; ++i) {
    const GroupScale group = groups[i];
    sink.add(at + 32 * i, group(to_floats(widen_signed<16>(elements + 32 * i))));
    sink.add(at + 32 * i + 16, group(to_floats(widen_signed<16>(elements + 32 * i + 16))));
  }
}

template <std::size_t B>
HT_DOT_INLINE void unpack_part(Q6_K, Block b, const SixteenScales& scales, std::size_t /*part*/,
                               std::size_t at, Sink<B>& sink) {
  alignas(64) std::int8_t elements[256];
  q6_k_elements(b, b + 128, elements);
  q6_k_elements(b + 64, b + 160, elements + 128);
  for (std::size_t i = 0; i < 16; ++i) {
    const Sixteen scale = set_floats<16>(scales.scales[i]);
    sink.add(at + 16 * i, to_floats(widen_signed<16>(elements + 16 * i)) * scale);
  }
}

/// Elements and bytes of one call of `unpack`.
template <class T>
constexpr std::size_t step_elements() {
  if constexpr (IsEncoding<T>) {
    return T::block_elements;
  } else {
    return dense_step;
  }
}
template <class T>
constexpr std::size_t step_bytes() {
  if constexpr (IsEncoding<T>) {
    return T::block_bytes;
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
        sink.sums[b] = set_floats<16>(0.F);
      }
    }
  }

  /// Adds all elements of `columns`, the first of which is element `from` of the vectors. Every call but the
  /// last ends at a multiple of 16.
  template <class T>
  HT_DOT_INLINE void add(T type, const Block* rows, std::size_t from, std::size_t columns) {
    constexpr std::size_t step = step_elements<T>();
    constexpr std::size_t bytes = step_bytes<T>();
    std::size_t at = 0;
    std::size_t offset = 0;
    const RowPrefetch<R> ahead(rows, columns / step * bytes);
    if constexpr (std::is_same_v<Prepared<T>, Nothing>) {
      for (; at + step <= columns; at += step) {
        ahead.template step<bytes>(rows, offset);
#pragma GCC unroll 4
        for (std::size_t r = 0; r < R; ++r) unpack(type, rows[r] + offset, from + at, row[r]);
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
          for (std::size_t part = 0; part < parts_of<T>; ++part) {
#pragma GCC unroll 4
            for (std::size_t r = 0; r < R; ++r)
              unpack_part(type, rows[r] + offset, prepared[i][r], part, from + at, row[r]);
          }
          at += step;
          offset += bytes;
        }
      }
    }
    if constexpr (!IsEncoding<T>) {
      if (at < columns) add_rest(type, rows, offset, columns - at);
    }
  }

  /// Adds the last elements, fewer than 32. The zeros after them do not change any sum.
  template <class T>
  HWY_NOINLINE void add_rest(T type, const Block* rows, std::size_t offset, std::size_t count) {
    for (std::size_t r = 0; r < R; ++r) {
      std::uint8_t elements[step_bytes<T>()] = {};
      std::memcpy(elements, rows[r] + offset, count * T::bits / 8);
      Sink<B> rest = row[r];
      for (std::size_t b = 0; b < B; ++b) rest.x[b] = rest_of_vectors + b * dense_step;
      unpack(type, elements, 0, rest);
      for (std::size_t b = 0; b < B; ++b) row[r].sums[b] = rest.sums[b];
    }
  }

  /// Stores the sums row by row.
  HT_DOT_INLINE void store(float* into) const {
    for (std::size_t r = 0; r < R; ++r) {
      for (std::size_t b = 0; b < B; ++b) into[r * B + b] = sum_of_lanes(row[r].sums[b]);
    }
  }

  /// The last elements of each vector, padded with zeros to 32.
  const float* rest_of_vectors;
  Sink<B> row[R];
};

using Dot = void (*)(const ElementType& type, const Block* rows, const float* const* x, const float* rest,
                     std::size_t columns, float* into);

/// R rows with B vectors.
template <class T, std::size_t R, std::size_t B>
void dot(const ElementType& /*type*/, const Block* rows, const float* const* x, const float* rest,
         std::size_t columns, float* into) {
  Sinks<R, B> sinks(x, rest);
  sinks.add(T{}, rows, 0, columns);
  sinks.store(into);
}

/// The same for types without an `unpack`: elements are first decoded to strips.
template <std::size_t R, std::size_t B>
void dot_decoded(const ElementType& type, const Block* rows, const float* const* x, const float* rest,
                 std::size_t columns, float* into) {
  constexpr std::size_t strip = 512;
  alignas(64) float floats[R][strip];
  Block strips[R];
  for (std::size_t r = 0; r < R; ++r) strips[r] = reinterpret_cast<Block>(floats[r]);
  Sinks<R, B> sinks(x, rest);
  for (std::size_t at = 0; at < columns; at += strip) {
    const std::size_t count = std::min(strip, columns - at);
    const auto offset = values::stored_bytes(type, static_cast<std::int64_t>(at));
    for (std::size_t r = 0; r < R; ++r) {
      values::read_f32(type, reinterpret_cast<const std::byte*>(rows[r]) + offset, floats[r],
                       static_cast<std::int64_t>(count));
    }
    sinks.add(F32{}, strips, at, count);
  }
  sinks.store(into);
}

/// The kernels of a type: two rows with one vector, one row with two vectors, and one row with four.
struct Dots {
  Dot rows_2;
  Dot batch_2;
  Dot batch_4;
};

constexpr Dots dots_decoded = {&dot_decoded<2, 1>, &dot_decoded<1, 2>, &dot_decoded<1, 4>};

template <class T>
constexpr Dots dots_of = {&dot<T, 2, 1>, &dot<T, 1, 2>, &dot<T, 1, 4>};

#if HWY_TARGET == HWY_SCALAR
// Without SIMD registers, kernels are as slow as decoders. Q8_0 uses a different order of operations.
const Dots& find_dots(const ElementType& type) {
  return type.is_blocks() && type.encoding == Q8_0::tag ? dots_of<Q8_0> : dots_decoded;
}
#else
template <class... Ts, class Tag>
const Dots& find_among(Tag tag) {
  const Dots* found = &dots_decoded;
  static_cast<void>(((Ts::tag == tag ? (found = &dots_of<Ts>, true) : false) || ...));
  return *found;
}

const Dots& find_dots(const ElementType& type) {
  return type.is_blocks() ? find_among<Q8_0, Q4_0, MXFP4, Q4_K, Q5_K, Q6_K>(type.encoding)
                          : find_among<F32, BF16, F16, F8_E4M3, F8_E5M2>(type.dtype);
}
#endif

Block row_at(const Rows& rows, std::int64_t row) {
  return reinterpret_cast<Block>(rows.first + row * rows.row_bytes);
}

/// The rows `first` to `end` with up to 4 vectors.
void dot_panel(const Dots& dots, const Rows& rows, std::int64_t first, std::int64_t end,
               const float* const* x, std::size_t batch, float* into, std::int64_t into_stride) {
  const auto columns = static_cast<std::size_t>(rows.columns);
  alignas(64) float rest[max_batch * dense_step] = {};
  const std::size_t whole = columns / dense_step * dense_step;
  for (std::size_t b = 0; b < max_batch && whole < columns; ++b)
    std::memcpy(rest + b * dense_step, x[b] + whole, (columns - whole) * sizeof(float));
  float results[max_batch];
  if (batch == 1) {
    for (std::int64_t r = first; r < end; r += 2) {
      // The last of an odd number of rows is its own neighbour.
      const std::int64_t next = std::min(r + 1, end - 1);
      const Block pair[2] = {row_at(rows, r), row_at(rows, next)};
      dots.rows_2(rows.type, pair, x, rest, columns, results);
      into[r] = results[0];
      into[next] = results[1];
    }
    return;
  }
  const Dot dot_batch = batch == 2 ? dots.batch_2 : dots.batch_4;
  for (std::int64_t r = first; r < end; ++r) {
    const Block row = row_at(rows, r);
    dot_batch(rows.type, &row, x, rest, columns, results);
    for (std::size_t b = 0; b < batch; ++b) into[static_cast<std::int64_t>(b) * into_stride + r] = results[b];
  }
}

void dot_all(const Rows& rows, const float* x, std::int64_t x_stride, std::int64_t batch, float* into,
             std::int64_t into_stride) noexcept {
  // Rows of a panel stay in the second-level cache while all vectors are multiplied.
  constexpr std::int64_t panel_bytes = std::int64_t{128} << 10;
  const auto bytes_of_row = static_cast<std::int64_t>(values::stored_bytes(rows.type, rows.columns));
  const std::int64_t panel =
      batch <= static_cast<std::int64_t>(max_batch)
          ? rows.count
          : std::max<std::int64_t>(panel_bytes / std::max<std::int64_t>(bytes_of_row, 1), 2);
  const Dots& dots = find_dots(rows.type);
  for (std::int64_t first = 0; first < rows.count; first += panel) {
    const std::int64_t end = std::min(first + panel, rows.count);
    for (std::int64_t b = 0; b < batch; b += max_batch) {
      const std::int64_t tile = std::min<std::int64_t>(batch - b, max_batch);
      const float* vectors[max_batch];
      // A tile of 3 vectors repeats the last one.
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(max_batch); ++i)
        vectors[i] = x + (b + std::min(i, tile - 1)) * x_stride;
      dot_panel(dots, rows, first, end, vectors, static_cast<std::size_t>(tile), into + b * into_stride,
                into_stride);
    }
  }
}

}  // namespace
}  // namespace ht::inline v1::compute::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace ht::inline v1::compute {

void dot_rows(const Rows& rows, const float* x, std::int64_t x_stride, std::int64_t batch, float* into,
              std::int64_t into_stride) noexcept {
  HT_CHOOSE_TARGET(dot_all)(rows, x, x_stride, batch, into, into_stride);
}

}  // namespace ht::inline v1::compute

#endif
