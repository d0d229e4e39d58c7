// Loads tensors into memory, into the page cache and into memory of the caller, with each strategy.
#include <gmock/gmock.h>

#include <algorithm>
#include <htensor/integrity/seal.hpp>
#include <htensor/load/load.hpp>

#include "load/load_test.hpp"

namespace ht::load_test {
namespace {

using io::Strategy;
using testing::Call;
using testing::LoadModel;
using testing::refusal;

TEST_F(LoadModel, loads_all_tensors_by_each_strategy) {
  for (const auto strategy : {Strategy::Kind::mapped, Strategy::Kind::read, Strategy::Kind::automatic}) {
    const auto loaded = ht::load(*model_, options(strategy));
    ASSERT_TRUE(loaded) << to_string(loaded.error());
    EXPECT_EQ(loaded->bytes, 2 * tensors_per_file * tensor_bytes);
    EXPECT_FALSE(loaded->choice.code.empty());
    EXPECT_FALSE(loaded->choice.reason.empty());
    EXPECT_EQ(loaded->requested_bytes, loaded->bytes);
    EXPECT_EQ(loaded->resident_bytes, 0U);
    EXPECT_EQ(loaded->streamed_bytes, 0U);
    if (strategy != Strategy::Kind::automatic) {
      EXPECT_EQ(loaded->choice.strategy, strategy);
    }
    expect_all_tensors();
    ASSERT_TRUE(ht::evict(*model_));
  }
}

TEST_F(LoadModel, read_is_independent_of_later_file_changes) {
  ASSERT_TRUE(ht::load(*model_, options(Strategy::Kind::read)));
  EXPECT_EQ(residences(), std::set{TensorResidency::Residence::resident});
  std::filesystem::resize_file(folder_ / "part0.safetensors", 100);
  std::filesystem::remove(folder_ / "part1.safetensors");
  expect_all_tensors();
  EXPECT_TRUE((model_->copy<U8, Rank<1>>(tensor(0, 2))));
  const auto tensors = ht::residency(*model_).value();
  for (const auto& each : tensors) EXPECT_EQ(each.resident_bytes, tensor_bytes);
}

TEST_F(LoadModel, second_read_skips_resident_tensors) {
  ASSERT_TRUE(ht::load(*model_, {.strategy = Strategy::Kind::read, .filter = "t0.*"}));
  EXPECT_EQ(residences(),
            (std::set{TensorResidency::Residence::resident, TensorResidency::Residence::unbound}));
  const auto* const before = model_->storage(tensor(0, 0)).value().bytes().data();
  ASSERT_TRUE(ht::load(*model_, options(Strategy::Kind::read)));
  EXPECT_EQ(model_->storage(tensor(0, 0)).value().bytes().data(), before);
  EXPECT_EQ(residences(), std::set{TensorResidency::Residence::resident});
}

TEST_F(LoadModel, memory_with_handles_is_in_use) {
  ASSERT_TRUE(ht::load(*model_, options(Strategy::Kind::read)));
  {
    const auto held = model_->tensor<U8, Rank<1>>(tensor(0, 1)).value();
    const auto error = refusal(ht::evict(*model_), ErrorCode::in_use, "memory_is_not_in_use");
    EXPECT_EQ(error.tensor(), tensor(0, 1));
    // All other tensors are evicted; the tensor in use is unchanged.
    EXPECT_EQ(residences(),
              (std::set{TensorResidency::Residence::resident, TensorResidency::Residence::evicted}));
    EXPECT_EQ(static_cast<std::byte>(static_cast<std::uint8_t>(held(7))), expected(0, 1)[7]);
  }
  EXPECT_TRUE(ht::evict(*model_));
  EXPECT_EQ(residences(), std::set{TensorResidency::Residence::evicted});
  // Evicted tensors are read from the file again, and can be loaded again.
  expect_all_tensors();
  EXPECT_EQ(residences(), std::set{TensorResidency::Residence::mapped});
  ASSERT_TRUE(ht::load(*model_, options(Strategy::Kind::read)));
  EXPECT_EQ(residences(), std::set{TensorResidency::Residence::resident});
  expect_all_tensors();
}

TEST_F(LoadModel, tensors_outlive_the_model_that_loaded_them) {
  ASSERT_TRUE(ht::load(*model_, options(Strategy::Kind::read)));
  const auto held = model_->storage(tensor(1, 1)).value();
  model_.reset();
  EXPECT_TRUE(std::ranges::equal(held.bytes(), expected(1, 1)));
}

TEST_F(LoadModel, drop_after_leaves_nothing_in_the_page_cache) {
  for (const auto strategy : {Strategy::Kind::mapped, Strategy::Kind::read}) {
    sync_and_evict();
    auto load_options = options(strategy);
    ASSERT_TRUE(ht::load(*model_, {.strategy = Strategy::Kind::mapped}));
    EXPECT_EQ(cached(), 2 * tensors_per_file * tensor_bytes);
    load_options.drop_after = true;
    ASSERT_TRUE(ht::load(*model_, load_options));
    EXPECT_EQ(cached(), 0U);
    // Pages are also dropped after a load that failed.
    ASSERT_TRUE(ht::evict(*model_));
    ASSERT_TRUE(ht::load(*model_, {.strategy = Strategy::Kind::mapped}));
    std::stop_source source;
    source.request_stop();
    load_options.work.stop = source.get_token();
    EXPECT_EQ(ht::load(*model_, load_options).error().code(), ErrorCode::cancelled);
    EXPECT_EQ(cached(), 0U);
  }
}

TEST_F(LoadModel, stream_passes_every_byte_once_by_each_strategy) {
  sync_and_evict();  // dirty pages cannot be dropped
  for (const auto strategy : {Strategy::Kind::mapped, Strategy::Kind::staged, Strategy::Kind::automatic}) {
    for (const bool drop_after : {false, true}) {
      auto load_options = options(strategy);
      load_options.drop_after = drop_after;
      const auto streamed = stream(load_options);
      ASSERT_TRUE(streamed) << to_string(streamed.error());
      EXPECT_EQ(streamed->bytes, 2 * tensors_per_file * tensor_bytes);
      expect_streamed_all();
      if (drop_after) {
        EXPECT_EQ(cached(), 0U);
      }
    }
  }
}

TEST_F(LoadModel, loads_into_the_callers_memory) {
  std::vector<std::byte> memory(2 * tensor_bytes + 1);
  const auto odd = MutableBytes(memory).last(2 * tensor_bytes);
  const std::string first = tensor(1, 2);
  const std::string second = tensor(0, 1);
  const std::vector<Target> targets{{first, odd.first(tensor_bytes)}, {second, odd.last(tensor_bytes)}};
  for (const bool cold : {false, true}) {
    if (cold) sync_and_evict();
    std::ranges::fill(memory, std::byte{0});
    const auto loaded = ht::load_into(*model_, targets, {.chunks = 2, .chunk_bytes = chunk});
    ASSERT_TRUE(loaded) << to_string(loaded.error());
    EXPECT_EQ(loaded->choice.strategy, Strategy::Kind::external);
    EXPECT_TRUE(std::ranges::equal(odd.first(tensor_bytes), expected(1, 2)));
    EXPECT_TRUE(std::ranges::equal(odd.last(tensor_bytes), expected(0, 1)));
  }
}

TEST_F(LoadModel, target_size_matches_its_tensor) {
  std::vector<std::byte> memory(tensor_bytes + 1);
  const std::string name = tensor(0, 0);
  const std::vector<Target> targets{{name, memory}};
  const auto loaded = ht::load_into(*model_, targets);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code(), ErrorCode::size_mismatch);
  EXPECT_EQ(loaded.error().rule(), "target_size_matches_its_tensor");
  EXPECT_EQ(loaded.error().tensor(), name);
  const std::vector<Target> unknown{{"unknown", memory}};
  EXPECT_EQ(ht::load_into(*model_, unknown).error().code(), ErrorCode::not_found);
}

TEST_F(LoadModel, targets_do_not_overlap) {
  std::vector<std::byte> memory(2 * tensor_bytes - 1);
  const std::string a = tensor(0, 0);
  const std::string b = tensor(0, 1);
  const std::vector<Target> targets{{a, MutableBytes(memory).last(tensor_bytes)},
                                    {b, MutableBytes(memory).first(tensor_bytes)}};
  const auto refused = ht::load_into(*model_, targets);
  testing::expect_refusal(refused, ErrorCode::overlap, "targets_do_not_overlap");
  EXPECT_EQ(refused.error().message(), "targets of tensors '" + b + "' and '" + a + "' overlap by 1 bytes");
  // One tensor may have two targets.
  memory.resize(2 * tensor_bytes);
  const std::vector<Target> twice{{a, MutableBytes(memory).last(tensor_bytes)},
                                  {a, MutableBytes(memory).first(tensor_bytes)}};
  EXPECT_EQ(ht::load_into(*model_, twice).value().bytes, 2 * tensor_bytes);
  EXPECT_TRUE(std::ranges::equal(MutableBytes(memory).last(tensor_bytes), expected(0, 0)));
}

TEST_F(LoadModel, strategy_supports_this_load) {
  for (const auto strategy : {Strategy::Kind::staged, Strategy::Kind::external}) {
    EXPECT_EQ(refusal(ht::load(*model_, options(strategy)), ErrorCode::unsupported_strategy,
                      "strategy_supports_this_load")
                  .path(),
              (folder_ / "model.safetensors.index.json").string());
  }
  for (const auto strategy : {Strategy::Kind::read, Strategy::Kind::external}) {
    testing::expect_refusal(stream(options(strategy)), ErrorCode::unsupported_strategy,
                            "strategy_supports_this_load");
  }
}

TEST_F(LoadModel, loaded_bytes_fit_the_budget) {
  auto load_options = options(Strategy::Kind::read);
  load_options.budget_bytes = 2 * tensors_per_file * tensor_bytes;  // without the padding to whole pages
  testing::expect_refusal(ht::load(*model_, load_options), ErrorCode::budget_too_small,
                          "loaded_bytes_fit_the_budget");
  // A load that failed can be repeated.
  EXPECT_EQ(residences(), std::set{TensorResidency::Residence::failed});
  expect_all_tensors();
  load_options.budget_bytes *= 2;
  ASSERT_TRUE(ht::load(*model_, load_options));
  EXPECT_EQ(residences(), std::set{TensorResidency::Residence::resident});
}

TEST_F(LoadModel, automatic_streams_tensors_above_the_budget) {
  for (const bool cold : {true, false}) {
    if (cold) {
      sync_and_evict();
    } else {
      ASSERT_TRUE(ht::prefetch(*model_));
    }
    auto load_options = options(Strategy::Kind::automatic);
    load_options.budget_bytes = 3 * tensor_bytes;
    const auto loaded = ht::load(*model_, load_options).value();
    EXPECT_EQ(loaded.choice.strategy, Strategy::Kind::staged);
    EXPECT_EQ(loaded.choice.code, "larger_than_memory");
    EXPECT_THAT(loaded.choice.reason, ::testing::StartsWith("exceeds the memory budget: streamed"));
    EXPECT_EQ(loaded.requested_bytes, 2 * tensors_per_file * tensor_bytes);
    EXPECT_EQ(loaded.bytes, loaded.requested_bytes);
    EXPECT_EQ(loaded.streamed_bytes, loaded.requested_bytes);
    expect_all_tensors();
    EXPECT_EQ(residences(), std::set{TensorResidency::Residence::mapped});
  }
  // Mapped pages need no memory for the padding of `read`.
  auto load_options = options(Strategy::Kind::automatic);
  load_options.budget_bytes = 2 * tensors_per_file * tensor_bytes;
  const auto fits = ht::load(*model_, load_options).value();
  EXPECT_EQ(fits.choice.strategy, Strategy::Kind::mapped);
  EXPECT_EQ(fits.streamed_bytes, 0U);
}

TEST_F(LoadModel, mapped_bytes_fit_into_the_budget) {
  for (const bool verify : {false, true}) {
    ASSERT_TRUE(!verify || ht::seal(*model_));
    auto load_options = options(Strategy::Kind::mapped);
    load_options.verify = verify;
    load_options.budget_bytes = 2 * tensors_per_file * tensor_bytes - 1;
    sync_and_evict();
    const auto error = refusal(ht::load(*model_, load_options), ErrorCode::budget_too_small,
                               "mapped_bytes_fit_into_the_budget");
    EXPECT_EQ(error.message(),
              "needs 600000 bytes of memory but the budget is 599999 bytes; 0 bytes were loaded");
    if (!verify) {  // verifying reads headers
      EXPECT_EQ(cached(), 0U);
    }
    ++load_options.budget_bytes;
    EXPECT_EQ(ht::load(*model_, load_options).value().bytes, 2 * tensors_per_file * tensor_bytes);
  }
  // Without a budget, pages that are not cached must fit into the available memory. A prefetch has no limit.
  sync_and_evict();
  const auto load_with_available = [&](std::uint64_t bytes) {
    port_.set_available_memory(bytes);
    return ht::load(*model_, options(Strategy::Kind::mapped));
  };
  testing::expect_refusal(load_with_available(8 * 1000), ErrorCode::budget_too_small,
                          "mapped_bytes_fit_into_the_budget");
  EXPECT_EQ(ht::prefetch(*model_).value(), 2 * tensors_per_file * tensor_bytes);
  EXPECT_TRUE(load_with_available(8 * 1000));
}

TEST_F(LoadModel, counts_resident_bytes_separately_from_loaded_bytes) {
  sync_and_evict();
  ASSERT_TRUE(ht::load(*model_, {.strategy = Strategy::Kind::read, .filter = "t0.*"}));
  const auto loaded = ht::load(*model_, options(Strategy::Kind::mapped)).value();
  EXPECT_EQ(loaded.requested_bytes, 2 * tensors_per_file * tensor_bytes);
  EXPECT_EQ(loaded.bytes, tensors_per_file * tensor_bytes);
  EXPECT_EQ(loaded.resident_bytes, tensors_per_file * tensor_bytes);
  EXPECT_EQ(loaded.cached_bytes, 0U);
  const auto repeated = ht::load(*model_, options(Strategy::Kind::mapped)).value();
  EXPECT_EQ(repeated.cached_bytes, repeated.bytes);
}

TEST_F(LoadModel, the_reason_names_threads_and_rate) {
  sync_and_evict();
  const auto mapped = ht::load(*model_, options(Strategy::Kind::mapped)).value();
  EXPECT_THAT(mapped.choice.reason,
              ::testing::MatchesRegex("requested by name; pages populated by 2 threads at [0-9.]+ GB/s"));
  const auto cached = ht::load(*model_, options(Strategy::Kind::mapped)).value();
  EXPECT_EQ(cached.choice.reason, "requested by name");
  sync_and_evict();
  const auto read = ht::load(*model_, options(Strategy::Kind::read)).value();
  EXPECT_THAT(read.choice.reason,
              ::testing::MatchesRegex("requested by name; .*reads.* into pages allocated by "
                                      "1 thread at [0-9.]+ GB/s"));
}

TEST_F(LoadModel, automatic_skips_resident_tensors) {
  ASSERT_TRUE(ht::load(*model_, options(Strategy::Kind::read)));
  auto load_options = options(Strategy::Kind::automatic);
  load_options.budget_bytes = 1;
  const auto repeated = ht::load(*model_, load_options).value();
  EXPECT_EQ(repeated.choice.code, "nothing_to_load");
  EXPECT_EQ(repeated.bytes, 0U);
  EXPECT_EQ(residences(), std::set{TensorResidency::Residence::resident});
}

TEST_F(LoadModel, ring_that_exceeds_memory_is_out_of_memory) {
  for (const std::uint64_t bytes : {std::uint64_t{1} << 62, std::uint64_t{1} << 63}) {
    const LoadOptions reading{.strategy = Strategy::Kind::read, .chunks = 64, .chunk_bytes = bytes};
    EXPECT_EQ(ht::load(*model_, reading).error().code(), ErrorCode::out_of_memory);
    const LoadOptions staged{.strategy = Strategy::Kind::staged, .chunks = 64, .chunk_bytes = bytes};
    EXPECT_EQ(stream(staged).error().code(), ErrorCode::out_of_memory);
  }
}

TEST_F(LoadModel, ring_size_is_valid) {
  for (const auto strategy :
       {Strategy::Kind::mapped, Strategy::Kind::read, Strategy::Kind::staged, Strategy::Kind::automatic}) {
    for (const auto& bad : {LoadOptions{.chunks = 0}, LoadOptions{.chunks = 65},
                            LoadOptions{.chunk_bytes = 0}, LoadOptions{.chunk_bytes = 5000}}) {
      auto load_options = bad;
      load_options.strategy = strategy;
      testing::expect_refusal(
          strategy == Strategy::Kind::staged ? stream(load_options) : ht::load(*model_, load_options),
          ErrorCode::bad_state, "ring_size_is_valid");
    }
  }
}

TEST_F(LoadModel, small_tensors_fit_a_small_budget) {
  testing::write_file(folder_ / "small.safetensors", testing::shard_file({"a"}));
  const auto small = Model::open(folder_ / "small.safetensors").value();
  for (const auto strategy : {Strategy::Kind::mapped, Strategy::Kind::read}) {
    const auto loaded = ht::load(small, {.strategy = strategy, .budget_bytes = 8192});
    EXPECT_TRUE(loaded) << to_string(loaded.error());
  }
}

TEST_F(LoadModel, ring_fits_into_the_budget) {
  auto load_options = options(Strategy::Kind::staged);
  load_options.chunk_bytes = std::uint64_t{8} << 20;
  load_options.budget_bytes = 131'072;
  ASSERT_TRUE(stream(load_options));
  expect_streamed_all();
  load_options.budget_bytes = 131'071;
  testing::expect_refusal(stream(load_options), ErrorCode::budget_too_small, "ring_fits_into_the_budget");
}

TEST_F(LoadModel, use_few_does_not_prefetch) {
  sync_and_evict();
  const auto loaded = ht::load(*model_, {.use = io::Strategy::Use::few}).value();
  EXPECT_EQ(loaded.choice.strategy, Strategy::Kind::mapped);
  const auto tensors = ht::residency(*model_).value();
  for (const auto& each : tensors) EXPECT_EQ(each.cached_bytes, 0U);
  // Reading one byte fetches at most a few pages around it.
  ASSERT_EQ(model_->storage(tensor(0, 1)).value().bytes()[50'000], expected(0, 1)[50'000]);
  EXPECT_LE(ht::residency(*model_).value()[1].cached_bytes.value(), 65536U);
  // A later load of all tensors enables readahead again.
  ASSERT_TRUE(ht::load(*model_, options(Strategy::Kind::mapped)));
  EXPECT_EQ(ht::residency(*model_).value()[1].cached_bytes, tensor_bytes);
}

TEST_F(LoadModel, use_few_with_read_loads_tensors) {
  ASSERT_TRUE(
      ht::load(*model_, {.strategy = Strategy::Kind::read, .use = io::Strategy::Use::few, .filter = "t1.*"}));
  EXPECT_EQ(residences(),
            (std::set{TensorResidency::Residence::resident, TensorResidency::Residence::unbound}));
}

TEST_F(LoadModel, empty_model_loads_0_bytes_but_a_filter_without_a_match_is_refused) {
  testing::write_file(folder_ / "empty.safetensors", testing::safetensors_file("{}", 0));
  const auto empty = Model::open(folder_ / "empty.safetensors").value();
  for (const auto strategy : {Strategy::Kind::automatic, Strategy::Kind::mapped, Strategy::Kind::read}) {
    EXPECT_EQ(ht::load(empty, {.strategy = strategy}).value().bytes, 0U);
  }
  EXPECT_EQ(ht::stream(empty, [](const TensorPiece&) -> Result<void> { return {}; }).value().bytes, 0U);
  const auto place = [](const AnyTensor&) { return MutableBytes(); };
  EXPECT_EQ(ht::load_into(empty, place).value().bytes, 0U);
  EXPECT_EQ(ht::prefetch(empty).value(), 0U);
  EXPECT_EQ(ht::evict(empty).value(), 0U);
  testing::expect_refusal(ht::load(*model_, {.filter = "none*"}), ErrorCode::not_found,
                          "filter_matches_a_tensor");
  EXPECT_EQ(refusal(ht::load_into(*model_, place, {.filter = "none*"}), ErrorCode::not_found,
                    "filter_matches_a_tensor")
                .path(),
            (folder_ / "model.safetensors.index.json").string());
  // A match that `place` skips is a match.
  EXPECT_EQ(ht::load_into(*model_, place, {.filter = "t0.*"}).value().bytes, 0U);
  testing::expect_refusal(ht::load_into(empty, place, {.filter = "none*"}), ErrorCode::not_found,
                          "filter_matches_a_tensor");
}

TEST_F(LoadModel, progress_is_reported_to_the_end_by_each_strategy) {
  for (const auto strategy : {Strategy::Kind::mapped, Strategy::Kind::read, Strategy::Kind::staged}) {
    std::vector<std::uint64_t> done;
    auto load_options = options(strategy);
    load_options.work.on_progress = [&](const Progress& progress) {
      EXPECT_EQ(progress.total_bytes, 2 * tensors_per_file * tensor_bytes);
      done.push_back(progress.done_bytes);
    };
    ASSERT_TRUE(strategy == Strategy::Kind::staged ? stream(load_options) : ht::load(*model_, load_options));
    EXPECT_TRUE(std::ranges::is_sorted(done));
    EXPECT_EQ(done.back(), 2 * tensors_per_file * tensor_bytes);
    EXPECT_GT(done.size(), 5U);
  }
}

}  // namespace
}  // namespace ht::load_test
