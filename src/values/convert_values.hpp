// Conversions between types that are known at run time: dense dtypes of the library and block encodings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/dtype/encoding.hpp>
#include <htensor/values/rounding.hpp>

namespace ht::inline v1::values {

/// Whether every finite value of `from` is a value of `to`. Values of block encodings are those of F32. False
/// for dtypes of users, except for the same dtype.
[[nodiscard]] bool is_lossless(const ElementType& from, const ElementType& to) noexcept;

/// From one type to another. Rounding has no effect where the conversion is lossless. A conversion to a block
/// encoding rounds to F32 first, and by the encoding's own rule then.
struct Conversion {
  ElementType from;
  ElementType to;
  Rounding rounding{};
};

/// False for unknown types and dtypes of users unless both are the same, from C64 to real dtypes, and to
/// encodings without an encoder.
[[nodiscard]] bool can_convert(const ElementType& from, const ElementType& to) noexcept;

/// Converts `count` elements on the calling thread, whole blocks of both types, in row-major order and this
/// machine's byte order. `first` is the index of the first one, which selects its random bits. Neither
/// pointer needs alignment.
void convert_values(const Conversion& conversion, const std::byte* stored, std::byte* into,
                    std::int64_t count, std::uint64_t first = 0) noexcept;

/// The same on all processors. The caller guards mapped bytes.
[[nodiscard]] Result<void> convert_in_parallel(const Conversion& conversion, const std::byte* stored,
                                               std::byte* into, std::int64_t count, std::uint64_t first = 0);

/// Decodes or promotes at most `strip_elements` elements to F32, where F32 holds every value of the type: see
/// `reads_as_f32`.
void read_f32(const ElementType& type, const std::byte* stored, float* into, std::int64_t count) noexcept;
[[nodiscard]] bool reads_as_f32(const ElementType& type) noexcept;
/// The same to F64, which I64 and U64 are rounded to, to nearest. At most `strip_elements` at once, like
/// `read_f32`.
void read_f64(const ElementType& type, const std::byte* stored, double* into, std::int64_t count) noexcept;

/// Bytes of `count` elements, which are whole blocks and whole bytes but for the last one.
[[nodiscard]] std::uint64_t stored_bytes(const ElementType& type, std::int64_t count) noexcept;

}  // namespace ht::inline v1::values
