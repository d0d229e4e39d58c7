#include <htensor/load/load.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "format/irpa/irpa_test_archive.hpp"
#include "load/test_page_cache.hpp"
#include "load/window/window_test.hpp"
#include "model/test_models.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::window_test {
namespace {

using testing::Call;
using testing::expect_refusal;
using testing::FaultyPort;
using testing::layer_bytes;
using testing::layers;
using testing::message_contains;
using testing::pass;
using testing::refusal;
using testing::room_for;
using testing::tensor_bytes;

class WindowTest : public testing::LayeredModel {};

TEST_F(WindowTest, layers_are_derived_from_names) {
  const auto window = open({.budget_bytes = UINT64_MAX});
  ASSERT_EQ(window.size(), layers);
  for (std::size_t i = 0; i < layers; ++i) {
    EXPECT_EQ(window.layer(i).number, i);
    EXPECT_EQ(window.layer(i).bytes, layer_bytes);
    EXPECT_TRUE(window.layer(i).is_kept);
    ASSERT_EQ(window.layer(i).tensors.size(), 2U);
    EXPECT_EQ(model_->catalog()[window.layer(i).tensors[1]].name, "blk." + std::to_string(i) + ".b");
  }
  const auto half = open({.layers = "blk.{}.a", .budget_bytes = UINT64_MAX});
  EXPECT_EQ(half.size(), layers);
  EXPECT_EQ(half.layer(3).bytes, tensor_bytes);
}

TEST_F(WindowTest, entered_layers_have_the_bytes_of_the_file) {
  for (const bool use_worker : {false, true}) {
    for (std::uint64_t room = 1; room <= layers; ++room) {
      auto window = open(room_for(room, use_worker));
      EXPECT_EQ(window.budget_bytes(), room * layer_bytes);
      for (int pass = 0; pass < 3; ++pass) {
        for (std::size_t i = 0; i < window.size(); ++i) {
          ASSERT_TRUE(window.enter(i));
          EXPECT_TRUE(equals_file(window, i)) << i << " with room for " << room;
        }
      }
      EXPECT_EQ(window.statistics().enters, 3 * layers);
    }
  }
}

TEST_F(WindowTest, layers_can_be_entered_in_any_order) {
  for (const bool use_worker : {false, true}) {
    for (std::uint64_t room = 1; room <= layers; ++room) {
      auto window = open(room_for(room, use_worker));
      for (std::size_t i = 0; i < 100; ++i) {
        const std::size_t layer = i * i * 7 % 11 % layers;
        ASSERT_TRUE(window.enter(layer));
        EXPECT_TRUE(equals_file(window, layer));
      }
    }
  }
}

TEST_F(WindowTest, everything_stays_if_it_fits) {
  for (const bool use_worker : {false, true}) {
    auto window = open(room_for(layers, use_worker));
    ASSERT_TRUE(pass(window));
    EXPECT_EQ(window.statistics().fetched_bytes, layers * layer_bytes);
    const auto waits = window.statistics().waits;
    ASSERT_TRUE(pass(window));
    EXPECT_EQ(window.statistics().fetched_bytes, layers * layer_bytes);
    EXPECT_EQ(window.statistics().dropped_bytes, 0U);
    EXPECT_EQ(window.statistics().waits, waits);
  }
}

TEST_F(WindowTest, a_pass_fetches_layers_that_do_not_stay) {
  auto window = open(room_for(4));
  std::uint64_t bytes_per_pass = 0;
  for (std::size_t i = 0; i < layers; ++i) bytes_per_pass += window.layer(i).is_kept ? 0 : layer_bytes;
  EXPECT_EQ(bytes_per_pass, 4 * layer_bytes);
  ASSERT_TRUE(pass(window));
  const auto before = window.statistics().fetched_bytes;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(pass(window));
  EXPECT_EQ(window.statistics().fetched_bytes - before, 5 * bytes_per_pass);
  EXPECT_LE(window.statistics().fetched_bytes - window.statistics().dropped_bytes, 4 * layer_bytes);
}

TEST_F(WindowTest, prefetches_the_next_layer) {
  std::promise<void> third_fetch_starts;
  port_.before_each([&](Call call, int nth) {
    if (call == Call::advise && nth == 2 * testing::calls_per_fetch) third_fetch_starts.set_value();
  });
  auto window = open(room_for(layers, true));
  ASSERT_TRUE(window.enter(0));
  third_fetch_starts.get_future().wait();  // without an enter of that layer
  EXPECT_LE(window.statistics().waits, 1U);
}

TEST_F(WindowTest, resident_memory_stays_within_the_budget) {
  // The layers are large, because the page cache keeps folios of up to 2 MiB as a whole. Holes are cached
  // like written data.
  constexpr std::uint64_t bytes = 16 << 20;
  constexpr std::uint64_t slack = 4 << 20;
  const auto header = testing::safetensors_file(testing::u8_header({"0", "1", "2", "3"}, bytes));
  testing::write_file(path_, header);
  std::filesystem::resize_file(path_, header.size() + 4 * bytes);
  testing::sync_file(path_);
  if (testing::is_in_memory(path_)) GTEST_SKIP() << "the folder for temporary files is a memory file system";
  const auto model = Model::open(path_).value();
  ASSERT_TRUE(ht::evict(model));
  auto window = Window::open(model, {.budget_bytes = 2 * bytes, .use_worker = false}).value();
  for (const std::size_t layer : {0U, 1U, 2U, 3U, 0U}) {
    ASSERT_TRUE(window.enter(layer));
    std::uint64_t cached = 0;
    const auto now = ht::residency(model).value();
    for (const auto& tensor : now) cached += tensor.cached_bytes.value();
    EXPECT_EQ(now[layer].cached_bytes, bytes);
    EXPECT_LE(cached, 2 * bytes + slack) << layer;
  }
  // Layers that are dropped from this process stay in the page cache if `drop_page_cache` is false.
  window =
      Window::open(model, {.budget_bytes = bytes, .drop_page_cache = false, .use_worker = false}).value();
  for (const std::size_t layer : {0U, 1U, 2U, 3U}) ASSERT_TRUE(window.enter(layer));
  EXPECT_EQ(window.statistics().dropped_bytes, 3 * bytes);
  const auto tensors = ht::residency(model).value();
  for (const auto& tensor : tensors) EXPECT_EQ(tensor.cached_bytes, bytes);
}

TEST_F(WindowTest, outlives_the_model_and_can_be_moved) {
  auto first = open(room_for(2, true));
  model_.reset();
  ASSERT_TRUE(first.enter(0));
  auto second = std::move(first);
  EXPECT_TRUE(pass(second));
  EXPECT_EQ(port_.mapped_regions(), 1);
  second = Window::open(Model::open(path_, {.port = &port_}).value(), room_for(3, true)).value();
  EXPECT_TRUE(pass(second));
}

TEST_F(WindowTest, window_is_not_moved_from) {
  auto first = open(room_for(2));
  const auto second = std::move(first);
  // NOLINTBEGIN(bugprone-use-after-move): the test uses a moved-from window.
  expect_refusal(first.enter(0), ErrorCode::bad_state, "window_is_not_moved_from");
  EXPECT_EQ(first.size(), 0U);
  EXPECT_EQ(first.budget_bytes(), 0U);
  EXPECT_EQ(first.statistics().enters, 0U);
  // NOLINTEND(bugprone-use-after-move)
}

TEST_F(WindowTest, layer_index_is_within_bounds) {
  auto window = open(room_for(2));
  const auto error = refusal(window.enter(layers), ErrorCode::out_of_bounds, "layer_index_is_within_bounds");
  EXPECT_EQ(error.path(), path_.string());
  EXPECT_TRUE(message_contains(error, "6 layers"));
  EXPECT_TRUE(window.enter(layers - 1));
}

TEST_F(WindowTest, budget_holds_the_largest_layer) {
  const auto error = refusal(Window::open(*model_, {.budget_bytes = layer_bytes - 1}),
                             ErrorCode::budget_too_small, "budget_holds_the_largest_layer");
  EXPECT_TRUE(message_contains(error, "layer 0 has 100000 bytes but the budget is 99999"));
  EXPECT_NE(error.hint().find("at least 100000"), std::string_view::npos);
  EXPECT_NE(error.hint().find("200000"), std::string_view::npos);
  EXPECT_EQ(error.path(), path_.string());
}

TEST_F(WindowTest, default_budget_is_seven_eighths_of_the_available_memory) {
  constexpr std::uint64_t available = std::uint64_t{1} << 30;
  port_.set_available_memory(available);
  EXPECT_EQ(open({}).budget_bytes(), available / 8 * 7);
}

TEST_F(WindowTest, default_budget_requires_the_available_memory) {
  port_.fail_at(Call::available_memory, 0, std::errc::no_such_file_or_directory);
  const auto error =
      refusal(Window::open(*model_), ErrorCode::unsupported_platform, "available_memory_is_known");
  EXPECT_EQ(error.cause(), std::errc::no_such_file_or_directory);
  EXPECT_EQ(error.path(), path_.string());
}

TEST_F(WindowTest, available_memory_is_known) {
  EXPECT_GT(available_memory(&port_).value(), 0U);
  port_.fail_at(Call::available_memory, 1, std::errc::function_not_supported);
  const auto error =
      refusal(available_memory(&port_), ErrorCode::unsupported_platform, "available_memory_is_known");
  EXPECT_EQ(error.hint(), "set a budget in bytes");
}

TEST_F(WindowTest, pattern_matches_a_layer) {
  const auto error = refusal(Window::open(*model_, {.layers = "model.layers.{}.*"}), ErrorCode::not_found,
                             "pattern_matches_a_layer");
  EXPECT_TRUE(message_contains(error, "'model.layers.{}.*'"));
  EXPECT_NE(error.hint().find("'embed'"), std::string_view::npos);
  EXPECT_NE(error.hint().find("'blk.{}.*'"), std::string_view::npos);
  testing::write_file(path_, testing::shard_file({"embed"}));
  expect_refusal(Window::open(Model::open(path_).value()), ErrorCode::not_found, "pattern_matches_a_layer");
  testing::write_file(path_, testing::safetensors_file("{}"));
  expect_refusal(Window::open(Model::open(path_).value()), ErrorCode::not_found, "pattern_matches_a_layer");
}

TEST_F(WindowTest, error_of_a_refused_pattern_has_the_path_of_the_model) {
  const auto error =
      refusal(Window::open(*model_, {.layers = "{}.{}"}), ErrorCode::bad_state, "pattern_has_one_number");
  EXPECT_EQ(error.path(), path_.string());
}

TEST_F(WindowTest, needs_tensors_with_data) {
  expect_refusal(Window::open(Model::open(path_, {.catalog_only = true}).value()), ErrorCode::bad_state,
                 "model_has_its_data");
  std::filesystem::resize_file(path_, 6 * tensor_bytes);
  const auto model = Model::open(path_, {.allow_incomplete = true}).value();
  const auto error =
      refusal(Window::open(model, room_for(2)), ErrorCode::truncated, "tensor_is_within_the_file");
  EXPECT_EQ(error.tensor(), "blk.2.a");
  EXPECT_TRUE(Window::open(model, {.layers = "blk.[01].*"}));
}

TEST_F(WindowTest, layers_may_lie_in_several_files) {
  std::filesystem::create_directory(folder_ / "m");
  testing::write_file(folder_ / "m/a.safetensors", testing::shard_file({"x.0.a", "x.1.a"}));
  testing::write_file(folder_ / "m/b.safetensors", testing::shard_file({"x.1.b", "x.0.b"}));
  testing::write_file(folder_ / "m/model.safetensors.index.json",
                      testing::index_text({{"x.0.a", "a.safetensors"},
                                           {"x.1.a", "a.safetensors"},
                                           {"x.0.b", "b.safetensors"},
                                           {"x.1.b", "b.safetensors"}}));
  auto window = Window::open(Model::open(folder_ / "m").value(), {.budget_bytes = 8}).value();
  ASSERT_EQ(window.size(), 2U);
  EXPECT_EQ(window.layer(0).bytes, 8U);
  EXPECT_TRUE(pass(window));
  EXPECT_TRUE(pass(window));
}

TEST_F(WindowTest, layers_may_share_bytes_or_be_empty) {
  const auto path = folder_ / "m.irpa";
  testing::write_file(path,
                      format_irpa::testing::archive({{.name = "0.a", .offset = 0, .length = 60'000},
                                                     {.name = "1.a", .offset = 40'000, .length = 60'000},
                                                     {.name = "2.a", .offset = 40'000, .length = 60'000},
                                                     {.kind = 1, .name = "3.a", .length = 8, .pattern = "a"}},
                                                    100'000));
  for (const bool use_worker : {false, true}) {
    for (const std::uint64_t budget : {60'000U, 120'000U, 180'000U}) {
      auto window =
          Window::open(Model::open(path).value(), {.budget_bytes = budget, .use_worker = use_worker}).value();
      ASSERT_EQ(window.size(), 4U);
      EXPECT_EQ(window.layer(3).bytes, 0U);
      EXPECT_TRUE(window.layer(3).is_kept);
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(pass(window));
    }
  }
}

}  // namespace
}  // namespace ht::window_test
