#include "model/nearest.hpp"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace ht {
namespace {

Catalog catalog_of(std::initializer_list<std::string_view> names) {
  CatalogBuilder builder("test");
  for (const auto name : names) EXPECT_TRUE(builder.add({.name = name}));
  return std::move(builder).build().value();
}

TEST(Nearest, finds_a_misspelled_name) {
  const auto catalog = catalog_of({"blk.0.attn_q.weight", "blk.0.attn_k.weight", "output.weight"});
  EXPECT_EQ(nearest_name(catalog, "blk.0.atn_k.weight"), "blk.0.attn_k.weight");
  EXPECT_EQ(nearest_name(catalog, "output.wieght"), "output.weight");
}

TEST(Nearest, takes_the_first_of_several_in_file_order) {
  EXPECT_EQ(nearest_name(catalog_of({"layer.b", "layer.a"}), "layer.c"), "layer.b");
}

TEST(Nearest, offers_nothing_that_is_not_even_half_alike) {
  EXPECT_EQ(nearest_name(catalog_of({"output.weight"}), "xyz"), std::nullopt);
  EXPECT_EQ(nearest_name(catalog_of({}), "xyz"), std::nullopt);
  EXPECT_EQ(nearest_name(catalog_of({"a"}), ""), std::nullopt);
}

TEST(Nearest, gives_up_where_looking_would_take_long) {
  CatalogBuilder builder("test");
  for (int i = 0; i < 20'000; ++i) {
    ASSERT_TRUE(
        builder.add({.name = "model.layers.0.mlp.experts." + std::to_string(100'000 + i) + ".weight"}));
  }
  ASSERT_TRUE(builder.add({.name = "model.layers.0.mlp.experts.999999.weights"}));
  const auto catalog = std::move(builder).build().value();
  // The first ones are looked at, the last one is not.
  const auto nearest = nearest_name(catalog, "model.layers.0.mlp.experts.999999.weight");
  ASSERT_TRUE(nearest);
  EXPECT_NE(*nearest, "model.layers.0.mlp.experts.999999.weights");
}

TEST(Nearest, gives_up_on_absurdly_long_names) {
  EXPECT_EQ(nearest_name(catalog_of({"a"}), std::string(1'000'000, 'a')), std::nullopt);
}

}  // namespace
}  // namespace ht
