// a + b, a - b, a * b and a / b of tensors of the same dtype and shape, and their in-place forms.
//
//   const auto y = HT_TRY(x + HT_TRY(bias.broadcast(x.shape())));   // [m, n] + [n], spelled out
//   const auto z = HT_TRY(ht::scale(y, 0.125F));
//   HT_TRY(ht::add_into(residual, z));                              // residual += z, no new memory
//   HT_TRY(ht::copy_into(HT_TRY(cache.slice<0>(t, t + 1)), z));     // writes a part of another tensor
//
// The operators work on every device that lists slice::Core. `combine` is the same with options.
// Floating-point dtypes calculate in float (F64 in double) and round once; integers wrap around; division
// requires IsFloating, so there is no integer division by zero. Static shapes that differ do not compile,
// dynamic ones return `shape_mismatch`.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <htensor/device/transfer.hpp>
#include <htensor/tensor/tensor.hpp>
#include <type_traits>

namespace ht::inline v1 {

template <class A, class B>
concept SameDType = std::same_as<std::remove_const_t<A>, std::remove_const_t<B>>;

/// The device calculates op(a, b) into tensors of type Out: by host loops if the host can read its memory,
/// else by its own function for these types.
template <class Dev, class Op, class Out, class A, class B>
concept CombinesBy = Computes<Dev, slice::Core, typename Out::DType> && placement::CanAllocate<Dev> &&
                     (HostAccessible<Dev> || HasOperation<Dev, Op, Out, A, B>);

namespace detail {

/// The tensor that an operator of tensors with these shapes returns.
template <class D, class SA, class SB, class Dev>
using Combined = Tensor<std::remove_const_t<D>, ShapeFrom<merged<SA, SB>()>, Dev>;

// The C++ type in which elements of D are calculated.
template <class D>
consteval auto calculates_in() {
  using Element = typename D::Element;
  if constexpr (D::number.kind == NumberKind::complex) {
    return std::type_identity<Element>{};
  } else if constexpr (IsFloating<D>) {
    // With at least 2 · digits + 2 digits, rounding twice equals rounding the exact result once.
    constexpr bool once = 2 * D::number.digits + 2 <= F32::number.digits;
    constexpr bool in_float = std::same_as<D, F32> || (LosslessTo<D, F32> && once);
    return std::type_identity<std::conditional_t<in_float, float, double>>{};
  } else {
    // Unsigned, because results may wrap around; narrow types must not be promoted to signed int.
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

// into[i] = op(a[i], b[i]) by host loops. The shapes are equal.
template <class Op, class D, class A, class B, class SO, class SA, class SB, class Dev>
[[nodiscard]] Result<void> combine_on_host(Op op, const Tensor<D, SO, Dev>& into, const Tensor<A, SA, Dev>& a,
                                           const Tensor<B, SB, Dev>& b) {
  const auto extents = into.shape().extents();
  const auto of_into = HT_TRY(placement::touched_bytes<D>(into.data(), extents, into.strides()));
  const auto of_a = HT_TRY(placement::touched_bytes<A>(a.data(), extents, a.strides()));
  const auto of_b = HT_TRY(placement::touched_bytes<B>(b.data(), extents, b.strides()));
  const std::array<Bytes, 3> touched{of_into, of_a, of_b};
  return guarded(touched, [&] {
    const auto visit = [&](const Run<3>& run) {
      combine_run<D>(op, into.data() + run.offsets[0], run.strides[0], a.data() + run.offsets[1],
                     run.strides[1], b.data() + run.offsets[2], run.strides[2], run.count);
    };
    for_each_run(extents, visit, into.strides(), a.strides(), b.strides());
  });
}

// The same on any device: by the device's own function, or by host loops. Checks the shapes.
template <class Op, class D, class A, class B, class SO, class SA, class SB, class Dev>
[[nodiscard]] Result<void> combine_into(Op op, const Tensor<D, SO, Dev>& into, const Tensor<A, SA, Dev>& a,
                                        const Tensor<B, SB, Dev>& b, const ComputeOptions& options) {
  HT_TRY(layout::check_equal(a.shape().extents(), b.shape().extents()));
  if constexpr (HasOperation<Dev, Op, Tensor<D, SO, Dev>, Tensor<A, SA, Dev>, Tensor<B, SB, Dev>>) {
    return Dev::run(op, options, into, a, b);
  } else {
    return combine_on_host(op, into, a, b);
  }
}

template <class Op, class A, class B, class SA, class SB, class Dev>
[[nodiscard]] auto elementwise(Op op, const Tensor<A, SA, Dev>& a, const Tensor<B, SB, Dev>& b,
                               const ComputeOptions& options = {}) -> Result<Combined<A, SA, SB, Dev>> {
  using Out = Combined<A, SA, SB, Dev>;
  HT_TRY(layout::check_equal(a.shape().extents(), b.shape().extents()));
  auto result = HT_TRY(Out::zeros(Out::ShapeType::assume(a.shape().extents()), options));
  HT_TRY(combine_into(op, result, a, b, options));
  return result;
}

/// One element on the device.
template <class D, class Dev>
[[nodiscard]] Result<Tensor<D, Rank<0>, Dev>> single(typename D::Element value,
                                                     const ComputeOptions& options) {
  if constexpr (HostAccessible<Dev>) {
    return Tensor<D, Rank<0>, Dev>::of({}, {value});
  } else {
    return to_device<Dev>(HT_TRY(Tensor<D, Rank<0>>::of({}, {value})), options);
  }
}

}  // namespace detail

template <class A, class B, class SA, class SB, class Dev>
  requires SameDType<A, B> && Multipliable<std::remove_const_t<A>> && ShapesMayMatch<SA, SB> &&
           CombinesBy<Dev, std::plus<>, detail::Combined<A, SA, SB, Dev>, Tensor<A, SA, Dev>,
                      Tensor<B, SB, Dev>>
[[nodiscard]] auto operator+(const Tensor<A, SA, Dev>& a, const Tensor<B, SB, Dev>& b) {
  return detail::elementwise(std::plus<>{}, a, b);
}

template <class A, class B, class SA, class SB, class Dev>
  requires SameDType<A, B> && Multipliable<std::remove_const_t<A>> && ShapesMayMatch<SA, SB> &&
           CombinesBy<Dev, std::minus<>, detail::Combined<A, SA, SB, Dev>, Tensor<A, SA, Dev>,
                      Tensor<B, SB, Dev>>
[[nodiscard]] auto operator-(const Tensor<A, SA, Dev>& a, const Tensor<B, SB, Dev>& b) {
  return detail::elementwise(std::minus<>{}, a, b);
}

template <class A, class B, class SA, class SB, class Dev>
  requires SameDType<A, B> && Multipliable<std::remove_const_t<A>> && ShapesMayMatch<SA, SB> &&
           CombinesBy<Dev, std::multiplies<>, detail::Combined<A, SA, SB, Dev>, Tensor<A, SA, Dev>,
                      Tensor<B, SB, Dev>>
[[nodiscard]] auto operator*(const Tensor<A, SA, Dev>& a, const Tensor<B, SB, Dev>& b) {
  return detail::elementwise(std::multiplies<>{}, a, b);
}

template <class A, class B, class SA, class SB, class Dev>
  requires SameDType<A, B> && IsFloating<std::remove_const_t<A>> && ShapesMayMatch<SA, SB> &&
           CombinesBy<Dev, std::divides<>, detail::Combined<A, SA, SB, Dev>, Tensor<A, SA, Dev>,
                      Tensor<B, SB, Dev>>
[[nodiscard]] auto operator/(const Tensor<A, SA, Dev>& a, const Tensor<B, SB, Dev>& b) {
  return detail::elementwise(std::divides<>{}, a, b);
}

/// op(a, b) for `std::plus<>{}`, `std::minus<>{}`, `std::multiplies<>{}` or `std::divides<>{}`: the operators
/// with options. The host calculates on the calling thread.
template <class Op, class A, class B, class SA, class SB, class Dev>
  requires SameDType<A, B> && Multipliable<std::remove_const_t<A>> && ShapesMayMatch<SA, SB> &&
           CombinesBy<Dev, Op, detail::Combined<A, SA, SB, Dev>, Tensor<A, SA, Dev>, Tensor<B, SB, Dev>> &&
           (IsFloating<std::remove_const_t<A>> || !std::same_as<Op, std::divides<>>)
[[nodiscard]] auto combine(Op op, const Tensor<A, SA, Dev>& a, const Tensor<B, SB, Dev>& b,
                           const ComputeOptions& options = {}) {
  return detail::elementwise(op, a, b, options);
}

/// Each element times one factor.
template <class A, class S, class Dev>
  requires Multipliable<std::remove_const_t<A>> &&
           CombinesBy<Dev, std::multiplies<>, Tensor<std::remove_const_t<A>, S, Dev>, Tensor<A, S, Dev>,
                      Tensor<const std::remove_const_t<A>, S, Dev>> &&
           (HostAccessible<Dev> || Transfers<Dev>)
[[nodiscard]] auto scale(const Tensor<A, S, Dev>& a,
                         std::type_identity_t<typename Tensor<A, S, Dev>::Element> factor,
                         const ComputeOptions& options = {})
    -> Result<Tensor<std::remove_const_t<A>, S, Dev>> {
  using D = std::remove_const_t<A>;
  const auto one = HT_TRY(detail::single<D, Dev>(factor, options));
  const auto factors = HT_TRY(one.broadcast(a.shape()));
  return detail::elementwise(std::multiplies<>{}, a, factors, options);
}

/// into += x, in place. `x` may be `into` itself or a broadcast view; a view that overlaps `into` at other
/// indices gives unspecified values. An unreadable page is an Error and leaves `into` partly changed.
template <class D, class B, class SA, class SB, class Dev>
  requires(!std::is_const_v<D>) && SameDType<D, B> && Multipliable<D> && ShapesMayMatch<SA, SB> &&
          CombinesBy<Dev, std::plus<>, Tensor<D, SA, Dev>, Tensor<D, SA, Dev>, Tensor<B, SB, Dev>>
[[nodiscard]] Result<void> add_into(const Tensor<D, SA, Dev>& into, const Tensor<B, SB, Dev>& x,
                                    const ComputeOptions& options = {}) {
  return detail::combine_into(std::plus<>{}, into, into, x, options);
}

/// into *= x, in place; as `add_into`.
template <class D, class B, class SA, class SB, class Dev>
  requires(!std::is_const_v<D>) && SameDType<D, B> && Multipliable<D> && ShapesMayMatch<SA, SB> &&
          CombinesBy<Dev, std::multiplies<>, Tensor<D, SA, Dev>, Tensor<D, SA, Dev>, Tensor<B, SB, Dev>>
[[nodiscard]] Result<void> multiply_into(const Tensor<D, SA, Dev>& into, const Tensor<B, SB, Dev>& x,
                                         const ComputeOptions& options = {}) {
  return detail::combine_into(std::multiplies<>{}, into, into, x, options);
}

/// into = x, of the same dtype, shape and device. `into` is often a slice of a larger tensor, such as a
/// cache. Overlapping views and unreadable pages behave as in `add_into`.
template <class D, class B, class SA, class SB, class Dev>
  requires(!std::is_const_v<D>) && SameDType<D, B> && ShapesMayMatch<SA, SB> &&
          (HostAccessible<Dev> || CopiesOnDevice<Dev, Tensor<D, SA, Dev>>)
[[nodiscard]] Result<void> copy_into(const Tensor<D, SA, Dev>& into, const Tensor<B, SB, Dev>& x,
                                     const ComputeOptions& options = {}) {
  HT_TRY(layout::check_equal(into.shape().extents(), x.shape().extents()));
  if constexpr (HostAccessible<Dev>) {
    const auto extents = into.shape().extents();
    const auto of_into = HT_TRY(placement::touched_bytes<D>(into.data(), extents, into.strides()));
    const auto of_x = HT_TRY(placement::touched_bytes<B>(x.data(), extents, x.strides()));
    const std::array<Bytes, 2> touched{of_into, of_x};
    return guarded(touched, [&] {
      const auto visit = [&](const detail::Run<2>& run) {
        const auto to = into.data() + run.offsets[0];
        const auto from = x.data() + run.offsets[1];
        for (std::int64_t i = 0; i < run.count; ++i)
          to[i * run.strides[0]] = static_cast<typename D::Element>(from[i * run.strides[1]]);
      };
      detail::for_each_run(extents, visit, into.strides(), x.strides());
    });
  } else {
    return Dev::run(operation::Copy{}, options, into, x);
  }
}

}  // namespace ht::inline v1
