// Every dtype that a kind of device lists is copied to the device and back without a change of its bits.
#include <gtest/gtest.h>

#include <chrono>
#include <htensor/device/transfer.hpp>
#include <thread>

#include "device/opencl/opencl_test.hpp"
#include "device/opencl/queue_test.hpp"

namespace ht::opencl_copy_test {
namespace {

using tests::coded;
using tests::codes;
using tests::fails;
using tests::must;

// Kernels address whole bytes.
template <class D>
constexpr bool has_copy_kernel = HasOperation<OpenCl<Cpu>, operation::Copy, Tensor<D, Rank<1>, OpenCl<Cpu>>,
                                              Tensor<D, Rank<1>, OpenCl<Cpu>>>;
static_assert(has_copy_kernel<F32> && has_copy_kernel<U8> && !has_copy_kernel<U4> &&
              !has_copy_kernel<F6_E2M3>);

class OpenClCopy : public tests::OpenClTest {};

template <class Dev, class D>
void expect_round_trip() {
  SCOPED_TRACE(D::name);
  const auto host = coded<D>(Rank<2>(7, 13));
  EXPECT_EQ(codes(must(to_host(must(to_device<Dev>(host))))), codes(host));
  const Tensor<const D, Rank<2>> read_only = host;
  EXPECT_EQ(codes(must(to_host(must(to_device<Dev>(read_only))))), codes(host));
}

template <class Dev, class... Ds>
void expect_round_trips(DTypeList<Ds...> /*listed*/) {
  (expect_round_trip<Dev, Ds>(), ...);
}

TEST_F(OpenClCopy, keeps_every_bit_of_every_dtype_that_a_gpu_lists) {
  expect_round_trips<OpenCl<Gpu>>(Gpu::DTypes{});
}

TEST_F(OpenClCopy, keeps_every_bit_of_every_dtype_that_a_cpu_lists) {
  expect_round_trips<OpenCl<Cpu>>(Cpu::DTypes{});
}

template <class Dev, class D>
void expect_views() {
  SCOPED_TRACE(D::name);
  const auto host = coded<D>(Rank<2>(7, 13));
  const auto device_side = must(to_device<Dev>(host));
  EXPECT_EQ(codes(must(to_host(device_side.transpose()))), codes(must(host.transpose().copy())));
  const auto host_part = must(must(host.template slice<1>(9, 2, -3)).template slice<0>(1, 6));
  const auto part = must(must(device_side.template slice<1>(9, 2, -3)).template slice<0>(1, 6));
  EXPECT_EQ(codes(must(to_host(part))), codes(must(host_part.copy())));
  EXPECT_EQ(codes(must(to_host(must(device_side.template select<0>(3))))),
            codes(must(must(host.template select<0>(3)).copy())));
  // A host view is made contiguous before the copy, including a packed view that starts within a byte.
  EXPECT_EQ(codes(must(to_host(must(to_device<Dev>(host_part))))), codes(must(host_part.copy())));
  EXPECT_EQ(codes(must(to_host(must(to_device<Dev>(must(host.template select<0>(3))))))),
            codes(must(must(host.template select<0>(3)).copy())));
}

TEST_F(OpenClCopy, gathers_views_of_packed_and_whole_elements) {
  expect_views<OpenCl<Cpu>, U4>();
  expect_views<OpenCl<Cpu>, F6_E2M3>();
  expect_views<OpenCl<Gpu>, F32>();
  expect_views<OpenCl<Gpu>, C64>();
}

TEST_F(OpenClCopy, creates_zeros_and_empty_tensors) {
  const auto zeros = must(Tensor<F32, Rank<1>, OpenCl<Gpu>>::zeros(Rank<1>(100)));
  for (const float value : must(to_host(zeros))) EXPECT_EQ(value, 0.0F);
  const auto nothing = must(Tensor<F32, Rank<2>>::zeros(Rank<2>(0, 3)));
  EXPECT_EQ(must(to_host(must(to_device<OpenCl<Cpu>>(nothing)))).shape(), Rank<2>(0, 3));
}

TEST_F(OpenClCopy, f32_takes_four_bytes_per_element_on_the_device) {
  const auto device_side =
      must(to_device<OpenCl<Gpu>>(tests::filled<F32>(Rank<1>(1000), tests::small_number)));
  EXPECT_EQ(std::get<Storage::OnDevice>(device_side.storage().origin()).bytes, 4000U);
  EXPECT_EQ(std::get<Storage::OnDevice>(device_side.storage().origin()).device, "OpenCl<Gpu>");
}

TEST_F(OpenClCopy, does_not_share_a_mutable_tensor) {
  const auto host = tests::filled<F32>(Rank<1>(8), tests::small_number);
  const auto device_side = must(to_device<OpenCl<Cpu>>(host));
  host(0) = 42.0F;
  EXPECT_NE(must(to_host(device_side))(0), 42.0F);
}

TEST_F(OpenClCopy, uses_the_queue_of_the_caller) {
  using Dev = OpenCl<Gpu>;
  const auto queue = must(OpenClQueue::create<Dev>());
  const ComputeOptions options{.queue = &queue};
  const auto host = coded<I32>(Rank<1>(50));
  const Tensor<const I32, Rank<1>> read_only = host;
  const auto device_copy = must(to_device<Dev>(host));
  // Without the option, the calls wait for the default queue.
  EXPECT_FALSE(tests::ends_while_the_default_queue_is_blocked<Dev>([&] { must(to_device<Dev>(host)); },
                                                                   std::chrono::milliseconds(200)));
  EXPECT_TRUE(tests::ends_while_the_default_queue_is_blocked<Dev>([&] {
    must(Tensor<I32, Rank<1>, Dev>::zeros(Rank<1>(50), options));
    must(to_device<Dev>(read_only, options));
    const auto device_side = must(to_device<Dev>(host, options));
    EXPECT_EQ(codes(must(to_host(device_side, options))), codes(host));
    EXPECT_EQ(codes(must(to_host(must(device_copy.slice<0>(49, -1, -3)), options))),
              codes(must(host.slice<0>(49, -1, -3))));
  }));
}

TEST_F(OpenClCopy, works_from_many_threads_on_both_kinds_at_once) {
  const auto host = coded<U16>(Rank<1>(5000));
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const auto device_side = i % 2 == 0 ? codes(must(to_host(must(to_device<OpenCl<Cpu>>(host)))))
                                          : codes(must(to_host(must(to_device<OpenCl<Gpu>>(host)))));
      if (device_side == codes(host)) ++good;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 4);
}

}  // namespace
}  // namespace ht::opencl_copy_test
