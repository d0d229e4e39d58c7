#include "device/opencl/memory.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <memory>

#include "device/opencl/opencl_test.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::opencl_memory_test {
namespace {

using tests::coded;
using tests::codes;
using tests::fails;
using tests::must;
using Card = OpenCl<Cpu>;

template <class D, class S>
Result<Tensor<D, S, Card>> add(const Tensor<D, S, Card>& a, const Tensor<D, S, Card>& b) {
  auto out = HT_TRY(Tensor<D, S, Card>::zeros(a.shape()));
  HT_TRY(Card::run(std::plus<>{}, {}, out, a, b));
  return out;
}

/// Reduces a tensor on the device and returns the result.
template <class To, class Op, class D, class S>
Result<typename To::Element> reduce(Op op, const Tensor<D, S, Card>& x) {
  auto out = HT_TRY(Tensor<To, Rank<0>, Card>::zeros());
  HT_TRY(Card::run(op, {}, out, x));
  const auto host = HT_TRY(to_host(out));
  return host();
}

class OpenClMemory : public tests::OpenClTest {
 protected:
  static opencl::Device& device() { return *must(opencl::find_device(Card::target)); }
  /// Copies a tensor to device memory with buffers of at most `largest` bytes.
  template <class D, class S>
  static Tensor<D, S, Card> split(const Tensor<D, S>& host, std::uint64_t largest) {
    const auto bytes = must(host.bytes());
    auto storage = must(allocate_memory(device(), Card::name, bytes.size(), largest, must(device().queue())));
    must(Card::copy_to_device(bytes, storage, 0));
    return must(Tensor<D, S, Card>::over(storage, host.shape()));
  }
};

TEST_F(OpenClMemory, is_split_if_it_exceeds_the_largest_buffer) {
  const auto host = coded<I32>(Rank<2>(37, 29));
  const auto device_side = split(host, 300);
  const auto* const memory = must(memory_of(device_side.storage(), device()));
  EXPECT_EQ(memory->buffer_bytes, 256U);
  EXPECT_EQ(memory->buffers.size(), (37U * 29U * 4U + 255U) / 256U);
  EXPECT_EQ(codes(must(to_host(device_side))), codes(host));
  EXPECT_EQ(codes(must(to_host(device_side.transpose()))), codes(must(host.transpose().copy())));
}

TEST_F(OpenClMemory, computes_with_several_buffers) {
  const auto host = coded<I32>(Rank<2>(37, 29));
  const auto wide = split(host, 300);
  const auto narrow = split(host, 128);
  const auto sum = codes(must(to_host(must(add(wide, narrow)))));
  const auto all = codes(host);
  ASSERT_EQ(sum.size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(sum[i], static_cast<std::uint32_t>(2 * all[i]));
  // Rows span several buffers; so do columns, which have strides.
  const auto transposed_sum = codes(must(to_host(must(add(wide.transpose(), narrow.transpose())))));
  const auto expected = codes(must(host.transpose().copy()));
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(transposed_sum[i], static_cast<std::uint32_t>(2 * expected[i]));
  std::int64_t total = 0;
  for (const auto value : host) total += value;
  EXPECT_EQ(must(reduce<I64>(operation::Sum{}, wide)), total);
  EXPECT_EQ(must(reduce<I64>(operation::Sum{}, narrow.transpose())), total);
}

TEST_F(OpenClMemory, operand_fits_one_buffer) {
  const auto device_side = split(tests::filled<F32>(Rank<2>(16, 16), tests::small_number), 256);
  const auto out = must(Tensor<F32, Rank<2>, Card>::zeros(Rank<2>(16, 16)));
  EXPECT_TRUE(fails(Card::run(operation::Matmul{}, {}, out, device_side, device_side),
                    ErrorCode::size_overflow, "operand_fits_one_buffer"));
  EXPECT_TRUE(fails(Card::run(operation::Softmax{}, {}, out, device_side), ErrorCode::size_overflow,
                    "operand_fits_one_buffer"));
}

TEST_F(OpenClMemory, reports_out_of_memory_beyond_device_memory) {
  constexpr auto huge = std::int64_t{1} << 50;
  EXPECT_TRUE(
      fails(Tensor<U8, Rank<1>, Card>::zeros(Rank<1>(huge)), ErrorCode::out_of_memory, "device_has_memory"));
}

TEST_F(OpenClMemory, storage_is_on_the_device) {
  const auto foreign = must(Tensor<F32, Rank<1>, Card>::over(must(Storage::owned(16)), Rank<1>(4)));
  EXPECT_TRUE(fails(to_host(foreign), ErrorCode::bad_state, "storage_is_on_the_device"));
  EXPECT_TRUE(
      fails(reduce<F32>(operation::Sum{}, foreign), ErrorCode::bad_state, "storage_is_on_the_device"));
  const auto forged =
      must(Storage::on_device(std::make_shared<int>(1), {.device = "OpenCl<Cpu>", .bytes = 16}));
  const auto tensor = must(Tensor<F32, Rank<1>, Card>::over(forged, Rank<1>(4)));
  EXPECT_TRUE(fails(to_host(tensor), ErrorCode::bad_state, "storage_is_on_the_device"));
}

TEST_F(OpenClMemory, copy_is_inside_the_device_memory) {
  const auto storage = must(Card::allocate(16));
  std::array<std::byte, 8> bytes{};
  EXPECT_TRUE(fails(Card::copy_to_device(bytes, storage, 9), ErrorCode::out_of_bounds,
                    "copy_is_inside_the_device_memory"));
  EXPECT_TRUE(fails(Card::copy_to_host(storage, 16, bytes), ErrorCode::out_of_bounds,
                    "copy_is_inside_the_device_memory"));
  EXPECT_TRUE(Card::copy_to_host(storage, 8, bytes));
}

TEST_F(OpenClMemory, queue_belongs_to_the_device) {
  // A second Device for the same hardware: a queue belongs to the Device for which it was created.
  opencl::Device other(device().library(), device().id(), device().facts());
  const auto queue = must(OpenClQueue::create<Card>());
  EXPECT_TRUE(fails(queue_of(other, {.queue = &queue}), ErrorCode::bad_state, "queue_belongs_to_the_device"));
  EXPECT_TRUE(queue_of(device(), {.queue = &queue}));
}

TEST_F(OpenClMemory, host_does_not_access_device_memory_as_bytes) {
  const auto device_side = must(Tensor<F32, Rank<1>, Card>::zeros(Rank<1>(4)));
  EXPECT_TRUE(device_side.storage().bytes().empty());
  EXPECT_TRUE(fails(Tensor<const F32, Rank<1>>::over(device_side.storage(), Rank<1>(4)), ErrorCode::bad_state,
                    "storage_is_in_host_memory"));
  EXPECT_TRUE(fails(Tensor<F32, Rank<1>>::over(device_side.storage(), Rank<1>(4)), ErrorCode::bad_state,
                    "storage_is_in_host_memory"));
}

TEST_F(OpenClMemory, keeps_shared_memory_and_never_writes_it) {
  const Tensor<const F32, Rank<1>, Card> device_side = [] {
    const Tensor<const F32, Rank<1>> host = tests::filled<F32>(Rank<1>(64), tests::small_number);
    return must(to_device<Card>(host));
  }();
  EXPECT_EQ(must(to_host(device_side))(63), tests::small_number(63));
  EXPECT_FALSE(must(memory_of(device_side.storage(), device()))->shared.empty());
  EXPECT_TRUE(fails(Tensor<F32, Rank<1>, Card>::over(device_side.storage(), Rank<1>(64)),
                    ErrorCode::bad_state, "storage_is_writable"));
  const std::array<std::byte, 4> bytes{};
  EXPECT_TRUE(fails(Card::copy_to_device(bytes, device_side.storage(), 0), ErrorCode::bad_state,
                    "storage_is_writable"));
}

std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t all = 0;
  std::uint64_t resident = 0;
  file >> all >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

// A read-only mapping of a file that is zero except for its last float.
struct MappedFloats {
  static constexpr std::size_t bytes = std::size_t{256} << 20;
  testing::TemporaryFolder folder;
  void* address = MAP_FAILED;

  MappedFloats() {
    const auto path = folder / "floats";
    testing::write_file(path, "");
    const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    const float last = 3.0F;
    if (ftruncate(file, bytes) == 0 &&
        pwrite(file, &last, sizeof(last), bytes - sizeof(last)) == sizeof(last))
      address = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0);
    close(file);
  }
  MappedFloats(const MappedFloats&) = delete;
  MappedFloats& operator=(const MappedFloats&) = delete;
  ~MappedFloats() {
    if (address != MAP_FAILED) munmap(address, bytes);
  }
};

TEST_F(OpenClMemory, does_not_copy_mapped_pages) {
  const MappedFloats file;
  ASSERT_NE(file.address, MAP_FAILED);
  const Bytes bytes(static_cast<const std::byte*>(file.address), MappedFloats::bytes);
  const auto host = must(Tensor<const F32, Rank<1>>::over(must(Storage::borrowed_read_only(bytes)),
                                                          Rank<1>(std::int64_t{MappedFloats::bytes / 4})));
  // The kernel is built before memory is measured.
  must(reduce<F32>(operation::Sum{}, must(Tensor<F32, Rank<1>, Card>::zeros(Rank<1>(1)))));
  const auto before = resident_bytes();
  const auto device_side = must(to_device<Card>(host));
  EXPECT_EQ(must(reduce<F32>(operation::Sum{}, device_side)), 3.0F);
  EXPECT_EQ(must(reduce<F32>(operation::Max{}, device_side)), 3.0F);
  const auto grown = resident_bytes() - before;
  EXPECT_GT(grown, MappedFloats::bytes / 2) << "the device touched the pages";
  EXPECT_LT(grown, MappedFloats::bytes + (std::uint64_t{32} << 20));
}

}  // namespace
}  // namespace ht::opencl_memory_test
