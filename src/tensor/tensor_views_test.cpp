// Random chains of view operations, compared element by element with a list of offsets.
#include <htensor/tensor/tensor.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "tensor/test_random.hpp"
#include "tensor/test_tools.hpp"

namespace ht::tensor_views_test {
namespace {

using tests::below;
using tests::between;
using tests::code_of;
using tests::element_of;
using tests::Ints;
using tests::must;
using tests::NaiveView;
using tests::nth_code;
using tests::random_extents;
using tests::random_factors;
using tests::RandomSlice;

template <class D>
using TensorOfAnyRank = std::variant<Tensor<D, Rank<0>>, Tensor<D, Rank<1>>, Tensor<D, Rank<2>>,
                                     Tensor<D, Rank<3>>, Tensor<D, Rank<4>>>;

// Calls f with the number as a compile-time constant, because ranks and dimensions are template arguments.
template <int Count, class F>
void with_constant(std::size_t number, F f) {
  [&]<std::size_t... Ns>(std::index_sequence<Ns...>) {
    ((Ns == number ? f(std::integral_constant<int, static_cast<int>(Ns)>{}) : void()), ...);
  }(std::make_index_sequence<static_cast<std::size_t>(Count)>{});
}

// A tensor and a model of its elements.
template <class D>
struct Subject {
  TensorOfAnyRank<D> tensor;
  NaiveView view;

  static Subject random() {
    const auto extents = random_extents(4, 0, 5);
    std::vector<typename D::Element> values;
    const auto view = NaiveView::dense(extents);
    for (const auto place : view.places) values.push_back(element_of<D>(nth_code(place)));
    std::optional<TensorOfAnyRank<D>> result;
    with_constant<5>(extents.size(), [&](auto rank) {
      result.emplace(must(Tensor<D, Rank<rank>>::of(must(Rank<rank>::from(extents)), values)));
    });
    return {*std::move(result), view};
  }

  void slice() {
    std::visit([&](const auto& t) { slice_one(t); }, TensorOfAnyRank<D>(tensor));
  }
  void select() {
    std::visit([&](const auto& t) { select_one(t); }, TensorOfAnyRank<D>(tensor));
  }
  void transpose() {
    std::visit([&](const auto& t) { transpose_one(t); }, TensorOfAnyRank<D>(tensor));
  }
  void reshape() {
    std::visit([&](const auto& t) { reshape_one(t); }, TensorOfAnyRank<D>(tensor));
  }

 private:
  template <class T>
  void slice_one(const T& t) {
    if (T::rank == 0) return;
    const auto at = below(view.extents.size());
    const RandomSlice by(view.extents[at]);
    with_constant<T::rank>(
        at, [&](auto d) { tensor = must(t.template slice<d.value>(by.begin, by.end, by.step)); });
    view = view.slice(at, by.begin, by.end, by.step);
  }

  template <class T>
  void select_one(const T& t) {
    if (T::rank == 0) return;
    const auto at = below(view.extents.size());
    if (view.extents[at] == 0) return;
    const auto index = between(0, view.extents[at] - 1);
    with_constant<T::rank>(at, [&](auto d) { tensor = must(t.template select<d.value>(index)); });
    view = view.select(at, index);
  }

  template <class T>
  void transpose_one(const T& t) {
    if (T::rank == 0) return;
    const auto a = below(view.extents.size());
    const auto b = below(view.extents.size());
    with_constant<T::rank>(a, [&](auto first) {
      with_constant<T::rank>(
          b, [&](auto second) { tensor = t.template transpose<first.value, second.value>(); });
    });
    view = view.transpose(a, b);
  }

  template <class T>
  void reshape_one(const T& t) {
    const auto extents = random_factors(t.elements());
    with_constant<5>(extents.size(), [&](auto rank) {
      const auto shape = must(Rank<rank>::from(extents));
      auto reshaped = t.reshape(shape);
      // If no strides describe the new shape, a contiguous copy can always be reshaped.
      if (!reshaped) {
        RC_ASSERT(reshaped.error().rule() == "reshape_needs_no_copy");
        reshaped = must(t.contiguous()).reshape(shape);
      }
      tensor = must(std::move(reshaped));
    });
    view = view.reshape(extents);
  }
};

template <class D>
void expect_equal(const Subject<D>& subject) {
  const auto expected = [&](std::int64_t place) { return code_of(element_of<D>(nth_code(place))); };
  std::visit(
      [&](const auto& t) {
        using T = std::remove_cvref_t<decltype(t)>;
        const auto extents = t.shape().extents();
        RC_ASSERT(Ints(extents.begin(), extents.end()) == subject.view.extents);
        RC_ASSERT(std::cmp_equal(t.elements(), subject.view.places.size()));
        auto iterator = t.begin();
        for (const auto& index : tests::all_indices(subject.view.extents)) {
          typename T::Array array{};
          std::ranges::copy(index, array.begin());
          const auto code = expected(subject.view.place(index));
          const auto by_index = static_cast<typename T::Element>(tests::element_at(t, array));
          const auto by_at = std::apply([&](auto... i) { return t.at(i...); }, array);
          RC_ASSERT(code_of(by_index) == code);
          RC_ASSERT(code_of(must(by_at)) == code);
          RC_ASSERT(code_of(static_cast<typename T::Element>(*iterator)) == code);
          ++iterator;
        }
        RC_ASSERT(iterator == t.end());
      },
      subject.tensor);
}

// Indices just outside of each dimension, and the smallest and largest integers, must be refused.
template <class D>
void expect_bounds_checked(const Subject<D>& subject) {
  std::visit(
      [&](const auto& t) {
        using T = std::remove_cvref_t<decltype(t)>;
        for (std::size_t d = 0; d < static_cast<std::size_t>(T::rank); ++d) {
          for (const auto beyond :
               {t.extent(static_cast<int>(d)), std::int64_t{-1}, std::numeric_limits<std::int64_t>::max(),
                std::numeric_limits<std::int64_t>::min()}) {
            typename T::Array array{};
            array[d] = beyond;
            const auto result = std::apply([&](auto... i) { return t.at(i...); }, array);
            RC_ASSERT(!result.has_value() && result.error().code() == ErrorCode::out_of_bounds);
          }
        }
      },
      subject.tensor);
}

template <class D>
void check_random_chain() {
  auto subject = Subject<D>::random();
  expect_equal(subject);
  for (auto steps = between(1, 5); steps > 0; --steps) {
    switch (between(0, 5)) {
      case 0: subject.transpose(); break;
      case 1: subject.select(); break;
      case 2:
      case 3: subject.reshape(); break;
      default: subject.slice(); break;
    }
    expect_equal(subject);
  }
  expect_bounds_checked(subject);
}

RC_GTEST_PROP(TensorViews, match_a_list_of_offsets_with_whole_byte_elements, ()) {
  check_random_chain<F32>();
}

RC_GTEST_PROP(TensorViews, match_a_list_of_offsets_with_4_bit_elements, ()) { check_random_chain<I4>(); }

RC_GTEST_PROP(TensorViews, match_a_list_of_offsets_with_6_bit_elements, ()) { check_random_chain<F6_E2M3>(); }

RC_GTEST_PROP(TensorViews, write_only_their_own_elements, ()) {
  const auto base = must(Tensor<U4, Rank<2>>::zeros(Rank<2>(5, 7)));
  const RandomSlice rows(5);
  const RandomSlice columns(7);
  const auto sliced = must(base.slice<0>(rows.begin, rows.end, rows.step));
  const auto view = must(sliced.slice<1>(columns.begin, columns.end, columns.step)).transpose();
  for (auto&& element : view) element = U4::Element(15);
  auto places = NaiveView::dense({5, 7})
                    .slice(0, rows.begin, rows.end, rows.step)
                    .slice(1, columns.begin, columns.end, columns.step)
                    .places;
  for (std::int64_t i = 0; i < 35; ++i) {
    const bool written = std::ranges::find(places, i) != places.end();
    RC_ASSERT(must(base.at(i / 7, i % 7)).bits() == (written ? 15 : 0));
  }
}

RC_GTEST_PROP(TensorViews, are_restored_by_inverse_operations, ()) {
  const auto tensor = must(Tensor<F32, Rank<3>>::zeros(Rank<3>(between(1, 4), between(1, 4), between(1, 4))));
  const auto swapped_twice = tensor.transpose<0, 2>().transpose<0, 2>();
  RC_ASSERT(swapped_twice.strides() == tensor.strides());
  const auto last = tensor.extent(1) - 1;
  const auto reversed_twice = must(must(tensor.slice<1>(last, -1, -1)).slice<1>(last, -1, -1));
  RC_ASSERT(reversed_twice.shape() == tensor.shape());
  RC_ASSERT(reversed_twice.data() == tensor.data());
  const auto flat = must(tensor.reshape(Rank<1>(tensor.elements())));
  RC_ASSERT(must(flat.reshape(tensor.shape())).strides() == tensor.strides());
}

}  // namespace
}  // namespace ht::tensor_views_test
