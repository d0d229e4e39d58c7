// The rules of slice::Core as a typed test suite that every device passes. A part that a device lacks is
// skipped.
//
//   INSTANTIATE_TYPED_TEST_SUITE_P(Mine, CoreOfDevice, MyDevice);
#pragma once

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <htensor/compute/elementwise.hpp>
#include <htensor/device/transfer.hpp>
#include <type_traits>
#include <vector>

#include "tensor/test_random.hpp"
#include "tensor/test_tools.hpp"

namespace ht::core_device_test {

using tests::between;
using tests::coded;
using tests::codes;
using tests::fails;
using tests::for_each_dtype;
using tests::must;

template <class Dev>
concept Transferable = Transfers<Dev> || std::same_as<Dev, Host>;

// Few dtypes, because the compiler instantiates all tests for each of them.
/// The dtypes that the tests copy: a packed dtype and dtypes of several widths.
using CopiedDTypes = DTypeList<U4, BF16, F32, C64>;
/// The dtypes that the tests calculate with.
using CalculatedDTypes = DTypeList<I32, F32>;

/// Small integers, so that every dtype adds and multiplies them exactly.
template <class D, class S>
Tensor<D, S> counted(S shape, std::int64_t first = 0) {
  auto tensor = must(Tensor<D, S>::zeros(shape));
  for (auto&& element : tensor) element = static_cast<typename D::Element>(first++ * 5 % 11);
  return tensor;
}

/// Copies a tensor to the device.
template <class Dev, class D, class S>
Tensor<std::remove_const_t<D>, S, Dev> copy_to(const Tensor<D, S>& host) {
  using DType = std::remove_const_t<D>;
  if constexpr (Transferable<Dev>) {
    // A copy, because a read-only tensor may share its memory with the device, and tests write to `host`.
    return must(to_device<Dev>(must(host.copy())));
  } else {
    const auto device_side = must(Tensor<DType, S, Dev>::zeros(host.shape()));
    auto to = device_side.begin();
    for (const auto& element : host) {
      *to = static_cast<typename DType::Element>(element);
      ++to;
    }
    return device_side;
  }
}

/// The stored bits of a tensor on the device.
template <class D, class S, class Dev>
std::vector<std::uint64_t> codes_of(const Tensor<D, S, Dev>& device_side) {
  using DType = std::remove_const_t<D>;
  if constexpr (Transferable<Dev>) {
    const auto host = must(to_host(device_side));
    EXPECT_EQ(host.shape(), device_side.shape());
    return codes(host);
  } else {
    std::vector<std::uint64_t> all;
    for (const auto& element : device_side)
      all.push_back(tests::code_of(static_cast<typename DType::Element>(element)));
    return all;
  }
}

template <class Dev>
class CoreOfDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto first = Tensor<F32, Rank<1>, Dev>::zeros(Rank<1>(1));
    if (!first && first.error().code() == ErrorCode::device_unavailable)
      GTEST_SKIP() << "no such device: " << first.error().message();
  }
};
TYPED_TEST_SUITE_P(CoreOfDevice);

template <class Dev, class D, class S>
void expect_zeros(S shape) {
  const auto zeros = must(Tensor<D, S, Dev>::zeros(shape));
  EXPECT_EQ(zeros.shape(), shape);
  EXPECT_TRUE(zeros.is_contiguous());
  EXPECT_EQ(codes_of(zeros), std::vector<std::uint64_t>(static_cast<std::size_t>(shape.elements()), 0));
}

TYPED_TEST_P(CoreOfDevice, zeros_have_no_bit_set) {
  for_each_dtype(CopiedDTypes{}, [&]<class D>() {
    if constexpr (Compatible<TypeParam, D>) {
      SCOPED_TRACE(D::name);
      expect_zeros<TypeParam, D>(Rank<0>());
      expect_zeros<TypeParam, D>(Rank<1>(1000));
      expect_zeros<TypeParam, D>(Rank<3>(3, 5, 7));
      expect_zeros<TypeParam, D>(Rank<2>(0, 3));
      expect_zeros<TypeParam, D>(Shape<2, 3>());
    }
  });
}

template <class Dev, class T>
void expect_copies_of(const T& host) {
  EXPECT_EQ(codes_of(copy_to<Dev>(host)), codes(host));
  if constexpr (Transferable<Dev>) {
    // A tensor is made contiguous by the transfer, and a read-only tensor may share its memory.
    using ReadOnly = Tensor<const typename T::DType, typename T::ShapeType>;
    EXPECT_EQ(codes_of(must(to_device<Dev>(host))), codes(host));
    EXPECT_EQ(codes_of(must(to_device<Dev>(ReadOnly(host)))), codes(host));
  }
}

TYPED_TEST_P(CoreOfDevice, keeps_every_bit_of_tensors_of_the_host) {
  for_each_dtype(CopiedDTypes{}, [&]<class D>() {
    if constexpr (Compatible<TypeParam, D>) {
      SCOPED_TRACE(D::name);
      const auto host = coded<D>(Rank<2>(7, 13));
      expect_copies_of<TypeParam>(host);
      expect_copies_of<TypeParam>(coded<D>(Rank<0>()));
      expect_copies_of<TypeParam>(coded<D>(Rank<2>(0, 13)));
      expect_copies_of<TypeParam>(host.transpose());
      expect_copies_of<TypeParam>(must(must(host.template slice<1>(9, 2, -3)).template slice<0>(1, 6)));
      expect_copies_of<TypeParam>(must(host.template select<0>(3)));
      expect_copies_of<TypeParam>(must(must(host.template select<0>(1)).broadcast(Rank<3>(2, 3, 13))));
    }
  });
}

TYPED_TEST_P(CoreOfDevice, views_show_the_elements_of_the_host) {
  for_each_dtype(CopiedDTypes{}, [&]<class D>() {
    if constexpr (Compatible<TypeParam, D>) {
      SCOPED_TRACE(D::name);
      const auto host = coded<D>(Rank<3>(3, 5, 7));
      const auto device_side = copy_to<TypeParam>(host);
      const auto expect_same = [&](const auto& view) {
        EXPECT_EQ(codes_of(view(device_side)), codes(view(host)));
      };
      expect_same([](const auto& t) { return t.transpose(); });
      expect_same([](const auto& t) { return t.template transpose<0, 2>(); });
      expect_same([](const auto& t) { return must(t.template select<1>(4)); });
      expect_same([](const auto& t) { return must(t.template slice<2>(6, -1, -2)); });
      expect_same([](const auto& t) { return must(t.template slice<0>(1, 1)); });
      expect_same([](const auto& t) { return must(t.reshape(Rank<2>(15, 7))); });
      expect_same(
          [](const auto& t) { return must(must(t.template slice<1>(2, 3)).broadcast(Rank<4>(2, 3, 4, 7))); });
      expect_same([](const auto& t) {
        return must(must(must(t.template select<0>(2)).template select<0>(3)).template select<0>(6));
      });
    }
  });
}

/// Random views of one shape: a slice with steps in either direction, transposed or repeated. `device_side`
/// and `host` have the same elements.
template <class Dev, class D>
struct RandomOperand {
  Tensor<const D, Rank<3>> host;
  Tensor<const D, Rank<3>, Dev> device_side;

  explicit RandomOperand(const std::array<std::int64_t, 3>& extents)
      : RandomOperand(extents, Plan(extents)) {}

 private:
  struct Plan {
    std::array<std::int64_t, 3> steps{};
    std::array<std::int64_t, 3> whole{};
    bool is_repeated = between(0, 3) == 0;
    bool is_transposed = between(0, 1) == 1;
    std::int64_t first = between(0, 100);

    explicit Plan(const std::array<std::int64_t, 3>& extents) {
      for (std::size_t i = 0; i < 3; ++i) {
        steps[i] = between(0, 1) == 0 ? between(1, 3) : between(-3, -1);
        whole[i] = extents[i] * 3 + 2;
      }
    }
  };

  RandomOperand(const std::array<std::int64_t, 3>& extents, const Plan& plan)
      : RandomOperand(extents, plan,
                      counted<D>(plan.is_transposed ? Rank<3>(plan.whole[2], plan.whole[1], plan.whole[0])
                                                    : Rank<3>(plan.whole[0], plan.whole[1], plan.whole[2]),
                                 plan.first)) {}
  RandomOperand(const std::array<std::int64_t, 3>& extents, const Plan& plan, const Tensor<D, Rank<3>>& all)
      : host(view_of(extents, plan, all)), device_side(view_of(extents, plan, copy_to<Dev>(all))) {}

  template <class On>
  static Tensor<const D, Rank<3>, On> view_of(const std::array<std::int64_t, 3>& extents, const Plan& plan,
                                              const Tensor<D, Rank<3>, On>& all) {
    const Tensor<D, Rank<3>, On> transposed = plan.is_transposed ? all.template transpose<0, 2>() : all;
    const auto part =
        stepped<2>(stepped<1>(stepped<0>(transposed, extents, plan), extents, plan), extents, plan);
    if (!plan.is_repeated || extents[1] == 0) return part;
    return must(must(part.template slice<1>(0, 1)).broadcast(Rank<3>(extents[0], extents[1], extents[2])));
  }
  template <int Dimension, class On>
  static Tensor<D, Rank<3>, On> stepped(const Tensor<D, Rank<3>, On>& tensor,
                                        const std::array<std::int64_t, 3>& extents, const Plan& plan) {
    const std::int64_t count = extents[Dimension];
    const std::int64_t step = plan.steps[Dimension];
    if (count == 0) return must(tensor.template slice<Dimension>(0, 0));
    const std::int64_t begin = step > 0 ? 0 : (count - 1) * -step;
    return must(
        tensor.template slice<Dimension>(begin, begin + (count - 1) * step + (step > 0 ? 1 : -1), step));
  }
};

inline std::array<std::int64_t, 3> random_shape() { return {between(0, 5), between(0, 6), between(0, 9)}; }

/// op(a, b) by a plain loop over the elements of the host.
template <class D, class Op>
std::vector<std::uint64_t> combined(Op op, const Tensor<const D, Rank<3>>& a,
                                    const Tensor<const D, Rank<3>>& b) {
  std::vector<std::uint64_t> all;
  for (std::int64_t i = 0; i < a.extent(0); ++i) {
    for (std::int64_t j = 0; j < a.extent(1); ++j) {
      for (std::int64_t k = 0; k < a.extent(2); ++k)
        all.push_back(tests::code_of(static_cast<typename D::Element>(op(a(i, j, k), b(i, j, k)))));
    }
  }
  return all;
}

template <class Dev, class D, class Op>
void expect_combines_any_views(Op op) {
  SCOPED_TRACE(D::name);
  EXPECT_TRUE(rc::check([&] {
    const auto extents = random_shape();
    const RandomOperand<Dev, D> a(extents);
    const RandomOperand<Dev, D> b(extents);
    const auto device_side = must(combine(op, a.device_side, b.device_side));
    RC_ASSERT(device_side.shape() == a.host.shape());
    RC_ASSERT(device_side.is_contiguous());
    RC_ASSERT(codes_of(device_side) == combined<D>(op, a.host, b.host));
  }));
}

TYPED_TEST_P(CoreOfDevice, combines_views_of_any_shape_and_strides) {
  int tried = 0;
  for_each_dtype(CalculatedDTypes{}, [&]<class D>() {
    if constexpr (Compatible<TypeParam, D>) {
      using View = Tensor<const D, Rank<3>, TypeParam>;
      const auto try_operation = [&]<class Op>(Op op) {
        if constexpr (requires(const View& a) { combine(op, a, a); }) {
          expect_combines_any_views<TypeParam, D>(op);
          ++tried;
        }
      };
      try_operation(std::plus<>{});
      try_operation(std::minus<>{});
      try_operation(std::multiplies<>{});
    }
  });
  EXPECT_GE(tried, 1) << "no operation compiles; a device with slice::Core must have std::plus";
}

TYPED_TEST_P(CoreOfDevice, operators_equal_a_loop_on_the_host) {
  using View = Tensor<F32, Rank<2>, TypeParam>;
  const auto host = counted<F32>(Rank<2>(4, 4), 3);
  const auto a = copy_to<TypeParam>(host);
  const auto expect_all = [&](const auto& results, auto op) {
    std::vector<std::uint64_t> expected;
    for (std::int64_t i = 0; i < 4; ++i) {
      for (std::int64_t j = 0; j < 4; ++j) expected.push_back(tests::code_of(op(host(i, j), host(j, i))));
    }
    EXPECT_EQ(codes_of(results), expected);
  };
  expect_all(must(a + a.transpose()), std::plus<>{});
  if constexpr (requires(const View& x) { x - x; }) expect_all(must(a - a.transpose()), std::minus<>{});
  if constexpr (requires(const View& x) { x* x; }) expect_all(must(a * a.transpose()), std::multiplies<>{});
  if constexpr (requires(const View& x) { scale(x, 0.5F); }) {
    expect_all(must(scale(a, 0.5F)), [](float x, float) { return x * 0.5F; });
  }
}

TYPED_TEST_P(CoreOfDevice, writes_in_place_only_the_elements_of_the_view) {
  EXPECT_TRUE(rc::check([] {
    const auto host = counted<F32>(Rank<2>(6, 8), between(0, 50));
    const auto device_side = copy_to<TypeParam>(host);
    const std::int64_t first = between(0, 2);
    const std::int64_t step = between(1, 3);
    const auto part_of = [&](const auto& t) {
      return must(must(t.template slice<1>(first, 8, step)).template slice<0>(5, 1, -1));
    };
    const auto x = counted<F32>(Rank<2>(part_of(host).extent(1), 4), 7);
    const auto device_x = copy_to<TypeParam>(x).transpose();
    const auto apply = [&](auto op) {
      const auto into = part_of(host);
      for (std::int64_t i = 0; i < into.extent(0); ++i) {
        for (std::int64_t j = 0; j < into.extent(1); ++j) into(i, j) = op(into(i, j), x(j, i));
      }
    };
    must(add_into(part_of(device_side), device_x));
    apply(std::plus<>{});
    RC_ASSERT(codes_of(device_side) == codes(host));
    if constexpr (requires { multiply_into(part_of(device_side), device_x); }) {
      must(multiply_into(part_of(device_side), device_x));
      apply(std::multiplies<>{});
      RC_ASSERT(codes_of(device_side) == codes(host));
    }
    if constexpr (requires { copy_into(part_of(device_side), device_x); }) {
      must(copy_into(part_of(device_side), device_x));
      apply([](float, float new_value) { return new_value; });
      RC_ASSERT(codes_of(device_side) == codes(host));
    }
    // The target may be an operand.
    must(add_into(device_side, device_side));
    for (auto&& element : host) element += element;
    RC_ASSERT(codes_of(device_side) == codes(host));
  }));
}

TYPED_TEST_P(CoreOfDevice, copies_are_contiguous) {
  const auto host = coded<F32>(Rank<2>(5, 6));
  const auto device_side = copy_to<TypeParam>(host);
  if constexpr (requires { device_side.copy(); }) {
    const auto fresh = must(device_side.transpose().copy());
    EXPECT_TRUE(fresh.is_contiguous());
    EXPECT_EQ(codes_of(fresh), codes(host.transpose()));
    EXPECT_EQ(codes_of(must(device_side.transpose().contiguous())), codes(host.transpose()));
    EXPECT_EQ(must(device_side.contiguous()).storage(), device_side.storage());
    EXPECT_FALSE(fresh.storage() == device_side.storage());
  } else {
    GTEST_SKIP() << "the device does not copy";
  }
}

TYPED_TEST_P(CoreOfDevice, reduces_to_a_number_on_the_host) {
  const auto host = counted<F32>(Rank<2>(7, 9), 1);
  const auto device_side = copy_to<TypeParam>(host);
  if constexpr (requires { ht::sum(device_side); }) {
    float total = 0;
    for (const float element : must(host.template slice<1>(8, 0, -2))) total += element;
    EXPECT_EQ(must(ht::sum(must(device_side.template slice<1>(8, 0, -2)))), total);
    EXPECT_EQ(must(ht::sum(must(device_side.template slice<0>(3, 3)))), 0.F);
  }
  if constexpr (requires { ht::max(device_side); }) {
    EXPECT_EQ(must(ht::max(device_side.transpose())), 10.F);
    EXPECT_TRUE(fails(ht::max(must(device_side.template slice<0>(3, 3))), ErrorCode::bad_shape,
                      "max_operand_has_elements"));
  }
  if constexpr (!requires { ht::sum(device_side); }) GTEST_SKIP() << "the device does not reduce";
}

TYPED_TEST_P(CoreOfDevice, shapes_are_equal) {
  const auto a = copy_to<TypeParam>(counted<F32>(Rank<2>(2, 3)));
  const auto b = copy_to<TypeParam>(counted<F32>(Rank<2>(2, 1)));
  const auto expect_refused = [](const auto& result) {
    EXPECT_TRUE(fails(result, ErrorCode::shape_mismatch, "shapes_are_equal"));
  };
  // Nothing is broadcast implicitly.
  expect_refused(a + b);
  expect_refused(a + a.transpose());
  expect_refused(add_into(a, b));
  EXPECT_EQ(codes_of(a), codes(counted<F32>(Rank<2>(2, 3))));
  if constexpr (requires { a* b; }) expect_refused(a * b);
  if constexpr (requires { copy_into(a, b); }) expect_refused(copy_into(a, b));
}

REGISTER_TYPED_TEST_SUITE_P(CoreOfDevice, zeros_have_no_bit_set, keeps_every_bit_of_tensors_of_the_host,
                            views_show_the_elements_of_the_host, combines_views_of_any_shape_and_strides,
                            operators_equal_a_loop_on_the_host, writes_in_place_only_the_elements_of_the_view,
                            copies_are_contiguous, reduces_to_a_number_on_the_host, shapes_are_equal);

}  // namespace ht::core_device_test
