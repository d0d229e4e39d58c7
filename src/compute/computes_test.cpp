// `Computes<Dev, Slice, D>` is true exactly where the operations of the slice compile, for every dtype.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <htensor/compute/conv.hpp>
#include <htensor/compute/elementwise.hpp>
#include <htensor/compute/linear.hpp>
#include <htensor/compute/matmul.hpp>
#include <htensor/compute/nn.hpp>
#include <set>
#include <string_view>

#include "tensor/test_tools.hpp"
#include "testing/users_dtype.hpp"

namespace ht::computes_test {
namespace {

using user::F8_E3M4;

using Names = std::set<std::string_view>;

// A dtype without numbers.
struct Color {
  struct Family {};
  using Element = std::uint32_t;
  static constexpr std::string_view name = "COLOR";
  static constexpr int bits = 32;
  static constexpr DTypeTag tag = user_tag(1);
};

/// Whether the operations of each slice compile for tensors of one dtype on one device. None compiles if the
/// device does not store the dtype.
template <class Dev, class D>
struct OperationsOf {
  static constexpr bool has_core = false;
  static constexpr bool has_division = false;
  static constexpr bool has_reductions = false;
  static constexpr bool has_linear = false;
  static constexpr bool has_nn = false;
  static constexpr bool has_conv = false;
};
template <class Dev, class D>
  requires Compatible<Dev, D>
struct OperationsOf<Dev, D> {
  using Vector = Tensor<D, Rank<1>, Dev>;
  using Matrix = Tensor<D, Rank<2>, Dev>;
  using Cube = Tensor<D, Rank<3>, Dev>;
  using Images = Tensor<D, Rank<4>, Dev>;

  /// The operations of slice::Core that every dtype with arithmetic has.
  static constexpr bool has_core = requires(const Matrix& x, typename D::Element factor) {
    x + x;
    x - x;
    x* x;
    combine(std::plus<>{}, x, x);
    scale(x, factor);
    add_into(x, x);
    multiply_into(x, x);
    copy_into(x, x);
    x.copy();
  };
  static constexpr bool has_division = requires(const Matrix& x) { x / x; };
  static constexpr bool has_reductions = requires(const Matrix& x) {
    sum(x);
    max(x);
  };
  static constexpr bool has_linear = requires(const Matrix& x, const Vector& bias) {
    matmul(x, x);
    linear(x, x);
    linear(x, x, bias);
  };
  static constexpr bool has_nn = requires(const Matrix& x, const Vector& weight, const Cube& heads) {
    softmax(x);
    log_softmax(x);
    rms_norm(x, weight, 1e-5);
    layer_norm(x, weight, weight, 1e-5);
    silu(x);
    gelu(x);
    swiglu(x, x);
    argmax(x);
    rope(heads);
  };
  static constexpr bool has_conv = requires(const Images& x, const Vector& bias) {
    conv2d(x, x);
    conv2d(x, x, bias);
  };
};

/// Whether any single arithmetic operation of slice::Core compiles. `OperationsOf::has_core` is false as soon
/// as one operation does not compile, so it does not detect a single operation that compiles although
/// `Computes<Dev, slice::Core, D>` is false.
template <class Dev, class D>
constexpr bool has_any_core_operation() {
  if constexpr (!Compatible<Dev, D>) {
    return false;
  } else {
    using Matrix = typename OperationsOf<Dev, D>::Matrix;
    return requires(const Matrix& x) { x + x; } || requires(const Matrix& x) { x - x; } ||
           requires(const Matrix& x) { x* x; } || requires(const Matrix& x) { x / x; } ||
           requires(const Matrix& x) { combine(std::plus<>{}, x, x); } ||
           requires(const Matrix& x, typename D::Element factor) { scale(x, factor); } ||
           requires(const Matrix& x) { add_into(x, x); } ||
           requires(const Matrix& x) { multiply_into(x, x); } || requires(const Matrix& x) { sum(x); } ||
           requires(const Matrix& x) { max(x); };
  }
}

template <class Dev, class D>
void expect_computes_is_exact() {
  SCOPED_TRACE(::testing::Message() << Dev::name << ' ' << D::name);
  EXPECT_EQ((Computes<Dev, slice::Core, D>), (OperationsOf<Dev, D>::has_core));
  EXPECT_EQ((Computes<Dev, slice::Core, D>), (has_any_core_operation<Dev, D>()));
  // Integers and complex numbers are not divided. Complex numbers have neither sum nor maximum.
  EXPECT_EQ((Computes<Dev, slice::Core, D> && IsFloating<D>), (OperationsOf<Dev, D>::has_division));
  EXPECT_EQ((Computes<Dev, slice::Core, D> && (IsFloating<D> || IsIntegral<D>)),
            (OperationsOf<Dev, D>::has_reductions));
  EXPECT_EQ((Computes<Dev, slice::Linear, D>), (OperationsOf<Dev, D>::has_linear));
  EXPECT_EQ((Computes<Dev, slice::Nn, D>), (OperationsOf<Dev, D>::has_nn));
  EXPECT_EQ((Computes<Dev, slice::Conv, D>), (OperationsOf<Dev, D>::has_conv));
}

template <class Dev, class... Ds>
void expect_all_computes_are_exact(DTypeList<Ds...> /*all*/) {
  (expect_computes_is_exact<Dev, Ds>(), ...);
}

template <class Dev, class Slice, class... Ds>
Names computed_by(DTypeList<Ds...> /*all*/) {
  Names names;
  ((Computes<Dev, Slice, Ds> ? void(names.insert(Ds::name)) : void()), ...);
  return names;
}

TEST(Computes, is_true_where_operations_of_the_host_compile) {
  expect_all_computes_are_exact<Host>(AllDTypes{});
  expect_computes_is_exact<Host, Color>();
  expect_computes_is_exact<Host, F8_E3M4>();
}

TEST(Computes, is_true_where_operations_of_opencl_compile) {
  expect_all_computes_are_exact<OpenCl<Cpu>>(AllDTypes{});
  expect_all_computes_are_exact<OpenCl<Gpu>>(AllDTypes{});
  expect_computes_is_exact<OpenCl<Cpu>, Color>();
}

// docs/compute.md: every dtype except BOOL in slice::Core, F32 and F64 in the other slices.
TEST(Computes, lists_the_documented_dtypes_of_the_host) {
  EXPECT_EQ((computed_by<Host, slice::Core>(AllDTypes{})),
            (Names{"U4",      "I4",      "F4",          "F6_E2M3",     "F6_E3M2", "U8",  "I8",  "F8_E4M3",
                   "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "U16",     "I16", "F16", "BF16",
                   "U32",     "I32",     "F32",         "U64",         "I64",     "F64", "C64"}));
  for (const auto& names :
       {computed_by<Host, slice::Linear>(AllDTypes{}), computed_by<Host, slice::Nn>(AllDTypes{}),
        computed_by<Host, slice::Conv>(AllDTypes{})})
    EXPECT_EQ(names, (Names{"F32", "F64"}));
}

// docs/devices.md, the table under "Implemented".
TEST(Computes, lists_the_documented_dtypes_of_opencl) {
  Names core{"U8", "U16", "U32", "U64", "I8", "I16", "I32", "I64", "F16", "BF16", "F32"};
  EXPECT_EQ((computed_by<OpenCl<Gpu>, slice::Core>(AllDTypes{})), core);
  core.insert("F64");
  EXPECT_EQ((computed_by<OpenCl<Cpu>, slice::Core>(AllDTypes{})), core);
  for (const auto& names :
       {computed_by<OpenCl<Gpu>, slice::Linear>(AllDTypes{}),
        computed_by<OpenCl<Gpu>, slice::Nn>(AllDTypes{}), computed_by<OpenCl<Gpu>, slice::Conv>(AllDTypes{})})
    EXPECT_EQ(names, (Names{"F32"}));
  for (const auto& names :
       {computed_by<OpenCl<Cpu>, slice::Linear>(AllDTypes{}),
        computed_by<OpenCl<Cpu>, slice::Nn>(AllDTypes{}), computed_by<OpenCl<Cpu>, slice::Conv>(AllDTypes{})})
    EXPECT_EQ(names, (Names{"F32", "F64"}));
}

template <class D>
void expect_copies() {
  SCOPED_TRACE(D::name);
  const auto x = tests::must(Tensor<D, Rank<2>>::zeros(Rank<2>(2, 3)));
  x(0, 1) = tests::element_of<D>(1);
  const auto copy = tests::must(x.transpose().copy());
  const auto into = tests::must(Tensor<D, Rank<2>>::zeros(Rank<2>(3, 2)));
  tests::must(copy_into(into, x.transpose()));
  const auto dense = tests::must(x.transpose().contiguous());
  for (std::int64_t i = 0; i < 6; ++i) {
    const std::uint64_t expected = i == 2 ? 1 : 0;
    const auto code_at = [&](const auto& tensor) {
      return tests::code_of(static_cast<typename D::Element>(tensor(i / 2, i % 2)));
    };
    EXPECT_EQ(code_at(copy), expected) << i;
    EXPECT_EQ(code_at(into), expected) << i;
    EXPECT_EQ(code_at(dense), expected) << i;
  }
}

template <class... Ds>
void expect_all_copy(DTypeList<Ds...> /*all*/) {
  (expect_copies<Ds>(), ...);
}

TEST(Host, copies_every_dtype_with_or_without_arithmetic) {
  expect_all_copy(AllDTypes{});
  expect_copies<Color>();
  expect_copies<F8_E3M4>();
}

}  // namespace
}  // namespace ht::computes_test
