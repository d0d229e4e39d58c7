// Sizes of dense tensors, and pointers to their elements: a plain pointer for elements of whole bytes, else a
// pointer to packed elements.
//
//   static_assert(ht::is_packed<ht::I4> && !ht::is_packed<ht::BF16>);
//   const std::array<std::int64_t, 2> dims{3, 5};
//   const auto size = ht::dense_bytes(dims, ht::I4::bits);             // 8 bytes hold 15 × 4 bits
//   const auto x = HT_TRY(ht::Tensor<ht::I4, ht::Rank<1>>::zeros(ht::Rank<1>(5)));
//   x(2) = ht::I4::Element(-3);                                        // writes 4 bits of the second byte
//   const ht::ElementPointer<const ht::I4> elements = x.data();
//   const int third = elements[2];                                     // -3
//
// Packed elements are stored without padding, starting at the least significant bit of the first byte:
// element i has the bits [i × width, (i + 1) × width). An element of 6 bits may span two bytes. The unused
// bits of the last byte are unspecified.
//
// Ownership: a pointer does not own the bytes; keep the tensor or its Storage while a pointer is used.
//
// Threads: many threads may read the same elements. Two threads must not concurrently write packed elements
// that share a byte, as a write reads the byte, replaces the bits of one element and writes the byte back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/dtype/scalar.hpp>
#include <optional>
#include <span>
#include <type_traits>

// Element counts and byte sizes of dense tensors, checked for overflow. These functions allocate no memory,
// and many threads may call them at once. `layout::count_elements` (tensor/shape.hpp) and
// `placement::dense_bytes` (tensor/storage.hpp) return the same numbers, with an Error in place of nullopt.

namespace ht::inline v1 {

/// The product of the dimensions. nullopt if a dimension is negative or the product of the nonzero dimensions
/// exceeds 63 bits, so that strides never overflow, even in a tensor without elements. Without dimensions,
/// the product is 1; with a dimension of 0, it is 0.
[[nodiscard]] std::optional<std::int64_t> element_count(std::span<const std::int64_t> dims) noexcept;

/// The size in bytes of `elements` packed elements of `bits` bits each, rounded up. nullopt on overflow.
/// Exact for every number of elements: no intermediate result overflows. `bits` must be positive.
[[nodiscard]] std::optional<std::uint64_t> bytes_for(std::uint64_t elements, int bits) noexcept;

/// The size of a dense tensor in bytes. nullopt if a dimension is negative or the size exceeds 63 bits. Each
/// tensor starts on a byte boundary; rows do not: [3, 5] of 4 bits has 8 bytes, not 3 × 3.
[[nodiscard]] std::optional<std::uint64_t> dense_bytes(std::span<const std::int64_t> dims, int bits) noexcept;

/// Whether elements of D are packed: their width is not a whole number of bytes. True for I4, U4, F4 and the
/// F6 dtypes, and for user-defined dtypes of such a width.
template <IsDType D>
inline constexpr bool is_packed = D::bits % 8 != 0;

/// A dtype whose elements can be accessed in stored bytes: an Element of exactly the dtype's width, or a
/// packed Element of fewer than 8 bits with `bits()` and `from_bits()`. A dtype of 12 bits, for example, has
/// no such elements: its tensors can be stored in files, but their elements cannot be accessed. `Tensor`
/// requires HasElements.
template <class D>
concept HasElements =
    IsDType<std::remove_const_t<D>> && std::is_trivially_copyable_v<typename D::Element> &&
    ((D::bits % 8 == 0 && D::bits == 8 * static_cast<int>(sizeof(typename D::Element))) ||
     (D::bits > 0 && D::bits < 8 && requires(typename D::Element element, std::uint8_t code) {
       D::Element::from_bits(code);
       element.bits();
     }));

namespace detail {

// The place of an element: its first byte, and the position of its lowest bit in that byte.
struct PackedPlace {
  std::int64_t byte;
  unsigned shift;
};

[[nodiscard]] constexpr PackedPlace packed_place(std::int64_t index, int bits) noexcept {
  // Eight elements are a whole number of bytes: counting in groups of eight avoids overflow. The shift rounds
  // down, because indices may be negative in views with negative strides.
  const auto bit = static_cast<unsigned>(index & 7) * static_cast<unsigned>(bits);
  return {(index >> 3) * bits + bit / 8, bit % 8};
}

template <class D>
[[nodiscard]] constexpr PackedPlace packed_place(std::int64_t index) noexcept {
  static_assert(D::bits < 8, "a packed element spans two bytes at most");
  return packed_place(index, D::bits);
}

// Reads the second byte only if the element extends into that byte, so the last element never reads beyond
// the memory.
template <class D>
[[nodiscard]] constexpr typename D::Element load_packed(const std::byte* base, std::int64_t index) noexcept {
  const auto [byte, shift] = packed_place<D>(index);
  unsigned bits = std::to_integer<unsigned>(base[byte]) >> shift;
  if (shift + D::bits > 8) bits |= std::to_integer<unsigned>(base[byte + 1]) << (8 - shift);
  return D::Element::from_bits(static_cast<std::uint8_t>(bits & ((1U << D::bits) - 1U)));
}

// Changes only the bits of the element. Not atomic.
template <class D>
constexpr void store_packed(std::byte* base, std::int64_t index, typename D::Element value) noexcept {
  const auto [byte, shift] = packed_place<D>(index);
  const unsigned mask = ((1U << D::bits) - 1U) << shift;
  const unsigned bits = (static_cast<unsigned>(value.bits()) << shift) & mask;
  const auto put = [&](std::byte& at, unsigned mask_here, unsigned bits_here) {
    at = (at & ~static_cast<std::byte>(mask_here)) | static_cast<std::byte>(bits_here);
  };
  put(base[byte], mask & 0xFFU, bits & 0xFFU);
  if (shift + D::bits > 8) put(base[byte + 1], mask >> 8, bits >> 8);
}

/// A reference to one packed element: it converts to the value, and assignment stores a value. A copy refers
/// to the same element. The bytes must outlive the reference; `auto` keeps the reference, `const D::Element`
/// takes the value. Stores are not atomic (see Threads at the top).
template <IsDType D>
class PackedReference {
 public:
  using Element = typename D::Element;

  constexpr PackedReference(std::byte* base, std::int64_t index) noexcept : base_(base), index_(index) {}
  PackedReference(const PackedReference&) = default;

  /// The value of the element at the time of the conversion.
  constexpr operator Element() const noexcept { return load_packed<D>(base_, index_); }
  template <class T>
    requires(!std::same_as<T, Element>) && requires(Element e) { static_cast<T>(e); }
  constexpr explicit operator T() const noexcept {
    return static_cast<T>(static_cast<Element>(*this));
  }

  friend constexpr bool operator==(const PackedReference& a, const PackedReference& b) noexcept {
    return static_cast<Element>(a) == static_cast<Element>(b);
  }
  friend constexpr bool operator==(const PackedReference& a, Element b) noexcept {
    return static_cast<Element>(a) == b;
  }

  // Assignment stores to the element and does not rebind the reference.
  constexpr const PackedReference& operator=(Element value) const noexcept {
    store_packed<D>(base_, index_, value);
    return *this;
  }
  // NOLINTNEXTLINE(bugprone-unhandled-self-assignment): an element stored over itself stays the same
  constexpr PackedReference& operator=(const PackedReference& other) noexcept {
    store_packed<D>(base_, index_, other);
    return *this;
  }

 private:
  std::byte* base_;
  std::int64_t index_;
};

/// A pointer to packed elements. If `D` is const, dereferencing returns a value. Indices and offsets may be
/// negative, as in views with negative strides. Trivially copyable. It is not an iterator: it has neither
/// `++` nor differences, so loops use `p[i]`. `==` compares `base` and `index`: two pointers to one element
/// are unequal if they have different bases.
template <class D>
class PackedPointer {
 public:
  using DType = std::remove_const_t<D>;
  using value_type = typename DType::Element;
  using Byte = std::conditional_t<std::is_const_v<D>, const std::byte, std::byte>;

  constexpr PackedPointer() noexcept = default;
  /// The element `index` elements after the lowest bit of the byte at `base`.
  constexpr explicit PackedPointer(Byte* base, std::int64_t index = 0) noexcept
      : base_(base), index_(index) {}
  /// Write access can be dropped, not gained.
  constexpr operator PackedPointer<const DType>() const noexcept
    requires(!std::is_const_v<D>)
  {
    return PackedPointer<const DType>(base_, index_);
  }

  /// A value if D is const, else a reference. Unchecked.
  [[nodiscard]] constexpr auto operator[](std::int64_t i) const noexcept {
    if constexpr (std::is_const_v<D>) {
      return load_packed<DType>(base_, index_ + i);
    } else {
      return PackedReference<D>(base_, index_ + i);
    }
  }
  [[nodiscard]] constexpr auto operator*() const noexcept { return (*this)[0]; }
  [[nodiscard]] constexpr PackedPointer operator+(std::int64_t elements) const noexcept {
    return PackedPointer(base_, index_ + elements);
  }
  /// The address of the element; null if it does not start on a byte boundary.
  [[nodiscard]] constexpr Byte* address() const noexcept {
    const auto [byte, shift] = packed_place<DType>(index_);
    return shift == 0 && base_ != nullptr ? base_ + byte : nullptr;
  }
  /// The element is `index` elements after the start of the byte at `base`.
  [[nodiscard]] constexpr Byte* base() const noexcept { return base_; }
  [[nodiscard]] constexpr std::int64_t index() const noexcept { return index_; }
  friend constexpr bool operator==(PackedPointer, PackedPointer) noexcept = default;

 private:
  Byte* base_ = nullptr;
  std::int64_t index_ = 0;
};

// Elements of whole bytes have plain pointers, because compilers vectorize loops over them.
template <class D>
struct PointerTo {
  using Element = typename std::remove_const_t<D>::Element;
  using Whole = std::conditional_t<std::is_const_v<D>, const Element, Element>*;
  using type = std::conditional_t<is_packed<std::remove_const_t<D>>, PackedPointer<D>, Whole>;
};

}  // namespace detail

/// The pointer type for elements of `D`; read-only for `const D`. A plain pointer such as `const float*`, or
/// a PackedPointer; both have `p[i]`, `*p` and `p + i`, which are unchecked. Valid as long as a handle to the
/// bytes exists. An access to a packed element costs shifts and masks, and reads or writes up to two bytes.
template <class D>
using ElementPointer = typename detail::PointerTo<D>::type;

}  // namespace ht::inline v1
