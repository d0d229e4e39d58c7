#include "io/strategy/strategies.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "io/file_source.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::io::strategies_test {
namespace {

using ht::testing::Call;
using ht::testing::FaultyPort;
using ht::testing::TemporaryFolder;
using ht::testing::write_file;

constexpr std::size_t file_bytes = 40'000;

std::string contents() {
  std::string text(file_bytes, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 + i / 251);
  return text;
}

class Strategies : public ::testing::Test {
 protected:
  void SetUp() override {
    write_file(path_, contents());
    sources_ = {FileSource::open(path_, port_).value(), nullptr};
  }
  void TearDown() override {
    sources_.clear();
    EXPECT_EQ(port_.open_files(), 0);
    EXPECT_EQ(port_.mapped_regions(), 0);
    EXPECT_EQ(port_.open_queues(), 0);
  }

  static Memory done(const Strategy::Answer& answer) {
    if (const auto* const mapped = std::get_if<Strategy::MapDone>(&answer)) return mapped->memory;
    if (const auto* const loaded = std::get_if<Strategy::LoadDone>(&answer)) return loaded->memory;
    ADD_FAILURE() << "failed: " << to_string(*std::get<Strategy::RequestFailed>(answer).error);
    return {};
  }
  static Error error_of(const Strategy::Answer& answer) {
    const auto* const failed = std::get_if<Strategy::RequestFailed>(&answer);
    EXPECT_NE(failed, nullptr);
    return failed != nullptr ? *failed->error : Error(ErrorCode::internal);
  }
  static bool is_released(Strategy& strategy, Memory& memory) {
    return std::holds_alternative<Strategy::ReleaseDone>(strategy.answer(Strategy::ReleaseRequest{&memory}));
  }
  static std::string text_of(Bytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "file";
  FaultyPort port_;
  Sources sources_;
};

TEST_F(Strategies, mapped_creates_one_mapping_at_the_first_request) {
  MappedStrategy mapped(sources_);
  EXPECT_EQ(port_.count(Call::map), 0);
  const auto a = done(mapped.answer(Strategy::MapRequest{{0, 1, 5}}));
  const auto b = done(mapped.answer(Strategy::MapRequest{{0, 20'000, 20'000}}));
  EXPECT_EQ(text_of(a.bytes), contents().substr(1, 5));
  EXPECT_EQ(text_of(b.bytes), contents().substr(20'000));
  EXPECT_EQ(a.owner, b.owner);
  EXPECT_TRUE(std::holds_alternative<Strategy::AdviseDone>(
      mapped.answer(Strategy::AdviseRequest{{0, 30'000, 10'000}, Strategy::Advice::populate})));
  EXPECT_EQ(port_.count(Call::map), 1);
  EXPECT_TRUE(mapped.file(0).is_mapped());
}

TEST_F(Strategies, mapping_with_an_owner_outlives_the_strategy) {
  Memory memory;
  {
    MappedStrategy mapped(sources_);
    memory = done(mapped.answer(Strategy::MapRequest{{0, 0, file_bytes}}));
  }
  EXPECT_EQ(text_of(memory.bytes), contents());
}

TEST_F(Strategies, eviction_needs_no_mapping) {
  MappedStrategy mapped(sources_);
  EXPECT_TRUE(advise(mapped, {0, 0, file_bytes}, Strategy::Advice::drop));
  EXPECT_EQ(port_.count(Call::drop_cached), 0);
  EXPECT_TRUE(advise(mapped, {0, 0, file_bytes}, Strategy::Advice::evict));
  EXPECT_EQ(port_.count(Call::drop_cached), 1);
  EXPECT_EQ(port_.count(Call::map), 0);
  port_.fail_at(Call::drop_cached, 1, std::errc::io_error);
  EXPECT_EQ(advise(mapped, {0, 0, file_bytes}, Strategy::Advice::evict).error().rule(),
            "page_cache_can_be_evicted");
}

TEST_F(Strategies, mapping_is_retried_after_a_failure) {
  MappedStrategy mapped(sources_);
  port_.fail_at(Call::map, 0, std::errc::io_error);
  EXPECT_EQ(error_of(mapped.answer(Strategy::MapRequest{{0, 0, 1}})).code(), ErrorCode::map_failed);
  EXPECT_EQ(text_of(done(mapped.answer(Strategy::MapRequest{{0, 0, 1}})).bytes), contents().substr(0, 1));
}

TEST_F(Strategies, mapped_uses_windows_if_the_file_does_not_fit) {
  MappedStrategy mapped(sources_);
  port_.fail_at(Call::map, 0, std::errc::not_enough_memory);
  auto window = send_request<Strategy::MapDone>(mapped, Strategy::MapRequest{{0, 5000, 10'000}}).value();
  EXPECT_FALSE(window.has_other_owner);
  EXPECT_EQ(text_of(window.memory.bytes), contents().substr(5000, 10'000));
  EXPECT_FALSE(mapped.file(0).is_mapped());
  auto other = send_request<Strategy::MapDone>(mapped, Strategy::MapRequest{{0, 20'000, 1}}).value();
  EXPECT_EQ(port_.mapped_regions(), 2);
  // Pages are fetched through a temporary window.
  EXPECT_TRUE(advise(mapped, {0, 0, file_bytes}, Strategy::Advice::populate));
  EXPECT_EQ(port_.mapped_regions(), 2);
  // Other advice maps nothing, because its effect would end with the window.
  const int maps = port_.count(Call::map);
  EXPECT_TRUE(advise(mapped, {0, 0, file_bytes}, Strategy::Advice::random));
  EXPECT_EQ(port_.count(Call::map), maps);
  std::string seen;
  EXPECT_TRUE(mapped.file(0).visit(100, 200, [&](Bytes bytes) -> Result<void> {
    seen = text_of(bytes);
    return {};
  }));
  EXPECT_EQ(seen, contents().substr(100, 200));
  EXPECT_EQ(port_.mapped_regions(), 2);
  EXPECT_TRUE(is_released(mapped, window.memory));
  EXPECT_TRUE(is_released(mapped, other.memory));
  EXPECT_EQ(port_.mapped_regions(), 0);
}

TEST_F(Strategies, window_that_cannot_be_unmapped_can_be_released_again) {
  MappedStrategy mapped(sources_);
  port_.fail_at(Call::map, 0, std::errc::not_enough_memory);
  auto window = send_request<Strategy::MapDone>(mapped, Strategy::MapRequest{{0, 0, 100}}).value().memory;
  port_.fail_at(Call::unmap, 0, std::errc::not_enough_memory);
  EXPECT_EQ(error_of(mapped.answer(Strategy::ReleaseRequest{&window})).code(), ErrorCode::unmap_failed);
  EXPECT_EQ(text_of(window.bytes), contents().substr(0, 100));
  {
    const auto held = window.owner;
    EXPECT_EQ(error_of(mapped.answer(Strategy::ReleaseRequest{&window})).code(), ErrorCode::in_use);
  }
  EXPECT_TRUE(is_released(mapped, window));
  EXPECT_EQ(port_.mapped_regions(), 0);
  EXPECT_TRUE(window.bytes.empty());
}

TEST_F(Strategies, mapped_file_exists) {
  MappedStrategy mapped(sources_);
  for (const std::uint32_t file : {1U, 2U}) {
    const auto error = error_of(mapped.answer(Strategy::MapRequest{{file, 0, 1}}));
    EXPECT_EQ(error.code(), ErrorCode::missing_shard);
    EXPECT_EQ(error.rule(), "mapped_file_exists");
  }
  EXPECT_EQ(error_of(mapped.answer(Strategy::MapRequest{{0, 1, file_bytes}})).rule(),
            "mapped_range_is_in_the_file");
  EXPECT_EQ(error_of(mapped.answer(Strategy::AdviseRequest{{0, UINT64_MAX, 2}})).code(),
            ErrorCode::out_of_bounds);
}

// Neither a file nor memory.
class Remote final : public Source {
 public:
  const std::filesystem::path& path() const noexcept override { return path_; }
  std::uint64_t size() const noexcept override { return file_bytes; }
  Source::Identity identity() const noexcept override { return {.object = 1, .bytes = file_bytes}; }
  Source::Capabilities capabilities() const override { return {}; }
  Result<void> read(std::uint64_t offset, MutableBytes into) const override {
    if (offset == fails_at_) {
      return fail(Error(ErrorCode::network_failed, "test", "the network is gone").at_offset(offset));
    }
    std::memcpy(into.data(), text_.data() + offset, into.size());
    return {};
  }
  std::uint64_t fails_at_ = UINT64_MAX;

 private:
  std::filesystem::path path_ = "remote";
  std::string text_ = contents();
};

TEST_F(Strategies, source_can_be_mapped) {
  MappedStrategy mapped({std::make_shared<Remote>()});
  const auto error = error_of(mapped.answer(Strategy::MapRequest{{0, 0, 1}}));
  EXPECT_EQ(error.code(), ErrorCode::unsupported_strategy);
  EXPECT_EQ(error.rule(), "source_can_be_mapped");
  EXPECT_EQ(error.path(), "remote");
  // `visit` does not need a mapping: it reads the bytes.
  std::string seen;
  EXPECT_TRUE(mapped.file(0).visit(7, 9, [&](Bytes bytes) -> Result<void> {
    seen = text_of(bytes);
    return {};
  }));
  EXPECT_EQ(seen, contents().substr(7, 9));
}

TEST_F(Strategies, memory_is_mapped_without_a_copy) {
  const std::string text = contents();
  MappedStrategy mapped({std::make_shared<MemorySource>(bytes_of(text), nullptr)});
  const auto memory = done(mapped.answer(Strategy::MapRequest{{0, 3, 10}}));
  EXPECT_EQ(static_cast<const void*>(memory.bytes.data()), text.data() + 3);
  EXPECT_TRUE(advise(mapped, {0, 0, file_bytes}, Strategy::Advice::populate));
  EXPECT_TRUE(advise(mapped, {0, 0, file_bytes}, Strategy::Advice::evict));
}

TEST_F(Strategies, any_source_can_be_loaded) {
  const auto remote = std::make_shared<Remote>();
  const Sources sources{sources_[0], remote};
  const std::vector<Strategy::LoadRequest> requests{{{1, 100, 30'000}, 8}, {{0, 5, 1000}, 8}};
  ReadStrategy read(sources, {.chunk_bytes = 4096});
  const auto answers = read.load(requests, {});
  EXPECT_EQ(text_of(done(answers[0]).bytes), contents().substr(100, 30'000));
  EXPECT_EQ(text_of(done(answers[1]).bytes), contents().substr(5, 1000));
  // The load returns the error of the source.
  remote->fails_at_ = 100 + 4096;
  const auto failed = error_of(ReadStrategy(sources, {.chunk_bytes = 4096}).load(requests, {})[0]);
  EXPECT_EQ(failed.code(), ErrorCode::network_failed);
}

TEST_F(Strategies, read_uses_owned_memory) {
  ReadStrategy read(sources_);
  const std::vector<Strategy::LoadRequest> requests{
      {{0, 8, 1000}, 4}, {{0, 13, 4096}, 4}, {{0, 3, 0}, 4}, {{0, 20'000, 20'000}, 8}};
  const auto answers = read.load(requests, {});
  ASSERT_EQ(answers.size(), requests.size());
  EXPECT_GE(read.totals().bytes, 25'096U);
  std::filesystem::resize_file(path_, 0);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const auto memory = done(answers[i]);
    const auto& [range, alignment, into] = requests[i];
    EXPECT_EQ(text_of(memory.bytes), contents().substr(range.offset, range.bytes));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.bytes.data()) % alignment, 0U);
  }
}

TEST_F(Strategies, loaded_ranges_are_in_their_files) {
  // A load of a missing file returns an error and does not end the process.
  ReadStrategy read(sources_);
  std::vector<std::byte> memory(1);
  const std::vector<MutableBytes> into{memory};
  for (const FileRange& range : {FileRange{1, 0, 1}, FileRange{7, 0, 1}, FileRange{0, file_bytes, 1}}) {
    EXPECT_EQ(error_of(read.answer(Strategy::LoadRequest{.range = range})).rule(),
              "loaded_ranges_are_in_their_files");
    EXPECT_EQ(load_into(into, sources_, std::vector{range}).error().rule(),
              "loaded_ranges_are_in_their_files");
  }
}

TEST_F(Strategies, memory_is_not_in_use) {
  ReadStrategy read(sources_);
  auto memory = done(read.answer(Strategy::LoadRequest{.range = {0, 0, file_bytes}}));
  auto held = memory.owner;
  const auto error = error_of(read.answer(Strategy::ReleaseRequest{&memory}));
  EXPECT_EQ(error.code(), ErrorCode::in_use);
  EXPECT_EQ(error.rule(), "memory_is_not_in_use");
  EXPECT_EQ(text_of(memory.bytes), contents());
  held.reset();
  EXPECT_TRUE(is_released(read, memory));
  EXPECT_EQ(memory.owner, nullptr);
}

TEST_F(Strategies, read_releases_the_pages_of_a_part) {
  ReadStrategy read(sources_);
  const std::vector<Strategy::LoadRequest> requests{{{0, 0, 20'000}, 4}, {{0, 20'000, 20'000}, 4}};
  auto answers = read.load(requests, {});
  const int before = port_.count(Call::advise);
  EXPECT_TRUE(is_released(read, std::get<Strategy::LoadDone>(answers[0]).memory));
  EXPECT_EQ(port_.count(Call::advise), before + 1);
  EXPECT_EQ(text_of(done(answers[1]).bytes), contents().substr(20'000));
}

TEST_F(Strategies, read_keeps_bytes_shared_with_another_part) {
  ReadStrategy read(sources_);
  const std::vector<Strategy::LoadRequest> requests{{{0, 0, 40'000}, 4}, {{0, 8192, 8192}, 4}};
  auto answers = read.load(requests, {});
  EXPECT_TRUE(is_released(read, std::get<Strategy::LoadDone>(answers[0]).memory));
  EXPECT_EQ(text_of(done(answers[1]).bytes), contents().substr(8192, 8192));
}

TEST_F(Strategies, loaded_bytes_fit_the_budget) {
  ReadStrategy read(sources_);
  const std::vector<Strategy::LoadRequest> requests{{{0, 0, 4096}, 4}};
  Strategy::LoadWork work{.budget_bytes = 4095};
  const auto error = error_of(read.load(requests, work).front());
  EXPECT_EQ(error.code(), ErrorCode::budget_too_small);
  EXPECT_EQ(error.rule(), "loaded_bytes_fit_the_budget");
  work.budget_bytes = 4096;
  EXPECT_TRUE(std::holds_alternative<Strategy::LoadDone>(read.load(requests, work).front()));
}

TEST_F(Strategies, read_fails_as_a_whole_and_can_be_retried) {
  ReadStrategy read(sources_, {.direct = false});
  const std::vector<Strategy::LoadRequest> requests{{{0, 0, 100}, 4}, {{0, 30'000, 100}, 4}};
  for (int nth = 0;; ++nth) {
    port_.fail_at(Call::completed_read, port_.count(Call::completed_read) + nth, std::errc::io_error);
    const auto answers = read.load(requests, {});
    port_.clear_faults();
    ASSERT_EQ(answers.size(), 2U);
    if (std::holds_alternative<Strategy::LoadDone>(answers[0])) {
      EXPECT_GT(nth, 0);
      break;
    }
    for (const auto& answer : answers) EXPECT_EQ(error_of(answer).cause(), std::errc::io_error);
    EXPECT_EQ(port_.open_queues(), 0);
  }
}

TEST_F(Strategies, strategy_supports_the_request) {
  MappedStrategy mapped(sources_);
  ReadStrategy read(sources_);
  const auto expect_refused = [&](Strategy& strategy, const Strategy::Request& request) {
    const auto error = error_of(strategy.answer(request));
    EXPECT_EQ(error.code(), ErrorCode::unsupported_strategy);
    EXPECT_EQ(error.rule(), "strategy_supports_the_request");
    EXPECT_NE(error.message().find(strategy.name()), std::string_view::npos);
  };
  expect_refused(mapped, Strategy::LoadRequest{.range = {0, 0, 1}});
  expect_refused(read, Strategy::MapRequest{{0, 0, 1}});
  expect_refused(read, Strategy::AdviseRequest{{0, 0, 1}, Strategy::Advice::drop});
}

// A strategy of the caller that only implements single loads.
class OneByOne final : public Strategy {
 public:
  explicit OneByOne(const Sources& sources) : sources_(sources) {}
  std::string_view name() const noexcept override { return "one by one"; }
  Strategy::Answer answer(const Strategy::Request& request) override {
    const auto* const load_request = std::get_if<Strategy::LoadRequest>(&request);
    if (load_request == nullptr) return not_supported(*this, "answer this request");
    const auto bytes = std::make_shared<std::vector<std::byte>>(load_request->range.bytes);
    auto done = sources_[load_request->range.file]->read(load_request->range.offset, *bytes);
    if (!done) return request_failed(std::move(done).error());
    return Strategy::LoadDone{{*bytes, bytes}};
  }

 private:
  const Sources& sources_;
};

TEST_F(Strategies, default_load_answers_each_request_and_fails_as_a_whole) {
  OneByOne strategy(sources_);
  std::vector<Strategy::LoadRequest> requests{{{0, 0, 100}}, {{0, 30'000, 100}}};
  std::vector<std::uint64_t> progress;
  Strategy::LoadWork work;
  work.on_progress = [&](std::uint64_t bytes) { progress.push_back(bytes); };
  auto answers = strategy.load(requests, work);
  EXPECT_EQ(text_of(done(answers[1]).bytes), contents().substr(30'000, 100));
  EXPECT_EQ(progress, (std::vector<std::uint64_t>{100, 200}));
  requests.push_back({{0, file_bytes, 1}});
  answers = strategy.load(requests, work);
  ASSERT_EQ(answers.size(), 3U);
  for (const auto& answer : answers) EXPECT_EQ(error_of(answer).code(), ErrorCode::truncated);
  work.on_loaded = [](const FileRange&, Bytes) -> Result<void> {
    return fail(Error(ErrorCode::checksum_mismatch));
  };
  EXPECT_EQ(error_of(strategy.load(requests, work)[0]).code(), ErrorCode::checksum_mismatch);
  std::stop_source stop;
  stop.request_stop();
  work.stop = stop.get_token();
  EXPECT_EQ(error_of(strategy.load(requests, work)[0]).code(), ErrorCode::cancelled);
}

}  // namespace
}  // namespace ht::io::strategies_test
