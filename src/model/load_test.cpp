// Tensors brought to where they are wanted, by each strategy, with everything that can go wrong on the way.
#include <gtest/gtest.h>

#include <fstream>
#include <htensor/model/model.hpp>
#include <map>
#include <set>
#include <stdexcept>
#include <thread>

#include "format/safetensors/test_file.hpp"
#include "model/test_models.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht {
namespace {

using io::Strategy;
using testing::Call;
using testing::FaultyPort;
using testing::refusal;
using testing::TemporaryFolder;

constexpr std::uint64_t tensor_bytes = 100'000;
constexpr std::uint64_t chunk = 16384;
constexpr int per_file = 3;

// Two files of three tensors, whose bytes tell what they are.
class LoadModel : public ::testing::Test {
 protected:
  void SetUp() override {
    std::vector<std::pair<std::string, std::string>> index;
    for (int file = 0; file < 2; ++file) {
      const std::string name = "part" + std::to_string(file) + ".safetensors";
      std::string json = "{";
      for (int i = 0; i < per_file; ++i) {
        const auto begin = static_cast<std::uint64_t>(i) * tensor_bytes;
        json += (i == 0 ? "\"" : ",\"") + tensor(file, i) +
                R"(":{"dtype":"U8","shape":[100000],"data_offsets":[)" + std::to_string(begin) + "," +
                std::to_string(begin + tensor_bytes) + "]}";
        index.emplace_back(tensor(file, i), name);
      }
      auto bytes = testing::safetensors_file(json + "}", per_file * tensor_bytes);
      const auto data = bytes.size() - per_file * tensor_bytes;
      for (std::size_t i = data; i < bytes.size(); ++i) {
        bytes[i] =
            static_cast<std::byte>((i - data) * 13 + (i - data) / 257 + static_cast<std::size_t>(file));
      }
      contents_.emplace_back(bytes.begin() + static_cast<std::ptrdiff_t>(data), bytes.end());
      testing::write_file(folder_ / name, bytes);
    }
    testing::write_file(folder_ / "model.safetensors.index.json", testing::index_text(index));
    model_ = Model::open(folder_ / "model.safetensors.index.json", {.port = &port_}).value();
    headers_read_ = port_.count(Call::read_at);
  }
  void TearDown() override {
    model_.reset();
    EXPECT_EQ(port_.open_files(), 0);
    EXPECT_EQ(port_.mapped_regions(), 0);
    EXPECT_EQ(port_.open_queues(), 0);
  }

  static std::string tensor(int file, int i) { return "t" + std::to_string(file) + "." + std::to_string(i); }
  [[nodiscard]] Bytes expected(int file, int i) const {
    return Bytes(contents_[static_cast<std::size_t>(file)])
        .subspan(static_cast<std::size_t>(i) * tensor_bytes, tensor_bytes);
  }
  void expect_all_tensors() const {
    for (int file = 0; file < 2; ++file) {
      for (int i = 0; i < per_file; ++i) {
        EXPECT_TRUE(std::ranges::equal(model_->raw(tensor(file, i)).value().bytes(), expected(file, i)));
      }
    }
  }
  [[nodiscard]] std::set<Residence> residences() const {
    std::set<Residence> found;
    const auto tensors = model_->residency().value();
    for (const auto& each : tensors) found.insert(each.residence);
    return found;
  }
  [[nodiscard]] static LoadOptions options(Strategy strategy) {
    return {.strategy = strategy, .chunks = 3, .chunk_bytes = chunk};
  }
  Result<Loaded> stream(const LoadOptions& options) {
    streamed_.clear();
    return model_->stream(
        [&](const TensorPiece& piece) -> Result<void> {
          auto& bytes = streamed_[std::string(model_->catalog()[piece.index].name)];
          EXPECT_EQ(piece.offset, bytes.size());
          bytes.insert(bytes.end(), piece.bytes.begin(), piece.bytes.end());
          return {};
        },
        options);
  }
  void expect_streamed_all() const {
    ASSERT_EQ(streamed_.size(), 2U * per_file);
    for (int file = 0; file < 2; ++file) {
      for (int i = 0; i < per_file; ++i) {
        EXPECT_TRUE(std::ranges::equal(streamed_.at(tensor(file, i)), expected(file, i)));
      }
    }
  }
  [[nodiscard]] std::uint64_t cached() const {
    const auto tensors = model_->residency().value();
    std::uint64_t bytes = 0;
    for (const auto& each : tensors) bytes += each.cached_bytes;
    return bytes;
  }
  void forget_everything() const {
    for (const auto& path : model_->files()) {
      const auto file = io::system_port().open(path).value();
      ASSERT_TRUE(io::system_port().sync(file));  // only what is on the disk can leave the page cache
      ASSERT_TRUE(io::system_port().close(file));
    }
    ASSERT_TRUE(model_->evict());
  }

  TemporaryFolder folder_;
  FaultyPort port_;
  int headers_read_ = 0;
  std::vector<std::vector<std::byte>> contents_;
  std::optional<Model> model_;
  std::map<std::string, std::vector<std::byte>> streamed_;
};

TEST_F(LoadModel, by_each_strategy_has_all_tensors) {
  for (const auto strategy : {Strategy::mapped, Strategy::read, Strategy::automatic}) {
    const auto loaded = model_->load(options(strategy));
    ASSERT_TRUE(loaded) << to_string(loaded.error());
    EXPECT_EQ(loaded->bytes, 2 * per_file * tensor_bytes);
    EXPECT_FALSE(loaded->choice.code.empty());
    EXPECT_EQ(loaded->choice.reason.back(), '.');
    if (strategy != Strategy::automatic) {
      EXPECT_EQ(loaded->choice.strategy, strategy);
    }
    expect_all_tensors();
    ASSERT_TRUE(model_->evict());
  }
}

TEST_F(LoadModel, read_keeps_what_becomes_of_the_file_away) {
  ASSERT_TRUE(model_->load(options(Strategy::read)));
  EXPECT_EQ(residences(), std::set{Residence::resident});
  std::filesystem::resize_file(folder_ / "part0.safetensors", 100);
  std::filesystem::remove(folder_ / "part1.safetensors");
  expect_all_tensors();
  EXPECT_TRUE((model_->copy<U8, Rank<1>>(tensor(0, 2))));
  const auto tensors = model_->residency().value();
  for (const auto& each : tensors) EXPECT_EQ(each.resident_bytes, tensor_bytes);
}

TEST_F(LoadModel, read_twice_reads_once) {
  ASSERT_TRUE(model_->load({.strategy = Strategy::read, .glob = "t0.*"}));
  EXPECT_EQ(residences(), (std::set{Residence::resident, Residence::mapped}));
  const auto* const before = model_->raw(tensor(0, 0)).value().bytes().data();
  ASSERT_TRUE(model_->load(options(Strategy::read)));
  EXPECT_EQ(model_->raw(tensor(0, 0)).value().bytes().data(), before);
  EXPECT_EQ(residences(), std::set{Residence::resident});
}

TEST_F(LoadModel, what_was_read_and_is_held_is_in_use) {
  ASSERT_TRUE(model_->load(options(Strategy::read)));
  {
    const auto held = model_->tensor<U8, Rank<1>>(tensor(0, 1)).value();
    const auto error = refusal(model_->evict(), ErrorCode::in_use, "nobody_holds_what_was_read");
    EXPECT_EQ(error.tensor(), tensor(0, 1));
    // All others are gone; it is as it was.
    EXPECT_EQ(residences(), (std::set{Residence::resident, Residence::evicted}));
    EXPECT_EQ(static_cast<std::byte>(static_cast<std::uint8_t>(held(7))), expected(0, 1)[7]);
  }
  EXPECT_TRUE(model_->evict());
  EXPECT_EQ(residences(), std::set{Residence::evicted});
  // They come from the file again, and can be loaded again.
  expect_all_tensors();
  EXPECT_EQ(residences(), std::set{Residence::mapped});
  ASSERT_TRUE(model_->load(options(Strategy::read)));
  EXPECT_EQ(residences(), std::set{Residence::resident});
  expect_all_tensors();
}

TEST_F(LoadModel, tensors_outlive_the_model_that_loaded_them) {
  ASSERT_TRUE(model_->load(options(Strategy::read)));
  const auto held = model_->raw(tensor(1, 1)).value();
  model_.reset();
  EXPECT_TRUE(std::ranges::equal(held.bytes(), expected(1, 1)));
}

TEST_F(LoadModel, leaves_nothing_in_the_page_cache_where_that_is_asked_for) {
  for (const auto strategy : {Strategy::mapped, Strategy::read}) {
    forget_everything();
    auto how = options(strategy);
    ASSERT_TRUE(model_->load({.strategy = Strategy::mapped}));
    EXPECT_EQ(cached(), 2 * per_file * tensor_bytes);
    how.drop_after = true;
    ASSERT_TRUE(model_->load(how));
    EXPECT_EQ(cached(), 0U);
    // Also where it failed.
    ASSERT_TRUE(model_->evict());
    ASSERT_TRUE(model_->load({.strategy = Strategy::mapped}));
    std::stop_source source;
    source.request_stop();
    how.work.stop = source.get_token();
    EXPECT_EQ(model_->load(how).error().code(), ErrorCode::cancelled);
    EXPECT_EQ(cached(), 0U);
  }
}

TEST_F(LoadModel, stream_gives_every_byte_once_by_each_strategy) {
  forget_everything();  // so that all of it is on the disk, and can go
  for (const auto strategy : {Strategy::mapped, Strategy::staged, Strategy::automatic}) {
    for (const bool drop_after : {false, true}) {
      auto how = options(strategy);
      how.drop_after = drop_after;
      const auto streamed = stream(how);
      ASSERT_TRUE(streamed) << to_string(streamed.error());
      EXPECT_EQ(streamed->bytes, 2 * per_file * tensor_bytes);
      expect_streamed_all();
      if (drop_after) {
        EXPECT_EQ(cached(), 0U);
      }
    }
  }
}

TEST_F(LoadModel, into_memory_of_the_callers) {
  std::vector<std::byte> memory(2 * tensor_bytes + 1);
  const auto odd = MutableBytes(memory).last(2 * tensor_bytes);
  const std::string first = tensor(1, 2);
  const std::string second = tensor(0, 1);
  const std::vector<Target> targets{{first, odd.first(tensor_bytes)}, {second, odd.last(tensor_bytes)}};
  for (const bool cold : {false, true}) {
    if (cold) forget_everything();
    std::ranges::fill(memory, std::byte{0});
    const auto loaded = model_->load_into(targets, {.chunks = 2, .chunk_bytes = chunk});
    ASSERT_TRUE(loaded) << to_string(loaded.error());
    EXPECT_EQ(loaded->choice.strategy, Strategy::external);
    EXPECT_TRUE(std::ranges::equal(odd.first(tensor_bytes), expected(1, 2)));
    EXPECT_TRUE(std::ranges::equal(odd.last(tensor_bytes), expected(0, 1)));
  }
}

TEST_F(LoadModel, target_is_as_large_as_its_tensor) {
  std::vector<std::byte> memory(tensor_bytes + 1);
  const std::string name = tensor(0, 0);
  const std::vector<Target> targets{{name, memory}};
  const auto loaded = model_->load_into(targets);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code(), ErrorCode::size_mismatch);
  EXPECT_EQ(loaded.error().rule(), "target_is_as_large_as_its_tensor");
  EXPECT_EQ(loaded.error().tensor(), name);
  const std::vector<Target> unknown{{"nobody", memory}};
  EXPECT_EQ(model_->load_into(unknown).error().code(), ErrorCode::not_found);
}

TEST_F(LoadModel, targets_are_apart) {
  std::vector<std::byte> memory(2 * tensor_bytes - 1);
  const std::string a = tensor(0, 0);
  const std::string b = tensor(0, 1);
  const std::vector<Target> targets{{a, MutableBytes(memory).last(tensor_bytes)},
                                    {b, MutableBytes(memory).first(tensor_bytes)}};
  testing::expect_refusal(model_->load_into(targets), ErrorCode::overlap, "targets_are_apart");
  // The same tensor may be wanted twice.
  memory.resize(2 * tensor_bytes);
  const std::vector<Target> twice{{a, MutableBytes(memory).last(tensor_bytes)},
                                  {a, MutableBytes(memory).first(tensor_bytes)}};
  EXPECT_EQ(model_->load_into(twice).value().bytes, 2 * tensor_bytes);
  EXPECT_TRUE(std::ranges::equal(MutableBytes(memory).last(tensor_bytes), expected(0, 0)));
}

TEST_F(LoadModel, strategy_is_for_this_kind_of_load) {
  for (const auto strategy : {Strategy::staged, Strategy::external}) {
    EXPECT_EQ(refusal(model_->load(options(strategy)), ErrorCode::unsupported_strategy,
                      "strategy_is_for_this_kind_of_load")
                  .path(),
              (folder_ / "model.safetensors.index.json").string());
  }
  for (const auto strategy : {Strategy::read, Strategy::external}) {
    testing::expect_refusal(stream(options(strategy)), ErrorCode::unsupported_strategy,
                            "strategy_is_for_this_kind_of_load");
  }
}

TEST_F(LoadModel, what_is_read_fits_into_the_budget) {
  auto how = options(Strategy::read);
  how.budget_bytes = 2 * per_file * tensor_bytes;  // and pages' rests
  testing::expect_refusal(model_->load(how), ErrorCode::budget_too_small,
                          "what_is_read_fits_into_the_budget");
  // It can be tried again.
  EXPECT_EQ(residences(), std::set{Residence::failed});
  expect_all_tensors();
  how.budget_bytes *= 2;
  ASSERT_TRUE(model_->load(how));
  EXPECT_EQ(residences(), std::set{Residence::resident});
}

TEST_F(LoadModel, automatic_stays_within_the_budget) {
  forget_everything();
  auto how = options(Strategy::automatic);
  how.budget_bytes = 3 * tensor_bytes;
  const auto loaded = model_->load(how).value();
  EXPECT_EQ(loaded.choice.strategy, Strategy::mapped);
  // What does not fit is not pushed through memory.
  EXPECT_EQ(loaded.bytes, 0U);
  EXPECT_EQ(cached(), 0U);
  // The rests of pages count.
  how.budget_bytes = 2 * per_file * tensor_bytes;
  EXPECT_EQ(model_->load(how).value().choice.strategy, Strategy::mapped);
  // By name, as much as fits is fetched.
  how.strategy = Strategy::mapped;
  how.budget_bytes = 3 * tensor_bytes;
  EXPECT_EQ(model_->load(how).value().bytes, 3 * tensor_bytes);
}

TEST_F(LoadModel, automatic_knows_what_is_there_already) {
  ASSERT_TRUE(model_->load(options(Strategy::read)));
  auto how = options(Strategy::automatic);
  how.budget_bytes = 1;
  const auto again = model_->load(how).value();
  EXPECT_EQ(again.choice.code, "nothing_to_load");
  EXPECT_EQ(again.bytes, 0U);
  EXPECT_EQ(residences(), std::set{Residence::resident});
}

TEST_F(LoadModel, ring_can_be) {
  for (const auto strategy : {Strategy::mapped, Strategy::read, Strategy::staged, Strategy::automatic}) {
    for (const auto& bad : {LoadOptions{.chunks = 0}, LoadOptions{.chunks = 65},
                            LoadOptions{.chunk_bytes = 0}, LoadOptions{.chunk_bytes = 5000}}) {
      auto how = bad;
      how.strategy = strategy;
      testing::expect_refusal(strategy == Strategy::staged ? stream(how) : model_->load(how),
                              ErrorCode::bad_state, "ring_can_be");
    }
  }
}

TEST_F(LoadModel, small_budgets_are_for_small_tensors) {
  testing::write_file(folder_ / "small.safetensors", testing::shard_file({"a"}));
  const auto small = Model::open(folder_ / "small.safetensors").value();
  for (const auto strategy : {Strategy::mapped, Strategy::read}) {
    const auto loaded = small.load({.strategy = strategy, .budget_bytes = 8192});
    EXPECT_TRUE(loaded) << to_string(loaded.error());
  }
}

TEST_F(LoadModel, ring_fits_into_the_budget) {
  auto how = options(Strategy::staged);
  how.chunk_bytes = std::uint64_t{8} << 20;
  how.budget_bytes = 131'072;
  ASSERT_TRUE(stream(how));
  expect_streamed_all();
  how.budget_bytes = 131'071;
  testing::expect_refusal(stream(how), ErrorCode::budget_too_small, "ring_fits_into_the_budget");
}

TEST_F(LoadModel, few_are_not_fetched) {
  forget_everything();
  const auto loaded = model_->load({.use = io::Use::few}).value();
  EXPECT_EQ(loaded.choice.strategy, Strategy::mapped);
  const auto tensors = model_->residency().value();
  for (const auto& each : tensors) EXPECT_EQ(each.cached_bytes, 0U);
  // Nor is what lies around one that is looked at.
  ASSERT_EQ(model_->raw(tensor(0, 1)).value().bytes()[50'000], expected(0, 1)[50'000]);
  EXPECT_LE(model_->residency().value()[1].cached_bytes, 65536U);
  // Who wants all afterwards gets them in large pieces again.
  ASSERT_TRUE(model_->load(options(Strategy::mapped)));
  EXPECT_EQ(model_->residency().value()[1].cached_bytes, tensor_bytes);
}

TEST_F(LoadModel, few_can_be_read) {
  ASSERT_TRUE(model_->load({.strategy = Strategy::read, .use = io::Use::few, .glob = "t1.*"}));
  EXPECT_EQ(residences(), (std::set{Residence::resident, Residence::mapped}));
}

TEST_F(LoadModel, of_nothing_is_nothing) {
  testing::write_file(folder_ / "empty.safetensors", testing::safetensors_file("{}", 0));
  const auto empty = Model::open(folder_ / "empty.safetensors").value();
  for (const auto strategy : {Strategy::automatic, Strategy::mapped, Strategy::read}) {
    EXPECT_EQ(empty.load({.strategy = strategy}).value().bytes, 0U);
  }
  EXPECT_EQ(empty.stream([](const TensorPiece&) -> Result<void> { return {}; }).value().bytes, 0U);
  EXPECT_EQ(empty.prefetch().value(), 0U);
  EXPECT_EQ(empty.evict().value(), 0U);
  testing::expect_refusal(model_->load({.glob = "none*"}), ErrorCode::not_found, "glob_matches_a_tensor");
}

TEST_F(LoadModel, progress_is_told_to_the_end_by_each_strategy) {
  for (const auto strategy : {Strategy::mapped, Strategy::read, Strategy::staged}) {
    std::vector<std::uint64_t> done;
    auto how = options(strategy);
    how.work.on_progress = [&](const Progress& progress) {
      EXPECT_EQ(progress.total_bytes, 2 * per_file * tensor_bytes);
      done.push_back(progress.done_bytes);
    };
    ASSERT_TRUE(strategy == Strategy::staged ? stream(how) : model_->load(how));
    EXPECT_TRUE(std::ranges::is_sorted(done));
    EXPECT_EQ(done.back(), 2 * per_file * tensor_bytes);
    EXPECT_GT(done.size(), 5U);
  }
}

TEST_F(LoadModel, work_is_not_stopped) {
  // At every piece, by every strategy.
  for (const auto strategy : {Strategy::mapped, Strategy::read, Strategy::staged}) {
    for (int at = 0;; ++at) {
      std::stop_source source;
      int seen = 0;
      auto how = options(strategy);
      how.work = {.stop = source.get_token(), .on_progress = [&](const Progress&) {
                    if (seen++ == at) source.request_stop();
                  }};
      const auto done = strategy == Strategy::staged ? stream(how) : model_->load(how);
      if (done) {
        EXPECT_GT(at, 5);
        break;
      }
      EXPECT_EQ(done.error().code(), ErrorCode::cancelled);
      EXPECT_EQ(done.error().rule(), "work_is_not_stopped");
    }
    expect_all_tensors();
  }
}

TEST_F(LoadModel, every_call_may_fail_once) {
  const std::vector<Call> calls{
      Call::stat,        Call::advise,           Call::cached,          Call::forget, Call::reopen_direct,
      Call::read_queue,  Call::submit,           Call::complete,        Call::await,  Call::read_at,
      Call::file_system, Call::available_memory, Call::direct_alignment};
  for (const auto strategy : {Strategy::mapped, Strategy::read, Strategy::staged, Strategy::automatic}) {
    for (const auto call : calls) {
      for (int nth = 0; nth < 40; ++nth) {
        const int before = port_.count(call);
        port_.fail_at(call, before + nth, std::errc::io_error);
        auto how = options(strategy);
        how.chunk_bytes = 4 * chunk;  // fewer of them
        how.drop_after = true;
        const bool streams = strategy == Strategy::staged;
        const auto done = streams ? stream(how) : model_->load(how);
        const bool happened = port_.count(call) > before + nth;
        port_.clear_faults();
        // Facts that cannot be had are done without; so are direct reads and the system's queue.
        const bool has_to_be_told = call == Call::stat || call == Call::submit || call == Call::complete ||
                                    call == Call::await || call == Call::forget;
        if (happened && has_to_be_told) {
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
        ASSERT_TRUE(model_->evict());
        if (!happened) break;
      }
    }
    const auto again =
        strategy == Strategy::staged ? stream(options(strategy)) : model_->load(options(strategy));
    ASSERT_TRUE(again) << to_string(again.error());
    expect_all_tensors();
    ASSERT_TRUE(model_->evict());
  }
}

TEST_F(LoadModel, a_fault_names_the_tensor) {
  forget_everything();
  // The second file is cut within its second tensor.
  const auto path = folder_ / "part1.safetensors";
  const auto header = std::filesystem::file_size(path) - per_file * tensor_bytes;
  std::filesystem::resize_file(path, header + tensor_bytes + 5000);
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now());
  for (const auto strategy : {Strategy::mapped, Strategy::read, Strategy::staged}) {
    auto how = options(strategy);
    const auto done = strategy == Strategy::staged ? stream(how) : model_->load(how);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), ErrorCode::changed_underfoot) << to_string(done.error());
    EXPECT_EQ(done.error().path(), path.string());
    // Whoever looks at the file as a whole names no tensor, or one of that file.
    EXPECT_TRUE(done.error().tensor().empty() || done.error().tensor() == tensor(1, 1));
  }
  const auto mapped = model_->load(options(Strategy::mapped));
  ASSERT_FALSE(mapped);
  EXPECT_EQ(mapped.error().tensor(), tensor(1, 1));
}

TEST_F(LoadModel, a_read_that_fails_names_the_tensor_and_the_cause) {
  forget_everything();
  port_.fail_at(Call::complete, port_.count(Call::complete) + 10, std::errc::io_error);
  const auto failed = model_->load(options(Strategy::read));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code(), ErrorCode::read_failed);
  EXPECT_EQ(failed.error().cause(), std::errc::io_error);
  // The very one that has the byte.
  const auto at = failed.error().offset().value();
  const auto& catalog = model_->catalog();
  const Entry entry = catalog[catalog.find(failed.error().tensor()).value()];
  EXPECT_EQ(model_->files()[entry.file].string(), failed.error().path());
  EXPECT_LE(entry.offset, at);
  EXPECT_LT(at, entry.offset + entry.bytes);
  EXPECT_EQ(residences(), std::set{Residence::failed});
}

TEST_F(LoadModel, what_is_cached_is_copied_and_tells_of_a_file_that_is_cut_meanwhile) {
  ASSERT_TRUE(model_->load(options(Strategy::mapped)));
  ASSERT_TRUE(model_->load({.strategy = Strategy::read, .glob = "t1.*"}));
  EXPECT_EQ(port_.count(Call::read_at), headers_read_);
  // Cut when the first pages are about to be copied.
  const auto path = folder_ / "part0.safetensors";
  const int for_memory = port_.count(Call::advise);
  port_.before_each([&](Call call, int nth) {
    if (call == Call::advise && nth == for_memory + 1) std::filesystem::resize_file(path, 4096);
  });
  const auto cut = model_->load(options(Strategy::read));
  port_.before_each({});
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code(), ErrorCode::truncated) << to_string(cut.error());
  EXPECT_EQ(cut.error().path(), path.string());
  EXPECT_TRUE(cut.error().tensor().starts_with("t0."));
}

TEST_F(LoadModel, without_the_guard_nothing_is_copied_from_pages) {
  const auto bare =
      Model::open(folder_ / "part0.safetensors", {.fault_guard = false, .port = &port_}).value();
  ASSERT_TRUE(bare.load(options(Strategy::mapped)));
  const int before = port_.count(Call::read_at);
  ASSERT_TRUE(bare.load(options(Strategy::read)));
  EXPECT_GT(port_.count(Call::read_at), before);
}

TEST_F(LoadModel, is_not_for_a_catalog_alone) {
  const auto catalog = Model::open(folder_ / "part0.safetensors", {.catalog_only = true}).value();
  EXPECT_EQ(catalog.load().error().rule(), "model_is_mapped");
  EXPECT_EQ(catalog.load({.strategy = Strategy::read}).error().rule(), "model_is_mapped");
  EXPECT_EQ(catalog.stream([](const TensorPiece&) -> Result<void> { return {}; }).error().rule(),
            "model_is_mapped");
}

TEST_F(LoadModel, what_a_callback_throws_leaves_the_model_usable) {
  auto how = options(Strategy::read);
  how.work.on_progress = [](const Progress&) { throw std::runtime_error("mine"); };
  EXPECT_THROW(static_cast<void>(model_->load(how)), std::runtime_error);
  ASSERT_TRUE(model_->load(options(Strategy::read)));
  EXPECT_EQ(residences(), std::set{Residence::resident});
}

TEST_F(LoadModel, loads_are_not_nested) {
  auto how = options(Strategy::read);
  std::optional<Error> inner;
  how.work.on_progress = [&](const Progress&) {
    const auto nested = model_->load({.strategy = Strategy::read});
    if (!nested) inner = nested.error();
  };
  ASSERT_TRUE(model_->load(how));
  ASSERT_TRUE(inner);
  EXPECT_EQ(inner->code(), ErrorCode::in_use);
  EXPECT_EQ(inner->rule(), "loads_are_not_nested");
}

TEST_F(LoadModel, what_is_evicted_while_it_is_loaded_keeps_its_place) {
  // Something is loaded, so that there are states, and the rest is mapped.
  ASSERT_TRUE(model_->load({.strategy = Strategy::read, .glob = "t0.0"}));
  // While pages are dropped, somebody loads the same tensors.
  bool once = false;
  port_.before_each([&](Call call, int) {
    if (call != Call::forget || once) return;
    once = true;
    std::jthread([&] { EXPECT_TRUE(model_->load({.strategy = Strategy::read, .glob = "t1.*"})); }).join();
  });
  ASSERT_TRUE(model_->evict("t1.*"));
  port_.before_each({});
  EXPECT_TRUE(once);
  EXPECT_EQ(residences(), (std::set{Residence::resident, Residence::mapped}));
  expect_all_tensors();
  EXPECT_TRUE((model_->copy<U8, Rank<1>>(tensor(1, 1))));
}

TEST_F(LoadModel, evicted_and_failed_ones_are_mapped_again) {
  ASSERT_TRUE(model_->load(options(Strategy::read)));
  ASSERT_TRUE(model_->evict());
  EXPECT_EQ(residences(), std::set{Residence::evicted});
  ASSERT_TRUE(model_->load(options(Strategy::mapped)));
  EXPECT_EQ(residences(), std::set{Residence::mapped});
  auto how = options(Strategy::read);
  how.budget_bytes = 4096;
  EXPECT_FALSE(model_->load(how));
  EXPECT_EQ(residences(), std::set{Residence::failed});
  EXPECT_TRUE(model_->raw(tensor(0, 0)));
  EXPECT_EQ(residences(), (std::set{Residence::failed, Residence::mapped}));
}

TEST_F(LoadModel, many_threads_may_load_look_up_and_evict) {
  std::vector<std::jthread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      for (int i = 0; i < 20; ++i) {
        if (number == 0) {
          EXPECT_TRUE(model_->load(options(Strategy::read)));
        }
        if (number == 1) static_cast<void>(model_->evict("t0.*"));  // somebody may hold one
        const auto raw = model_->raw(tensor(0, number % per_file)).value();
        EXPECT_TRUE(std::ranges::equal(raw.bytes(), expected(0, number % per_file)));
      }
    });
  }
}

}  // namespace
}  // namespace ht
