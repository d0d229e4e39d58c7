// Loading with `verify`: bytes are compared with the seal of a model of several files.
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "integrity/seal_test.hpp"
#include "load/loaded_models_test.hpp"
#include "load/sealed_sets_test.hpp"

namespace ht::verified_load_test {
namespace {

using namespace sealed_sets_test;
using loaded_models_test::ScriptedStrategy;
using testing::expect_refusal;
using testing::flip_bit;

TEST_F(SealedSet, is_verified_while_it_is_loaded_by_each_strategy) {
  for (const bool cold : {false, true}) {
    for (const auto strategy : {Strategy::Kind::mapped, Strategy::Kind::read, Strategy::Kind::automatic}) {
      ASSERT_TRUE(ht::evict(*model_));
      if (cold) sync_and_evict();
      const auto loaded = ht::load(*model_, options_with_verify(strategy));
      ASSERT_TRUE(loaded) << to_string(loaded.error());
      EXPECT_EQ(loaded->bytes, 2U * tensors_per_file * tensor_bytes);
      EXPECT_EQ(loaded->verified_bytes, 2U * tensors_per_file * tensor_bytes);
      expect_all_tensors();
    }
    for (const auto strategy : {Strategy::Kind::mapped, Strategy::Kind::staged, Strategy::Kind::automatic}) {
      if (cold) sync_and_evict();
      const auto streamed = stream(options_with_verify(strategy));
      ASSERT_TRUE(streamed) << to_string(streamed.error());
      EXPECT_GE(streamed->verified_bytes, 2U * tensors_per_file * tensor_bytes);
      expect_streamed_all();
    }
  }
}

TEST_F(SealedSet, loaded_bytes_match_the_seal) {
  flip_bit(folder_ / "part1.safetensors", offset_of(1, 1) + 99'999, 7);
  model_ = Model::open(folder_.path(), {.port = &port_}).value();
  const auto expect_named = [&](const Result<LoadReport>& loaded) {
    const auto error = testing::refusal(loaded, ErrorCode::checksum_mismatch, "loaded_bytes_match_the_seal");
    EXPECT_EQ(error.tensor(), tensor(1, 1));
    EXPECT_EQ(error.offset(), offset_of(1, 1));
    EXPECT_EQ(error.path(), (folder_ / "part1.safetensors").native());
  };
  for (const bool cold : {false, true}) {
    for (const auto strategy : {Strategy::Kind::mapped, Strategy::Kind::read}) {
      if (cold) sync_and_evict();
      expect_named(ht::load(*model_, options_with_verify(strategy)));
      // No tensor becomes resident.
      EXPECT_FALSE(residences().contains(TensorResidency::Residence::resident));
    }
    for (const auto strategy : {Strategy::Kind::mapped, Strategy::Kind::staged}) {
      if (cold) sync_and_evict();
      expect_named(stream(options_with_verify(strategy)));
    }
    std::vector<std::byte> memory(tensor_bytes);
    const std::string name = tensor(1, 1);
    const Target target{name, memory};
    expect_named(
        ht::load_into(*model_, std::span(&target, 1), options_with_verify(Strategy::Kind::automatic)));
  }
  // The tensors of the other file are good.
  auto others = options_with_verify(Strategy::Kind::read);
  others.filter = "t0.*";
  EXPECT_EQ(ht::load(*model_, others).value().verified_bytes, tensors_per_file * tensor_bytes);
}

TEST_F(SealedSet, is_not_loaded_if_a_file_has_grown) {
  std::filesystem::resize_file(folder_ / "part1.safetensors",
                               std::filesystem::file_size(folder_ / "part1.safetensors") + 5);
  expect_refusal(ht::load(*model_, options_with_verify(Strategy::Kind::mapped)), ErrorCode::changed_underfoot,
                 "file_is_unchanged");
}

TEST_F(SealedSet, is_not_loaded_if_the_seal_is_missing) {
  std::filesystem::remove(folder_ / "model.htseal");
  expect_refusal(ht::load(*model_, options_with_verify(Strategy::Kind::mapped)), ErrorCode::not_sealed,
                 "model_is_sealed");
}

TEST_F(SealedSet, verifies_memory_loaded_before) {
  ASSERT_TRUE(ht::load(*model_, options(Strategy::Kind::read)));
  flip_bit(folder_ / "part1.safetensors", offset_of(1, 1));
  model_ = Model::open(folder_.path(), {.port = &port_}).value();
  ASSERT_TRUE(ht::load(*model_, options(Strategy::Kind::read)));
  const auto verified = ht::load(*model_, options_with_verify(Strategy::Kind::read));
  const auto error = testing::refusal(verified, ErrorCode::checksum_mismatch, "loaded_bytes_match_the_seal");
  EXPECT_EQ(error.tensor(), tensor(1, 1));
}

TEST_F(SealedSet, counts_memory_loaded_before_as_verified) {
  auto part = options(Strategy::Kind::read);
  part.filter = "t0.*";
  ASSERT_TRUE(ht::load(*model_, part));
  auto few = options_with_verify(Strategy::Kind::mapped);
  few.use = Strategy::Use::few;
  for (const auto& load_options : {few, options_with_verify(Strategy::Kind::read)}) {
    const auto loaded = ht::load(*model_, load_options).value();
    EXPECT_EQ(loaded.resident_bytes, tensors_per_file * tensor_bytes);
    EXPECT_EQ(loaded.verified_bytes, loaded.bytes + loaded.resident_bytes);
  }
  const auto repeated = ht::load(*model_, options_with_verify(Strategy::Kind::read)).value();
  EXPECT_EQ(repeated.bytes, 0U);
  EXPECT_EQ(repeated.verified_bytes, 2U * tensors_per_file * tensor_bytes);
}

// A strategy that overrides `load` may return other bytes than it passes to `LoadWork::on_loaded`, if it
// calls it at all.
TEST_F(SealedSet, is_verified_in_the_memory_that_a_strategy_of_the_caller_returns) {
  auto load_options = options_with_verify(Strategy::Kind::automatic);
  load_options.custom = std::make_shared<ScriptedStrategy>(loaded_models_test::zeros_for);
  const auto error = testing::refusal(ht::load(*model_, load_options), ErrorCode::checksum_mismatch,
                                      "loaded_bytes_match_the_seal");
  EXPECT_EQ(error.tensor(), tensor(0, 0));
  EXPECT_FALSE(residences().contains(TensorResidency::Residence::resident));
  const auto read = [&](std::span<const Strategy::LoadRequest> requests) {
    std::vector<Strategy::Answer> answers;
    for (const auto& request : requests) {
      const auto file = io::open_file(model_->files()[request.range.file]).value();
      const auto memory = std::make_shared<std::vector<std::byte>>(request.range.bytes);
      EXPECT_TRUE(file->read(request.range.offset, *memory));
      answers.emplace_back(Strategy::LoadDone{{*memory, memory}});
    }
    return answers;
  };
  load_options.custom = std::make_shared<ScriptedStrategy>(read);
  const auto loaded = ht::load(*model_, load_options);
  ASSERT_TRUE(loaded) << to_string(loaded.error());
  EXPECT_EQ(loaded->verified_bytes, 2U * tensors_per_file * tensor_bytes);
  expect_all_tensors();
}

TEST_F(SealedSet, is_verified_by_a_load_that_exceeds_its_budget) {
  sync_and_evict();
  auto load_options = options_with_verify(Strategy::Kind::automatic);
  load_options.budget_bytes = 8 * chunk;
  const auto loaded = ht::load(*model_, load_options);
  ASSERT_TRUE(loaded) << to_string(loaded.error());
  EXPECT_EQ(loaded->streamed_bytes, 2U * tensors_per_file * tensor_bytes);
  EXPECT_EQ(loaded->verified_bytes, 2U * tensors_per_file * tensor_bytes);
}

TEST_F(SealedSet, survives_each_call_that_fails_once_while_it_is_loaded) {
  using testing::Call;
  for (const auto call : {Call::open, Call::stat, Call::read_at, Call::advise, Call::cached, Call::map}) {
    for (int nth = 0; nth < 4; ++nth) {
      for (const auto strategy : {Strategy::Kind::mapped, Strategy::Kind::read}) {
        ASSERT_TRUE(ht::evict(*model_));
        port_.fail_at(call, port_.count(call) + nth, std::errc::io_error);
        const auto loaded = ht::load(*model_, options_with_verify(strategy));
        port_.clear_faults();
        if (loaded) {
          EXPECT_EQ(loaded->verified_bytes, 2U * tensors_per_file * tensor_bytes);
        }
        const auto repeated = ht::load(*model_, options_with_verify(strategy));
        ASSERT_TRUE(repeated) << to_string(repeated.error());
      }
    }
  }
  expect_all_tensors();
}

TEST_F(SealedSet, reports_why_pages_cannot_be_fetched_while_verifying) {
  using testing::Call;
  // Fails the call for each piece in turn. One thread fetches the pieces while others wait for them.
  for (int nth = 0; nth < 8; ++nth) {
    sync_and_evict();
    port_.fail_at(Call::advise, port_.count(Call::advise) + nth, std::errc::io_error);
    const auto loaded = ht::load(*model_, options_with_verify(Strategy::Kind::mapped));
    port_.clear_faults();
    if (loaded) {
      EXPECT_EQ(loaded->verified_bytes, 2U * tensors_per_file * tensor_bytes);
    } else {
      EXPECT_EQ(loaded.error().cause(), std::errc::io_error) << to_string(loaded.error());
      EXPECT_FALSE(loaded.error().path().empty()) << to_string(loaded.error());
    }
    sync_and_evict();
    const auto repeated = ht::load(*model_, options_with_verify(Strategy::Kind::mapped));
    ASSERT_TRUE(repeated) << to_string(repeated.error());
  }
}

TEST_F(SealedSet, verification_can_be_stopped) {
  for (const bool cold : {false, true}) {
    for (const auto strategy : {Strategy::Kind::mapped, Strategy::Kind::read}) {
      ASSERT_TRUE(ht::evict(*model_));
      if (cold) sync_and_evict();
      std::stop_source stop;
      auto load_options = options_with_verify(strategy);
      load_options.work.stop = stop.get_token();
      load_options.work.on_progress = [&](const Progress&) { stop.request_stop(); };
      const auto loaded = ht::load(*model_, load_options);
      // All bytes may have been loaded before the stop request; the load then succeeds.
      if (!loaded) {
        EXPECT_EQ(loaded.error().code(), ErrorCode::cancelled) << to_string(loaded.error());
        EXPECT_EQ(loaded.error().rule(), "work_is_completed");
      }
      EXPECT_TRUE(ht::load(*model_, options_with_verify(strategy)));
    }
  }
}

TEST_F(SealedSet, progress_is_reported_on_the_calling_thread_and_never_decreases) {
  for (const bool cold : {false, true}) {
    for (const auto strategy : {Strategy::Kind::mapped, Strategy::Kind::read}) {
      ASSERT_TRUE(ht::evict(*model_));
      if (cold) sync_and_evict();
      const auto caller = std::this_thread::get_id();
      std::vector<std::uint64_t> done;
      auto load_options = options_with_verify(strategy);
      load_options.work.on_progress = [&](const Progress& progress) {
        EXPECT_EQ(std::this_thread::get_id(), caller);
        EXPECT_EQ(progress.total_bytes, 2 * tensors_per_file * tensor_bytes);
        done.push_back(progress.done_bytes);
      };
      ASSERT_TRUE(ht::load(*model_, load_options));
      EXPECT_TRUE(std::ranges::is_sorted(done));
      EXPECT_EQ(done.back(), 2 * tensors_per_file * tensor_bytes);
    }
  }
}

TEST_F(SealedSet, exception_of_a_progress_callback_ends_verification) {
  for (const bool cold : {false, true}) {
    ASSERT_TRUE(ht::evict(*model_));
    if (cold) sync_and_evict();
    auto load_options = options_with_verify(Strategy::Kind::mapped);
    load_options.work.on_progress = [](const Progress&) { throw std::runtime_error("of the callback"); };
    EXPECT_THROW(static_cast<void>(ht::load(*model_, load_options)), std::runtime_error);
  }
  EXPECT_TRUE(ht::load(*model_, options_with_verify(Strategy::Kind::mapped)));
}

}  // namespace
}  // namespace ht::verified_load_test
