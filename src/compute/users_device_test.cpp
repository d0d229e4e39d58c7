// Operations of slice::Core, views and casts on a device and a dtype that the library does not know.
#include <gtest/gtest.h>

#include <algorithm>
#include <concepts>
#include <htensor/compute/elementwise.hpp>
#include <htensor/compute/nn.hpp>
#include <htensor/device/transfer.hpp>
#include <htensor/tensor/tensor.hpp>
#include <htensor/values/cast.hpp>
#include <memory>
#include <numeric>
#include <string_view>
#include <vector>

#include "compute/test_devices.hpp"
#include "tensor/test_tools.hpp"
#include "testing/users_dtype.hpp"

namespace user {

// A device whose memory the host can own and describe, but not read.
struct UnreadableDevice {
  static constexpr std::string_view name = "UnreadableDevice";
  static constexpr bool is_host_accessible = false;
  template <class D>
  static constexpr bool stores = true;
};

// A device whose memory the host cannot read. The device copies between tensors of the same type only and has
// argmax for rank 2 only.
struct NarrowDevice {
  using Slices = ht::SliceList<ht::slice::Core, ht::slice::Nn>;
  static constexpr std::string_view name = "NarrowDevice";
  static constexpr bool is_host_accessible = false;
  template <class D>
  static constexpr bool stores = true;

  static ht::Result<ht::Storage> allocate(std::uint64_t bytes);
  template <class T>
  static ht::Result<void> run(ht::operation::Copy copy, const ht::ComputeOptions& options, const T& into,
                              const T& x);
  template <class D, class X>
  static ht::Result<void> run(ht::operation::Argmax argmax, const ht::ComputeOptions& options,
                              const ht::Tensor<D, ht::Rank<1>, NarrowDevice>& into, const X& x);
};

// `computes` lacks the slice as its first parameter.
struct MisspelledDevice {
  using Slices = ht::SliceList<ht::slice::Core>;
  static constexpr std::string_view name = "MisspelledDevice";
  static constexpr bool is_host_accessible = false;
  template <class D>
  static constexpr bool stores = true;
  template <class D>
  static constexpr bool computes = true;
};

}  // namespace user

namespace ht::users_device_test {
namespace {

using tests::fails;
using tests::must;
using user::Arena;
using user::F8_E3M4;
using user::InvertingDevice;
using user::UnreadableDevice;

using Value = F8_E3M4::Element;
using Matrix = Tensor<F8_E3M4, Rank<2>, Arena>;

static_assert(IsDType<F8_E3M4> && IsFloating<F8_E3M4> && IsArithmetic<F8_E3M4>);
static_assert(LosslessTo<F8_E3M4, F16> && !LosslessTo<F16, F8_E3M4>);
static_assert(IsDevice<Arena> && Allocates<Arena> && Compatible<Arena, const F8_E3M4>);
static_assert(!Compatible<Arena, C64> && !Allocates<UnreadableDevice>);

// The host cannot read tensors on NarrowDevice, so no loop on the host replaces a function that the device
// lacks: the call does not compile.
template <class Into, class From>
concept CanCopyInto = requires(const Into& into, const From& x) { copy_into(into, x); };
template <class T>
concept HasArgmax = requires(const T& x) { argmax(x); };
template <class D, std::size_t N>
using Narrow = Tensor<D, Rank<N>, user::NarrowDevice>;
static_assert(CanCopyInto<Narrow<F32, 1>, Narrow<F32, 1>> &&
              !CanCopyInto<Narrow<F32, 1>, Narrow<const F32, 1>>);
static_assert(HasArgmax<Narrow<F32, 2>> && !HasArgmax<Narrow<F32, 3>>);
static_assert(!Computes<user::MisspelledDevice, slice::Core, F32>);

Matrix matrix() {
  std::vector<Value> values;
  for (const float x : {0.5F, 1.0F, 1.5F, 2.0F, 2.5F, 3.0F}) values.emplace_back(x);
  return must(Matrix::of(Rank<2>(2, 3), values));
}

float number(Value value) { return static_cast<float>(value); }

TEST(UsersDevice, allocates_its_own_memory) {
  const int before = Arena::allocations;
  const auto tensor = must(Matrix::zeros(Rank<2>(2, 3)));
  EXPECT_EQ(Arena::allocations, before + 1);
  EXPECT_EQ(tensor.storage().bytes().size(), 6U);
  for (const auto element : tensor) EXPECT_EQ(element.bits(), 0);
}

TEST(UsersDevice, allocates_only_sizes_that_fit_63_bits) {
  const int before = Arena::allocations;
  EXPECT_TRUE(fails(Matrix::zeros(Rank<2>(std::int64_t{1} << 40, std::int64_t{1} << 40)),
                    ErrorCode::size_overflow, "elements_fit_63_bits"));
  EXPECT_EQ(Arena::allocations, before);
}

TEST(UsersDevice, is_indexed_sliced_and_transposed) {
  const auto tensor = matrix();
  EXPECT_EQ(number(tensor(1, 2)), 3.0F);
  EXPECT_EQ(number(must(tensor.at(0, 1))), 1.0F);
  EXPECT_TRUE(fails(tensor.at(2, 0), ErrorCode::out_of_bounds, "index_is_within_bounds"));
  const auto part = must(tensor.slice<1>(2, -1, -2)).transpose();
  EXPECT_EQ(part.shape(), Rank<2>(2, 2));
  EXPECT_EQ(number(part(0, 1)), 3.0F);
  EXPECT_EQ(number(must(tensor.select<0>(1))(0)), 2.0F);
  EXPECT_EQ(number(must(tensor.reshape(Rank<1>(6)))(4)), 2.5F);
  tensor(0, 0) = Value(-0.5F);
  EXPECT_EQ(number(part(1, 0)), -0.5F);
}

TEST(UsersDevice, is_iterated) {
  const auto tensor = matrix();
  const auto add = [](float sum, Value value) { return sum + number(value); };
  EXPECT_EQ(std::accumulate(tensor.begin(), tensor.end(), 0.0F, add), 10.5F);
  const auto transposed = tensor.transpose();
  EXPECT_EQ(number(*++transposed.begin()), 2.0F);
}

TEST(UsersDevice, copies_into_its_own_memory) {
  const auto tensor = matrix();
  const int before = Arena::allocations;
  EXPECT_EQ(must(tensor.contiguous()).storage(), tensor.storage());
  EXPECT_EQ(Arena::allocations, before);
  const auto dense = must(tensor.transpose().contiguous());
  EXPECT_EQ(Arena::allocations, before + 1);
  EXPECT_EQ(number(dense(2, 0)), 1.5F);
  EXPECT_EQ(must(dense.bytes()).size(), 6U);
}

TEST(UsersDevice, casts_to_a_dtype_of_the_library) {
  const auto tensor = matrix();
  const Tensor<F16, Rank<2>, Arena> wide = must(cast<F16>(tensor));
  EXPECT_EQ(static_cast<float>(wide(1, 1)), 2.5F);
  const auto lazy = as<F32>(tensor);
  EXPECT_EQ(lazy(1, 2), 3.0F);
  tensor(1, 2) = Value(-3.5F);
  EXPECT_EQ(must(lazy.at(1, 2)), -3.5F);
  EXPECT_EQ(must(lazy.copy())(1, 2), -3.5F);
}

TEST(UsersDType, keeps_every_value_in_a_wider_dtype) {
  std::vector<Value> every;
  for (unsigned code = 0; code < 256; ++code)
    every.push_back(Value::from_bits(static_cast<std::uint8_t>(code)));
  const auto tensor = must(Tensor<F8_E3M4, Rank<1>>::of(Rank<1>(256), every));
  const auto wide = must(cast<F16>(tensor));
  for (int code = 0; code < 256; ++code) {
    const auto narrow = static_cast<double>(tensor(code));
    if (narrow != narrow) {
      EXPECT_NE(wide(code), wide(code));
    } else {
      EXPECT_EQ(static_cast<double>(wide(code)), narrow);
    }
  }
}

TEST(UsersDevice, computes_elementwise_operations) {
  const auto a = matrix();
  const auto b = must(Matrix::of(Rank<2>(2, 3), std::vector<Value>(6, Value(0.5F))));
  EXPECT_EQ(number(must(a + b)(1, 2)), 3.5F);
  EXPECT_EQ(number(must(a - b)(0, 0)), 0.0F);
  EXPECT_EQ(number(must(a * b)(1, 1)), 1.25F);
  EXPECT_EQ(number(must(a / b)(1, 2)), 6.0F);
  EXPECT_TRUE(fails(a + b.transpose(), ErrorCode::shape_mismatch, "shapes_are_equal"));
}

template <class T>
concept Indexable = requires(const T& tensor) { tensor(0, 0); };
template <class T>
concept Checkable = requires(const T& tensor) { tensor.at(0, 0); };
template <class T>
concept Iterable = requires(const T& tensor) { tensor.begin(); };
template <class T>
concept Copyable = requires(const T& tensor) { tensor.copy(); };

TEST(UsersDevice, is_not_read_by_a_host_without_access) {
  using Unreadable = Tensor<F8_E3M4, Rank<2>, UnreadableDevice>;
  const auto unreadable = must(Unreadable::over(must(Storage::owned(6)), Rank<2>(2, 3)));
  EXPECT_EQ(unreadable.elements(), 6);
  EXPECT_EQ(unreadable.transpose().shape(), Rank<2>(3, 2));
  EXPECT_EQ(must(unreadable.slice<1>(0, 2)).shape(), Rank<2>(2, 2));
  static_assert(!Indexable<Unreadable> && !Checkable<Unreadable> && !Iterable<Unreadable> &&
                !Copyable<Unreadable>);
  static_assert(Indexable<Matrix> && Checkable<Matrix> && Iterable<Matrix> && Copyable<Matrix>);
}

template <class A, class B>
concept Addable = requires(const A& a, const B& b) { a + b; };
template <class T>
concept Castable = requires(const T& tensor) { cast<F16>(tensor); };
template <class T>
concept HasZeros = requires { T::zeros(); };

TEST(UsersDevice, provides_only_operations_that_compile) {
  using Unreadable = Tensor<F8_E3M4, Shape<2, 3>, UnreadableDevice>;
  // A concept must reject the call at the caller's line; otherwise the error is reported inside the library.
  EXPECT_FALSE(Castable<Unreadable>);
  EXPECT_FALSE((Addable<Unreadable, Unreadable>));
  EXPECT_FALSE(HasZeros<Unreadable>);
}

template <class A>
concept Multiplies = requires(const A& a) { a* a; };

TEST(UsersDevice, is_copied_to_and_from_without_host_access) {
  const auto host = must(Tensor<F32, Rank<2>>::of(Rank<2>(2, 3), {1, 2, 3, 4, 5, 6}));
  const auto device_side = must(to_device<InvertingDevice>(host));
  static_assert(std::same_as<decltype(device_side), const Tensor<F32, Rank<2>, InvertingDevice>>);
  const auto back = must(to_host(device_side.transpose()));
  EXPECT_EQ(back.shape(), Rank<2>(3, 2));
  EXPECT_EQ(back(2, 0), 3.0F);
  EXPECT_EQ(back(0, 1), 4.0F);
  const auto zeros = must(Tensor<F32, Rank<1>, InvertingDevice>::zeros(Rank<1>(2)));
  EXPECT_EQ(must(to_host(zeros))(1), 0.0F);
}

TEST(UsersDevice, adds_by_its_own_function) {
  const auto host = must(Tensor<F32, Rank<2>>::of(Rank<2>(2, 2), {1, 2, 3, 4}));
  const auto device_side = must(to_device<InvertingDevice>(host));
  const auto sum = must(to_host(must(device_side + device_side.transpose())));
  EXPECT_EQ(sum(0, 0), 2.0F);
  EXPECT_EQ(sum(0, 1), 5.0F);
  EXPECT_EQ(sum(1, 0), 5.0F);
  const auto part = must(device_side.slice<0>(0, 1));
  EXPECT_TRUE(fails(device_side + part, ErrorCode::shape_mismatch, "shapes_are_equal"));
}

TEST(UsersDevice, adds_in_place_by_the_same_function) {
  const auto device_side =
      must(to_device<InvertingDevice>(must(Tensor<F32, Rank<2>>::of(Rank<2>(2, 2), {1, 2, 3, 4}))));
  const auto row = must(device_side.slice<0>(0, 1));
  must(add_into(must(device_side.slice<1>(0, 1)), must(device_side.slice<1>(1, 2))));
  const auto sum = must(to_host(device_side));
  EXPECT_EQ(sum(0, 0), 3.0F);
  EXPECT_EQ(sum(1, 0), 7.0F);
  EXPECT_EQ(sum(1, 1), 4.0F);
  EXPECT_TRUE(fails(add_into(device_side, row), ErrorCode::shape_mismatch, "shapes_are_equal"));
}

TEST(UsersDevice, prefers_its_own_function_to_a_host_loop) {
  using Vector = Tensor<F32, Rank<1>, user::Accelerator>;
  const auto x = must(Vector::of(Rank<1>(3), {1.F, 2.F, 4.F}));
  const int sums = user::Accelerator::sums;
  EXPECT_EQ(must(sum(x)), 7.F);
  EXPECT_EQ(user::Accelerator::sums, sums + 1);
  // The device has no function for `max`, so a loop on the host computes it.
  EXPECT_EQ(must(ht::max(x)), 4.F);

  const auto into = must(Vector::zeros(Rank<1>(3)));
  const int copies = user::Accelerator::copies;
  must(copy_into(into, x));
  EXPECT_EQ(user::Accelerator::copies, copies + 1);
  EXPECT_EQ(into(2), 4.F);
}

TEST(UsersDevice, has_only_the_operations_and_dtypes_that_it_lists) {
  using Floats = Tensor<F32, Rank<2>, InvertingDevice>;
  static_assert(Addable<Floats, Floats> && !Multiplies<Floats>);
  static_assert(!Addable<Tensor<U8, Rank<2>, InvertingDevice>, Tensor<U8, Rank<2>, InvertingDevice>>);
  static_assert(HasSlice<InvertingDevice, slice::Core> && !HasSlice<InvertingDevice, slice::Linear>);
  static_assert(!Computes<InvertingDevice, slice::Linear, F32> &&
                !Computes<InvertingDevice, slice::Core, U8>);
}

TEST(UsersDevice, does_not_mix_with_other_devices) {
  static_assert(!std::is_convertible_v<Matrix, Tensor<F8_E3M4, Rank<2>>>);
  static_assert(!std::is_convertible_v<Tensor<F8_E3M4, Rank<2>>, Matrix>);
  EXPECT_TRUE((Addable<Matrix, Matrix>));
  EXPECT_FALSE((Addable<Matrix, Tensor<F8_E3M4, Rank<2>>>));
}

}  // namespace
}  // namespace ht::users_device_test
