// Conversions between types known at run time: dense dtypes of the library and block encodings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/dtype/encoding.hpp>
#include <htensor/values/cast.hpp>

namespace ht::inline v1::values {

/// True if every finite value of `from` is a value of `to`. A block encoding as `from` counts as F32; as
/// `to`, it holds only the values of the same encoding. False for user dtypes, unless both are the same.
[[nodiscard]] bool is_lossless(const ElementType& from, const ElementType& to) noexcept;

/// A conversion from one type to another. Rounding has no effect if the conversion is lossless. A conversion
/// to a block encoding first rounds to F32, then as the encoding defines.
struct Conversion {
  ElementType from;
  ElementType to;
  Rounding rounding{};
};

/// True if both are the same known type. Different types can be converted unless one is unknown or a user
/// dtype, `from` is C64, or `to` is an encoding without an encoder.
[[nodiscard]] bool can_convert(const ElementType& from, const ElementType& to) noexcept;

/// Converts `count` adjacent elements in native byte order, a whole number of blocks of both types. Runs on
/// the calling thread. `first` is the row-major index of the first element in its tensor and selects its
/// random bits. Pointers need no alignment.
void convert_values(const Conversion& conversion, const std::byte* stored, std::byte* into,
                    std::int64_t count, std::uint64_t first = 0) noexcept;

/// The same with streaming stores, which bypass the caches: for results that do not fit them.
void convert_streaming(const Conversion& conversion, const std::byte* stored, std::byte* into,
                       std::int64_t count, std::uint64_t first = 0) noexcept;

/// The same, in parallel. If `stored` is mapped from a file, call it within `ht::guarded`.
[[nodiscard]] Result<void> convert_in_parallel(const Conversion& conversion, const std::byte* stored,
                                               std::byte* into, std::int64_t count, std::uint64_t first = 0);

/// Decodes or promotes at most `strip_elements` elements to F32. Requires `reads_as_f32`: F32 represents
/// every value of the type.
void read_f32(const ElementType& type, const std::byte* stored, float* into, std::int64_t count) noexcept;
[[nodiscard]] bool reads_as_f32(const ElementType& type) noexcept;
/// The same to F64; I64 and U64 are rounded to nearest. At most `strip_elements` elements, like `read_f32`.
void read_f64(const ElementType& type, const std::byte* stored, double* into, std::int64_t count) noexcept;

/// Returns the size of `count` elements in bytes, rounded up to a whole byte. `count` is a whole number of
/// blocks.
[[nodiscard]] std::uint64_t stored_bytes(const ElementType& type, std::int64_t count) noexcept;

}  // namespace ht::inline v1::values
