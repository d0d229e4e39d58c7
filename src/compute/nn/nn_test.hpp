// Tools for tests of operations: random tensors, strided views, comparison of bits, and rows in long double.
#pragma once

#include <cmath>
#include <cstdint>
#include <htensor/tensor/tensor.hpp>
#include <limits>
#include <random>
#include <vector>

#include "tensor/test_tools.hpp"

namespace ht::tests {

template <class D>
constexpr double unit_roundoff = std::numeric_limits<typename D::Element>::epsilon() / 2;

/// Normally distributed elements, the same for the same seed.
template <class D, class S>
Tensor<D, S> random_tensor(S shape, unsigned seed, double spread = 1) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal(0, spread);
  auto result = must(Tensor<D, S>::zeros(shape));
  for (auto&& element : result) element = static_cast<typename D::Element>(normal(engine));
  return result;
}

/// Returns a strided view with the same elements: every second row of a larger tensor, transposed.
template <class D>
Tensor<D, Rank<2>> strided_like(const Tensor<D, Rank<2>>& x) {
  const auto memory = must(Tensor<D, Rank<2>>::zeros(Rank<2>(2 * x.extent(1), x.extent(0))));
  auto view = must(memory.template slice<0>(0, 2 * x.extent(1), 2)).transpose();
  for (std::int64_t i = 0; i < x.extent(0); ++i) {
    for (std::int64_t j = 0; j < x.extent(1); ++j) view(i, j) = x(i, j);
  }
  return view;
}

/// Whether all elements of two tensors have the same bits.
template <class A, class B>
bool same_bits(const A& a, const B& b) {
  if (a.elements() != b.elements()) return false;
  auto other = b.begin();
  for (const auto& element : a) {
    if (code_of(element) != code_of(*other)) return false;
    ++other;
  }
  return true;
}

/// A row in long double.
template <class D>
std::vector<long double> row_of(const Tensor<D, Rank<2>>& x, std::int64_t row) {
  std::vector<long double> values;
  values.reserve(static_cast<std::size_t>(x.extent(1)));
  for (std::int64_t i = 0; i < x.extent(1); ++i) values.push_back(static_cast<long double>(x(row, i)));
  return values;
}

}  // namespace ht::tests
