// Tools for tests of tensors: unwrapping of Results, elements as codes, loops over dtypes, and a simple model
// of views.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <htensor/base/result.hpp>
#include <htensor/tensor/tensor.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace ht::tests {

using Ints = std::vector<std::int64_t>;

/// Returns the value of a Result. Throws the text of an Error, which fails the test.
template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(to_string(result.error()));
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

/// Whether a Result failed with this code and rule.
template <class T>
::testing::AssertionResult fails(const Result<T>& result, ErrorCode code, std::string_view rule) {
  if (!result && result.error().code() == code && result.error().rule() == rule) {
    return ::testing::AssertionSuccess();
  }
  if (result) return ::testing::AssertionFailure() << "unexpected success";
  return ::testing::AssertionFailure() << to_string(result.error()) << " by rule " << result.error().rule();
}

/// Returns the stored bits of an element, for exact comparisons: as numbers, NaN is unequal to NaN, and -0
/// equals 0.
template <class Element>
std::uint64_t code_of(const Element& element) {
  if constexpr (requires { element.bits(); }) {
    return element.bits();
  } else {
    std::uint64_t code = 0;
    std::memcpy(&code, &element, sizeof(element));
    return code;
  }
}

/// Returns the element with these bits. Bits above the width of the dtype are dropped.
template <class D>
typename D::Element element_of(std::uint64_t code) {
  using Element = typename D::Element;
  if constexpr (requires { Element::from_bits(0); }) {
    const std::uint64_t mask = (std::uint64_t{1} << D::bits) - 1;
    return Element::from_bits(static_cast<decltype(Element().bits())>(code & mask));
  } else {
    Element element{};
    std::memcpy(static_cast<void*>(&element), &code, sizeof(element));
    return element;
  }
}

/// Returns bits that differ from element to element and use the whole width of any dtype.
inline std::uint64_t nth_code(std::int64_t n) {
  const std::uint64_t mixed = (static_cast<std::uint64_t>(n) + 1) * 0x9E3779B97F4A7C15U;
  return mixed ^ (mixed >> 29);
}

/// A tensor whose elements use every bit of the dtype.
template <class D, class S>
Tensor<D, S> coded(S shape) {
  auto tensor = must(Tensor<D, S>::zeros(shape));
  std::int64_t n = 0;
  for (auto&& element : tensor) element = element_of<D>(nth_code(n++));
  return tensor;
}

/// The stored bits of all elements in row-major order.
template <class D, class S>
std::vector<std::uint64_t> codes(const Tensor<D, S>& tensor) {
  std::vector<std::uint64_t> all;
  for (const auto& element : tensor)
    all.push_back(code_of(static_cast<typename std::remove_const_t<D>::Element>(element)));
  return all;
}

/// Calls `visit.template operator()<D>()` for each dtype of a list.
template <class... Ds, class Visit>
void for_each_dtype(DTypeList<Ds...> /*listed*/, const Visit& visit) {
  (visit.template operator()<Ds>(), ...);
}

template <class D, class S, class Dev, class Index>
decltype(auto) element_at(const Tensor<D, S, Dev>& tensor, const Index& index) {
  return std::apply([&](auto... i) -> decltype(auto) { return tensor(i...); }, index);
}

/// Every index of a shape in row-major order.
inline std::vector<Ints> all_indices(const Ints& extents) {
  std::vector<Ints> indices{{}};
  for (const auto extent : extents) {
    std::vector<Ints> longer;
    for (const auto& index : indices) {
      for (std::int64_t i = 0; i < extent; ++i) {
        longer.push_back(index);
        longer.back().push_back(i);
      }
    }
    indices = std::move(longer);
  }
  return indices;
}

/// A view as the list of the offsets of all its elements, in row-major order.
struct NaiveView {
  Ints extents;
  Ints places;

  static NaiveView dense(Ints extents) {
    NaiveView view{std::move(extents), {}};
    const auto count = static_cast<std::int64_t>(all_indices(view.extents).size());
    for (std::int64_t i = 0; i < count; ++i) view.places.push_back(i);
    return view;
  }

  static NaiveView strided(Ints extents, const Ints& strides, std::int64_t first) {
    NaiveView view{std::move(extents), {}};
    for (const auto& index : all_indices(view.extents)) {
      std::int64_t place = first;
      for (std::size_t i = 0; i < index.size(); ++i) place += index[i] * strides[i];
      view.places.push_back(place);
    }
    return view;
  }

  [[nodiscard]] std::int64_t place(const Ints& index) const {
    std::size_t position = 0;
    for (std::size_t i = 0; i < index.size(); ++i) {
      position = position * static_cast<std::size_t>(extents[i]) + static_cast<std::size_t>(index[i]);
    }
    return places.at(position);
  }

  /// Returns a view of another shape. `to_old` maps each of its indices to an index of this view.
  template <class ToOld>
  [[nodiscard]] NaiveView remap(Ints new_extents, ToOld to_old) const {
    NaiveView view{std::move(new_extents), {}};
    for (const auto& index : all_indices(view.extents)) view.places.push_back(place(to_old(index)));
    return view;
  }

  [[nodiscard]] NaiveView slice(std::size_t dimension, std::int64_t begin, std::int64_t end,
                                std::int64_t step) const {
    Ints taken;
    for (auto i = begin; step > 0 ? i < end : i > end; i += step) taken.push_back(i);
    auto new_extents = extents;
    new_extents[dimension] = static_cast<std::int64_t>(taken.size());
    return remap(new_extents, [&](Ints index) {
      index[dimension] = taken[static_cast<std::size_t>(index[dimension])];
      return index;
    });
  }

  [[nodiscard]] NaiveView select(std::size_t dimension, std::int64_t at) const {
    auto new_extents = extents;
    new_extents.erase(new_extents.begin() + static_cast<std::ptrdiff_t>(dimension));
    return remap(new_extents, [&](Ints index) {
      index.insert(index.begin() + static_cast<std::ptrdiff_t>(dimension), at);
      return index;
    });
  }

  [[nodiscard]] NaiveView transpose(std::size_t a, std::size_t b) const {
    auto new_extents = extents;
    std::swap(new_extents[a], new_extents[b]);
    return remap(new_extents, [&](Ints index) {
      std::swap(index[a], index[b]);
      return index;
    });
  }

  /// A reshape does not change the order of the elements.
  [[nodiscard]] NaiveView reshape(Ints new_extents) const { return {std::move(new_extents), places}; }
};

}  // namespace ht::tests
