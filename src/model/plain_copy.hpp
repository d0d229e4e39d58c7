// From bytes as files have them to dense, row-major elements in this machine's order.
#pragma once

#include <htensor/base/result.hpp>
#include <htensor/dtype/visit.hpp>
#include <htensor/format/catalog.hpp>
#include <vector>

namespace ht::inline v1 {

/// `dtype_mismatch`: what is there instead of `wanted`.
[[nodiscard]] Error wrong_dtype(const Entry& entry, const DTypeInfo& wanted,
                                std::span<const DTypeInfo> users);

/// Whether elements of this width need no turning round.
[[nodiscard]] bool is_in_machine_order(const Entry& entry, int bits) noexcept;

/// The bytes of one element of a splat; none where the elements are not all the same.
[[nodiscard]] std::vector<std::byte> splat_element(Bytes pattern, int bits);

/// Repeats the pattern; the last one may be cut.
void fill_with(MutableBytes to, Bytes pattern) noexcept;

/// Elements of that many bytes, whose first dimension runs fastest in `from`: as many as `to` has room for,
/// from the one on that is the `first` in row-major order.
void copy_to_row_major(MutableBytes to, Bytes from, std::span<const std::int64_t> dims,
                       std::size_t element_bytes, std::uint64_t first = 0);

/// Turns the bytes of each number round.
void reverse_bytes(MutableBytes bytes, std::size_t number_bytes) noexcept;

}  // namespace ht::inline v1
