// a + b, a - b, a * b and a / b of tensors that have one dtype and one shape, and their in-place forms.
//
//   const auto y = HT_TRY(x + HT_TRY(bias.broadcast(x.shape())));   // [m, n] + [n], spelled out
//   const auto z = HT_TRY(ht::scale(y, 0.125F));
//   HT_TRY(ht::add_into(residual, z));                              // residual += z, no new memory
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

/// into[i] = op(a[i], b[i]) for a run of elements.
template <class D, class Op, class To, class A, class B>
void combine_run(Op op, To into, std::int64_t into_stride, A a, std::int64_t a_stride, B b,
                 std::int64_t b_stride, std::int64_t count) {
  using Element = typename D::Element;
  const auto combine = [&](auto&& x, auto&& y) {
    return apply<D>(op, static_cast<Element>(x), static_cast<Element>(y));
  };
  // The compiler vectorizes loops without strides. A broadcast operand is one value for the whole run.
  if (into_stride == 1 && a_stride == 1 && b_stride == 1) {
    for (std::int64_t i = 0; i < count; ++i) into[i] = combine(a[i], b[i]);
  } else if (into_stride == 1 && a_stride == 1 && b_stride == 0) {
    const auto value = static_cast<Element>(b[0]);
    for (std::int64_t i = 0; i < count; ++i) into[i] = combine(a[i], value);
  } else {
    for (std::int64_t i = 0; i < count; ++i)
      into[i * into_stride] = combine(a[i * a_stride], b[i * b_stride]);
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
  const auto of_a = HT_TRY(placement::touched_bytes<A>(a.data(), a.shape().extents(), a.strides()));
  const auto of_b = HT_TRY(placement::touched_bytes<B>(b.data(), b.shape().extents(), b.strides()));
  const std::array<Bytes, 2> touched{of_a, of_b};
  HT_TRY(guarded(touched, [&] {
    const auto visit = [&](const Run<2>& run) {
      combine_run<D>(op, to, 1, a.data() + run.offsets[0], run.strides[0], b.data() + run.offsets[1],
                     run.strides[1], run.count);
      to = to + run.count;
    };
    for_each_run(a.shape().extents(), visit, a.strides(), b.strides());
  }));
  return result;
}

/// into[i] = op(into[i], x[i])
template <class Op, class D, class B, class SA, class SB, class Dev>
[[nodiscard]] Result<void> elementwise_into(Op op, const Tensor<D, SA, Dev>& into,
                                            const Tensor<B, SB, Dev>& x) {
  HT_TRY(layout::check_equal(into.shape().extents(), x.shape().extents()));
  const auto of_into =
      HT_TRY(placement::touched_bytes<D>(into.data(), into.shape().extents(), into.strides()));
  const auto of_x = HT_TRY(placement::touched_bytes<B>(x.data(), x.shape().extents(), x.strides()));
  const std::array<Bytes, 2> touched{of_into, of_x};
  return guarded(touched, [&] {
    const auto visit = [&](const Run<2>& run) {
      const auto to = into.data() + run.offsets[0];
      combine_run<D>(op, to, run.strides[0], to, run.strides[0], x.data() + run.offsets[1], run.strides[1],
                     run.count);
    };
    for_each_run(into.shape().extents(), visit, into.strides(), x.strides());
  });
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

/// Each element times one factor.
template <class A, class S, class Dev>
  requires Multipliable<std::remove_const_t<A>> && Computes<Dev, slice::Core, A> && HostAccessible<Dev> &&
           placement::CanAllocate<Dev>
[[nodiscard]] auto scale(const Tensor<A, S, Dev>& a,
                         std::type_identity_t<typename Tensor<A, S, Dev>::Element> factor)
    -> Result<Tensor<std::remove_const_t<A>, S, Dev>> {
  using D = std::remove_const_t<A>;
  const auto one = HT_TRY(Tensor<D, Rank<0>, Dev>::of({}, {factor}));
  const auto factors = HT_TRY(one.broadcast(a.shape()));
  return detail::elementwise(std::multiplies<>{}, a, factors);
}

/// into += x, in place. `x` may be `into` itself or a broadcast view; a view that overlaps `into` at other
/// indices gives unspecified values. An Error of a page that cannot be read leaves `into` partly changed.
template <class D, class B, class SA, class SB, class Dev>
  requires(!std::is_const_v<D>) && SameDType<D, B> && Multipliable<D> && ShapesMayMatch<SA, SB> &&
          Computes<Dev, slice::Core, D> && HostAccessible<Dev>
[[nodiscard]] Result<void> add_into(const Tensor<D, SA, Dev>& into, const Tensor<B, SB, Dev>& x) {
  return detail::elementwise_into(std::plus<>{}, into, x);
}

/// into *= x, in place; as `add_into`.
template <class D, class B, class SA, class SB, class Dev>
  requires(!std::is_const_v<D>) && SameDType<D, B> && Multipliable<D> && ShapesMayMatch<SA, SB> &&
          Computes<Dev, slice::Core, D> && HostAccessible<Dev>
[[nodiscard]] Result<void> multiply_into(const Tensor<D, SA, Dev>& into, const Tensor<B, SB, Dev>& x) {
  return detail::elementwise_into(std::multiplies<>{}, into, x);
}

}  // namespace ht::inline v1
