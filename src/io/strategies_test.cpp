#include "io/strategies.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::io {
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
    file_ = File::open_regular(path_, port_).value();
  }
  void TearDown() override {
    file_.reset();
    EXPECT_EQ(port_.open_files(), 0);
    EXPECT_EQ(port_.mapped_regions(), 0);
    EXPECT_EQ(port_.open_queues(), 0);
  }

  void add_file(MappedStrategy& mapped) {
    mapped.add(Opened::open(path_, port_).value().map().value());
    mapped.add(std::nullopt);
  }
  [[nodiscard]] LoadFiles files() const { return {file_.get(), nullptr}; }

  static Handle done(const Answer& answer) {
    if (const auto* const mapped = std::get_if<MapDone>(&answer)) return mapped->handle;
    if (const auto* const loaded = std::get_if<LoadDone>(&answer)) return loaded->handle;
    ADD_FAILURE() << "failed: " << to_string(*std::get<RequestFailed>(answer).error);
    return {};
  }
  static Error error_of(const Answer& answer) {
    const auto* const failed = std::get_if<RequestFailed>(&answer);
    EXPECT_NE(failed, nullptr);
    return failed != nullptr ? *failed->error : Error(ErrorCode::internal);
  }
  static std::string text_of(Bytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "file";
  FaultyPort port_;
  std::unique_ptr<File> file_;
};

TEST_F(Strategies, mapped_has_one_mapping_for_all_parts) {
  MappedStrategy mapped;
  add_file(mapped);
  const Handle a = done(mapped.answer(MapRequest{{0, 1, 5}}));
  const Handle b = done(mapped.answer(MapRequest{{0, 20'000, 20'000}}));
  EXPECT_EQ(port_.mapped_regions(), 1);
  EXPECT_TRUE(std::holds_alternative<AdviseDone>(
      mapped.answer(AdviseRequest{b, Advice::populate, {0, 30'000, 10'000}})));
  EXPECT_TRUE(std::holds_alternative<ReleaseDone>(mapped.answer(ReleaseRequest{a})));
  EXPECT_EQ(port_.mapped_regions(), 1);
  EXPECT_EQ(error_of(mapped.answer(ReleaseRequest{a})).rule(), "handle_is_not_released");
  EXPECT_EQ(error_of(mapped.answer(AdviseRequest{a, Advice::drop, {0, 1, 5}})).code(),
            ErrorCode::stale_handle);
  EXPECT_TRUE(std::holds_alternative<ReleaseDone>(mapped.answer(ReleaseRequest{b})));
  EXPECT_EQ(port_.mapped_regions(), 0);
}

TEST_F(Strategies, advice_is_on_what_the_handle_names) {
  MappedStrategy mapped;
  add_file(mapped);
  const Handle part = done(mapped.answer(MapRequest{{0, 8192, 8192}}));
  for (const FileRange& other : {FileRange{0, 8191, 10}, FileRange{0, 8192, 8193}, FileRange{1, 8192, 1},
                                 FileRange{0, UINT64_MAX, 2}}) {
    const auto error = error_of(mapped.answer(AdviseRequest{part, Advice::populate, other}));
    EXPECT_EQ(error.code(), ErrorCode::out_of_bounds);
    EXPECT_EQ(error.rule(), "advice_is_on_what_the_handle_names");
  }
  // What is dropped leaves the page cache, too.
  EXPECT_TRUE(
      std::holds_alternative<AdviseDone>(mapped.answer(AdviseRequest{part, Advice::drop, {0, 8192, 8192}})));
  EXPECT_EQ(port_.count(Call::forget), 1);
}

TEST_F(Strategies, mapped_maps_again) {
  MappedStrategy mapped;
  add_file(mapped);
  for (int i = 0; i < 3; ++i) {
    const Handle all = done(mapped.answer(MapRequest{{0, 0, file_bytes}}));
    EXPECT_EQ(text_of(mapped.file(0)->bytes()), contents());
    EXPECT_TRUE(std::holds_alternative<ReleaseDone>(mapped.answer(ReleaseRequest{all})));
    EXPECT_TRUE(mapped.file(0)->bytes().empty());
  }
  // Each call of that fails once.
  port_.fail_at(Call::map, port_.count(Call::map), std::errc::not_enough_memory);
  EXPECT_EQ(error_of(mapped.answer(MapRequest{{0, 0, 1}})).code(), ErrorCode::map_failed);
  port_.fail_at(Call::stat, port_.count(Call::stat), std::errc::io_error);
  EXPECT_TRUE(std::holds_alternative<RequestFailed>(mapped.answer(MapRequest{{0, 0, 1}})));
  const Handle good = done(mapped.answer(MapRequest{{0, 0, 1}}));
  EXPECT_TRUE(std::holds_alternative<ReleaseDone>(mapped.answer(ReleaseRequest{good})));
  std::filesystem::resize_file(path_, 17);
  EXPECT_EQ(error_of(mapped.answer(MapRequest{{0, 0, 1}})).code(), ErrorCode::changed_underfoot);
}

TEST_F(Strategies, mapped_keeps_the_handle_of_what_cannot_be_unmapped) {
  MappedStrategy mapped;
  add_file(mapped);
  const Handle part = done(mapped.answer(MapRequest{{0, 0, 100}}));
  port_.fail_at(Call::unmap, 0, std::errc::not_enough_memory);
  EXPECT_EQ(error_of(mapped.answer(ReleaseRequest{part})).code(), ErrorCode::unmap_failed);
  {
    const auto held = mapped.file(0)->owner();
    EXPECT_EQ(error_of(mapped.answer(ReleaseRequest{part})).code(), ErrorCode::in_use);
  }
  EXPECT_EQ(text_of(mapped.file(0)->bytes()), contents());
  EXPECT_TRUE(std::holds_alternative<ReleaseDone>(mapped.answer(ReleaseRequest{part})));
  EXPECT_EQ(port_.mapped_regions(), 0);
}

TEST_F(Strategies, mapped_file_is_there) {
  MappedStrategy mapped;
  add_file(mapped);
  for (const std::uint32_t file : {1U, 2U}) {
    const auto error = error_of(mapped.answer(MapRequest{{file, 0, 1}}));
    EXPECT_EQ(error.code(), ErrorCode::missing_shard);
    EXPECT_EQ(error.rule(), "mapped_file_is_there");
  }
  EXPECT_EQ(error_of(mapped.answer(MapRequest{{0, 1, file_bytes}})).code(), ErrorCode::out_of_bounds);
}

TEST_F(Strategies, read_has_the_bytes_in_memory_of_its_own) {
  ReadStrategy read(files());
  const std::vector<LoadRequest> requests{
      {{0, 8, 1000}, 4}, {{0, 13, 4096}, 4}, {{0, 3, 0}, 4}, {{0, 20'000, 20'000}, 8}};
  LoadWork work;
  const auto answers = read.answer(requests, work);
  ASSERT_EQ(answers.size(), requests.size());
  EXPECT_GE(work.done.bytes, 25'096U);
  std::filesystem::resize_file(path_, 0);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const auto block = read.block(done(answers[i])).value();
    const auto& [range, alignment, into] = requests[i];
    EXPECT_EQ(text_of(block->bytes()), contents().substr(range.offset, range.bytes));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block->bytes().data()) % alignment, 0U);
  }
  for (const auto& answer : answers) {
    EXPECT_TRUE(std::holds_alternative<ReleaseDone>(read.answer(ReleaseRequest{done(answer)})));
  }
  EXPECT_EQ(read.block(done(answers[0])).error().rule(), "handle_is_not_released");
}

TEST_F(Strategies, staged_ranges_are_in_their_files) {
  // Whoever loads is told, and nobody dies of a file that is missing.
  ReadStrategy read(files());
  StagedStrategy staged(files(), [](const Chunk&, Bytes) -> Result<void> { return {}; });
  ExternalStrategy external(files());
  std::vector<std::byte> memory(1);
  for (const FileRange& range : {FileRange{1, 0, 1}, FileRange{7, 0, 1}, FileRange{0, file_bytes, 1}}) {
    for (Answering* const loading : {static_cast<Answering*>(&read), static_cast<Answering*>(&staged),
                                     static_cast<Answering*>(&external)}) {
      EXPECT_EQ(error_of(loading->answer(LoadRequest{.range = range, .into = memory})).rule(),
                "staged_ranges_are_in_their_files");
    }
  }
}

TEST_F(Strategies, nobody_holds_what_was_read) {
  ReadStrategy read(files());
  const Handle handle = done(read.answer(LoadRequest{.range = {0, 0, file_bytes}}));
  auto block = read.block(handle).value();
  const auto error = error_of(read.answer(ReleaseRequest{handle}));
  EXPECT_EQ(error.code(), ErrorCode::in_use);
  EXPECT_EQ(error.rule(), "nobody_holds_what_was_read");
  EXPECT_EQ(text_of(block->bytes()), contents());
  block.reset();
  EXPECT_TRUE(std::holds_alternative<ReleaseDone>(read.answer(ReleaseRequest{handle})));
}

TEST_F(Strategies, read_gives_pages_of_a_part_back) {
  ReadStrategy read(files());
  const std::vector<LoadRequest> requests{{{0, 0, 20'000}, 4}, {{0, 20'000, 20'000}, 4}};
  LoadWork work;
  const auto answers = read.answer(requests, work);
  const int before = port_.count(Call::advise);
  EXPECT_TRUE(std::holds_alternative<ReleaseDone>(read.answer(ReleaseRequest{done(answers[0])})));
  EXPECT_EQ(port_.count(Call::advise), before + 1);
  EXPECT_EQ(text_of(read.block(done(answers[1])).value()->bytes()), contents().substr(20'000));
}

TEST_F(Strategies, read_keeps_bytes_that_another_part_has_too) {
  ReadStrategy read(files());
  const std::vector<LoadRequest> requests{{{0, 0, 40'000}, 4}, {{0, 8192, 8192}, 4}};
  LoadWork work;
  const auto answers = read.answer(requests, work);
  EXPECT_TRUE(std::holds_alternative<ReleaseDone>(read.answer(ReleaseRequest{done(answers[0])})));
  EXPECT_EQ(text_of(read.block(done(answers[1])).value()->bytes()), contents().substr(8192, 8192));
}

TEST_F(Strategies, what_is_read_fits_into_the_budget) {
  ReadStrategy read(files());
  const std::vector<LoadRequest> requests{{{0, 0, 4096}, 4}};
  LoadWork work{.budget_bytes = 4095};
  const auto error = error_of(read.answer(requests, work).front());
  EXPECT_EQ(error.code(), ErrorCode::budget_too_small);
  EXPECT_EQ(error.rule(), "what_is_read_fits_into_the_budget");
  work.budget_bytes = 4096;
  EXPECT_TRUE(std::holds_alternative<LoadDone>(read.answer(requests, work).front()));
}

TEST_F(Strategies, read_fails_together_and_can_be_asked_again) {
  ReadStrategy read(files());
  const std::vector<LoadRequest> requests{{{0, 0, 100}, 4}, {{0, 30'000, 100}, 4}};
  for (int nth = 0;; ++nth) {
    port_.fail_at(Call::complete, port_.count(Call::complete) + nth, std::errc::io_error);
    LoadWork work{.reading = {.direct = false}};
    const auto answers = read.answer(requests, work);
    port_.clear_faults();
    ASSERT_EQ(answers.size(), 2U);
    if (std::holds_alternative<LoadDone>(answers[0])) {
      EXPECT_GT(nth, 0);
      break;
    }
    for (const auto& answer : answers) EXPECT_EQ(error_of(answer).cause(), std::errc::io_error);
    EXPECT_EQ(port_.open_queues(), 0);
  }
}

TEST_F(Strategies, staged_and_external_hand_on_and_keep_nothing) {
  std::string got;
  StagedStrategy staged(files(), [&](const Chunk&, Bytes bytes) -> Result<void> {
    got += text_of(bytes);
    return {};
  });
  EXPECT_EQ(done(staged.answer(LoadRequest{.range = {0, 5, 30'000}})), Handle{});
  EXPECT_EQ(got, contents().substr(5, 30'000));

  ExternalStrategy external(files());
  std::vector<std::byte> memory(30'000);
  EXPECT_EQ(done(external.answer(LoadRequest{.range = {0, 5, 30'000}, .into = memory})), Handle{});
  EXPECT_EQ(text_of(memory), got);
  EXPECT_EQ(error_of(external.answer(LoadRequest{.range = {0, 5, 3}, .into = memory})).code(),
            ErrorCode::size_mismatch);
}

TEST_F(Strategies, strategy_has_what_is_asked_for) {
  MappedStrategy mapped;
  add_file(mapped);
  ReadStrategy read(files());
  StagedStrategy staged(files(), [](const Chunk&, Bytes) -> Result<void> { return {}; });
  ExternalStrategy external(files());
  const auto expect_refused = [&](Answering& strategy, const Request& request) {
    const auto error = error_of(strategy.answer(request));
    EXPECT_EQ(error.code(), ErrorCode::unsupported_strategy);
    EXPECT_EQ(error.rule(), "strategy_has_what_is_asked_for");
    EXPECT_NE(error.message().find(to_string(strategy.strategy())), std::string_view::npos);
  };
  expect_refused(mapped, LoadRequest{.range = {0, 0, 1}});
  for (Answering* const loading : {static_cast<Answering*>(&read), static_cast<Answering*>(&staged),
                                   static_cast<Answering*>(&external)}) {
    expect_refused(*loading, MapRequest{{0, 0, 1}});
  }
  expect_refused(staged, AdviseRequest{{}, Advice::drop, {}});
  expect_refused(external, ReleaseRequest{});
  const Handle loaded = done(read.answer(LoadRequest{.range = {0, 0, 1}}));
  expect_refused(read, AdviseRequest{loaded, Advice::cold, {0, 0, 1}});
  // Of another strategy.
  EXPECT_EQ(error_of(mapped.answer(ReleaseRequest{loaded})).rule(), "handle_is_of_this_strategy");
  EXPECT_EQ(error_of(read.answer(ReleaseRequest{})).code(), ErrorCode::stale_handle);
}

}  // namespace
}  // namespace ht::io
