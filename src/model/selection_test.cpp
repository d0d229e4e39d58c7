#include "model/selection.hpp"

#include <gtest/gtest.h>

namespace ht::selection_test {
namespace {

using Slice = AnyTensor::Slice;

TEST(Selections, empty_selection_does_not_multiply_extents) {
  constexpr std::int64_t huge = std::int64_t{1} << 62;
  const std::int64_t dims[] = {huge, huge, 0};
  const std::int64_t strides[] = {huge, huge, 1};
  const Slice slices[] = {{huge - 1, huge}, {5, huge}, {0, 0}};
  const auto selection = select_elements(dims, strides, 0, slices).value();
  EXPECT_EQ(selection.count, 0);
  EXPECT_TRUE(selection.loops.empty());
}

TEST(Selections, merge_loops_that_continue_each_other) {
  const std::int64_t dims[] = {4, 3, 2};
  const std::int64_t strides[] = {6, 2, 1};
  const Slice rows[] = {{1, 3}, {0, 3}, {0, 2}};
  const auto contiguous = select_elements(dims, strides, 0, rows).value();
  EXPECT_TRUE(contiguous.is_contiguous());
  EXPECT_EQ(contiguous.first, 6);
  EXPECT_EQ(contiguous.count, 12);
  EXPECT_TRUE(contiguous.has_whole_units(2));
  const Slice columns[] = {{0, 4}, {0, 3}, {1, 2}};
  const auto strided = select_elements(dims, strides, 0, columns).value();
  ASSERT_EQ(strided.loops.size(), 1U);
  EXPECT_EQ(strided.loops[0].step, 2);
  EXPECT_FALSE(strided.has_whole_units(2));
  const Slice one[] = {{0, 1}, {0, 1}, {1, 2}};
  EXPECT_TRUE(select_elements(dims, strides, 0, one)->is_contiguous());
  EXPECT_FALSE(select_elements(dims, strides, 0, one)->has_whole_units(2));
}

}  // namespace
}  // namespace ht::selection_test
