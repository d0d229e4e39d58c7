// a + b, a - b, a * b and a / b of tensors of the same dtype and shape, their in-place forms, and reductions.
//
//   const auto y = HT_TRY(x + HT_TRY(bias.broadcast(x.shape())));   // [m, n] + [n]: explicit broadcast
//   const auto z = HT_TRY(ht::scale(y, 0.125F));
//   HT_TRY(ht::add_into(residual, z));                              // residual += z, no new memory
//   HT_TRY(ht::copy_into(HT_TRY(cache.slice<0>(t, t + 1)), z));     // writes a part of another tensor
//
// The operators work on every device that lists slice::Core. `combine` is the same with options.
// Floating-point dtypes calculate in float (F64 in double) and round once; integers wrap around; division
// requires IsFloating, so integers are not divided. Static extents that differ do not compile;
// dynamic extents that differ return `shape_mismatch`. Results own new memory. Many threads may call the
// functions at once, but must not write the same elements.
//
//   operation                             result
//   a + b, a - b, a * b, a / b            Result<Tensor> of the same shape, new memory
//   combine(std::plus<>{}, a, b, options) the same, on the queue of a device
//   scale(a, factor)                      Result<Tensor>, new memory
//   add_into(a, b), multiply_into(a, b)   a += b, a *= b in place
//   copy_into(a, b)                       a = b in place
//   sum(a), max(a)                        Result of one number on the host
//
// Ownership: operands are borrowed during the call; a result shares no memory with them and is row-major. The
// `_into` forms write through a mutable handle and allocate nothing.
//
// Cost: one pass. The host calculates on the calling thread. The compiler vectorizes loops over contiguous
// elements, also if the right operand is a broadcast view that repeats one element.
//
// Errors: `shape_mismatch`, `out_of_memory`, `read_failed` or `changed_underfoot` for an unreadable mapped
// page, and `device_unavailable` for OpenCL devices. Broadcasting is explicit: extents of 1 are not repeated
// unless `broadcast` says so.
//
// Edge cases: rank 0 and tensors without elements are valid operands. Floating-point operations follow IEEE
// 754: NaN propagates, x / 0 is an infinity or NaN. The sum of no elements is 0; `max` of no elements is
// `bad_shape`.
//
// A loop that reuses its memory, with a mask for some positions:
//
//   const auto state = HT_TRY(ht::Tensor<ht::F32, ht::Rank<2>>::zeros(ht::Rank<2>(4, 8)));
//   for (const auto& delta : deltas) {
//     HT_TRY(ht::add_into(state, delta));
//     HT_TRY(ht::multiply_into(state, HT_TRY(mask.broadcast(state.shape()))));     // mask[8]: 0 or 1
//   }
//
// Both dtype and device are part of the type, so F32 + F64, and a host tensor plus a device tensor, do not
// compile: convert one operand with `cast`, `to_device` or `to_host`.
//
//   dtype                       calculated in         beyond the largest value
//   F64, F32                    the dtype itself      infinity
//   F16, BF16, F8, F6, F4       float, rounded once   infinity, NaN or the largest value (dtype/scalar.hpp)
//   integers                    modulo 2^bits         wraps around: 250 + 10 = 4 in U8
//   C64                         std::complex<float>   infinity; no division
#pragma once

#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <functional>
#include <htensor/device/transfer.hpp>
#include <htensor/dtype/relations.hpp>
#include <htensor/tensor/tensor.hpp>
#include <type_traits>

namespace ht::inline v1 {

/// Both operands have the same dtype; const does not count. BF16 + F32 does not compile: cast one operand
/// first.
template <class A, class B>
concept SameDType = std::same_as<std::remove_const_t<A>, std::remove_const_t<B>>;

/// The device calculates op(a, b) into tensors of type Out: by its own `run` if it has one for these types,
/// else by loops on the host, if the host can access its memory. The operators require it, so that an
/// operation that the device lacks does not compile.
template <class Dev, class Op, class Out, class A, class B>
concept CombinesBy = Computes<Dev, slice::Core, typename Out::DType> && placement::CanAllocate<Dev> &&
                     (HostAccessible<Dev> || HasOperation<Dev, Op, Out, A, B>);

namespace detail {

/// The tensor that an operator of tensors with these shapes returns. An extent that is static in either
/// operand is static in the result.
template <class D, class SA, class SB, class Dev>
using Combined = Tensor<std::remove_const_t<D>, ShapeFrom<merged<SA, SB>()>, Dev>;

// The C++ type in which elements of D are calculated. Narrow floating-point dtypes are calculated in float if
// rounding first to float and then to D gives the same result as rounding to D once, else in double.
template <class D>
consteval auto arithmetic_type() {
  using Element = typename D::Element;
  if constexpr (D::number.kind == NumberFacts::Kind::complex) {
    return std::type_identity<Element>{};
  } else if constexpr (IsFloating<D>) {
    // With at least 2 · digits + 2 digits, rounding twice equals rounding the exact result once.
    constexpr bool is_rounded_once = 2 * D::number.digits + 2 <= F32::number.digits;
    constexpr bool in_float = std::same_as<D, F32> || (LosslessTo<D, F32> && is_rounded_once);
    return std::type_identity<std::conditional_t<in_float, float, double>>{};
  } else {
    // Unsigned, because results may wrap around; narrow types must not be promoted to signed int.
    return std::type_identity<std::uint64_t>{};
  }
}

template <class D>
using ArithmeticType = typename decltype(arithmetic_type<D>())::type;

// The low bits of the value as an integer of D, which is how integers wrap around.
template <class D>
[[nodiscard]] constexpr typename D::Element wrapped(std::uint64_t value) noexcept {
  using Element = typename D::Element;
  if constexpr (std::integral<Element>) {
    return static_cast<Element>(value);
  } else {
    return Element::from_bits(static_cast<std::uint8_t>(value & ((1U << D::bits) - 1U)));
  }
}

// One operation on two elements: convert, calculate, round once.
template <class D, class Op>
[[nodiscard]] constexpr typename D::Element apply(Op op, typename D::Element a,
                                                  typename D::Element b) noexcept {
  using In = ArithmeticType<D>;
  if constexpr (IsIntegral<D>) {
    // Converts to the signed type first, so that the low bits are those of two's complement.
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
  // The compiler vectorizes the first two loops. In the second, the right operand is one repeated element.
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
  const auto into_bytes = HT_TRY(placement::touched_bytes<D>(into.data(), extents, into.strides()));
  const auto a_bytes = HT_TRY(placement::touched_bytes<A>(a.data(), extents, a.strides()));
  const auto b_bytes = HT_TRY(placement::touched_bytes<B>(b.data(), extents, b.strides()));
  const std::array<Bytes, 3> touched{into_bytes, a_bytes, b_bytes};
  return guarded(touched, [&] {
    const auto visit = [&](const Run<3>& run) {
      combine_run<D>(op, into.data() + run.offsets[0], run.strides[0], a.data() + run.offsets[1],
                     run.strides[1], b.data() + run.offsets[2], run.strides[2], run.count);
    };
    for_each_run(extents, visit, into.strides(), a.strides(), b.strides());
  });
}

// into[i] = op(a[i], b[i]) on any device: by the device's own function, or by host loops. Checks the shapes.
// A device that has no such function and whose memory the host cannot read does not satisfy CombinesBy.
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

// Allocates the result and fills it.
template <class Op, class A, class B, class SA, class SB, class Dev>
[[nodiscard]] auto elementwise(Op op, const Tensor<A, SA, Dev>& a, const Tensor<B, SB, Dev>& b,
                               const ComputeOptions& options = {}) -> Result<Combined<A, SA, SB, Dev>> {
  using Out = Combined<A, SA, SB, Dev>;
  HT_TRY(layout::check_equal(a.shape().extents(), b.shape().extents()));
  auto result = HT_TRY(Out::zeros(Out::ShapeType::assume(a.shape().extents()), options));
  HT_TRY(combine_into(op, result, a, b, options));
  return result;
}

/// A tensor with one element on the device. An operand for `scale`, which broadcasts it.
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

/// Returns a + b in new memory, row-major. Both operands have the same dtype, shape and device, and may be
/// broadcast views. For integers, modulo 2^bits. `shape_mismatch` if dynamic extents differ, `out_of_memory`,
/// `read_failed` or `changed_underfoot` for an unreadable page.
template <class A, class B, class SA, class SB, class Dev>
  requires SameDType<A, B> && IsArithmetic<std::remove_const_t<A>> && ShapesMayMatch<SA, SB> &&
           CombinesBy<Dev, std::plus<>, detail::Combined<A, SA, SB, Dev>, Tensor<A, SA, Dev>,
                      Tensor<B, SB, Dev>>
[[nodiscard]] auto operator+(const Tensor<A, SA, Dev>& a, const Tensor<B, SB, Dev>& b) {
  return detail::elementwise(std::plus<>{}, a, b);
}

/// Returns a - b, with the rules of a + b.
template <class A, class B, class SA, class SB, class Dev>
  requires SameDType<A, B> && IsArithmetic<std::remove_const_t<A>> && ShapesMayMatch<SA, SB> &&
           CombinesBy<Dev, std::minus<>, detail::Combined<A, SA, SB, Dev>, Tensor<A, SA, Dev>,
                      Tensor<B, SB, Dev>>
[[nodiscard]] auto operator-(const Tensor<A, SA, Dev>& a, const Tensor<B, SB, Dev>& b) {
  return detail::elementwise(std::minus<>{}, a, b);
}

/// Returns the products of elements with the same index, with the rules of a + b; `matmul` is the product of
/// matrices.
template <class A, class B, class SA, class SB, class Dev>
  requires SameDType<A, B> && IsArithmetic<std::remove_const_t<A>> && ShapesMayMatch<SA, SB> &&
           CombinesBy<Dev, std::multiplies<>, detail::Combined<A, SA, SB, Dev>, Tensor<A, SA, Dev>,
                      Tensor<B, SB, Dev>>
[[nodiscard]] auto operator*(const Tensor<A, SA, Dev>& a, const Tensor<B, SB, Dev>& b) {
  return detail::elementwise(std::multiplies<>{}, a, b);
}

/// Returns a / b for floating-point dtypes, rounded once, with the rules of a + b. Division by zero is not an
/// Error: it gives an infinity or NaN.
template <class A, class B, class SA, class SB, class Dev>
  requires SameDType<A, B> && IsFloating<std::remove_const_t<A>> && ShapesMayMatch<SA, SB> &&
           CombinesBy<Dev, std::divides<>, detail::Combined<A, SA, SB, Dev>, Tensor<A, SA, Dev>,
                      Tensor<B, SB, Dev>>
[[nodiscard]] auto operator/(const Tensor<A, SA, Dev>& a, const Tensor<B, SB, Dev>& b) {
  return detail::elementwise(std::divides<>{}, a, b);
}

/// Returns op(a, b) for `std::plus<>{}`, `std::minus<>{}`, `std::multiplies<>{}` or `std::divides<>{}`: the
/// operators, with options. The host calculates on the calling thread. Errors are those of the operators.
template <class Op, class A, class B, class SA, class SB, class Dev>
  requires SameDType<A, B> && IsArithmetic<std::remove_const_t<A>> && ShapesMayMatch<SA, SB> &&
           CombinesBy<Dev, Op, detail::Combined<A, SA, SB, Dev>, Tensor<A, SA, Dev>, Tensor<B, SB, Dev>> &&
           (IsFloating<std::remove_const_t<A>> || !std::same_as<Op, std::divides<>>)
[[nodiscard]] auto combine(Op op, const Tensor<A, SA, Dev>& a, const Tensor<B, SB, Dev>& b,
                           const ComputeOptions& options = {}) {
  return detail::elementwise(op, a, b, options);
}

/// Returns each element times one factor. The factor is an element of the same dtype, so the caller rounds it
/// to that dtype: `ht::BF16::Element(0.1F)`. On a device that the host cannot access, each call copies the
/// factor to the device. `out_of_memory`, `read_failed`, `changed_underfoot`.
template <class A, class S, class Dev>
  requires IsArithmetic<std::remove_const_t<A>> &&
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
/// indices gives unspecified values. `into` may have any strides, but its elements must not share an address.
/// An unreadable page is an Error and leaves `into` partly changed. Two threads must not write the same
/// elements. `shape_mismatch`, `read_failed`, `changed_underfoot`.
template <class D, class B, class SA, class SB, class Dev>
  requires(!std::is_const_v<D>) && SameDType<D, B> && IsArithmetic<D> && ShapesMayMatch<SA, SB> &&
          CombinesBy<Dev, std::plus<>, Tensor<D, SA, Dev>, Tensor<D, SA, Dev>, Tensor<B, SB, Dev>>
[[nodiscard]] Result<void> add_into(const Tensor<D, SA, Dev>& into, const Tensor<B, SB, Dev>& x,
                                    const ComputeOptions& options = {}) {
  return detail::combine_into(std::plus<>{}, into, into, x, options);
}

/// into *= x, in place, with the rules of `add_into`. Errors are those of `add_into`.
template <class D, class B, class SA, class SB, class Dev>
  requires(!std::is_const_v<D>) && SameDType<D, B> && IsArithmetic<D> && ShapesMayMatch<SA, SB> &&
          CombinesBy<Dev, std::multiplies<>, Tensor<D, SA, Dev>, Tensor<D, SA, Dev>, Tensor<B, SB, Dev>>
[[nodiscard]] Result<void> multiply_into(const Tensor<D, SA, Dev>& into, const Tensor<B, SB, Dev>& x,
                                         const ComputeOptions& options = {}) {
  return detail::combine_into(std::multiplies<>{}, into, into, x, options);
}

/// into = x, of the same dtype, shape and device. `into` is often a slice of a larger tensor, such as a
/// cache. Overlapping views and unreadable pages behave as in `add_into`. Works for every dtype, also
/// user-defined ones. The host copies element by element on the calling thread. For another dtype, use
/// `cast_into` (values/cast.hpp). `shape_mismatch`, `read_failed`, `changed_underfoot`.
template <class D, class B, class SA, class SB, class Dev>
  requires(!std::is_const_v<D>) && SameDType<D, B> && ShapesMayMatch<SA, SB> &&
          (HostAccessible<Dev> ||
           (CopiesOnDevice<Dev, Tensor<D, SA, Dev>> &&
            HasOperation<Dev, operation::Copy, Tensor<D, SA, Dev>, Tensor<B, SB, Dev>>))
[[nodiscard]] Result<void> copy_into(const Tensor<D, SA, Dev>& into, const Tensor<B, SB, Dev>& x,
                                     const ComputeOptions& options = {}) {
  HT_TRY(layout::check_equal(into.shape().extents(), x.shape().extents()));
  if constexpr (HasOperation<Dev, operation::Copy, Tensor<D, SA, Dev>, Tensor<B, SB, Dev>>) {
    return Dev::run(operation::Copy{}, options, into, x);
  } else {
    const auto extents = into.shape().extents();
    const auto into_bytes = HT_TRY(placement::touched_bytes<D>(into.data(), extents, into.strides()));
    const auto x_bytes = HT_TRY(placement::touched_bytes<B>(x.data(), extents, x.strides()));
    const std::array<Bytes, 2> touched{into_bytes, x_bytes};
    return guarded(touched, [&] {
      const auto visit = [&](const detail::Run<2>& run) {
        const auto to = into.data() + run.offsets[0];
        const auto from = x.data() + run.offsets[1];
        for (std::int64_t i = 0; i < run.count; ++i)
          to[i * run.strides[0]] = static_cast<typename D::Element>(from[i * run.strides[1]]);
      };
      detail::for_each_run(extents, visit, into.strides(), x.strides());
    });
  }
}

// The sum and the largest element of a tensor.
//
//   const float total = HT_TRY(ht::sum(x));
//   const float largest = HT_TRY(ht::max(x));
//
// x may have any strides and be on any device that lists slice::Core; the result is on the host. An
// unreadable mapped page is an Error.

/// The dtype of the result of `sum` and `max`: F64 for F64, F32 for other floating-point numbers, I64 or U64
/// for integers. So a sum of BF16 elements is a `float`, and a sum of I8 elements a 64-bit integer.
template <class D>
using ReductionOf = std::conditional_t<
    std::same_as<D, F64>, F64,
    std::conditional_t<IsFloating<D>, F32, std::conditional_t<LosslessTo<D, U64>, U64, I64>>>;

/// The device has a `run` for the reduction `Op` of elements of D. Its `out` has the dtype ReductionOf<D>.
template <class Dev, class Op, class D>
concept ReducesOnDevice =
    Transfers<Dev> && Compatible<Dev, ReductionOf<D>> &&
    HasOperation<Dev, Op, Tensor<ReductionOf<D>, Rank<0>, Dev>, Tensor<const D, Rank<1>, Dev>>;

/// The device adds or compares elements of D: by its own `run`, else by a host loop. Complex numbers and
/// booleans have neither sum nor maximum here.
template <class Dev, class Op, class D>
concept ReducesBy = Computes<Dev, slice::Core, D> && (IsFloating<D> || IsIntegral<D>) &&
                    (HostAccessible<Dev> || ReducesOnDevice<Dev, Op, D>);

namespace detail {

/// `bad_shape` for a tensor without elements.
[[nodiscard]] Result<void> check_has_element(layout::Extents extents);

/// Calls `visit(element as T)` for each element. One guarded section covers all elements; `visit` is called
/// on the calling thread.
template <class T, class D, class S, class Dev, class Visit>
[[nodiscard]] Result<void> for_each_number(const Tensor<D, S, Dev>& x, const Visit& visit) {
  const auto extents = x.shape().extents();
  const auto touched = HT_TRY(placement::touched_bytes<D>(x.data(), extents, x.strides()));
  return guarded(touched, [&] {
    const auto visit_run = [&](const Run<1>& run) {
      const auto from = x.data() + run.offsets[0];
      for (std::int64_t i = 0; i < run.count; ++i) {
        const auto element = static_cast<typename std::remove_const_t<D>::Element>(from[i * run.strides[0]]);
        visit(static_cast<T>(element));
      }
    };
    for_each_run(extents, visit_run, x.strides());
  });
}

// The device writes one number, which is copied to the host.
template <class Op, class D, class S, class Dev>
[[nodiscard]] auto reduce_on_device(const Tensor<D, S, Dev>& x, const ComputeOptions& options)
    -> Result<typename ReductionOf<std::remove_const_t<D>>::Element> {
  using Out = Tensor<ReductionOf<std::remove_const_t<D>>, Rank<0>, Dev>;
  auto result = HT_TRY(Out::zeros({}, options));
  HT_TRY(Dev::run(Op{}, options, result, x));
  const auto host_result = HT_TRY(to_host(result, options));
  return host_result();
}

}  // namespace detail

/// Returns the sum of all elements, as an element of `ReductionOf<D>`; integers wrap around. The host adds
/// floating-point numbers in double and rounds once: the error of n elements is at most u |sum| + n 2^-53
/// Σ|x|, where u is the unit roundoff of the result's dtype: 2^-24 for F32, 2^-53 for F64. The bound of
/// OpenCL devices is in htensor/device/transfer.hpp. 0 without elements; NaN if an element is NaN. One pass
/// on the calling thread of the host; a device adds by its own kernel and copies one number to the host.
/// `read_failed` or `changed_underfoot` for an unreadable page.
template <class D, class S, class Dev>
  requires ReducesBy<Dev, operation::Sum, std::remove_const_t<D>>
[[nodiscard]] auto sum(const Tensor<D, S, Dev>& x, const ComputeOptions& options = {})
    -> Result<typename ReductionOf<std::remove_const_t<D>>::Element> {
  using Element = typename ReductionOf<std::remove_const_t<D>>::Element;
  if constexpr (ReducesOnDevice<Dev, operation::Sum, std::remove_const_t<D>>) {
    return detail::reduce_on_device<operation::Sum>(x, options);
  } else {
    // Unsigned, because signed overflow is undefined.
    using In = std::conditional_t<IsFloating<std::remove_const_t<D>>, double, std::uint64_t>;
    In total{};
    HT_TRY(detail::for_each_number<Element>(x, [&](Element number) { total += static_cast<In>(number); }));
    return static_cast<Element>(total);
  }
}

/// Returns the largest element, as an element of `ReductionOf<D>`; NaN if there is a NaN. `bad_shape` for a
/// tensor without elements. If several elements are equal, such as 0 and -0, the host returns the first.
/// `read_failed` or `changed_underfoot` for an unreadable page.
template <class D, class S, class Dev>
  requires ReducesBy<Dev, operation::Max, std::remove_const_t<D>>
[[nodiscard]] auto max(const Tensor<D, S, Dev>& x, const ComputeOptions& options = {})
    -> Result<typename ReductionOf<std::remove_const_t<D>>::Element> {
  using Element = typename ReductionOf<std::remove_const_t<D>>::Element;
  HT_TRY(detail::check_has_element(x.shape().extents()));
  if constexpr (ReducesOnDevice<Dev, operation::Max, std::remove_const_t<D>>) {
    return detail::reduce_on_device<operation::Max>(x, options);
  } else {
    bool is_first = true;
    Element largest{};
    HT_TRY(detail::for_each_number<Element>(x, [&](Element number) {
      // No number compares greater than a NaN, so a NaN stays.
      if (is_first || number > largest || std::isnan(static_cast<double>(number))) largest = number;
      is_first = false;
    }));
    return largest;
  }
}

}  // namespace ht::inline v1
