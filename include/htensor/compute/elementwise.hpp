// a + b, a - b, a * b and a / b of tensors that have one dtype and one shape.
//
// Floating-point dtypes calculate in float (F64 in double) and round once; integers wrap around;
// division asks for IsFloating, so nothing divides by an integer zero. Static shapes that differ do
// not compile, dynamic ones return `shape_mismatch`.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <htensor/tensor/tensor.hpp>
#include <type_traits>

namespace ht::inline v1 {

template <class A, class B>
concept SameDType = std::same_as<std::remove_const_t<A>, std::remove_const_t<B>>;

/// The device has a function of its own for the operation (see htensor/dtype/device.hpp).
template <class Dev, class Op, class D>
concept HasElementwise =
    requires(Op op, const Tensor<const D, Rank<1>, Dev>& a, const Tensor<D, Rank<1>, Dev>& out) {
      { Dev::elementwise(op, a, a, out) } -> std::same_as<Result<void>>;
    };

/// The device calculates with D, and has the operation: by loops of the host where it reads the memory, else
/// by its own function.
template <class Dev, class Op, class D>
concept CombinesBy = Computes<Dev, slice::Core, D> && placement::CanAllocate<Dev> &&
                     (HostAccessible<Dev> || HasElementwise<Dev, Op, D>);

namespace detail {

// The C++ type in which elements of D are calculated.
template <class D>
consteval auto calculates_in() {
  using Element = typename D::Element;
  if constexpr (D::number.kind == NumberKind::complex) {
    return std::type_identity<Element>{};
  } else if constexpr (IsFloating<D>) {
    // With two more than twice the digits, rounding the rounded result is rounding the exact one once.
    constexpr bool once = 2 * D::number.digits + 2 <= F32::number.digits;
    constexpr bool in_float = std::same_as<D, F32> || (LosslessTo<D, F32> && once);
    return std::type_identity<std::conditional_t<in_float, float, double>>{};
  } else {
    // Unsigned, as it may wrap around; products of narrow types must not become signed ints.
    return std::type_identity<std::uint64_t>{};
  }
}

template <class D>
using CalculatesIn = typename decltype(calculates_in<D>())::type;

template <class D>
[[nodiscard]] constexpr typename D::Element wrapped(std::uint64_t value) noexcept {
  using Element = typename D::Element;
  if constexpr (std::integral<Element>) {
    return static_cast<Element>(value);
  } else {
    return Element::from_bits(static_cast<std::uint8_t>(value & ((1U << D::bits) - 1U)));
  }
}

template <class D, class Op>
[[nodiscard]] constexpr typename D::Element apply(Op op, typename D::Element a,
                                                  typename D::Element b) noexcept {
  using In = CalculatesIn<D>;
  if constexpr (IsIntegral<D>) {
    // Through the signed type first, so that the low bits are those of two's complement.
    const auto bits = [](auto x) { return static_cast<In>(static_cast<std::int64_t>(x)); };
    return wrapped<D>(op(bits(a), bits(b)));
  } else {
    return static_cast<typename D::Element>(op(static_cast<In>(a), static_cast<In>(b)));
  }
}

template <class Op, class A, class B, class SA, class SB, class Dev>
[[nodiscard]] auto elementwise(Op op, const Tensor<A, SA, Dev>& a, const Tensor<B, SB, Dev>& b)
    -> Result<Tensor<std::remove_const_t<A>, ShapeFrom<merged<SA, SB>()>, Dev>> {
  using D = std::remove_const_t<A>;
  using Out = Tensor<D, ShapeFrom<merged<SA, SB>()>, Dev>;
  HT_TRY(layout::check_equal(a.shape().extents(), b.shape().extents()));
  auto result = HT_TRY(Out::zeros(Out::ShapeType::assume(a.shape().extents())));
  auto to = result.data();
  const auto combine = [&](auto&& x, auto&& y) {
    return apply<D>(op, static_cast<typename D::Element>(x), static_cast<typename D::Element>(y));
  };
  const auto of_a = HT_TRY(placement::touched_bytes<A>(a.data(), a.shape().extents(), a.strides()));
  const auto of_b = HT_TRY(placement::touched_bytes<B>(b.data(), b.shape().extents(), b.strides()));
  const std::array<Bytes, 2> touched{of_a, of_b};
  HT_TRY(guarded(touched, [&] {
    const auto combine_run = [&](const Run<2>& run) {
      const auto x = a.data() + run.offsets[0];
      const auto y = b.data() + run.offsets[1];
      // The compiler vectorizes a loop without strides.
      if (run.is_contiguous()) {
        for (std::int64_t i = 0; i < run.count; ++i) to[i] = combine(x[i], y[i]);
      } else {
        for (std::int64_t i = 0; i < run.count; ++i)
          to[i] = combine(x[i * run.strides[0]], y[i * run.strides[1]]);
      }
      to = to + run.count;
    };
    for_each_run(a.shape().extents(), combine_run, a.strides(), b.strides());
  }));
  return result;
}

// On a device that has the operation itself.
template <class Op, class A, class B, class SA, class SB, class Dev>
  requires HasElementwise<Dev, Op, std::remove_const_t<A>>
[[nodiscard]] auto elementwise(Op op, const Tensor<A, SA, Dev>& a, const Tensor<B, SB, Dev>& b)
    -> Result<Tensor<std::remove_const_t<A>, ShapeFrom<merged<SA, SB>()>, Dev>> {
  using Out = Tensor<std::remove_const_t<A>, ShapeFrom<merged<SA, SB>()>, Dev>;
  HT_TRY(layout::check_equal(a.shape().extents(), b.shape().extents()));
  auto result = HT_TRY(Out::zeros(Out::ShapeType::assume(a.shape().extents())));
  HT_TRY(Dev::elementwise(op, a, b, result));
  return result;
}

}  // namespace detail

template <class A, class B, class SA, class SB, class Dev>
  requires SameDType<A, B> && Multipliable<std::remove_const_t<A>> && ShapesMayMatch<SA, SB> &&
           CombinesBy<Dev, std::plus<>, std::remove_const_t<A>>
[[nodiscard]] auto operator+(const Tensor<A, SA, Dev>& a, const Tensor<B, SB, Dev>& b) {
  return detail::elementwise(std::plus<>{}, a, b);
}

template <class A, class B, class SA, class SB, class Dev>
  requires SameDType<A, B> && Multipliable<std::remove_const_t<A>> && ShapesMayMatch<SA, SB> &&
           CombinesBy<Dev, std::minus<>, std::remove_const_t<A>>
[[nodiscard]] auto operator-(const Tensor<A, SA, Dev>& a, const Tensor<B, SB, Dev>& b) {
  return detail::elementwise(std::minus<>{}, a, b);
}

template <class A, class B, class SA, class SB, class Dev>
  requires SameDType<A, B> && Multipliable<std::remove_const_t<A>> && ShapesMayMatch<SA, SB> &&
           CombinesBy<Dev, std::multiplies<>, std::remove_const_t<A>>
[[nodiscard]] auto operator*(const Tensor<A, SA, Dev>& a, const Tensor<B, SB, Dev>& b) {
  return detail::elementwise(std::multiplies<>{}, a, b);
}

template <class A, class B, class SA, class SB, class Dev>
  requires SameDType<A, B> && IsFloating<std::remove_const_t<A>> && ShapesMayMatch<SA, SB> &&
           CombinesBy<Dev, std::divides<>, std::remove_const_t<A>>
[[nodiscard]] auto operator/(const Tensor<A, SA, Dev>& a, const Tensor<B, SB, Dev>& b) {
  return detail::elementwise(std::divides<>{}, a, b);
}

}  // namespace ht::inline v1
