// Loading with `verify`: bytes are compared with the seal of a model of several files.
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "integrity/seal_test.hpp"
#include "load/sealed_sets_test.hpp"

namespace ht::verified_load_test {
namespace {

using namespace sealed_sets_test;
using testing::expect_refusal;
using testing::flip_bit;
using testing::read_file;

TEST_F(SealedSet, is_verified_while_it_is_loaded_by_each_strategy) {
  for (const bool cold : {false, true}) {
    for (const auto strategy : {Strategy::Kind::mapped, Strategy::Kind::read, Strategy::Kind::automatic}) {
      ASSERT_TRUE(ht::evict(*model_));
      if (cold) forget_everything();
      const auto loaded = ht::load(*model_, checked(strategy));
      ASSERT_TRUE(loaded) << to_string(loaded.error());
      EXPECT_EQ(loaded->bytes, 2U * per_file * tensor_bytes);
      EXPECT_EQ(loaded->verified_bytes, 2U * per_file * tensor_bytes);
      expect_all_tensors();
    }
    for (const auto strategy : {Strategy::Kind::mapped, Strategy::Kind::staged, Strategy::Kind::automatic}) {
      if (cold) forget_everything();
      const auto streamed = stream(checked(strategy));
      ASSERT_TRUE(streamed) << to_string(streamed.error());
      EXPECT_GE(streamed->verified_bytes, 2U * per_file * tensor_bytes);
      expect_streamed_all();
    }
  }
}

TEST_F(SealedSet, loaded_bytes_match_the_seal) {
  flip_bit(folder_ / "part1.safetensors", offset_of(1, 1) + 99'999, 7);
  model_ = Model::open(folder_.path(), {.port = &port_}).value();
  const auto expect_named = [&](const Result<Loaded>& loaded) {
    const auto error = testing::refusal(loaded, ErrorCode::checksum_mismatch, "loaded_bytes_match_the_seal");
    EXPECT_EQ(error.tensor(), tensor(1, 1));
    EXPECT_EQ(error.offset(), offset_of(1, 1));
    EXPECT_EQ(error.path(), (folder_ / "part1.safetensors").native());
  };
  for (const bool cold : {false, true}) {
    for (const auto strategy : {Strategy::Kind::mapped, Strategy::Kind::read}) {
      if (cold) forget_everything();
      expect_named(ht::load(*model_, checked(strategy)));
      // No tensor becomes resident.
      EXPECT_FALSE(residences().contains(TensorResidency::Residence::resident));
    }
    for (const auto strategy : {Strategy::Kind::mapped, Strategy::Kind::staged}) {
      if (cold) forget_everything();
      expect_named(stream(checked(strategy)));
    }
    std::vector<std::byte> memory(tensor_bytes);
    const std::string name = tensor(1, 1);
    const Target target{name, memory};
    expect_named(ht::load_into(*model_, std::span(&target, 1), checked(Strategy::Kind::automatic)));
  }
  // The tensors of the other file are good.
  auto others = checked(Strategy::Kind::read);
  others.filter = "t0.*";
  EXPECT_EQ(ht::load(*model_, others).value().verified_bytes, per_file * tensor_bytes);
}

TEST_F(SealedSet, is_not_loaded_where_its_header_or_size_is_bad) {
  std::filesystem::resize_file(folder_ / "part1.safetensors",
                               std::filesystem::file_size(folder_ / "part1.safetensors") + 5);
  const auto grown = Model::open(folder_.path(), {.allow_incomplete = true, .port = &port_});
  // A format that allows no bytes after the data refuses to open the file.
  if (grown) {
    EXPECT_FALSE(ht::load(*grown, checked(Strategy::Kind::mapped)));
  }
  const auto seal = read_file(folder_ / "model.htseal");
  std::filesystem::remove(folder_ / "model.htseal");
  expect_refusal(ht::load(*model_, checked(Strategy::Kind::mapped)), ErrorCode::not_sealed,
                 "model_is_sealed");
}

TEST_F(SealedSet, verifies_memory_loaded_before) {
  ASSERT_TRUE(ht::load(*model_, options(Strategy::Kind::read)));
  flip_bit(folder_ / "part1.safetensors", offset_of(1, 1));
  model_ = Model::open(folder_.path(), {.port = &port_}).value();
  ASSERT_TRUE(ht::load(*model_, options(Strategy::Kind::read)));
  const auto again = ht::load(*model_, checked(Strategy::Kind::read));
  const auto error = testing::refusal(again, ErrorCode::checksum_mismatch, "loaded_bytes_match_the_seal");
  EXPECT_EQ(error.tensor(), tensor(1, 1));
}

TEST_F(SealedSet, stays_within_a_budget_while_it_is_checked) {
  forget_everything();
  auto how = checked(Strategy::Kind::automatic);
  how.budget_bytes = 8 * chunk;
  const auto loaded = ht::load(*model_, how);
  ASSERT_TRUE(loaded) << to_string(loaded.error());
  EXPECT_EQ(loaded->streamed_bytes, 2U * per_file * tensor_bytes);
  EXPECT_EQ(loaded->verified_bytes, 2U * per_file * tensor_bytes);
}

TEST_F(SealedSet, survives_each_call_that_fails_once_while_it_is_loaded) {
  using testing::Call;
  for (const auto call : {Call::open, Call::stat, Call::read_at, Call::advise, Call::cached, Call::map}) {
    for (int nth = 0; nth < 4; ++nth) {
      for (const auto strategy : {Strategy::Kind::mapped, Strategy::Kind::read}) {
        ASSERT_TRUE(ht::evict(*model_));
        port_.fail_at(call, port_.count(call) + nth, std::errc::io_error);
        const auto loaded = ht::load(*model_, checked(strategy));
        port_.clear_faults();
        if (loaded) {
          EXPECT_EQ(loaded->verified_bytes, 2U * per_file * tensor_bytes);
        }
        const auto again = ht::load(*model_, checked(strategy));
        ASSERT_TRUE(again) << to_string(again.error());
      }
    }
  }
  expect_all_tensors();
}

TEST_F(SealedSet, reports_why_pages_cannot_be_fetched_while_verifying) {
  using testing::Call;
  // Fails the call for each piece in turn. One thread fetches the pieces while others wait for them.
  for (int nth = 0; nth < 8; ++nth) {
    forget_everything();
    port_.fail_at(Call::advise, port_.count(Call::advise) + nth, std::errc::io_error);
    const auto loaded = ht::load(*model_, checked(Strategy::Kind::mapped));
    port_.clear_faults();
    if (loaded) {
      EXPECT_EQ(loaded->verified_bytes, 2U * per_file * tensor_bytes);
    } else {
      EXPECT_FALSE(loaded.error().rule().empty()) << to_string(loaded.error());
      EXPECT_FALSE(loaded.error().path().empty()) << to_string(loaded.error());
    }
    forget_everything();
    const auto again = ht::load(*model_, checked(Strategy::Kind::mapped));
    ASSERT_TRUE(again) << to_string(again.error());
  }
}

TEST_F(SealedSet, verification_can_be_stopped) {
  for (const bool cold : {false, true}) {
    for (const auto strategy : {Strategy::Kind::mapped, Strategy::Kind::read}) {
      ASSERT_TRUE(ht::evict(*model_));
      if (cold) forget_everything();
      std::stop_source stop;
      auto how = checked(strategy);
      how.work.stop = stop.get_token();
      how.work.on_progress = [&](const Progress&) { stop.request_stop(); };
      const auto loaded = ht::load(*model_, how);
      // All bytes may have been loaded before the stop request; the load then succeeds.
      if (!loaded) {
        EXPECT_EQ(loaded.error().code(), ErrorCode::cancelled) << to_string(loaded.error());
        EXPECT_EQ(loaded.error().rule(), "work_is_not_stopped");
      }
      EXPECT_TRUE(ht::load(*model_, checked(strategy)));
    }
  }
}

TEST_F(SealedSet, progress_is_reported_on_the_calling_thread_and_never_decreases) {
  for (const bool cold : {false, true}) {
    for (const auto strategy : {Strategy::Kind::mapped, Strategy::Kind::read}) {
      ASSERT_TRUE(ht::evict(*model_));
      if (cold) forget_everything();
      const auto caller = std::this_thread::get_id();
      std::vector<std::uint64_t> done;
      auto how = checked(strategy);
      how.work.on_progress = [&](const Progress& progress) {
        EXPECT_EQ(std::this_thread::get_id(), caller);
        EXPECT_EQ(progress.total_bytes, 2 * per_file * tensor_bytes);
        done.push_back(progress.done_bytes);
      };
      ASSERT_TRUE(ht::load(*model_, how));
      EXPECT_TRUE(std::ranges::is_sorted(done));
      EXPECT_EQ(done.back(), 2 * per_file * tensor_bytes);
    }
  }
}

TEST_F(SealedSet, exception_of_a_progress_callback_ends_verification) {
  for (const bool cold : {false, true}) {
    ASSERT_TRUE(ht::evict(*model_));
    if (cold) forget_everything();
    auto how = checked(Strategy::Kind::mapped);
    how.work.on_progress = [](const Progress&) { throw std::runtime_error("of the callback"); };
    EXPECT_THROW(static_cast<void>(ht::load(*model_, how)), std::runtime_error);
  }
  EXPECT_TRUE(ht::load(*model_, checked(Strategy::Kind::mapped)));
}

}  // namespace
}  // namespace ht::verified_load_test
