#include "io/handles.hpp"

#include <gtest/gtest.h>

#include <string>

namespace ht::io {
namespace {

TEST(Handles, name_what_was_added) {
  HandleTable<std::string> table;
  const Handle a = table.add("a");
  const Handle b = table.add("b");
  EXPECT_NE(a, b);
  EXPECT_EQ(*table.find(a).value(), "a");
  EXPECT_EQ(table.take(b).value(), "b");
  EXPECT_EQ(table.size(), 1U);
}

TEST(Handles, handle_is_not_released) {
  HandleTable<std::string> table;
  const Handle a = table.add("a");
  ASSERT_TRUE(table.take(a));
  const Handle again = table.add("other");
  EXPECT_EQ(again.place, a.place);
  for (const auto& error : {table.take(a).error(), table.find(a).error()}) {
    EXPECT_EQ(error.code(), ErrorCode::stale_handle);
    EXPECT_EQ(error.rule(), "handle_is_not_released");
  }
  EXPECT_EQ(*table.find(again).value(), "other");
}

TEST(Handles, handle_is_of_this_strategy) {
  HandleTable<int> table;
  HandleTable<int> other;
  const Handle foreign = other.add(1);
  static_cast<void>(table.add(2));
  for (const Handle handle : {foreign, Handle{}, Handle{table.add(3).giver, 17, 1}}) {
    EXPECT_EQ(table.take(handle).error().code(), ErrorCode::stale_handle);
    EXPECT_EQ(table.take(handle).error().rule(), "handle_is_of_this_strategy");
  }
  EXPECT_EQ(other.take(foreign).value(), 1);
}

}  // namespace
}  // namespace ht::io
