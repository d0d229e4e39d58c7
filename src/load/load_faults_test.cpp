// Loads that fail, that are stopped, and that run at the same time as other loads or evictions.
#include <algorithm>
#include <htensor/integrity/seal.hpp>
#include <htensor/load/load.hpp>
#include <stdexcept>
#include <stop_token>
#include <thread>

#include "load/load_test.hpp"

namespace ht::load_faults_test {
namespace {

using io::Strategy;
using testing::Call;
using testing::LoadModel;

TEST_F(LoadModel, work_is_completed) {
  // Requests the stop at each piece, with each strategy.
  for (const auto strategy : {Strategy::Kind::mapped, Strategy::Kind::read, Strategy::Kind::staged}) {
    for (int at = 0;; ++at) {
      std::stop_source source;
      int seen = 0;
      auto load_options = options(strategy);
      load_options.work = {.stop = source.get_token(), .on_progress = [&](const Progress&) {
                             if (seen++ == at) source.request_stop();
                           }};
      const auto done =
          strategy == Strategy::Kind::staged ? stream(load_options) : ht::load(*model_, load_options);
      if (done) {
        EXPECT_GT(at, 5);
        break;
      }
      EXPECT_EQ(done.error().code(), ErrorCode::cancelled);
      EXPECT_EQ(done.error().rule(), "work_is_completed");
    }
    expect_all_tensors();
  }
}

TEST_F(LoadModel, every_call_may_fail_once) {
  const std::vector<Call> calls{Call::stat,
                                Call::advise,
                                Call::cached,
                                Call::drop_cached,
                                Call::reopen_direct,
                                Call::read_queue,
                                Call::submit,
                                Call::completed_read,
                                Call::wait_for_read,
                                Call::read_at,
                                Call::file_system,
                                Call::available_memory,
                                Call::direct_alignment};
  for (const auto strategy :
       {Strategy::Kind::mapped, Strategy::Kind::read, Strategy::Kind::staged, Strategy::Kind::automatic}) {
    for (const auto call : calls) {
      for (int nth = 0; nth < 40; ++nth) {
        const int before = port_.count(call);
        port_.fail_at(call, before + nth, std::errc::io_error);
        auto load_options = options(strategy);
        load_options.chunk_bytes = 4 * chunk;  // for fewer chunks
        load_options.drop_after = true;
        const bool streams = strategy == Strategy::Kind::staged;
        const auto done = streams ? stream(load_options) : ht::load(*model_, load_options);
        const bool happened = port_.count(call) > before + nth;
        port_.clear_faults();
        // These calls have no fallback. Most other calls have one: they query facts, populate pages, prepare
        // direct reads, or create a kernel queue.
        const bool must_be_reported = call == Call::stat || call == Call::submit ||
                                      call == Call::completed_read || call == Call::wait_for_read ||
                                      call == Call::drop_cached;
        if (happened && must_be_reported) {
          EXPECT_FALSE(done) << static_cast<int>(call) << " at " << nth;
        }
        if (done && streams) {
          expect_streamed_all();
        } else if (done) {
          expect_all_tensors();
        }
        if (!done) {
          EXPECT_FALSE(done.error().path().empty()) << to_string(done.error());
          EXPECT_EQ(done.error().cause(), std::errc::io_error) << to_string(done.error());
        }
        EXPECT_EQ(port_.open_queues(), 0);
        ASSERT_TRUE(ht::evict(*model_));
        if (!happened) break;
      }
    }
    const auto repeated =
        strategy == Strategy::Kind::staged ? stream(options(strategy)) : ht::load(*model_, options(strategy));
    ASSERT_TRUE(repeated) << to_string(repeated.error());
    expect_all_tensors();
    ASSERT_TRUE(ht::evict(*model_));
  }
}

TEST_F(LoadModel, fault_names_the_tensor) {
  sync_and_evict();
  // The second file is truncated within its second tensor.
  const auto path = folder_ / "part1.safetensors";
  const auto header = std::filesystem::file_size(path) - tensors_per_file * tensor_bytes;
  std::filesystem::resize_file(path, header + tensor_bytes + 5000);
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now());
  for (const auto strategy : {Strategy::Kind::mapped, Strategy::Kind::read, Strategy::Kind::staged}) {
    auto load_options = options(strategy);
    const auto done =
        strategy == Strategy::Kind::staged ? stream(load_options) : ht::load(*model_, load_options);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), ErrorCode::changed_underfoot) << to_string(done.error());
    EXPECT_EQ(done.error().path(), path.string());
    // A check of the whole file names no tensor; any other error names the truncated tensor.
    EXPECT_TRUE(done.error().tensor().empty() || done.error().tensor() == tensor(1, 1));
  }
  const auto mapped = ht::load(*model_, options(Strategy::Kind::mapped));
  ASSERT_FALSE(mapped);
  EXPECT_EQ(mapped.error().tensor(), tensor(1, 1));
}

TEST_F(LoadModel, a_read_that_fails_names_the_tensor_and_the_cause) {
  sync_and_evict();
  port_.fail_at(Call::completed_read, port_.count(Call::completed_read) + 10, std::errc::io_error);
  const auto failed = ht::load(*model_, options(Strategy::Kind::read));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code(), ErrorCode::read_failed);
  EXPECT_EQ(failed.error().cause(), std::errc::io_error);
  // The error names the tensor that contains the failed byte.
  const auto at = failed.error().offset().value();
  const auto& catalog = model_->catalog();
  const Entry entry = catalog[catalog.find(failed.error().tensor()).value()];
  EXPECT_EQ(model_->files()[entry.file].string(), failed.error().path());
  EXPECT_LE(entry.offset, at);
  EXPECT_LT(at, entry.offset + entry.bytes);
  EXPECT_EQ(residences(), std::set{TensorResidency::Residence::failed});
}

TEST_F(LoadModel, cached_pages_are_copied_and_report_a_file_truncated_meanwhile) {
  ASSERT_TRUE(ht::load(*model_, options(Strategy::Kind::mapped)));
  ASSERT_TRUE(ht::load(*model_, {.strategy = Strategy::Kind::read, .filter = "t1.*"}));
  EXPECT_EQ(port_.count(Call::read_at), header_reads_);
  // Truncates the file just before its first pages are copied.
  const auto path = folder_ / "part0.safetensors";
  const int advise_calls = port_.count(Call::advise);
  port_.before_each([&](Call call, int nth) {
    if (call == Call::advise && nth == advise_calls + 1) std::filesystem::resize_file(path, 4096);
  });
  const auto truncated = ht::load(*model_, options(Strategy::Kind::read));
  port_.before_each({});
  ASSERT_FALSE(truncated);
  EXPECT_EQ(truncated.error().code(), ErrorCode::truncated) << to_string(truncated.error());
  EXPECT_EQ(truncated.error().path(), path.string());
  EXPECT_TRUE(truncated.error().tensor().starts_with("t0."));
}

TEST_F(LoadModel, fault_policy_off_reads_instead_of_copying_pages) {
  const auto unguarded =
      Model::open(folder_ / "part0.safetensors", {.faults = FaultPolicy::off, .port = &port_}).value();
  ASSERT_TRUE(ht::load(unguarded, options(Strategy::Kind::mapped)));
  const int before = port_.count(Call::read_at);
  ASSERT_TRUE(ht::load(unguarded, options(Strategy::Kind::read)));
  EXPECT_GT(port_.count(Call::read_at), before);
}

TEST_F(LoadModel, model_has_its_data) {
  const auto catalog = Model::open(folder_ / "part0.safetensors", {.catalog_only = true}).value();
  EXPECT_EQ(ht::load(catalog).error().rule(), "model_has_its_data");
  EXPECT_EQ(ht::load(catalog, {.strategy = Strategy::Kind::read}).error().rule(), "model_has_its_data");
  EXPECT_EQ(ht::stream(catalog, [](const TensorPiece&) -> Result<void> { return {}; }).error().rule(),
            "model_has_its_data");
}

TEST_F(LoadModel, exception_of_a_callback_leaves_the_model_usable) {
  auto load_options = options(Strategy::Kind::read);
  load_options.work.on_progress = [](const Progress&) { throw std::runtime_error("mine"); };
  EXPECT_THROW(static_cast<void>(ht::load(*model_, load_options)), std::runtime_error);
  ASSERT_TRUE(ht::load(*model_, options(Strategy::Kind::read)));
  EXPECT_EQ(residences(), std::set{TensorResidency::Residence::resident});
}

TEST_F(LoadModel, callbacks_may_throw_with_every_strategy) {
  ASSERT_TRUE(ht::seal(*model_));
  // If the page cache cannot be queried, a thread fetches the pages while they are checked.
  port_.fail_from(Call::cached, 0, std::errc::operation_not_permitted);
  for (const auto strategy :
       {Strategy::Kind::mapped, Strategy::Kind::read, Strategy::Kind::staged, Strategy::Kind::automatic}) {
    for (const bool verify : {false, true}) {
      auto load_options = options(strategy);
      load_options.verify = verify;
      int seen = 0;
      load_options.work.on_progress = [&](const Progress&) {
        if (++seen == 2) throw std::runtime_error("mine");
      };
      const auto load = [&] {
        return strategy == Strategy::Kind::staged ? stream(load_options) : ht::load(*model_, load_options);
      };
      ASSERT_TRUE(ht::evict(*model_));
      EXPECT_THROW(static_cast<void>(load()), std::runtime_error) << io::to_string(strategy) << verify;
      load_options.work.on_progress = {};
      EXPECT_TRUE(load());
    }
  }
}

TEST_F(LoadModel, loads_are_not_nested) {
  auto load_options = options(Strategy::Kind::read);
  std::optional<Error> inner;
  load_options.work.on_progress = [&](const Progress&) {
    const auto nested = ht::load(*model_, {.strategy = Strategy::Kind::read});
    if (!nested) inner = nested.error();
  };
  ASSERT_TRUE(ht::load(*model_, load_options));
  ASSERT_TRUE(inner);
  EXPECT_EQ(inner->code(), ErrorCode::in_use);
  EXPECT_EQ(inner->rule(), "loads_are_not_nested");
}

TEST_F(LoadModel, tensor_loaded_during_an_eviction_stays_resident) {
  // After a first load, each tensor has a state of its own.
  ASSERT_TRUE(ht::load(*model_, {.strategy = Strategy::Kind::read, .filter = "t0.0"}));
  // Another thread loads the same tensors while their pages are dropped.
  bool once = false;
  port_.before_each([&](Call call, int) {
    if (call != Call::drop_cached || once) return;
    once = true;
    std::jthread([&] {
      EXPECT_TRUE(ht::load(*model_, {.strategy = Strategy::Kind::read, .filter = "t1.*"}));
    }).join();
  });
  ASSERT_TRUE(ht::evict(*model_, "t1.*"));
  port_.before_each({});
  EXPECT_TRUE(once);
  EXPECT_EQ(residences(),
            (std::set{TensorResidency::Residence::resident, TensorResidency::Residence::mapped}));
  expect_all_tensors();
  EXPECT_TRUE((model_->copy<U8, Rank<1>>(tensor(1, 1))));
}

TEST_F(LoadModel, evicted_and_failed_tensors_are_mapped_again) {
  ASSERT_TRUE(ht::load(*model_, options(Strategy::Kind::read)));
  ASSERT_TRUE(ht::evict(*model_));
  EXPECT_EQ(residences(), std::set{TensorResidency::Residence::evicted});
  ASSERT_TRUE(ht::load(*model_, options(Strategy::Kind::mapped)));
  EXPECT_EQ(residences(), std::set{TensorResidency::Residence::mapped});
  auto load_options = options(Strategy::Kind::read);
  load_options.budget_bytes = 4096;
  EXPECT_FALSE(ht::load(*model_, load_options));
  EXPECT_EQ(residences(), std::set{TensorResidency::Residence::failed});
  EXPECT_TRUE(model_->storage(tensor(0, 0)));
  EXPECT_EQ(residences(), (std::set{TensorResidency::Residence::failed, TensorResidency::Residence::mapped}));
}

TEST_F(LoadModel, many_threads_may_load_look_up_and_evict) {
  std::vector<std::jthread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      for (int i = 0; i < 20; ++i) {
        if (number == 0) {
          EXPECT_TRUE(ht::load(*model_, options(Strategy::Kind::read)));
        }
        if (number == 1) static_cast<void>(ht::evict(*model_, "t0.*"));  // fails if a thread uses a tensor
        const auto raw = model_->storage(tensor(0, number % tensors_per_file)).value();
        EXPECT_TRUE(std::ranges::equal(raw.bytes(), expected(0, number % tensors_per_file)));
      }
    });
  }
}

}  // namespace
}  // namespace ht::load_faults_test
