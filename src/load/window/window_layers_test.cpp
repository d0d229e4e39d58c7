#include "load/window/window_layers.hpp"

#include <gtest/gtest.h>

#include <string>

namespace ht::window::window_layers_test {
namespace {

std::optional<std::uint64_t> number(std::string_view pattern, std::string_view name) {
  return LayerPattern::from(pattern).value().number_in(name);
}

TEST(WindowLayers, number_is_at_the_position_in_the_pattern) {
  EXPECT_EQ(number("blk.{}.*", "blk.12.attn_q.weight"), 12U);
  EXPECT_EQ(number("blk.{}.*", "blk.12x.attn_q.weight"), std::nullopt);
  EXPECT_EQ(number("blk.{}.*", "blk.12"), std::nullopt);
  EXPECT_EQ(number("blk.{}.*", "output.weight"), std::nullopt);
  EXPECT_EQ(number("model.layers.{}.mlp.*", "model.layers.3.mlp.up_proj.weight"), 3U);
  EXPECT_EQ(number("model.layers.{}.mlp.*", "model.layers.3.self_attn.q.weight"), std::nullopt);
  EXPECT_EQ(number("*.experts.{}.*", "layers.7.experts.2.w"), 2U);
  EXPECT_EQ(number("*{}*", "layers.7.experts.2.w"), 7U);
  EXPECT_EQ(number("h{}", "h5"), 5U);
  // A number always includes all of its adjacent digits.
  EXPECT_EQ(number("1{}", "12"), std::nullopt);
  EXPECT_EQ(number("{}", "12"), 12U);
  EXPECT_EQ(number("{}", ""), std::nullopt);
}

TEST(WindowLayers, number_defaults_to_the_first_numeric_part_of_the_name) {
  EXPECT_EQ(number("", "blk.12.attn_q.weight"), 12U);
  EXPECT_EQ(number("", "model.layers.3.mlp.4.weight"), 3U);
  EXPECT_EQ(number("", "5"), 5U);
  EXPECT_EQ(number("", "conv2d.1x1.w.6"), 6U);
  for (const auto* const name :
       {"", ".", "...", "output.weight", "h5.w", "-1.w", "+1.w", "1e3.w", "\xD9\xA3.w"}) {
    EXPECT_EQ(number("", name), std::nullopt) << name;
  }
  EXPECT_EQ(number("text.*", "text.layers.1.w"), 1U);
  EXPECT_EQ(number("text.*", "vision.layers.1.w"), std::nullopt);
}

TEST(WindowLayers, numbers_are_compared_by_value) {
  EXPECT_EQ(number("", "blk.007.w"), 7U);
  EXPECT_EQ(number("blk.{}.w", "blk." + std::string(1000, '0') + "7.w"), 7U);
  EXPECT_EQ(number("", "blk.18446744073709551615.w"), UINT64_MAX);
}

TEST(WindowLayers, numbers_above_64_bits_are_ignored) {
  EXPECT_EQ(number("", "blk.18446744073709551616.w"), std::nullopt);
  EXPECT_EQ(number("blk.{}.w", "blk.18446744073709551616.w"), std::nullopt);
  EXPECT_EQ(number("", std::string(100'000, '9') + ".4.w"), 4U);
}

TEST(WindowLayers, names_with_many_numbers_are_matched_in_linear_time) {
  std::string name;
  for (int i = 0; i < 200'000; ++i) name += "1a";
  EXPECT_EQ(number("*x{}y*", name), std::nullopt);
  EXPECT_EQ(number("*{}a", "1.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16a"), 16U);
  EXPECT_EQ(number("*{}a", "1.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16.17a"), std::nullopt);
}

TEST(WindowLayers, patterns_may_have_braces_and_malformed_ones_are_refused) {
  EXPECT_EQ(number("{blk,layers}.{}.attn_{q,k}", "layers.3.attn_k"), 3U);
  EXPECT_EQ(number("{blk,layers}.{}.attn_{q,k}", "layers.3.attn_v"), std::nullopt);
  for (const auto* malformed : {"[", "blk[.{}", "{}.[", "{a.{}.b}"}) {
    const auto pattern = LayerPattern::from(malformed);
    ASSERT_FALSE(pattern) << malformed;
    EXPECT_EQ(pattern.error().code(), ErrorCode::bad_state);
  }
}

TEST(WindowLayers, pattern_has_one_number) {
  const auto pattern = LayerPattern::from("blk.{}.experts.{}.*");
  ASSERT_FALSE(pattern);
  EXPECT_EQ(pattern.error().code(), ErrorCode::bad_state);
  EXPECT_EQ(pattern.error().rule(), "pattern_has_one_number");
  EXPECT_NE(pattern.error().message().find("'blk.{}.experts.{}.*' has more than one {}"),
            std::string_view::npos);
  EXPECT_FALSE(pattern.error().hint().empty());
}

// Builds a catalog of untyped tensors. Each tensor follows the previous one unless its offset is given.
class Tensors {
 public:
  Tensors& add(std::string_view name, std::uint64_t bytes) { return add(name, bytes, end_); }
  Tensors& add(std::string_view name, std::uint64_t bytes, std::uint64_t offset, std::uint32_t file = 0) {
    EXPECT_TRUE(builder_.add({.name = name, .file = file, .offset = offset, .bytes = bytes}));
    end_ = offset + bytes;
    return *this;
  }
  Tensors& add_splat(std::string_view name) {
    const std::byte pattern{1};
    EXPECT_TRUE(builder_.add({.name = name, .bytes = 1000, .splat = Bytes(&pattern, 1)}));
    return *this;
  }
  Tensors& add_file(std::string_view name) {
    EXPECT_TRUE(builder_.add_file(name));
    return *this;
  }
  [[nodiscard]] LayerTable layers() {
    catalog_ = std::move(builder_).build().value();
    return layers_of(*catalog_, LayerPattern::from("").value());
  }

 private:
  CatalogBuilder builder_{"test"};
  std::optional<Catalog> catalog_;
  std::uint64_t end_ = 0;
};

TEST(WindowLayers, are_in_the_order_of_their_numbers) {
  const auto table = Tensors().add("l.10.a", 1).add("x", 2).add("l.9.a", 4).add("l.010.b", 8).layers();
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ(table.rows[0].number, 9U);
  EXPECT_EQ(table.rows[0].bytes, 4U);
  EXPECT_EQ(table.rows[1].number, 10U);
  EXPECT_EQ(table.rows[1].bytes, 9U);
  EXPECT_EQ(std::vector(table.tensors_of(1).begin(), table.tensors_of(1).end()),
            (std::vector<std::size_t>{0, 3}));
  EXPECT_EQ(table.ranges_of(1).size(), 2U);
}

TEST(WindowLayers, ranges_that_touch_are_one) {
  const auto table = Tensors()
                         .add("l.0.a", 10, 100)
                         .add("l.0.b", 10, 110)
                         .add("l.0.c", 5, 105)
                         .add("l.0.d", 0, 300)
                         .add_splat("l.0.e")
                         .add_splat("l.1.a")
                         .layers();
  ASSERT_EQ(table.rows.size(), 2U);
  ASSERT_EQ(table.ranges_of(0).size(), 1U);
  EXPECT_EQ(table.ranges_of(0)[0], (io::FileRange{0, 100, 20}));
  EXPECT_EQ(table.tensors_of(0).size(), 5U);
  EXPECT_EQ(table.rows[1].bytes, 0U);
  EXPECT_TRUE(table.ranges_of(1).empty());
  EXPECT_FALSE(table.rows[0].shares || table.rows[1].shares);
}

TEST(WindowLayers, shared_bytes_are_marked) {
  const auto table = Tensors()
                         .add_file("other")
                         .add("l.0.a", 100, 0)
                         .add("l.1.a", 10, 50)
                         .add("l.2.a", 10, 80)
                         .add("l.3.a", 10, 100)
                         .add("l.4.a", 100, 0, 1)
                         .layers();
  ASSERT_EQ(table.rows.size(), 5U);
  EXPECT_TRUE(table.rows[0].shares && table.rows[1].shares && table.rows[2].shares);
  EXPECT_FALSE(table.rows[3].shares || table.rows[4].shares);
}

TEST(WindowLayers, overflowing_ends_are_handled) {
  const auto table = Tensors().add("l.0.a", UINT64_MAX, 5).add("l.0.b", 7, 0).add("l.1.b", 7, 9).layers();
  EXPECT_EQ(table.rows[0].bytes, UINT64_MAX);
  EXPECT_TRUE(table.rows[1].shares);
}

TEST(WindowLayers, may_be_empty) { EXPECT_TRUE(Tensors().add("a", 1).layers().rows.empty()); }

}  // namespace
}  // namespace ht::window::window_layers_test
