#include <benchmark/benchmark.h>

#include <string>

#include "bench/element_access/task.hpp"
#include "bench/microbenchmarks.hpp"

namespace {

// Small integers, so that the sum is exact in any order.
template <class D>
ht::Tensor<D, ht::Rank<2>> matrix_of(std::int64_t rows, std::int64_t columns) {
  auto matrix = ht::Tensor<D, ht::Rank<2>>::zeros(ht::Rank<2>(rows, columns)).value();
  int next = 0;
  for (auto&& element : matrix) element = typename D::Element(static_cast<float>(next++ % 7 - 3));
  return matrix;
}

template <class D>
void add(const std::string& dtype) {
  const auto matrix = matrix_of<D>(1000, 1000);
  float expected = 0;
  for (const auto& element : matrix) expected += static_cast<float>(element);
  benchmark::RegisterBenchmark(("element_access/operator/" + dtype).c_str(),
                               [matrix, expected](benchmark::State& state) {
                                 for (auto _ : state) {
                                   if (ht::bench::sum_by_operator(matrix) != expected)
                                     state.SkipWithError("the sum is wrong");
                                 }
                               });
  benchmark::RegisterBenchmark(
      ("element_access/pointer/" + dtype).c_str(), [matrix, expected](benchmark::State& state) {
        for (auto _ : state) {
          const float sum = ht::bench::sum_by_pointer(matrix.data(), matrix.extent(0), matrix.extent(1));
          if (sum != expected) state.SkipWithError("the sum is wrong");
        }
      });
}

}  // namespace

int main(int argc, char** argv) {
  add<ht::F32>("F32");
  add<ht::BF16>("BF16");
  return ht::bench::run_and_compare(argc, argv,
                                    {{"element_access/operator/F32", "element_access/pointer/F32", 1.05},
                                     {"element_access/operator/BF16", "element_access/pointer/BF16", 1.05}});
}
