#include "io/strategy/staged.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "io/file_source.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::io::staged_test {
namespace {

using ht::testing::Call;
using ht::testing::FaultyPort;
using ht::testing::TemporaryFolder;
using ht::testing::write_file;

constexpr std::uint64_t page = 4096;
constexpr std::size_t file_bytes = 10 * page + 123;

std::string contents(char seed) {
  std::string text(file_bytes, '\0');
  for (std::size_t i = 0; i < text.size(); ++i)
    text[i] = static_cast<char>(i * 31 + i / 997 + static_cast<unsigned char>(seed));
  return text;
}

class StagedLoad : public ::testing::Test {
 protected:
  void SetUp() override {
    write_file(folder_ / "a", contents('a'));
    write_file(folder_ / "b", contents('b'));
    open();
  }
  void TearDown() override {
    files_.clear();
    EXPECT_EQ(port_.open_files(), 0);
    EXPECT_EQ(port_.open_queues(), 0);
  }
  void open() {
    files_.clear();
    for (const auto* const name : {"a", "b"}) {
      files_.push_back(FileSource::open(folder_ / name, port_).value());
    }
  }

  Result<ReadTotals> load(const std::vector<FileRange>& ranges, StagedOptions options = {}) {
    options.chunks = std::min(options.chunks, 3U);
    options.chunk_bytes = 2 * page;
    loaded_.clear();
    return load_staged(
        files_, ranges,
        [&](const Chunk& chunk, Bytes bytes) -> Result<void> {
          EXPECT_EQ(chunk.range.bytes, bytes.size());
          loaded_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
          if (on_chunk_) return on_chunk_();
          return {};
        },
        options);
  }

  /// Ranges of both files at unaligned offsets.
  [[nodiscard]] static std::vector<FileRange> ranges() {
    return {{0, 5, 9 * page}, {1, 0, file_bytes}, {0, page, 1}};
  }
  [[nodiscard]] static std::string expected() {
    return contents('a').substr(5, 9 * page) + contents('b') + contents('a').substr(page, 1);
  }

  /// Splits the memory into one part per range.
  [[nodiscard]] static std::vector<MutableBytes> parts_of(std::string& memory) {
    std::vector<MutableBytes> parts;
    std::size_t begin = 0;
    for (const auto& range : ranges()) {
      parts.push_back(std::as_writable_bytes(std::span(memory)).subspan(begin, range.bytes));
      begin += range.bytes;
    }
    return parts;
  }

  TemporaryFolder folder_;
  FaultyPort port_;
  Sources files_;
  std::string loaded_;
  std::function<Result<void>()> on_chunk_;
};

TEST_F(StagedLoad, delivers_all_bytes_in_order) {
  for (const bool direct : {true, false}) {
    for (const std::uint32_t chunks : {1U, 2U, 3U}) {
      const auto staged = load(ranges(), {.chunks = chunks, .direct = direct});
      ASSERT_TRUE(staged) << to_string(staged.error());
      EXPECT_EQ(loaded_, expected());
      EXPECT_EQ(staged->bytes, expected().size());
      if (!direct) {
        EXPECT_EQ(staged->direct_bytes, 0U);
      }
    }
  }
}

TEST_F(StagedLoad, is_empty_without_ranges) {
  EXPECT_EQ(load({}).value().bytes, 0U);
  EXPECT_EQ(load({{0, file_bytes, 0}, {1, 3, 0}}).value().bytes, 0U);
}

TEST_F(StagedLoad, works_without_direct_reads_and_without_io_uring) {
  for (const auto call : {Call::reopen_direct, Call::direct_alignment, Call::read_queue}) {
    for (int i = 0; i < 2; ++i) port_.fail_at(call, port_.count(call) + i, std::errc::invalid_argument);
    const auto staged = load(ranges());
    ASSERT_TRUE(staged) << to_string(staged.error());
    EXPECT_EQ(loaded_, expected());
    if (call != Call::read_queue) {
      EXPECT_EQ(staged->direct_bytes, 0U);
    }
  }
}

TEST_F(StagedLoad, continues_after_short_reads_and_interruptions) {
  port_.set_max_bytes(1000);
  for (int i = 0; i < 20; ++i) {
    port_.fail_at(Call::completed_read, 3 * i,
                  i % 2 == 0 ? std::errc::interrupted : std::errc::resource_unavailable_try_again);
  }
  const auto staged = load(ranges());
  ASSERT_TRUE(staged) << to_string(staged.error());
  EXPECT_EQ(loaded_, expected());
}

TEST_F(StagedLoad, retries_refused_direct_reads_with_buffering) {
  port_.fail_at(Call::completed_read, 1, std::errc::invalid_argument);
  const auto direct = load({{0, 0, 8 * page}});
  if (direct && direct->direct_bytes == 0)
    GTEST_SKIP() << "the folder for temporary files has no direct reads";
  ASSERT_TRUE(direct) << to_string(direct.error());
  EXPECT_EQ(loaded_, contents('a').substr(0, 8 * page));
}

TEST_F(StagedLoad, bytes_can_be_read) {
  // Each read fails in turn, and the next load works again.
  for (int nth = 0;; ++nth) {
    port_.fail_at(Call::completed_read, port_.count(Call::completed_read) + nth, std::errc::io_error);
    const auto staged = load(ranges());
    if (staged) {
      EXPECT_GT(nth, 10);
      break;
    }
    EXPECT_EQ(staged.error().code(), ErrorCode::read_failed);
    EXPECT_EQ(staged.error().rule(), "bytes_can_be_read");
    EXPECT_EQ(staged.error().cause(), std::errc::io_error);
    EXPECT_TRUE(staged.error().offset());
    EXPECT_FALSE(staged.error().path().empty());
    EXPECT_EQ(loaded_, expected().substr(0, loaded_.size()));
    EXPECT_EQ(port_.open_queues(), 0);
    port_.clear_faults();
  }
  EXPECT_EQ(loaded_, expected());
}

TEST_F(StagedLoad, reports_failure_of_any_submission) {
  for (int nth = 0;; ++nth) {
    port_.fail_at(Call::submit, port_.count(Call::submit) + nth, std::errc::bad_file_descriptor);
    const auto staged = load(ranges());
    port_.clear_faults();
    if (staged) break;
    EXPECT_EQ(staged.error().rule(), "bytes_can_be_read");
    EXPECT_EQ(port_.open_queues(), 0);
  }
  EXPECT_EQ(loaded_, expected());
}

TEST_F(StagedLoad, reads_can_be_awaited) {
  for (int nth = 0;; ++nth) {
    // Two waits fail, so only the destructor of the queue waits for the reads in flight.
    for (int i = 0; i < 2; ++i) {
      port_.fail_at(Call::wait_for_read, port_.count(Call::wait_for_read) + nth + i,
                    std::errc::not_enough_memory);
    }
    const auto staged = load(ranges());
    port_.clear_faults();
    if (staged) break;
    EXPECT_EQ(staged.error().code(), ErrorCode::read_failed);
    EXPECT_EQ(staged.error().rule(), "reads_can_be_awaited");
    EXPECT_EQ(port_.open_queues(), 0);
  }
  EXPECT_EQ(loaded_, expected());
}

TEST_F(StagedLoad, waits_if_the_queue_is_full) {
  for (int i = 1; i < 40; i += 2) port_.fail_at(Call::submit, i, std::errc::resource_unavailable_try_again);
  const auto staged = load(ranges());
  ASSERT_TRUE(staged) << to_string(staged.error());
  EXPECT_EQ(loaded_, expected());
}

TEST_F(StagedLoad, an_error_of_the_consumer_ends_the_load) {
  int left = 4;
  on_chunk_ = [&]() -> Result<void> {
    if (--left == 0) return fail(ErrorCode::no_space, "space_is_left", "0 bytes are left");
    return {};
  };
  const auto staged = load(ranges());
  ASSERT_FALSE(staged);
  EXPECT_EQ(staged.error().rule(), "space_is_left");
  EXPECT_EQ(left, 0);
}

TEST_F(StagedLoad, work_is_completed) {
  // Requests a stop at each chunk in turn.
  for (int at = 0;; ++at) {
    std::stop_source source;
    int seen = 0;
    on_chunk_ = [&]() -> Result<void> {
      if (seen++ == at) source.request_stop();
      return {};
    };
    const auto staged = load(ranges(), {.work = {.stop = source.get_token()}});
    EXPECT_EQ(port_.open_queues(), 0);
    if (staged) break;
    EXPECT_EQ(staged.error().code(), ErrorCode::cancelled);
    EXPECT_EQ(staged.error().rule(), "work_is_completed");
    EXPECT_EQ(seen, at + 1);
  }
  EXPECT_EQ(loaded_, expected());
}

TEST_F(StagedLoad, file_size_is_unchanged) {
  on_chunk_ = [&]() -> Result<void> {
    std::filesystem::resize_file(folder_ / "b", 3 * page);
    return {};
  };
  const auto staged = load({{1, 0, file_bytes}}, {.chunks = 1});
  ASSERT_FALSE(staged);
  EXPECT_EQ(staged.error().code(), ErrorCode::truncated);
  EXPECT_EQ(staged.error().rule(), "file_size_is_unchanged");
  EXPECT_EQ(staged.error().path(), (folder_ / "b").string());
  EXPECT_EQ(staged.error().offset(), 3 * page);
}

TEST_F(StagedLoad, file_is_unchanged) {
  on_chunk_ = [&]() -> Result<void> {
    std::filesystem::last_write_time(folder_ / "a",
                                     std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
    return {};
  };
  EXPECT_EQ(load(ranges()).error().rule(), "file_is_unchanged");
  EXPECT_EQ(load(ranges()).error().code(), ErrorCode::changed_underfoot);
}

TEST_F(StagedLoad, into_memory_places_every_range) {
  for (const bool by_threads : {false, true}) {
    if (by_threads) port_.fail_from(Call::read_queue, 0, std::errc::function_not_supported);
    const int reads = port_.count(Call::read_at);
    std::string memory(expected().size(), '.');
    std::uint64_t last = 0;
    Strategy::LoadWork work;
    work.on_progress = [&](std::uint64_t done) {
      EXPECT_GT(done, last);
      last = done;
    };
    const auto loaded =
        load_into(parts_of(memory), files_, ranges(), {.chunks = 3, .chunk_bytes = 2 * page, .work = work});
    ASSERT_TRUE(loaded) << to_string(loaded.error());
    EXPECT_EQ(memory, expected());
    EXPECT_EQ(last, expected().size());
    if (by_threads) {
      EXPECT_GT(port_.count(Call::read_at), reads);
    }
  }
}

TEST_F(StagedLoad, into_memory_is_direct_if_aligned) {
  const Sources files{files_[0]};
  const std::vector<FileRange> range{{0, page, 4 * page}};
  alignas(4096) static std::array<std::byte, 4 * page + 1> memory;
  const std::vector<MutableBytes> aligned_memory{MutableBytes(memory).first(4 * page)};
  const auto aligned = load_into(aligned_memory, files, range);
  ASSERT_TRUE(aligned);
  EXPECT_EQ(std::memcmp(memory.data(), contents('a').data() + page, 4 * page), 0);
  // Memory that is not aligned is filled through a ring.
  const std::vector<MutableBytes> unaligned_memory{MutableBytes(memory).last(4 * page)};
  const auto unaligned = load_into(unaligned_memory, files, range);
  ASSERT_TRUE(unaligned);
  EXPECT_EQ(unaligned->direct_bytes, aligned->direct_bytes);
  EXPECT_EQ(std::memcmp(memory.data() + 1, contents('a').data() + page, 4 * page), 0);
  if (aligned->direct_bytes == 0) GTEST_SKIP() << "the folder for temporary files has no direct reads";
  EXPECT_EQ(aligned->direct_bytes, 4 * page);
}

TEST_F(StagedLoad, each_target_has_the_size_of_its_range) {
  const Sources files{files_[0]};
  std::vector<std::byte> memory(10);
  const std::vector<MutableBytes> into{memory};
  for (const std::uint64_t bytes : {9U, 11U}) {
    const std::vector<FileRange> range{{0, 0, bytes}};
    const auto refused = load_into(into, files, range);
    EXPECT_EQ(refused.error().rule(), "each_target_has_the_size_of_its_range");
    EXPECT_EQ(refused.error().message(), "target 0 has 10 bytes but its range has " + std::to_string(bytes));
  }
  const std::vector<FileRange> two{{0, 0, 5}, {0, 0, 5}};
  EXPECT_EQ(load_into(into, files, two).error().message(),
            "number of targets is 1 but number of ranges is 2");
  EXPECT_TRUE(load_into({}, files, {}));
}

TEST_F(StagedLoad, ring_size_is_valid) {
  const Sources files{files_[0]};
  const auto take = [](const Chunk&, Bytes) -> Result<void> { return {}; };
  const std::vector<FileRange> range{{0, 0, 1}};
  for (const auto& options : {StagedOptions{.chunks = 0}, StagedOptions{.chunks = 65},
                              StagedOptions{.chunk_bytes = 0}, StagedOptions{.chunk_bytes = 4097}}) {
    EXPECT_EQ(load_staged(files, range, take, options).error().rule(), "ring_size_is_valid");
  }
}

TEST_F(StagedLoad, loaded_ranges_are_in_their_files) {
  EXPECT_EQ(load({{0, 1, file_bytes}}).error().rule(), "loaded_ranges_are_in_their_files");
  files_[1].reset();
  EXPECT_EQ(load({{1, 0, 1}}).error().rule(), "loaded_ranges_are_in_their_files");
  EXPECT_TRUE(load({{0, 0, 1}}));
  EXPECT_EQ(load({{2, 0, 1}}).error().rule(), "loaded_ranges_are_in_their_files");
  EXPECT_EQ(load({{0, UINT64_MAX, 2}}).error().code(), ErrorCode::out_of_bounds);
}

}  // namespace
}  // namespace ht::io::staged_test
