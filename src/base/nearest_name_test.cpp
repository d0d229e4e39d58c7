
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "base/nearest_name.hpp"

namespace ht::nearest_test {
namespace {

std::optional<std::string_view> nearest(std::string_view name,
                                        std::initializer_list<std::string_view> candidates) {
  NearestName nearest(name);
  for (const auto candidate : candidates) nearest.consider(candidate);
  return nearest.found();
}

TEST(Nearest, finds_a_misspelled_name) {
  const auto names = {"blk.0.attn_q.weight", "blk.0.attn_k.weight", "output.weight"};
  NearestName missing_letter("blk.0.atn_k.weight");
  NearestName swapped_letters("output.wieght");
  for (const std::string_view candidate : names) {
    EXPECT_TRUE(missing_letter.consider(candidate));
    EXPECT_TRUE(swapped_letters.consider(candidate));
  }
  EXPECT_EQ(missing_letter.found(), "blk.0.attn_k.weight");
  EXPECT_EQ(swapped_letters.found(), "output.weight");
}

TEST(Nearest, chooses_the_first_of_several) {
  EXPECT_EQ(nearest("layer.c", {"layer.b", "layer.a"}), "layer.b");
  EXPECT_EQ(nearest("layer.a", {"layer.b", "layer.a", "layer.b"}), "layer.a");
}

TEST(Nearest, ignores_candidates_further_away_than_half_of_the_name) {
  EXPECT_EQ(nearest("xyz", {"output.weight"}), std::nullopt);
  EXPECT_EQ(nearest("xyz", {}), std::nullopt);
  EXPECT_EQ(nearest("", {"a"}), std::nullopt);
}

TEST(Nearest, limits_the_comparison_time) {
  const std::string name = "model.layers.0.mlp.experts.999999.weight";
  const std::string last = name + "s";
  std::vector<std::string> names;
  for (int i = 0; i < 20'000; ++i) {
    names.push_back("model.layers.0.mlp.experts." + std::to_string(100'000 + i) + ".weight");
  }
  NearestName nearest(name);
  bool can_continue = true;
  for (const auto& candidate : names) can_continue = nearest.consider(candidate);
  EXPECT_FALSE(can_continue);
  nearest.consider(last);
  ASSERT_TRUE(nearest.found());
  EXPECT_NE(*nearest.found(), last);
}

TEST(Nearest, skips_very_long_names) {
  const std::string name(1'000'000, 'a');
  EXPECT_EQ(nearest(name, {name}), std::nullopt);
}

}  // namespace
}  // namespace ht::nearest_test
