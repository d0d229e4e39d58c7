#include "values/convert_values.hpp"

#include <algorithm>
#include <cstring>
#include <htensor/dtype/packed.hpp>
#include <htensor/dtype/relations.hpp>
#include <htensor/values/cast.hpp>
#include <limits>
#include <utility>

#include "base/workers.hpp"
#include "values/blocks/decode_blocks.hpp"
#include "values/blocks/encode_blocks.hpp"
#include "values/convert_kernels.hpp"

namespace ht::inline v1::values {
namespace {

bool is_library_dtype(const ElementType& type) noexcept {
  return type.is_dense() && find_dtype(type.dtype).has_value();
}

bool is_64_bit_integer(DTypeTag tag) noexcept { return tag == I64::tag || tag == U64::tag; }

// Converts an integer to another 64-bit number: saturated, or rounded to a double.
template <class To, class From>
To convert_integer(From value, const Demotion& demotion, std::uint64_t random) noexcept {
  if constexpr (std::integral<To>) {
    if (std::cmp_less(value, std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (std::cmp_greater(value, std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return static_cast<To>(value);
  } else {
    const bool negative = std::cmp_less(value, 0);
    const auto bits = static_cast<std::uint64_t>(value);
    const std::uint64_t magnitude = negative ? 0 - bits : bits;
    const int excess = 11 - std::min(std::countl_zero(magnitude), 11);
    const std::uint64_t unit = std::uint64_t{1} << excess;
    const std::uint64_t lost = magnitude & (unit - 1);
    std::uint64_t quotient = magnitude >> excess;
    const bool up = demotion.mode == Rounding::Mode::nearest_even
                        ? lost * 2 > unit || (lost * 2 == unit && lost != 0 && quotient % 2 == 1)
                        : demotion.mode == Rounding::Mode::stochastic && lost > (random & (unit - 1));
    quotient += up ? 1 : 0;
    const double rounded =
        static_cast<double>(static_cast<std::int64_t>(quotient)) * static_cast<double>(unit);
    return negative ? -rounded : rounded;
  }
}

template <class From, class To>
void convert_integers(const std::byte* stored, std::byte* into, std::int64_t count,
                      const Demotion& demotion) {
  for (std::int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, stored + i * 8, sizeof(value));
    const std::uint64_t random =
        demotion.random != nullptr ? demotion.random->words[static_cast<std::size_t>(i)] : 0;
    const auto result = convert_integer<To>(value, demotion, random);
    std::memcpy(into + i * 8, &result, sizeof(result));
  }
}

using ConvertIntegers = void (*)(const std::byte*, std::byte*, std::int64_t, const Demotion&);

// Returns the direct conversion of 64-bit integers if F64 as an intermediate type would round; else null.
ConvertIntegers find_integer_conversion(DTypeTag from, DTypeTag to) noexcept {
  const bool is_signed = from == I64::tag;
  if (!is_64_bit_integer(from)) return nullptr;
  if (to == F64::tag)
    return is_signed ? convert_integers<std::int64_t, double> : convert_integers<std::uint64_t, double>;
  if (!is_64_bit_integer(to)) return nullptr;
  return is_signed ? convert_integers<std::int64_t, std::uint64_t>
                   : convert_integers<std::uint64_t, std::int64_t>;
}

void interleave_with_zeros(const float* from, std::byte* into, std::int64_t count) noexcept {
  for (std::int64_t i = 0; i < count; ++i) {
    const float pair[2] = {from[i], 0.0F};
    std::memcpy(into + i * 8, pair, sizeof(pair));
  }
}

// Converts strips by one conversion. The buffers use 20 KiB of stack.
class StripConverter {
 public:
  explicit StripConverter(const Conversion& conversion) noexcept
      : from_(conversion.from),
        to_(conversion.to),
        source_(kernels_of(from_.dtype)),
        target_(kernels_of(to_.dtype == C64::tag ? F32::tag : to_.dtype)),
        integers_(find_integer_conversion(from_.dtype, to_.dtype)),
        seed_(conversion.rounding.seed),
        is_copy_(from_.dtype == to_.dtype && from_.encoding == to_.encoding) {
    if (!is_lossless(from_, to_)) {
      demotion_.mode = conversion.rounding.mode;
      demotion_.saturate = conversion.rounding.saturate;
    }
    if (demotion_.mode == Rounding::Mode::stochastic) demotion_.random = &random_;
  }

  void convert(const std::byte* stored, std::byte* into, std::int64_t count, std::uint64_t first) noexcept {
    // Kernels read whole vectors of random words.
    if (demotion_.random != nullptr) fill_random(random_, seed_, first, (count + 7) / 8 * 8);
    if (is_copy_) {
      std::memcpy(into, stored, static_cast<std::size_t>(stored_bytes(to_, count)));
    } else if (integers_ != nullptr) {
      integers_(stored, into, count, demotion_);
    } else if (reads_as_f32(from_)) {
      put(floats_of(stored, into, count), into, count);
    } else {
      source_.promote_f64(stored, doubles_, count);
      if (to_.is_block_encoded() || to_.dtype == C64::tag) {
        kernels_of(F32::tag).demote_f64(doubles_, reinterpret_cast<std::byte*>(floats_), count, demotion_);
        put(floats_, into, count);
      } else {
        target_.demote_f64(doubles_, into, count, demotion_);
      }
    }
  }

 private:
  static bool is_aligned(const std::byte* bytes) noexcept {
    return reinterpret_cast<std::uintptr_t>(bytes) % alignof(float) == 0;
  }

  // Returns the strip as F32: in place if it is stored as F32, else in `into` if the target is F32, else in a
  // buffer.
  const float* floats_of(const std::byte* stored, std::byte* into, std::int64_t count) noexcept {
    if (from_.dtype == F32::tag && is_aligned(stored)) return reinterpret_cast<const float*>(stored);
    float* const floats =
        to_.dtype == F32::tag && is_aligned(into) ? reinterpret_cast<float*>(into) : floats_;
    read_f32(from_, stored, floats, count);
    return floats;
  }

  void put(const float* floats, std::byte* into, std::int64_t count) noexcept {
    if (to_.is_block_encoded()) {
      encode_blocks(to_.encoding, floats, count, into);
    } else if (to_.dtype == C64::tag) {
      interleave_with_zeros(floats, into, count);
    } else if (static_cast<const void*>(floats) != into) {
      target_.demote_f32(floats, into, count, demotion_);
    }
  }

  const ElementType& from_;
  const ElementType& to_;
  const Kernels& source_;
  const Kernels& target_;
  ConvertIntegers integers_;
  std::uint64_t seed_;
  bool is_copy_;
  Demotion demotion_;
  RandomBits random_;
  alignas(64) float floats_[strip_elements];
  alignas(64) double doubles_[strip_elements];
};

}  // namespace

bool is_lossless(const ElementType& from, const ElementType& to) noexcept {
  if (from.is_block_encoded() || to.is_block_encoded()) {
    if (to.is_block_encoded()) return from.encoding == to.encoding;
    return to.dtype == F32::tag || to.dtype == F64::tag || to.dtype == C64::tag;
  }
  bool lossless = from.dtype == to.dtype;
  static_cast<void>(visit_dtype(from.dtype, [&]<class From>(From) {
    static_cast<void>(visit_dtype(to.dtype, [&]<class To>(To) { lossless = LosslessTo<From, To>; }));
  }));
  return lossless;
}

bool can_convert(const ElementType& from, const ElementType& to) noexcept {
  if (!from.is_known() || !to.is_known()) return false;
  if (from.dtype == to.dtype && from.encoding == to.encoding) return true;
  const bool readable =
      from.is_block_encoded() ? can_decode(from.encoding) : is_library_dtype(from) && from.dtype != C64::tag;
  return readable && (to.is_block_encoded() ? can_encode(to.encoding) : is_library_dtype(to));
}

std::uint64_t stored_bytes(const ElementType& type, std::int64_t count) noexcept {
  const auto elements = static_cast<std::uint64_t>(count);
  if (type.is_block_encoded()) return elements / type.block_elements * type.block_bytes;
  return bytes_for(elements, type.bits).value_or(0);
}

bool reads_as_f32(const ElementType& type) noexcept {
  return type.is_block_encoded() || kernels_of(type.dtype).promote_f32 != nullptr;
}

void read_f32(const ElementType& type, const std::byte* stored, float* into, std::int64_t count) noexcept {
  if (type.is_block_encoded()) {
    decode_blocks(type.encoding, stored, count / type.block_elements, into);
  } else {
    kernels_of(type.dtype).promote_f32(stored, into, count);
  }
}

void read_f64(const ElementType& type, const std::byte* stored, double* into, std::int64_t count) noexcept {
  if (const auto convert = find_integer_conversion(type.dtype, F64::tag); convert != nullptr) {
    convert(stored, reinterpret_cast<std::byte*>(into), count, {});
  } else if (type.is_block_encoded()) {
    alignas(64) float floats[strip_elements];
    decode_blocks(type.encoding, stored, count / type.block_elements, floats);
    std::copy_n(floats, count, into);
  } else {
    kernels_of(type.dtype).promote_f64(stored, into, count);
  }
}

void convert_values(const Conversion& conversion, const std::byte* stored, std::byte* into,
                    std::int64_t count, std::uint64_t first) noexcept {
  StripConverter converter(conversion);
  for (std::int64_t at = 0; at < count; at += strip_elements) {
    converter.convert(stored + stored_bytes(conversion.from, at), into + stored_bytes(conversion.to, at),
                      std::min(strip_elements, count - at), first + static_cast<std::uint64_t>(at));
  }
}

// Streaming stores also avoid reading the overwritten lines.
void convert_streaming(const Conversion& conversion, const std::byte* stored, std::byte* into,
                       std::int64_t count, std::uint64_t first) noexcept {
  StripConverter converter(conversion);
  alignas(64) std::byte strip[strip_elements * 8];
  for (std::int64_t at = 0; at < count; at += strip_elements) {
    const std::int64_t elements = std::min(strip_elements, count - at);
    std::byte* const target = into + stored_bytes(conversion.to, at);
    const auto bytes = static_cast<std::size_t>(stored_bytes(conversion.to, elements));
    converter.convert(stored + stored_bytes(conversion.from, at), strip, elements,
                      first + static_cast<std::uint64_t>(at));
    // Whole strips of all types except block encodings have a multiple of 64 bytes.
    if (reinterpret_cast<std::uintptr_t>(target) % 64 == 0 && bytes % 64 == 0) {
      copy_streaming(strip, target, bytes);
    } else {
      std::memcpy(target, strip, bytes);
    }
  }
  end_streaming();
}

Result<void> convert_in_parallel(const Conversion& conversion, const std::byte* stored, std::byte* into,
                                 std::int64_t count, std::uint64_t first) {
  // Smaller results fit the caches and run on one thread.
  constexpr std::int64_t piece_elements = std::int64_t{1} << 18;
  if (count <= piece_elements) {
    convert_values(conversion, stored, into, count, first);
    return {};
  }
  Jobs jobs;
  jobs.count = static_cast<std::size_t>((count + piece_elements - 1) / piece_elements);
  jobs.run = [&](std::size_t job, std::size_t) -> Result<void> {
    const auto at = static_cast<std::int64_t>(job) * piece_elements;
    convert_streaming(conversion, stored + stored_bytes(conversion.from, at),
                      into + stored_bytes(conversion.to, at), std::min(piece_elements, count - at),
                      first + static_cast<std::uint64_t>(at));
    return {};
  };
  return run_all(jobs);
}

}  // namespace ht::inline v1::values

namespace ht::inline v1::detail {

Result<void> convert_stored(const ElementType& from, const std::byte* stored, const ElementType& to,
                            std::byte* into, std::int64_t count, const Rounding& rounding,
                            std::uint64_t first) {
  return values::convert_in_parallel({.from = from, .to = to, .rounding = rounding}, stored, into, count,
                                     first);
}

void decode_block(EncodingTag encoding, const std::byte* block, float* into) noexcept {
  decode_blocks(encoding, block, 1, into);
}

}  // namespace ht::inline v1::detail
