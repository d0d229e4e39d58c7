#include <htensor/tensor/shape.hpp>

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "tensor/test_tools.hpp"

namespace ht::layout_test {
namespace {

using tests::fails;
using tests::Ints;

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t two_to_40 = std::int64_t{1} << 40;

TEST(Layout, writes_extents_as_text) {
  EXPECT_EQ(layout::to_text(Ints{}), "[]");
  EXPECT_EQ(layout::to_text(Ints{7}), "[7]");
  EXPECT_EQ(layout::to_text(Ints{4, -8, 0}), "[4, -8, 0]");
}

TEST(Layout, counts_the_product_of_the_extents) {
  EXPECT_EQ(layout::count_elements(Ints{4, 8, 3}).value(), 96);
  EXPECT_EQ(layout::count_elements(Ints{most}).value(), most);
  EXPECT_EQ(layout::count_elements(Ints{1, most, 1}).value(), most);
}

TEST(Layout, counts_one_element_for_rank_0) { EXPECT_EQ(layout::count_elements(Ints{}).value(), 1); }

TEST(Layout, counts_zero_elements_for_a_zero_extent) {
  EXPECT_EQ(layout::count_elements(Ints{0}).value(), 0);
  EXPECT_EQ(layout::count_elements(Ints{4, 0, 8}).value(), 0);
  EXPECT_EQ(layout::count_elements(Ints{0, 0, most}).value(), 0);
}

TEST(Layout, counts_more_dimensions_than_a_tensor_may_have) {
  // A file may contain any rank, and its elements are counted before the rank is checked.
  EXPECT_EQ(layout::count_elements(Ints(60, 2)).value(), std::int64_t{1} << 60);
}

TEST(Layout, extents_are_not_negative) {
  const auto expect_refused = [](const Ints& extents) {
    EXPECT_TRUE(fails(layout::count_elements(extents), ErrorCode::bad_shape, "extents_are_not_negative"));
  };
  expect_refused({-1});
  expect_refused({least});
  expect_refused({4, -2, -2});
  // A negative extent is refused even if another extent is 0.
  expect_refused({0, -1});
  expect_refused({-1, 0});
}

TEST(Layout, elements_fit_63_bits) {
  const auto expect_refused = [](const Ints& extents) {
    EXPECT_TRUE(fails(layout::count_elements(extents), ErrorCode::size_overflow, "elements_fit_63_bits"));
  };
  expect_refused({most, 2});
  expect_refused({two_to_40, two_to_40});
  expect_refused(Ints(63, 2));
  // The product of the other extents of an empty shape must fit too, at any position of the 0.
  expect_refused({0, two_to_40, two_to_40});
  expect_refused({two_to_40, 0, two_to_40});
  expect_refused({two_to_40, two_to_40, 0});
}

TEST(Layout, accepts_any_extent_for_a_dynamic_one) {
  EXPECT_TRUE(layout::check_against_static(Ints{4, 8}, Ints{-1, 8}));
  EXPECT_TRUE(layout::check_against_static(Ints{}, Ints{}));
  EXPECT_TRUE(layout::check_against_static(Ints{0, 9}, Ints{-1, -1}));
}

TEST(Layout, shape_matches_the_request) {
  const auto check = [](const Ints& extents, const Ints& requested) {
    return layout::check_against_static(extents, requested);
  };
  const auto refused = check({4, 9}, {-1, 8});
  EXPECT_TRUE(fails(refused, ErrorCode::shape_mismatch, "shape_matches_the_request"));
  EXPECT_EQ(refused.error().message(), "shape is [4, 9] but [any, 8] was requested");
  EXPECT_TRUE(fails(check({4}, {4, 1}), ErrorCode::shape_mismatch, "shape_matches_the_request"));
  EXPECT_TRUE(fails(check({4, 1}, {4}), ErrorCode::shape_mismatch, "shape_matches_the_request"));
  EXPECT_TRUE(fails(check({}, {-1}), ErrorCode::shape_mismatch, "shape_matches_the_request"));
}

TEST(Layout, shapes_are_equal) {
  EXPECT_TRUE(layout::check_equal(Ints{2, 3}, Ints{2, 3}));
  EXPECT_TRUE(layout::check_equal(Ints{}, Ints{}));
  const auto refused = layout::check_equal(Ints{2, 3}, Ints{3, 2});
  EXPECT_TRUE(fails(refused, ErrorCode::shape_mismatch, "shapes_are_equal"));
  EXPECT_EQ(refused.error().message(), "shapes [2, 3] and [3, 2] differ");
  EXPECT_TRUE(fails(layout::check_equal(Ints{2}, Ints{2, 1}), ErrorCode::shape_mismatch, "shapes_are_equal"));
}

TEST(Layout, index_is_within_bounds) {
  EXPECT_TRUE(layout::check_index(Ints{}, Ints{}));
  EXPECT_TRUE(layout::check_index(Ints{3, 0}, Ints{4, 8}));
  EXPECT_TRUE(layout::check_index(Ints{0, 7}, Ints{4, 8}));
  for (const auto& index :
       {Ints{4, 0}, Ints{0, 8}, Ints{-1, 0}, Ints{0, -1}, Ints{most, 0}, Ints{0, least}}) {
    EXPECT_TRUE(
        fails(layout::check_index(index, Ints{4, 8}), ErrorCode::out_of_bounds, "index_is_within_bounds"));
  }
  EXPECT_TRUE(
      fails(layout::check_index(Ints{0}, Ints{0}), ErrorCode::out_of_bounds, "index_is_within_bounds"));
}

TEST(Layout, names_the_index_and_dimension_out_of_bounds) {
  EXPECT_EQ(layout::check_index(Ints{1, 9}, Ints{4, 8}).error().message(),
            "index 9 of dimension 1 is outside shape [4, 8]");
}

TEST(Layout, row_major_strides_step_over_the_inner_dimensions) {
  const auto strides = [](const Ints& extents) {
    Ints filled(extents.size(), -7);
    layout::fill_row_major_strides(extents, filled);
    return filled;
  };
  EXPECT_EQ(strides({2, 3, 4}), (Ints{12, 4, 1}));
  EXPECT_EQ(strides({}), Ints{});
  // A zero extent counts as 1, so that the strides of the other dimensions are distinct.
  EXPECT_EQ(strides({2, 0, 4}), (Ints{4, 4, 1}));
}

TEST(Layout, column_major_strides_step_over_the_outer_dimensions) {
  Ints filled(3, -7);
  layout::fill_column_major_strides(Ints{2, 3, 4}, filled);
  EXPECT_EQ(filled, (Ints{1, 2, 6}));
}

TEST(Layout, strides_of_an_empty_shape_do_not_overflow) {
  const Ints extents{5, most, 8, 0};
  Ints filled(4, -7);
  layout::fill_row_major_strides(extents, filled);
  EXPECT_EQ(filled, (Ints{0, 8, 1, 1}));
  layout::fill_column_major_strides(extents, filled);
  EXPECT_EQ(filled, (Ints{1, 5, 0, 0}));
  EXPECT_TRUE(layout::is_row_major(Ints{0, most, 8}, Ints{1, 2, 3}));
  EXPECT_FALSE(layout::is_row_major(Ints{2, most, 8}, Ints{1, 8, 1}));
}

TEST(Layout, is_row_major_only_without_steps_between_elements) {
  EXPECT_TRUE(layout::is_row_major(Ints{2, 3}, Ints{3, 1}));
  EXPECT_FALSE(layout::is_row_major(Ints{2, 3}, Ints{1, 2}));
  EXPECT_FALSE(layout::is_row_major(Ints{2, 3}, Ints{4, 1}));
  EXPECT_FALSE(layout::is_row_major(Ints{3}, Ints{-1}));
  EXPECT_FALSE(layout::is_row_major(Ints{3}, Ints{0}));
}

TEST(Layout, is_row_major_with_any_stride_of_extent_1) {
  EXPECT_TRUE(layout::is_row_major(Ints{}, Ints{}));
  EXPECT_TRUE(layout::is_row_major(Ints{1, 3, 1}, Ints{77, 1, least}));
  EXPECT_TRUE(layout::is_row_major(Ints{1, 1}, Ints{0, -5}));
}

TEST(Layout, is_row_major_without_any_element) {
  EXPECT_TRUE(layout::is_row_major(Ints{5, 0}, Ints{-3, 9}));
  EXPECT_TRUE(layout::is_row_major(Ints{0, 5}, Ints{9, 9}));
}

TEST(Layout, offset_range_follows_the_sign_of_the_strides) {
  const auto both = layout::offset_range(Ints{3, 4}, Ints{10, -2});
  ASSERT_TRUE(both);
  EXPECT_EQ(both->lowest, -6);
  EXPECT_EQ(both->highest, 20);
}

TEST(Layout, offset_range_is_0_to_0_without_elements) {
  const auto nothing = layout::offset_range(Ints{3, 0}, Ints{most, least});
  ASSERT_TRUE(nothing);
  EXPECT_EQ(nothing->lowest, 0);
  EXPECT_EQ(nothing->highest, 0);
}

TEST(Layout, strides_fit_63_bits) {
  const auto expect_refused = [](const Ints& extents, const Ints& strides) {
    EXPECT_TRUE(
        fails(layout::offset_range(extents, strides), ErrorCode::size_overflow, "strides_fit_63_bits"));
  };
  expect_refused({3}, {most});
  expect_refused({3}, {least});
  expect_refused({2, 2}, {most, 1});
  expect_refused({2, 2}, {least, -1});
  expect_refused({most}, {2});
  // The lowest and the highest offset are checked separately, so each may be near its limit.
  EXPECT_TRUE(layout::offset_range(Ints{2, 2}, Ints{most, least}));
}

TEST(Layout, slice_step_is_valid) {
  for (const auto step : {std::int64_t{0}, least}) {
    EXPECT_TRUE(fails(layout::count_slice(4, 0, 4, step), ErrorCode::out_of_bounds, "slice_step_is_valid"));
  }
}

TEST(Layout, slice_is_within_bounds) {
  const auto expect_refused = [](std::int64_t begin, std::int64_t end, std::int64_t step) {
    EXPECT_TRUE(
        fails(layout::count_slice(4, begin, end, step), ErrorCode::out_of_bounds, "slice_is_within_bounds"));
  };
  expect_refused(0, 5, 1);
  expect_refused(-1, 2, 1);
  expect_refused(3, 2, 1);
  expect_refused(least, most, 1);
  expect_refused(4, 0, -1);
  expect_refused(3, -2, -1);
  expect_refused(1, 2, -1);
  expect_refused(most, least, -1);
}

TEST(Layout, counts_a_slice_as_a_loop_does) {
  // Tests all small slices, because random slices rarely reach the edge cases.
  for (std::int64_t extent = 0; extent <= 6; ++extent) {
    for (std::int64_t begin = -3; begin <= 8; ++begin) {
      for (std::int64_t end = -3; end <= 8; ++end) {
        for (const std::int64_t step : {-7, -3, -2, -1, 1, 2, 3, 7}) {
          const bool up = step > 0;
          const bool inside =
              up ? 0 <= begin && begin <= end && end <= extent : extent > begin && begin >= end && end >= -1;
          std::int64_t visited = 0;
          for (auto i = begin; inside && (up ? i < end : i > end); i += step) ++visited;
          const auto count = layout::count_slice(extent, begin, end, step);
          ASSERT_EQ(count.has_value(), inside) << extent << ' ' << begin << ':' << end << ':' << step;
          ASSERT_EQ(count.value_or(0), visited) << extent << ' ' << begin << ':' << end << ':' << step;
        }
      }
    }
  }
}

TEST(Layout, counts_a_slice_of_the_largest_extent) {
  EXPECT_EQ(layout::count_slice(most, 0, most, 1).value(), most);
  EXPECT_EQ(layout::count_slice(most, 0, most, most).value(), 1);
  EXPECT_EQ(layout::count_slice(most, most - 1, -1, -1).value(), most);
  EXPECT_EQ(layout::count_slice(most, most - 1, -1, least + 1).value(), 1);
  EXPECT_EQ(layout::count_slice(most, 0, most, most - 1).value(), 2);
}

TEST(Layout, reshape_keeps_the_element_count) {
  Ints strides(2);
  EXPECT_TRUE(fails(layout::reshape_strides(Ints{6}, Ints{1}, Ints{2, 4}, strides), ErrorCode::shape_mismatch,
                    "reshape_keeps_the_element_count"));
  EXPECT_TRUE(fails(layout::reshape_strides(Ints{0}, Ints{1}, Ints{1, 1}, strides), ErrorCode::shape_mismatch,
                    "reshape_keeps_the_element_count"));
}

TEST(Layout, reshape_needs_no_copy) {
  Ints strides(1);
  const auto refused = layout::reshape_strides(Ints{2, 3}, Ints{1, 2}, Ints{6}, strides);
  EXPECT_TRUE(fails(refused, ErrorCode::bad_shape, "reshape_needs_no_copy"));
  EXPECT_EQ(refused.error().hint(), "call contiguous() first");
}

TEST(Layout, reshape_rejects_invalid_shapes) {
  Ints strides(3);
  EXPECT_TRUE(fails(layout::reshape_strides(Ints{6}, Ints{1}, Ints{-2, -3, 1}, strides), ErrorCode::bad_shape,
                    "extents_are_not_negative"));
  EXPECT_TRUE(fails(layout::reshape_strides(Ints{0}, Ints{1}, Ints{0, two_to_40, two_to_40}, strides),
                    ErrorCode::size_overflow, "elements_fit_63_bits"));
}

TEST(Layout, reshape_splits_and_joins_contiguous_axes) {
  Ints strides(3);
  ASSERT_TRUE(layout::reshape_strides(Ints{4, 6}, Ints{6, 1}, Ints{2, 6, 2}, strides));
  EXPECT_EQ(strides, (Ints{12, 2, 1}));
  // A step of -2: the distance between neighbours is constant, so the axis can be split.
  ASSERT_TRUE(layout::reshape_strides(Ints{12}, Ints{-2}, Ints{3, 2, 2}, strides));
  EXPECT_EQ(strides, (Ints{-8, -4, -2}));
}

TEST(Layout, reshapes_an_empty_shape_into_any_other) {
  Ints strides(3);
  ASSERT_TRUE(layout::reshape_strides(Ints{3, 0}, Ints{most, most}, Ints{0, 7, 2}, strides));
  EXPECT_EQ(strides, (Ints{14, 2, 1}));
}

}  // namespace
}  // namespace ht::layout_test
