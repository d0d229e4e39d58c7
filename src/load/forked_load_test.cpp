// Loads in a process that forks.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <htensor/load/load.hpp>
#include <optional>
#include <utility>

#include "load/loaded_models_test.hpp"
#include "model/test_models.hpp"

namespace ht::forked_load_test {
namespace {

using namespace loaded_models_test;
using testing::noise_file;

// Returns whether `body` returns true in a forked child. An alarm kills a child that hangs.
template <class Body>
bool succeeds_in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    ::_exit(body() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool loads_and_evicts(const Model& model) {
  const auto strategy = std::make_shared<ScriptedStrategy>(zeros_for);
  if (!ht::load(model, {.custom = strategy})) return false;
  const bool is_resident = ht::residency(model).value()[1].residence == TensorResidency::Residence::resident;
  return is_resident && ht::evict(model).has_value();
}

TEST_F(LoadedModels, forked_child_loads_tensors_that_its_parent_is_loading) {
  std::optional<Model> model = open(noise_file("safetensors", {3, 500}));
  std::promise<void> is_loading;
  std::promise<void> may_end;
  const auto wait = [&](std::span<const io::Strategy::LoadRequest> requests) {
    is_loading.set_value();
    may_end.get_future().wait();
    return zeros_for(requests);
  };
  auto first = std::async(std::launch::async, [&] {
    return ht::load(*model, {.custom = std::make_shared<ScriptedStrategy>(wait)});
  });
  is_loading.get_future().wait();
  // Another thread of the parent waits for the first load. That thread does not exist in the child, where
  // `model.reset()` must not wait for it.
  std::promise<void> is_waiting;
  auto second = std::async(std::launch::async, [&, is_set = false]() mutable {
    return ht::load(*model, {.custom = std::make_shared<ScriptedStrategy>(zeros_for),
                             .work = {.on_progress = [&](const Progress&) {
                               if (!std::exchange(is_set, true)) is_waiting.set_value();
                             }}});
  });
  is_waiting.get_future().wait();
  EXPECT_TRUE(succeeds_in_child([&] {
    if (ht::residency(*model).value()[1].residence != TensorResidency::Residence::failed) return false;
    if (!loads_and_evicts(*model)) return false;
    model.reset();
    return true;
  }));
  may_end.set_value();
  EXPECT_TRUE(first.get());
  EXPECT_TRUE(second.get());
  EXPECT_EQ(ht::residency(*model).value()[1].residence, TensorResidency::Residence::resident);
  // A child that is forked after the load has the resident tensors of its parent.
  EXPECT_TRUE(succeeds_in_child([&] {
    return ht::residency(*model).value()[1].residence == TensorResidency::Residence::resident &&
           loads_and_evicts(*model);
  }));
}

// The thread that evicts holds the mutex of the states while a strategy releases memory.
TEST_F(LoadedModels, forked_child_loads_while_its_parent_changes_states) {
  std::optional<Model> model = open(noise_file("safetensors", {3, 500}));
  const auto strategy = std::make_shared<ScriptedStrategy>(zeros_for);
  ASSERT_TRUE(ht::load(*model, {.custom = strategy}));
  std::promise<void> is_releasing;
  std::promise<void> may_end;
  strategy->on_release = [&, is_set = false]() mutable {
    if (std::exchange(is_set, true)) return;
    is_releasing.set_value();
    may_end.get_future().wait();
  };
  auto evicted = std::async(std::launch::async, [&] { return ht::evict(*model); });
  is_releasing.get_future().wait();
  EXPECT_TRUE(succeeds_in_child([&] {
    const bool is_resident =
        ht::residency(*model).value()[1].residence == TensorResidency::Residence::resident;
    if (is_resident || !model->at(1)->bytes() || !loads_and_evicts(*model)) return false;
    model.reset();
    return true;
  }));
  may_end.set_value();
  EXPECT_TRUE(evicted.get());
}

TEST_F(LoadedModels, load_ends_in_its_process) {
  const auto model = open(noise_file("safetensors", {3, 500}));
  const auto parent = ::getpid();
  bool has_succeeded = false;
  const auto fork_in_load = [&](std::span<const io::Strategy::LoadRequest> requests) {
    const pid_t child = ::fork();
    int status = 0;
    if (child != 0 && ::waitpid(child, &status, 0) == child)
      has_succeeded = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (child == 0) ::alarm(20);
    return zeros_for(requests);
  };
  const auto loaded = ht::load(model, {.custom = std::make_shared<ScriptedStrategy>(fork_in_load)});
  if (::getpid() != parent) {
    const bool is_refused = !loaded && loaded.error().code() == ErrorCode::bad_state &&
                            loaded.error().rule() == "load_ends_in_its_process";
    ::_exit(is_refused && loads_and_evicts(model) ? 0 : 1);
  }
  EXPECT_TRUE(loaded);
  EXPECT_TRUE(has_succeeded);
}

}  // namespace
}  // namespace ht::forked_load_test
