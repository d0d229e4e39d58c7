// Results of the library's kernels do not depend on the number of threads, and operations use the workers of
// the caller.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <htensor/compute/conv.hpp>
#include <htensor/compute/embedding.hpp>
#include <htensor/compute/linear.hpp>
#include <htensor/compute/matmul.hpp>
#include <htensor/compute/nn.hpp>
#include <set>
#include <string>
#include <vector>

#include "compute/gemm/gemm_blas.hpp"
#include "compute/nn/nn_test.hpp"
#include "tensor/test_tools.hpp"

namespace ht::compute_threads_test {
namespace {

using tests::must;
using tests::random_tensor;
using tests::same_bits;

std::set<std::string> all_threads() {
  std::set<std::string> threads;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    threads.insert(task.path().filename());
  return threads;
}

/// The number of threads that did not exist before. Threads that have ended since then do not count.
std::size_t new_threads(const std::set<std::string>& before) {
  std::size_t count = 0;
  for (const auto& thread : all_threads()) count += before.contains(thread) ? 0 : 1;
  return count;
}

/// Runs an operation with 1, 2 and 5 workers, and expects the same bits each time. `Workers` starts a thread
/// for each worker except the calling thread, so new threads show that the operation is split and uses
/// `workers`.
template <class Run>
void expect_same_bits(const Run& run) {
  // Threads of the shared pool and of BLAS start before threads are counted.
  must(run(nullptr));
  Workers one(1);
  const auto expected = must(run(&one));
  for (const std::size_t workers : {2U, 5U}) {
    Workers several(workers);
    const auto before = all_threads();
    const auto result = must(run(&several));
    EXPECT_EQ(new_threads(before), workers - 1) << "the operation is not split, or ignores its workers";
    EXPECT_EQ(result.shape(), expected.shape());
    EXPECT_TRUE(same_bits(result, expected)) << workers << " workers";
  }
}

template <class D>
class ThreadsOf : public ::testing::Test {};
using DTypes = ::testing::Types<F32, F64>;
TYPED_TEST_SUITE(ThreadsOf, DTypes);

// Jobs have 2^16 elements.
template <class D>
Tensor<D, Rank<2>> rows() {
  return random_tensor<D>(Rank<2>(1201, 523), 1);
}

TYPED_TEST(ThreadsOf, do_not_change_softmax) {
  const auto x = rows<TypeParam>();
  expect_same_bits([&](Workers* workers) { return softmax(x, {.workers = workers}); });
  expect_same_bits([&](Workers* workers) { return log_softmax(x.transpose(), {.workers = workers}); });
}

TYPED_TEST(ThreadsOf, do_not_change_norms) {
  const auto x = rows<TypeParam>();
  const auto weight = random_tensor<TypeParam>(Rank<1>(523), 2);
  expect_same_bits([&](Workers* workers) { return rms_norm(x, weight, 1e-5, {.workers = workers}); });
  expect_same_bits(
      [&](Workers* workers) { return layer_norm(x, weight, weight, 1e-5, {.workers = workers}); });
  expect_same_bits([&](Workers* workers) { return layer_norm(x, weight, 1e-5, {.workers = workers}); });
}

TYPED_TEST(ThreadsOf, do_not_change_activations) {
  const auto x = rows<TypeParam>();
  const auto gate = random_tensor<TypeParam>(x.shape(), 2);
  expect_same_bits([&](Workers* workers) { return silu(x, {.workers = workers}); });
  expect_same_bits([&](Workers* workers) { return gelu(x, GeluForm::exact, {.workers = workers}); });
  expect_same_bits(
      [&](Workers* workers) { return gelu(x.transpose(), GeluForm::tanh, {.workers = workers}); });
  expect_same_bits([&](Workers* workers) { return swiglu(gate, x, {.workers = workers}); });
}

TYPED_TEST(ThreadsOf, do_not_change_rope) {
  const auto x = random_tensor<TypeParam>(Rank<3>(301, 13, 128), 1);
  for (const auto pairs : {RopeOptions::Pairs::interleaved, RopeOptions::Pairs::halves}) {
    expect_same_bits([&](Workers* workers) {
      return ht::rope(x, {.pairs = pairs, .first_position = 77}, {.workers = workers});
    });
  }
}

TYPED_TEST(ThreadsOf, do_not_change_argmax) {
  const auto x = rows<TypeParam>();
  expect_same_bits([&](Workers* workers) { return ht::argmax(x, {.workers = workers}); });
}

TYPED_TEST(ThreadsOf, do_not_change_conv2d) {
  const auto x = random_tensor<TypeParam>(Rank<4>(3, 6, 61, 59), 1);
  const auto weight = random_tensor<TypeParam>(Rank<4>(8, 3, 3, 3), 2);
  const auto bias = random_tensor<TypeParam>(Rank<1>(8), 3);
  for (const auto form : {Conv2dOptions::Form::direct, Conv2dOptions::Form::columns}) {
    expect_same_bits([&](Workers* workers) {
      const Conv2dOptions conv{.padding = {1, 1}, .groups = 2, .form = form};
      return ht::conv2d(x, weight, bias, conv, {.workers = workers});
    });
  }
}

template <class To, class W>
void expect_same_rows(const W& table) {
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 701; ++i) ids.push_back(i * 7 % 50);
  expect_same_bits([&](Workers* workers) { return embedding<To>(table, ids, {.workers = workers}); });
}

TYPED_TEST(ThreadsOf, do_not_change_embedding) {
  const auto table = random_tensor<F32>(Rank<2>(50, 512), 1);
  expect_same_rows<TypeParam>(table);
  expect_same_rows<TypeParam>(must(cast_lossy<BF16>(table)));
  expect_same_rows<TypeParam>(must(cast_lossy<Q4_K>(table)));
}

// Ranges of rows have at least 64 KiB. The number of rows is odd, so that the ranges differ in size.
template <class W>
void expect_same_products(const W& weights, bool int8 = false) {
  for (const std::int64_t batch : {1, 3}) {
    SCOPED_TRACE(batch);
    const auto x = random_tensor<F32>(Rank<2>(batch, weights.extent(1)), 2);
    const auto bias = random_tensor<F32>(Rank<1>(weights.extent(0)), 3);
    expect_same_bits([&](Workers* workers) {
      return linear(x, weights, bias, {.int8_activations = int8, .workers = workers});
    });
  }
}

TEST(ThreadsOfLinear, do_not_change_products_with_dense_weights) {
  const auto weights = random_tensor<F32>(Rank<2>(1001, 520), 1);
  expect_same_products(weights);
  expect_same_products(must(cast_lossy<BF16>(weights)));
}

template <class E>
class ThreadsOfLinearWith : public ::testing::Test {};
using Encodings = ::testing::Types<Q4_K, Q6_K, Q8_0>;
TYPED_TEST_SUITE(ThreadsOfLinearWith, Encodings);

TYPED_TEST(ThreadsOfLinearWith, do_not_change_products_with_weights_in_blocks) {
  const auto weights = must(cast_lossy<TypeParam>(random_tensor<F32>(Rank<2>(1501, 512), 1)));
  expect_same_products(weights, false);
  expect_same_products(weights, true);
}

TEST(ThreadsOfLinear, f64_results_do_not_depend_on_the_number_of_threads) {
  const auto weights = must(cast_lossy<BF16>(random_tensor<F32>(Rank<2>(1001, 520), 1)));
  const auto x = random_tensor<F64>(Rank<2>(1, 520), 2);
  expect_same_bits([&](Workers* workers) { return linear(x, weights, {.workers = workers}); });
}

TEST(ThreadsOfMatmul, copies_panels_on_the_workers_of_the_caller) {
  // No stride is 1, so that BLAS cannot read the operands in place. Copies are split into jobs of 2^15
  // elements, products without BLAS into blocks of 128 rows and 256 columns.
  const auto memory = random_tensor<F32>(Rank<2>(1024, 1024), 1);
  const auto a = must(must(memory.slice<0>(0, 1024, 2)).slice<1>(0, 1024, 2));
  must(matmul(a, a));
  Workers workers(5);
  const auto before = all_threads();
  must(matmul(a, a, {.workers = &workers}));
  EXPECT_EQ(new_threads(before), 4U);
}

TEST(ThreadsOfMatmul, does_not_change_the_threads_of_openblas) {
  static_cast<void>(compute::blas());  // loads the library
  void* const library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) GTEST_SKIP() << "OpenBLAS is not loaded: install libopenblas0-pthread";
  const auto get_threads = reinterpret_cast<int (*)()>(dlsym(library, "openblas_get_num_threads"));
  const auto set_threads = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  if (get_threads == nullptr || set_threads == nullptr) GTEST_SKIP() << "the library is not OpenBLAS";
  const int original = get_threads();
  const auto a = random_tensor<F32>(Rank<2>(300, 300), 1);
  const auto doubles = random_tensor<F64>(Rank<2>(300, 300), 1);
  const auto strided = must(random_tensor<F32>(Rank<2>(600, 600), 1).slice<0>(0, 600, 2));
  for (const int threads : {original, 1, 3}) {
    set_threads(threads);
    const int before = get_threads();
    for (const std::size_t worker_count : {1U, 2U, 5U}) {
      Workers workers(worker_count);
      must(matmul(a, a.transpose(), {.workers = &workers}));
      must(matmul(doubles, doubles, {.workers = &workers}));
      must(linear(a, must(strided.slice<1>(0, 600, 2)), {.workers = &workers}));
      EXPECT_EQ(get_threads(), before);
    }
  }
  set_threads(original);
  dlclose(library);
}

}  // namespace
}  // namespace ht::compute_threads_test
