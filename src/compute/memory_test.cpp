// Products copy no operand: memory grows by the result and by panels of limited size.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <htensor/compute/linear.hpp>
#include <htensor/compute/matmul.hpp>
#include <memory>
#include <string>
#include <vector>

#include "compute/gemm/gemm_blas.hpp"
#include "tensor/test_tools.hpp"
#include "testing/allocations.hpp"

namespace ht::compute_memory_test {
namespace {

using tests::must;

constexpr std::size_t mebibyte = std::size_t{1} << 20;
// Lists, jobs and threads.
constexpr std::size_t small_objects = std::size_t{64} << 10;
// Tolerance for pages that BLAS and the allocator keep. The largest operand has at least twice this size, so
// a copy of it would be detected.
constexpr std::size_t resident_noise = 8 * mebibyte;

std::size_t kibibytes_of(const std::string& field) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    std::size_t number = 0;
    if (word == field && file >> number) return number;
  }
  return 0;
}

/// The peak of the resident memory during its lifetime, minus the resident memory at construction. Tensors
/// allocate by calloc, which PeakMemory does not count.
class PeakResident {
 public:
  PeakResident() {
    std::ofstream("/proc/self/clear_refs") << "5";  // resets VmHWM
    start_ = kibibytes_of("VmRSS:");
  }
  [[nodiscard]] bool is_known() const { return start_ > 0 && kibibytes_of("VmHWM:") < start_ + 1024; }
  [[nodiscard]] std::size_t bytes() const {
    return (std::max(kibibytes_of("VmHWM:"), start_) - start_) * 1024;
  }

 private:
  std::size_t start_;
};

/// Runs a product twice and measures the second run: the first one loads BLAS and starts threads.
template <class Run>
void expect_memory(std::size_t result_bytes, std::size_t panel_bytes, const Run& run) {
  must(run());
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer keeps a shadow of all memory";
#endif
  const PeakResident resident;
  if (!resident.is_known()) GTEST_SKIP() << "/proc/self/clear_refs does not reset the peak";
  const testing::PeakMemory allocated;
  const auto result = must(run());
  EXPECT_LE(allocated.bytes(), panel_bytes + small_objects);
  EXPECT_LE(resident.bytes(), result_bytes + panel_bytes + resident_noise);
  EXPECT_LE(result.storage().bytes().size(), result_bytes + small_objects);
}

/// A matrix of ones. Writing them makes the pages resident.
template <class D>
Tensor<D, Rank<2>> ones(std::int64_t rows, std::int64_t columns) {
  auto tensor = must(Tensor<D, Rank<2>>::zeros(Rank<2>(rows, columns)));
  std::fill_n(tensor.data(), tensor.elements(), typename D::Element{1});
  return tensor;
}

// An operand [rows, depth] has 32 MiB in F32 and 64 MiB in F64.
constexpr std::int64_t rows = 1024;
constexpr std::int64_t depth = 8192;
constexpr std::int64_t columns = 64;

template <class D>
class MatmulMemory : public ::testing::Test {
 protected:
  static constexpr std::size_t size = sizeof(typename D::Element);
  static constexpr std::size_t result = rows * columns * size;
  void SetUp() override {
    if (!compute::blas().is_loaded()) GTEST_SKIP() << "no BLAS: install libopenblas0-pthread";
  }
};
using DTypes = ::testing::Types<F32, F64>;
TYPED_TEST_SUITE(MatmulMemory, DTypes);

TYPED_TEST(MatmulMemory, has_no_copy_of_transposed_operands) {
  const auto a = ones<TypeParam>(depth, rows).transpose();
  const auto b = ones<TypeParam>(columns, depth).transpose();
  expect_memory(this->result, 0, [&] { return matmul(a, b); });
}

TYPED_TEST(MatmulMemory, has_no_copy_of_rows_with_gaps) {
  const auto a = must(ones<TypeParam>(2 * rows, depth).template slice<0>(0, 2 * rows, 2));
  const auto b = must(ones<TypeParam>(depth, 2 * columns).template slice<1>(0, columns));
  expect_memory(this->result, 0, [&] { return matmul(a, b); });
}

TYPED_TEST(MatmulMemory, has_one_panel_for_each_operand_that_blas_cannot_read) {
  // No stride is 1. A panel has 2^20 elements.
  const auto a = must(must(ones<TypeParam>(2 * rows, 2 * depth).template slice<0>(0, 2 * rows, 2))
                          .template slice<1>(0, 2 * depth, 2));
  const auto b = must(ones<TypeParam>(depth, 2 * columns).template slice<1>(0, 2 * columns, 2));
  const std::size_t panel = mebibyte * this->size;
  expect_memory(this->result, 2 * panel, [&] { return matmul(a, b); });
}

/// Read-only memory of the caller, which the library treats like a mapped file.
struct Borrowed {
  std::vector<std::byte> memory;
  explicit Borrowed(std::size_t bytes) : memory(bytes, std::byte{1}) {}
  [[nodiscard]] Storage storage() const { return must(Storage::borrowed_read_only(memory)); }
};

// Panels of decoded weights have 2^19 elements.
template <class W>
void expect_no_copy_of_weights(const W& weights, std::size_t weight_bytes) {
  ASSERT_GE(weight_bytes, 16 * mebibyte);
  for (const std::int64_t batch : {1, 3, 40}) {
    SCOPED_TRACE(batch);
    const auto x = ones<F32>(batch, weights.extent(1));
    const auto result = static_cast<std::size_t>(batch * weights.extent(0)) * sizeof(float);
    const std::size_t panel = batch >= 32 ? 2 * mebibyte : 0;
    expect_memory(result, panel, [&] { return linear(x, weights); });
    const auto vectors = static_cast<std::size_t>(batch * weights.extent(1)) * 2;
    expect_memory(result, std::max(panel, vectors),
                  [&] { return linear(x, weights, {.int8_activations = true}); });
  }
}

template <class D>
void expect_dense() {
  SCOPED_TRACE(D::name);
  const Borrowed memory(32 * mebibyte);
  const Rank<2> shape(32 * static_cast<std::int64_t>(mebibyte) / (D::bits / 8) / 4096, 4096);
  const auto weights = must(Tensor<const D, Rank<2>>::over(memory.storage(), shape));
  expect_no_copy_of_weights(weights, memory.memory.size());
}

template <class E>
void expect_blocks() {
  SCOPED_TRACE(E::name);
  const Borrowed memory(std::size_t{6000} * 4096 / E::block_elements * E::block_bytes);
  const auto weights = must(BlockTensor<E, Rank<2>>::over(memory.storage(), Rank<2>(6000, 4096)));
  expect_no_copy_of_weights(weights, memory.memory.size());
}

TEST(LinearMemory, has_no_copy_of_dense_weights) {
  expect_dense<F32>();
  expect_dense<BF16>();
}

TEST(LinearMemory, has_no_copy_of_weights_in_blocks) {
  expect_blocks<Q8_0>();
  expect_blocks<Q6_K>();
}

TEST(LinearMemory, has_no_copy_of_rows_with_gaps) {
  const Borrowed memory(64 * mebibyte);
  const auto all = must(Tensor<const BF16, Rank<2>>::over(
      memory.storage(), Rank<2>(32 * static_cast<std::int64_t>(mebibyte) / 4096, 4096)));
  const auto weights = must(must(all.slice<0>(0, all.extent(0), 2)).slice<1>(0, 4000));
  expect_no_copy_of_weights(weights, 32 * mebibyte);
}

}  // namespace
}  // namespace ht::compute_memory_test
