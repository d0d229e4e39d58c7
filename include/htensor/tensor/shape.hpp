// Shapes: each extent is a template argument, or `dynamic` and stored at run time.
//
//   ht::Shape<3, ht::dynamic> s(4);                                    // 3 × 4
//   const ht::Rank<2> r(3, 4);                                         // two dynamic extents
//   const std::array<std::int64_t, 2> extents{3, 4};
//   const auto checked = HT_TRY(ht::Shape<3, ht::dynamic>::from(extents));    // or shape_mismatch
//   static_assert(ht::Rank<0>().elements() == 1);                      // a scalar has one element
//   static_assert(ht::ShapeFits<ht::Shape<3, 4>, ht::Rank<2>>);        // converts without a check
//
// A Shape is a value: copies are independent, and an extent in the type takes no memory. Shapes that differ
// in a static extent are different types, so that operations on tensors of other extents do not compile. The
// outermost extent comes first. An extent may be 0: the shape then has no elements, and operations on such
// tensors do nothing or return an empty result. `Shape::from` checks extents that are known at run time.
//
// Threads: many threads may read the same shape. The functions of `layout` have no state and write only to
// the spans that they receive, so many threads may call them at once. The spans are read during the call
// only.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <htensor/base/result.hpp>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace ht::inline v1 {

/// The maximum rank of typed tensors. Files may have tensors of higher rank.
inline constexpr int max_rank = 8;

}  // namespace ht::inline v1

// Arithmetic on extents and strides, in elements. Independent of dtypes and of data.

namespace ht::inline v1::layout {

/// Extents or strides of any rank, outermost first. A view: the caller keeps the array.
using Extents = std::span<const std::int64_t>;

/// Converts an index or extent of any integral type. A number outside of int64_t becomes INT64_MAX, which
/// fails every bounds check and every allocation. So `std::size_t` sizes can be passed as extents without a
/// cast.
template <std::integral I>
[[nodiscard]] constexpr std::int64_t to_index(I number) noexcept {
  return std::in_range<std::int64_t>(number) ? static_cast<std::int64_t>(number) : INT64_MAX;
}

/// "[4, 8]"; "[]" for rank 0. For messages.
[[nodiscard]] std::string to_text(Extents extents);

/// The product of the extents. `bad_shape` for a negative extent. `size_overflow` if the product of the
/// nonzero extents exceeds 63 bits, so that strides never overflow, even in a shape without elements. 1 for
/// rank 0; 0 if an extent is 0.
[[nodiscard]] Result<std::int64_t> count_elements(Extents extents);

/// `shape_mismatch` unless both ranks are equal and each static extent is `dynamic` or equals the extent at
/// its position.
[[nodiscard]] Result<void> check_against_static(Extents extents, Extents static_extents);

/// `shape_mismatch` unless both shapes are equal. Shapes of different rank differ: extents of 1 are never
/// added or dropped.
[[nodiscard]] Result<void> check_equal(Extents a, Extents b);

/// `out_of_bounds` unless each index is in [0, extent). Both spans have the same size. Negative indices do
/// not count from the end.
[[nodiscard]] Result<void> check_index(Extents index, Extents extents);

/// Writes the strides of contiguous elements. A zero extent counts as one. In a shape without elements, a
/// stride that exceeds 2^63-1 is 0. The innermost stride is 1 in row-major order, the outermost in
/// column-major order. `strides` has the size of `extents`.
void fill_row_major_strides(Extents extents, std::span<std::int64_t> strides) noexcept;
void fill_column_major_strides(Extents extents, std::span<std::int64_t> strides) noexcept;

/// Whether the elements are contiguous in row-major order. True for views without elements. Strides of
/// dimensions with extent 1 do not matter.
[[nodiscard]] bool is_row_major(Extents extents, Extents strides) noexcept;

/// The lowest and the highest offset of an element of a view, relative to element (0, 0, …). Negative strides
/// give a negative `lowest`.
struct OffsetRange {
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
};

/// Returns the offset range of a view; {0, 0} for a view without elements. `size_overflow` if an offset
/// exceeds 63 bits. A tensor is inside its memory if both offsets are: `Tensor::strided` checks this.
[[nodiscard]] Result<OffsetRange> offset_range(Extents extents, Extents strides);

/// The number of indices `begin, begin + step, …` before `end`; 0 if `begin` equals `end`. `out_of_bounds`
/// unless 0 ≤ begin ≤ end ≤ extent or, with a negative step, -1 ≤ end ≤ begin < extent. An `end` of -1
/// includes index 0. Steps of 0 and -2^63 are `out_of_bounds` too.
[[nodiscard]] Result<std::int64_t> count_slice(std::int64_t extent, std::int64_t begin, std::int64_t end,
                                               std::int64_t step);

/// Computes the strides that give the same elements a new shape, for at most 8 dimensions. `shape_mismatch`
/// if the number of elements differs, `bad_shape` if the new shape needs a copy. Splitting a dimension never
/// needs a copy. Joining two dimensions does unless the outer stride is the inner extent times the inner
/// stride. Shapes without elements always fit. `new_strides` has the size of `new_extents`; after an Error
/// its values are unspecified.
[[nodiscard]] Result<void> reshape_strides(Extents extents, Extents strides, Extents new_extents,
                                           std::span<std::int64_t> new_strides);

/// Computes the strides that repeat the elements to a new shape: 0 in each dimension that grows from extent
/// 1, and in added outer dimensions. `shape_mismatch` if an extent is neither 1 nor the new extent;
/// `bad_shape` or `size_overflow` if the new shape is invalid.
[[nodiscard]] Result<void> broadcast_strides(Extents extents, Extents strides, Extents new_extents,
                                             std::span<std::int64_t> new_strides);

}  // namespace ht::inline v1::layout

namespace ht::inline v1 {

/// An extent that is known only at run time.
inline constexpr std::int64_t dynamic = -1;

namespace detail {

template <std::size_t N>
struct Extents {
  std::array<std::int64_t, N> values{};
  friend constexpr bool operator==(const Extents&, const Extents&) = default;
};
// Empty, so that a static shape adds no bytes to a tensor.
template <>
struct Extents<0> {
  friend constexpr bool operator==(const Extents&, const Extents&) = default;
};

}  // namespace detail

/// `Shape<4, 8>`, `Shape<dynamic, 8>`, `Rank<2>`: outermost extent first.
///
/// A shape that contradicts its type cannot exist: constructors take the dynamic extents only, and the others
/// are in the type. The constructors check nothing: a negative extent is an Error when a tensor is created.
template <std::int64_t... Es>
  requires(sizeof...(Es) <= max_rank) && ((Es >= 0 || Es == dynamic) && ...)
class Shape {
 public:
  /// The number of extents, and the number of dynamic ones, which the constructor takes.
  static constexpr int rank = sizeof...(Es);
  static constexpr int dynamic_rank = (0 + ... + (Es == dynamic ? 1 : 0));
  using Array = std::array<std::int64_t, sizeof...(Es)>;
  /// The template arguments, with `dynamic` where the extent is a run-time number.
  static constexpr Array static_extents{Es...};

  /// Dynamic extents start at 0.
  constexpr Shape() noexcept = default;

  /// Takes only the dynamic extents: `Shape<dynamic, 8>(4)`.
  template <std::integral... Is>
    requires(sizeof...(Is) == dynamic_rank && sizeof...(Is) > 0)
  constexpr explicit Shape(Is... dynamic_extents) noexcept
      : dynamic_{{layout::to_index(dynamic_extents)...}} {}

  /// A shape from all extents. `shape_mismatch` if an extent contradicts the type; `bad_shape` or
  /// `size_overflow` if the extents are not a valid shape.
  [[nodiscard]] static Result<Shape> from(std::span<const std::int64_t> extents) {
    HT_TRY(layout::check_against_static(extents, static_extents));
    HT_TRY(layout::count_elements(extents));
    return assume(extents);
  }

  /// A shape from all extents, unchecked: the caller guarantees that they match the type.
  [[nodiscard]] static constexpr Shape assume(std::span<const std::int64_t> extents) noexcept {
    Shape shape;
    if constexpr (dynamic_rank > 0) {
      std::size_t next = 0;
      for (std::size_t i = 0; i < static_extents.size(); ++i) {
        if (static_extents[i] == dynamic) shape.dynamic_.values[next++] = extents[i];
      }
    }
    return shape;
  }

  /// All extents by value, static and dynamic.
  [[nodiscard]] constexpr Array extents() const noexcept {
    Array all = static_extents;
    if constexpr (dynamic_rank > 0) {
      std::size_t next = 0;
      for (auto& extent : all) {
        if (extent == dynamic) extent = dynamic_.values[next++];
      }
    }
    return all;
  }
  /// One extent. `dimension` is in [0, rank): other numbers are undefined behaviour.
  [[nodiscard]] constexpr std::int64_t extent(int dimension) const noexcept {
    return extents()[static_cast<std::size_t>(dimension)];
  }
  /// The product of the extents. `Shape::from` and tensors check that it does not overflow.
  [[nodiscard]] constexpr std::int64_t elements() const noexcept {
    // Unsigned, because nothing checks the extents of a shape that belongs to no tensor: their product may
    // overflow.
    std::uint64_t product = 1;
    for (const auto extent : extents()) product *= static_cast<std::uint64_t>(extent);
    return static_cast<std::int64_t>(product);
  }

  /// Compares shapes of one type. Compare `extents()` of shapes of different types.
  friend constexpr bool operator==(const Shape&, const Shape&) noexcept = default;

 private:
  [[no_unique_address]] detail::Extents<static_cast<std::size_t>(dynamic_rank)> dynamic_;
};

/// Whether T is a Shape.
template <class T>
inline constexpr bool is_shape = false;
template <std::int64_t... Es>
inline constexpr bool is_shape<Shape<Es...>> = true;

template <class T>
concept IsShape = is_shape<T>;

namespace detail {

template <auto Array, std::size_t... Is>
auto shape_of(std::index_sequence<Is...>) -> Shape<Array[Is]...>;

/// The Shape whose static extents are the values of a constexpr array.
template <auto Array>
using ShapeFrom = decltype(shape_of<Array>(std::make_index_sequence<Array.size()>{}));

// N extents that are all dynamic.
template <int N>
consteval auto dynamic_extents() {
  std::array<std::int64_t, static_cast<std::size_t>(N)> all{};
  for (auto& extent : all) extent = dynamic;
  return all;
}

// The extents of S after a slice of one dimension. The length of a slice is known at run time only.
template <class S, int Dimension>
consteval auto with_dynamic() {
  auto all = S::static_extents;
  all[static_cast<std::size_t>(Dimension)] = dynamic;
  return all;
}

// The extents of S without one dimension, as `select` returns it.
template <class S, int Dimension>
consteval auto without() {
  std::array<std::int64_t, static_cast<std::size_t>(S::rank - 1)> rest{};
  for (std::size_t i = 0; i < rest.size(); ++i) {
    rest[i] = S::static_extents[i < static_cast<std::size_t>(Dimension) ? i : i + 1];
  }
  return rest;
}

// The extents of S after a transposition.
template <class S, int A, int B>
consteval auto with_swapped() {
  auto all = S::static_extents;
  std::swap(all[static_cast<std::size_t>(A)], all[static_cast<std::size_t>(B)]);
  return all;
}

// The static extents of A, with dynamic ones replaced by those of B.
template <class A, class B>
consteval auto merged() {
  auto all = A::static_extents;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] == dynamic) all[i] = B::static_extents[i];
  }
  return all;
}

// Whether some shape is of both types.
template <class A, class B>
consteval bool may_be_equal() {
  if constexpr (A::rank != B::rank) {
    return false;
  } else {
    for (std::size_t i = 0; i < A::static_extents.size(); ++i) {
      const auto a = A::static_extents[i];
      const auto b = B::static_extents[i];
      if (a != dynamic && b != dynamic && a != b) return false;
    }
    return true;
  }
}

}  // namespace detail

/// The shape of rank N with dynamic extents only.
template <int N>
  requires(N >= 0 && N <= max_rank)
using Rank = detail::ShapeFrom<detail::dynamic_extents<N>()>;

/// The ranks are equal, and no static extent of A contradicts a static extent of B. Operations on two tensors
/// require this and compare the extents at run time.
template <class A, class B>
concept ShapesMayMatch = IsShape<A> && IsShape<B> && detail::may_be_equal<A, B>();

/// Every shape of type A is a shape of type B: static extents of B are static and equal in A.
template <class A, class B>
concept ShapeFits = ShapesMayMatch<A, B> && std::same_as<A, detail::ShapeFrom<detail::merged<A, B>()>>;

namespace detail {

template <class A, class B>
consteval bool may_broadcast() {
  if constexpr (A::rank > B::rank) {
    return false;
  } else {
    constexpr auto added = static_cast<std::size_t>(B::rank - A::rank);
    for (std::size_t i = 0; i < A::static_extents.size(); ++i) {
      const auto a = A::static_extents[i];
      const auto b = B::static_extents[added + i];
      if (a != dynamic && a != 1 && b != dynamic && a != b) return false;
    }
    return true;
  }
}

}  // namespace detail

/// Each extent of A, counted from the innermost, may be 1 or equal to the extent of B. A of rank 0 broadcasts
/// to every shape.
template <class A, class B>
concept BroadcastableTo = IsShape<A> && IsShape<B> && detail::may_broadcast<A, B>();

}  // namespace ht::inline v1
