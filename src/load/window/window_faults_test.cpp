// Windows whose system calls fail, whose file is truncated, or that are stopped.
#include <gtest/gtest.h>

#include <filesystem>
#include <htensor/base/fault.hpp>
#include <latch>
#include <optional>
#include <thread>
#include <vector>

#include "load/window/window_test.hpp"
#include "model/test_models.hpp"
#include "testing/blocked_signal.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::window_faults_test {
namespace {

using testing::Call;
using testing::calls_per_fetch;
using testing::FaultyPort;
using testing::layers;
using testing::pass;
using testing::refusal;
using testing::room_for;
using testing::tensor_bytes;

class WindowFaults : public testing::LayeredModel {
 protected:
  /// Runs two passes and retries each layer until it is entered. Each error names the file.
  void run(Window& window) const {
    for (std::size_t i = 0; i < 2 * layers; ++i) {
      for (int tries = 0;; ++tries) {
        ASSERT_LT(tries, 3);
        const auto entered = window.enter(i % layers);
        if (entered) break;
        EXPECT_EQ(entered.error().code(), ErrorCode::unsupported_strategy) << to_string(entered.error());
        EXPECT_EQ(entered.error().path(), path_.string());
        EXPECT_TRUE(entered.error().tensor().starts_with("blk.")) << to_string(entered.error());
        EXPECT_TRUE(entered.error().offset());
      }
      EXPECT_TRUE(equals_file(window, i % layers));
    }
  }
};

TEST_F(WindowFaults, any_call_may_fail_once) {
  model_.reset();
  for (const bool use_worker : {false, true}) {
    for (int call = 0; call <= static_cast<int>(Call::unlink); ++call) {
      for (int nth = 0, calls = 1; nth < calls; ++nth) {
        FaultyPort port;
        port.fail_at(static_cast<Call>(call), nth, std::errc::invalid_argument);
        const auto use = [&]() -> Result<void> {
          model_ = HT_TRY(Model::open(path_, {.port = &port}));
          auto window = HT_TRY(Window::open(*model_, room_for(3, use_worker)));
          run(window);
          return {};
        };
        const auto used = use();
        model_.reset();
        calls = port.count(static_cast<Call>(call));
        EXPECT_EQ(port.open_files(), 0);
        EXPECT_EQ(port.mapped_regions(), static_cast<Call>(call) == Call::unmap ? 1 : 0);
        // Only a failure during opening is final: the run retries each enter.
        EXPECT_TRUE(used || port.count(Call::advise) == 0) << to_string(used.error());
      }
    }
  }
}

TEST_F(WindowFaults, failed_drop_is_reported_once) {
  // Room for one: the second enter has to drop the first layer.
  auto window = open(room_for(1));
  ASSERT_TRUE(window.enter(0));
  port_.fail_at(Call::advise, calls_per_fetch, std::errc::invalid_argument);
  auto error = refusal(window.enter(1), ErrorCode::unsupported_strategy, "memory_advice_is_accepted");
  EXPECT_EQ(error.tensor(), "blk.0.a");
  ASSERT_TRUE(window.enter(1));
  port_.fail_at(Call::drop_cached, 1, std::errc::invalid_argument);
  error = refusal(window.enter(2), ErrorCode::unsupported_strategy, "page_cache_can_be_evicted");
  EXPECT_EQ(error.tensor(), "blk.1.a");
  ASSERT_TRUE(window.enter(2));
  EXPECT_TRUE(equals_file(window, 2));
}

TEST_F(WindowFaults, truncated_layer_is_reported_when_it_is_entered) {
  for (const bool use_worker : {false, true}) {
    const auto whole = std::filesystem::file_size(path_);
    auto window = open(room_for(layers, use_worker));
    // Truncates the file within the second layer.
    std::filesystem::resize_file(path_, 4 * tensor_bytes);
    ASSERT_TRUE(window.enter(0));
    for (int tries = 0; tries < 2; ++tries) {
      const auto error =
          refusal(window.enter(1), ErrorCode::changed_underfoot, "mapped_pages_are_in_the_file");
      EXPECT_EQ(error.path(), path_.string());
      EXPECT_EQ(error.tensor(), "blk.1.a");
      EXPECT_GE(error.offset(), 4 * tensor_bytes);
      ASSERT_TRUE(window.enter(0));
    }
    std::filesystem::resize_file(path_, whole);
    for (std::size_t i = 0; i < layers; ++i) {
      // The first enter may return the error of a prefetch from the truncated file.
      EXPECT_TRUE(window.enter(i) || window.enter(i)) << i;
    }
  }
}

TEST_F(WindowFaults, truncated_file_is_reported_if_the_caller_blocks_the_signal) {
  const testing::BlockedSigbus blocked;
  auto window = open(room_for(layers, true));
  std::filesystem::resize_file(path_, 4 * tensor_bytes);
  ASSERT_TRUE(window.enter(0));
  EXPECT_EQ(window.enter(1).error().rule(), "mapped_pages_are_in_the_file");
}

TEST_F(WindowFaults, work_is_completed) {
  for (const bool use_worker : {false, true}) {
    const std::stop_source source;
    auto options = room_for(3, use_worker);
    options.stop = source.get_token();
    auto window = open(options);
    ASSERT_TRUE(window.enter(0));
    source.request_stop();
    for (const std::size_t layer : {0U, 1U}) {
      const auto entered = window.enter(layer);
      ASSERT_FALSE(entered);
      EXPECT_EQ(entered.error().code(), ErrorCode::cancelled);
      EXPECT_EQ(entered.error().rule(), "work_is_completed");
      EXPECT_EQ(entered.error().path(), path_.string());
    }
  }
}

// Blocks a thread inside a system call until `open` is called.
class Gate {
 public:
  void pass() {
    reached_.count_down();
    open_.wait();
  }
  void wait_until_reached() { reached_.wait(); }
  void open() { open_.count_down(); }

 private:
  std::latch reached_{1};
  std::latch open_{1};
};

TEST_F(WindowFaults, pending_enter_returns_at_once_after_a_stop) {
  Gate gate;
  port_.before_each([&](Call call, int nth) {
    if (call == Call::advise && nth == 0) gate.pass();
  });
  const std::stop_source source;
  auto options = room_for(3, true);
  options.stop = source.get_token();
  auto window = open(options);
  const std::jthread stopper([&] {
    gate.wait_until_reached();
    source.request_stop();
  });
  // The fetch is still in flight.
  const auto entered = window.enter(0);
  ASSERT_FALSE(entered);
  EXPECT_EQ(entered.error().code(), ErrorCode::cancelled);
  gate.open();
}

TEST_F(WindowFaults, fetching_ends_between_two_pieces) {
  // A layer of four pieces, all holes.
  constexpr std::uint64_t bytes = 64 << 20;
  constexpr int calls_per_piece = 16 + 1;
  const auto header = testing::safetensors_file(testing::u8_header({"0"}, bytes));
  testing::write_file(path_, header);
  std::filesystem::resize_file(path_, header.size() + bytes);
  for (const bool use_worker : {false, true}) {
    FaultyPort port;
    const std::stop_source source;
    port.before_each([&](Call call, int nth) {
      if (call == Call::advise && nth == calls_per_piece) source.request_stop();
    });
    const auto model = Model::open(path_, {.port = &port}).value();
    {
      auto window =
          Window::open(model, {.budget_bytes = bytes, .use_worker = use_worker, .stop = source.get_token()});
      const auto entered = window->enter(0);
      ASSERT_FALSE(entered);
      EXPECT_EQ(entered.error().code(), ErrorCode::cancelled);
    }
    EXPECT_EQ(port.count(Call::advise), 2 * calls_per_piece);
  }
}

TEST_F(WindowFaults, can_be_destroyed_with_an_effect_in_flight) {
  Gate gate;
  port_.before_each([&](Call call, int nth) {
    if (call == Call::advise && nth == calls_per_fetch) gate.pass();
  });
  std::jthread opener;
  {
    auto window = open(room_for(layers, true));
    ASSERT_TRUE(window.enter(0));
    gate.wait_until_reached();
    opener = std::jthread([&] { gate.open(); });
  }
  EXPECT_EQ(port_.mapped_regions(), 1);
}

TEST_F(WindowFaults, guarded_compute_reports_a_truncated_file) {
  auto window = open(room_for(layers));
  ASSERT_TRUE(pass(window));
  std::filesystem::resize_file(path_, 4 * tensor_bytes);
  ASSERT_TRUE(window.enter(5));
  std::vector<Bytes> touched;
  for (const auto index : window.layer(5).tensors) touched.push_back(model_->at(index)->bytes().value());
  const auto equal = guarded(touched, [&] { return equals_file(window, 5); });
  EXPECT_EQ(refusal(equal, ErrorCode::changed_underfoot, "mapped_pages_are_in_the_file").tensor(), "blk.5.a");
}

}  // namespace
}  // namespace ht::window_faults_test
