#include <htensor/tensor/shape.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "tensor/test_random.hpp"
#include "tensor/test_tools.hpp"

namespace ht::layout_property_test {
namespace {

using tests::below;
using tests::between;
using tests::Ints;
using tests::must;
using tests::NaiveView;
using tests::random_extents;
using tests::random_factors;
using tests::RandomSlice;

struct View {
  Ints extents;
  Ints strides;
  std::int64_t first = 0;

  [[nodiscard]] NaiveView model() const { return NaiveView::strided(extents, strides, first); }
};

// A random view: a dense shape after random transposes and slices, with positive and negative steps.
View random_view() {
  View view;
  view.extents = random_extents(4, 1, 6);
  view.strides.resize(view.extents.size());
  layout::fill_row_major_strides(view.extents, view.strides);
  for (auto steps = view.extents.empty() ? 0 : between(0, 3); steps > 0; --steps) {
    const auto a = below(view.extents.size());
    if (between(0, 1) == 0) {
      const auto b = below(view.extents.size());
      std::swap(view.extents[a], view.extents[b]);
      std::swap(view.strides[a], view.strides[b]);
    } else {
      const RandomSlice slice(view.extents[a]);
      const auto count = must(layout::count_slice(view.extents[a], slice.begin, slice.end, slice.step));
      if (count == 0) continue;
      view.first += slice.begin * view.strides[a];
      view.extents[a] = count;
      view.strides[a] *= slice.step;
    }
  }
  return view;
}

// Returns the only strides that are possible: the distances from the first element to its neighbours.
Ints required_strides(const NaiveView& reshaped) {
  Ints strides;
  for (std::size_t i = 0; i < reshaped.extents.size(); ++i) {
    Ints neighbour(reshaped.extents.size(), 0);
    neighbour[i] = 1;
    strides.push_back(reshaped.extents[i] == 1 ? 0 : reshaped.place(neighbour) - reshaped.places[0]);
  }
  return strides;
}

RC_GTEST_PROP(LayoutProperty, reshape_finds_strides_iff_they_exist, ()) {
  const auto view = random_view();
  const auto expected = view.model();
  const auto new_extents = random_factors(static_cast<std::int64_t>(expected.places.size()));
  Ints new_strides(new_extents.size());
  const auto result = layout::reshape_strides(view.extents, view.strides, new_extents, new_strides);
  RC_CLASSIFY(result.has_value(), "reshaped");
  if (result) {
    RC_ASSERT(NaiveView::strided(new_extents, new_strides, view.first).places == expected.places);
  } else {
    RC_ASSERT(result.error().rule() == "reshape_needs_no_copy");
    const auto strides = required_strides(expected.reshape(new_extents));
    RC_ASSERT(NaiveView::strided(new_extents, strides, view.first).places != expected.places);
  }
}

RC_GTEST_PROP(LayoutProperty, is_row_major_iff_offsets_increase_by_one, ()) {
  const auto view = random_view();
  const auto places = view.model().places;
  const bool counts_up =
      std::ranges::adjacent_find(places, [](auto a, auto b) { return b != a + 1; }) == places.end();
  RC_ASSERT(layout::is_row_major(view.extents, view.strides) == counts_up);
}

RC_GTEST_PROP(LayoutProperty, offset_range_is_the_lowest_and_highest_offset, ()) {
  const auto extents = random_extents(4, 0, 5);
  Ints strides;
  for (std::size_t i = 0; i < extents.size(); ++i) strides.push_back(between(-9, 9));
  auto places = NaiveView::strided(extents, strides, 0).places;
  places.push_back(0);  // offset 0 is always in the range, even without elements
  const auto [lowest, highest] = std::ranges::minmax(places);
  const auto offsets = must(layout::offset_range(extents, strides));
  RC_ASSERT(offsets.lowest == lowest);
  RC_ASSERT(offsets.highest == highest);
}

}  // namespace
}  // namespace ht::layout_property_test
