// After every layer was entered once, a window allocates no memory on any thread. If memory runs out while
// it is opened, an Error is returned.
#include <gtest/gtest.h>

#include <filesystem>
#include <htensor/load/load.hpp>

#include "format/safetensors/test_file.hpp"
#include "testing/allocations.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::window_memory_test {
namespace {

constexpr std::size_t layers = 8;
constexpr std::uint64_t layer_bytes = 64 << 10;

class WindowMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < layers; ++i) names.push_back(std::to_string(i) + ".w");
    testing::write_file(
        path_, testing::safetensors_file(testing::u8_header(names, layer_bytes), layers * layer_bytes));
  }

  testing::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "model.safetensors";
};

TEST_F(WindowMemory, is_not_allocated_after_the_first_pass) {
  const auto model = Model::open(path_).value();
  for (const bool use_worker : {false, true}) {
    for (const std::uint64_t room : {1U, 2U, 5U, 8U}) {
      auto window =
          Window::open(model, {.budget_bytes = room * layer_bytes, .use_worker = use_worker}).value();
      bool good = true;
      const auto pass = [&] {
        for (std::size_t i = 0; i < layers; ++i) good = window.enter(i).has_value() && good;
      };
      pass();
      const std::size_t before = testing::allocation_count();
      pass();
      pass();
      // Also if the order of layers jumps back.
      for (const std::size_t layer : {5U, 2U, 6U, 2U}) good = window.enter(layer).has_value() && good;
      EXPECT_EQ(testing::allocation_count(), before) << "with room for " << room;
      EXPECT_TRUE(good);
    }
  }
}

TEST_F(WindowMemory, allocation_failure_in_open_is_an_error) {
  const auto model = Model::open(path_).value();
  for (int allowed = 0;; ++allowed) {
    ASSERT_LT(allowed, 1000);
    auto window = [&] {
      const testing::AllocationLimit limit(allowed);
      return Window::open(model, {.layers = "*{}.w", .budget_bytes = 2 * layer_bytes});
    }();
    if (window) {
      EXPECT_TRUE(window->enter(3));
      break;
    }
    EXPECT_EQ(window.error().code(), ErrorCode::out_of_memory) << to_string(window.error());
  }
}

TEST_F(WindowMemory, failed_allocation_during_an_error_does_not_throw) {
  const auto model = Model::open(path_).value();
  auto window = Window::open(model, {.budget_bytes = layer_bytes, .use_worker = false}).value();
  std::filesystem::resize_file(path_, layer_bytes);
  for (int allowed = 0; allowed < 20; ++allowed) {
    const auto entered = [&] {
      const testing::AllocationLimit limit(allowed);
      return window.enter(5);
    }();
    ASSERT_FALSE(entered);
    EXPECT_TRUE(entered.error().code() == ErrorCode::changed_underfoot ||
                entered.error().code() == ErrorCode::out_of_memory)
        << to_string(entered.error());
  }
}

}  // namespace
}  // namespace ht::window_memory_test
