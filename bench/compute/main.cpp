// Matrix products: matmul against direct calls of the same BLAS into preallocated memory, and against numpy
// and torch if they are installed.
#include <dlfcn.h>

#include <cstdio>
#include <htensor/compute/matmul.hpp>
#include <htensor/hash/digest.hpp>
#include <limits>
#include <memory>
#include <random>

#include "bench/harness/must.hpp"
#include "bench/harness/options.hpp"
#include "bench/harness/report.hpp"
#include "bench/python_contender.hpp"

namespace {

using namespace ht::bench;

template <class D>
using Square = ht::Tensor<D, ht::Rank<2>>;
template <class T>
using Gemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k, T alpha, const T* a,
                      int lda, const T* b, int ldb, T beta, T* c, int ldc);
constexpr int row_major = 101;
constexpr int not_transposed = 111;

template <class D>
Square<D> random_square(std::int64_t extent) {
  auto matrix = value_of(Square<D>::zeros(ht::Rank<2>(extent, extent)));
  std::mt19937 random(1);
  std::normal_distribution<double> normal(0.0, 0.02);
  for (auto& element : matrix) element = static_cast<typename D::Element>(normal(random));
  return matrix;
}

template <class D>
std::uint64_t checksum(const Square<D>& matrix) {
  return ht::crc64nvme(value_of(matrix.bytes()));
}

// Writes memory of the size of a result, untimed, and frees it. In a virtual machine, the first use of memory
// that the host has not allocated yet takes 50 times as long as later ones; only contenders that allocate
// their result would pay for it.
template <class D>
void touch_memory(const ht::Rank<2>& shape) {
  auto memory = value_of(Square<D>::zeros(shape));
  const std::int64_t page_elements = 4096 / static_cast<std::int64_t>(sizeof(typename D::Element));
  for (std::int64_t i = 0; i < shape.extents()[0] * shape.extents()[1]; i += page_elements)
    memory.data()[i] = 1;
}

// Three loops, the innermost of which adds to a row; compilers vectorize it.
template <class D>
TurnResult multiply_by_loops(const Square<D>& a, const Square<D>& b) {
  const std::int64_t n = a.extent(0);
  touch_memory<D>(a.shape());
  const Stopwatch stopwatch;
  auto c = value_of(Square<D>::zeros(a.shape()));
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t k = 0; k < n; ++k) {
      for (std::int64_t j = 0; j < n; ++j) c.data()[i * n + j] += a.data()[i * n + k] * b.data()[k * n + j];
    }
  }
  const double seconds = stopwatch.seconds();
  return {.seconds = seconds, .answer = checksum(c)};
}

// numpy and torch may use another BLAS or add in another order, so their results differ by rounding.
template <class D>
void add_python_products(Cells& cells, const Cell& cell, const std::shared_ptr<PythonChild>& python,
                         const Square<D>& a, const Square<D>& b) {
  const auto modules = python->available({"numpy", "torch"});
  if (modules.empty()) return;
  const auto extent = std::to_string(a.extent(0));
  const auto suffix = '_' + std::string(D::name) + '_' + extent;
  python->load("a" + suffix, D::name, value_of(a.bytes()));
  python->load("b" + suffix, D::name, value_of(b.bytes()));
  const auto expected = value_of(ht::matmul(a, b));
  python->load("expected" + suffix, D::name, value_of(expected.bytes()));
  for (const auto& module : modules) {
    add_python(cells, cell, python, module, "matmul",
               "a" + suffix + " b" + suffix + " expected" + suffix + ' ' + extent, [](const auto& numbers) {
                 const double tolerance = 100.0 * std::numeric_limits<typename D::Element>::epsilon();
                 return numbers.size() == 1 && numbers[0] <= tolerance;
               });
  }
}

template <class D>
void add_product(Cells& cells, const std::shared_ptr<PythonChild>& python, std::int64_t extent, void* blas,
                 const char* function) {
  using T = typename D::Element;
  const auto a = random_square<D>(extent);
  const auto b = random_square<D>(extent);
  const auto elements = static_cast<std::uint64_t>(extent * extent);
  const Cell& cell = cells.cells.emplace_back(
      Cell{.name = std::string(D::name) + ' ' + std::to_string(extent), .bytes = 3 * elements * sizeof(T)});
  const auto& ours = cells.contenders.emplace_back(make_contender(cell, "htensor", Kind::ours, [=] {
    touch_memory<D>(a.shape());
    const Stopwatch stopwatch;
    const auto c = value_of(ht::matmul(a, b));
    const double seconds = stopwatch.seconds();
    return TurnResult{.seconds = seconds, .answer = checksum(c)};
  }));
  const auto expected_answer = ours.expected_answer;
  if (extent <= 1024) {
    Contender naive =
        make_contender(cell, "naive loop", Kind::other, [=] { return multiply_by_loops(a, b); });
    naive.every_rounds = 4;
    cells.contenders.push_back(std::move(naive));
  }
  add_python_products<D>(cells, cell, python, a, b);
  const auto gemm = blas == nullptr ? nullptr : reinterpret_cast<Gemm<T>>(dlsym(blas, function));
  if (gemm == nullptr) return;
  const auto into = value_of(Square<D>::zeros(ht::Rank<2>(extent, extent)));
  Contender direct = make_contender(cell, "cblas", Kind::limit, [=] {
    const int n = static_cast<int>(extent);
    const Stopwatch stopwatch;
    gemm(row_major, not_transposed, not_transposed, n, n, n, 1, a.data(), n, b.data(), n, 0, into.data(), n);
    const double seconds = stopwatch.seconds();
    return TurnResult{.seconds = seconds, .answer = checksum(into)};
  });
  // cblas must have the same result as htensor.
  direct.expected_answer = expected_answer;
  cells.contenders.push_back(std::move(direct));
}

bool run_all(const Options& options) {
  Cells cells;
  const auto python = std::make_shared<PythonChild>();
  void* const blas = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (blas == nullptr) std::puts("left out: cblas, as OpenBLAS was not found (libopenblas0)");
  for (const std::int64_t extent :
       options.smoke ? std::vector<std::int64_t>{64} : std::vector<std::int64_t>{1024, 2048, 4096}) {
    add_product<ht::F32>(cells, python, extent, blas, "cblas_sgemm");
    add_product<ht::F64>(cells, python, extent, blas, "cblas_dgemm");
  }
  run(cells.contenders, options);
  Report report{.file_bytes = cells.cells.back().bytes,
                .contenders = std::move(cells.contenders),
                .goals = {},
                .repeats = options.repeats};
  for (const auto& cell : cells.cells) {
    report.goals.push_back(pair_goal(cell.name + ": speed of htensor / cblas",
                                     find(report.contenders, cell.name, "htensor"),
                                     find(report.contenders, cell.name, "cblas"), 0.95));
  }
  return publish(report, options);
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, {.bytes = 0, .writes_files = false}, run_all); }
