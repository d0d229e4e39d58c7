// Properties of a window, with layers of any size, in any order, and with any failures.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "load/window/window_machine.hpp"

namespace ht::window::window_machine_property_test {
namespace {

Error some_error() { return Error(ErrorCode::read_failed, "test", "it failed"); }

// Simulates the disk and asserts the invariants of the window.
class World {
 public:
  World(std::vector<std::uint64_t> bytes, std::uint64_t budget)
      : bytes_(std::move(bytes)),
        budget_(budget),
        held_(bytes_.size()),
        state_(Idle{make_ledger(bytes_, budget)}) {}

  void enter(std::size_t layer) {
    RC_ASSERT(!awaited_);
    awaited_ = layer;
    entered_.reset();
    feed(Enter{layer});
  }
  void finish(bool good) {
    const Effect effect = *std::exchange(in_flight_, std::nullopt);
    if (effect.action == Action::drop && good) {
      held_[effect.layer] = false;
      ++drops_;
    }
    feed(good ? Event(Done{}) : Event(EffectFailed{some_error()}));
  }
  void finish_all() {
    for (std::size_t steps = 0; in_flight_; ++steps) {
      RC_ASSERT(steps <= 3 * bytes_.size());
      finish(true);
    }
  }
  [[nodiscard]] bool is_busy() const { return in_flight_.has_value(); }
  [[nodiscard]] bool is_awaited() const { return awaited_.has_value(); }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }

  std::uint64_t fetched_bytes_ = 0;
  std::size_t fetches_ = 0;
  std::size_t drops_ = 0;

 private:
  void feed(Event&& event) {
    Step next = step(std::move(state_), std::move(event));
    state_ = std::move(next.next);
    if (next.answer) {
      RC_ASSERT(awaited_);
      if (!next.answer->error) entered_ = awaited_;
      awaited_.reset();
    }
    if (next.effect) begin(*next.effect);
    RC_ASSERT(!awaited_ || in_flight_);  // an effect in flight will answer the Enter
  }
  void begin(const Effect& effect) {
    RC_ASSERT(!in_flight_);
    in_flight_ = effect;
    const std::size_t layer = effect.layer;
    if (effect.action == Action::drop) {
      RC_ASSERT(held_[layer]);
      RC_ASSERT(entered_ != layer);
      return;
    }
    held_[layer] = true;
    ++fetches_;
    fetched_bytes_ += bytes_[layer];
    std::uint64_t held = 0;
    for (std::size_t i = 0; i < held_.size(); ++i) held += held_[i] ? bytes_[i] : 0;
    RC_ASSERT(held <= budget_);
  }

  std::vector<std::uint64_t> bytes_;
  std::uint64_t budget_;
  std::vector<bool> held_;
  std::optional<std::size_t> entered_;
  std::optional<std::size_t> awaited_;
  std::optional<Effect> in_flight_;
  State state_;
};

struct Sizes {
  std::vector<std::uint64_t> bytes;
  std::uint64_t total;
  std::uint64_t largest;
};
Sizes some_sizes() {
  const auto count = *rc::gen::inRange<std::size_t>(1, 12);
  auto bytes = *rc::gen::container<std::vector<std::uint64_t>>(count, rc::gen::inRange<std::uint64_t>(0, 9));
  const auto total = std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
  return {bytes, total, std::ranges::max(bytes)};
}

RC_GTEST_PROP(WindowMachineProperties, holds_its_invariants_in_any_order_with_any_failure, ()) {
  const auto sizes = some_sizes();
  World world(sizes.bytes, *rc::gen::inRange(sizes.largest, sizes.total + 3));
  const auto failing = *rc::gen::inRange(0, 40);
  for (const auto choice : *rc::gen::container<std::vector<int>>(300, rc::gen::inRange(0, 10000))) {
    if (world.is_busy() && (world.is_awaited() || choice % 2 == 0)) {
      world.finish(choice % 100 >= failing);
    } else if (!world.is_awaited()) {
      world.enter(static_cast<std::size_t>(choice / 2) % world.size());
    }
  }
  world.finish_all();
  RC_ASSERT(!world.is_awaited());
}

RC_GTEST_PROP(WindowMachineProperties, fetches_all_once_if_all_fit, ()) {
  const auto sizes = some_sizes();
  World world(sizes.bytes, sizes.total + *rc::gen::inRange<std::uint64_t>(0, 3));
  for (int i = 0; i < 50; ++i) {
    world.enter(*rc::gen::inRange<std::size_t>(0, world.size()));
    while (world.is_busy() && (world.is_awaited() || *rc::gen::inRange(0, 2) == 0)) world.finish(true);
  }
  world.finish_all();
  RC_ASSERT(world.fetches_ == world.size());
  RC_ASSERT(world.drops_ == 0U);
}

RC_GTEST_PROP(WindowMachineProperties, repeated_passes_never_wait_and_fetch_only_layers_that_do_not_stay,
              ()) {
  const auto sizes = some_sizes();
  const auto two = two_largest(sizes.bytes);
  const auto budget = *rc::gen::inRange(two, std::max(two, sizes.total) + 1);
  const auto ledger = make_ledger(sizes.bytes, budget);
  std::uint64_t bytes_per_pass = 0;
  for (const auto& layer : ledger.layers) bytes_per_pass += layer.is_kept ? 0 : layer.bytes;
  World world(sizes.bytes, budget);
  for (int pass = 0; pass < 4; ++pass) {
    const auto before = world.fetched_bytes_;
    for (std::size_t i = 0; i < world.size(); ++i) {
      world.enter(i);
      RC_ASSERT(!world.is_awaited() || (pass == 0 && i == 0));
      world.finish_all();
    }
    // Layers that are prefetched for the next pass count for this pass.
    if (pass > 0) RC_ASSERT(world.fetched_bytes_ - before <= bytes_per_pass);
  }
}

}  // namespace
}  // namespace ht::window::window_machine_property_test
