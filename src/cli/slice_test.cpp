#include "cli/slice.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

namespace ht::cli {
namespace {

std::vector<Axis> slice(std::string_view text, std::vector<std::int64_t> dims) {
  return parse_slice(text, dims).value();
}

std::vector<std::int64_t> indices(const Axis& axis) {
  std::vector<std::int64_t> all;
  all.reserve(static_cast<std::size_t>(axis.count));
  for (std::int64_t i = 0; i < axis.count; ++i) all.push_back(axis.begin + i * axis.step);
  return all;
}

using List = std::vector<std::int64_t>;

TEST(Slice, nothing_given_is_everything) {
  const auto axes = slice("", {2, 3});
  ASSERT_EQ(axes.size(), 2U);
  EXPECT_EQ(indices(axes[0]), (List{0, 1}));
  EXPECT_EQ(indices(axes[1]), (List{0, 1, 2}));
}

TEST(Slice, ranges_work_as_in_python) {
  EXPECT_EQ(indices(slice("1:3", {5})[0]), (List{1, 2}));
  EXPECT_EQ(indices(slice(":", {3})[0]), (List{0, 1, 2}));
  EXPECT_EQ(indices(slice("-2:", {5})[0]), (List{3, 4}));
  EXPECT_EQ(indices(slice(":-3", {5})[0]), (List{0, 1}));
  EXPECT_EQ(indices(slice("::2", {5})[0]), (List{0, 2, 4}));
  EXPECT_EQ(indices(slice("::-1", {3})[0]), (List{2, 1, 0}));
  EXPECT_EQ(indices(slice("4:0:-2", {5})[0]), (List{4, 2}));
  EXPECT_EQ(indices(slice("2:100", {5})[0]), (List{2, 3, 4}));
  EXPECT_EQ(indices(slice("4:2", {5})[0]), List{});
  EXPECT_EQ(indices(slice(" 1 : 3 ", {5})[0]), (List{1, 2}));
  EXPECT_EQ(indices(slice("9223372036854775807:-9223372036854775807:-9223372036854775807", {5})[0]), List{4});
}

TEST(Slice, index_drops_its_dimension) {
  const auto axes = slice("1,:,-1", {2, 3, 4});
  EXPECT_TRUE(axes[0].dropped);
  EXPECT_FALSE(axes[1].dropped);
  EXPECT_EQ(indices(axes[2]), List{3});
}

TEST(Slice, slice_index_is_inside) {
  for (const auto* text : {"5", "-6", "9223372036854775807", "-9223372036854775808"}) {
    const auto axes = parse_slice(text, List{5});
    ASSERT_FALSE(axes) << text;
    EXPECT_EQ(axes.error().code(), ErrorCode::out_of_bounds);
    EXPECT_EQ(axes.error().rule(), "slice_index_is_inside");
  }
}

TEST(Slice, slice_is_well_formed) {
  for (const auto* text :
       {"a", "1:2:3:4", "1:b", "::0", ",", "1x", "99999999999999999999", "::-9223372036854775808"}) {
    const auto axes = parse_slice(text, List{5, 5});
    ASSERT_FALSE(axes) << text;
    EXPECT_EQ(axes.error().code(), ErrorCode::bad_shape);
    EXPECT_EQ(axes.error().rule(), "slice_is_well_formed");
    EXPECT_FALSE(axes.error().hint().empty());
  }
}

TEST(Slice, slice_has_at_most_the_rank) {
  for (const auto& dims : {List{}, List{3}}) {
    const auto axes = parse_slice(":,:", dims);
    ASSERT_FALSE(axes);
    EXPECT_EQ(axes.error().rule(), "slice_has_at_most_the_rank");
  }
}

RC_GTEST_PROP(Slice, every_index_is_inside_whatever_is_asked, ()) {
  const auto extent = *rc::gen::inRange<std::int64_t>(0, 20);
  const auto number = rc::gen::map(rc::gen::arbitrary<std::int64_t>(),
                                   [](std::int64_t n) { return std::to_string(n % 2 == 0 ? n : n % 30); });
  const std::string text = *number + ":" + *number + ":" + *number;
  if (const auto axes = parse_slice(text, List{extent})) {
    RC_ASSERT((*axes)[0].count <= extent);
    for (const auto i : indices((*axes)[0])) RC_ASSERT(i >= 0 && i < extent);
  }
}

}  // namespace
}  // namespace ht::cli
