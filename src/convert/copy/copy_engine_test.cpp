#include "convert/copy/copy_engine.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <htensor/hash/digest.hpp>

#include "io/file_source.hpp"
#include "model/relayout.hpp"
#include "model/test_models.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::copy_engine_test {
namespace {

using testing::Call;
using testing::FaultyPort;
using testing::noise;
using testing::read_file;
using testing::TemporaryFolder;
using testing::write_file;

constexpr std::uint64_t megabyte = std::uint64_t{1} << 20;

class CopyingFiles : public ::testing::Test {
 protected:
  CopyingFiles() { write_file(source_, contents_); }

  // A header, memory, a repeated pattern, and stored bytes of the source at any offset, with large gaps.
  PlannedFile plan_with_large_gaps() {
    PlannedFile file{.path = target_, .bytes = 11 * megabyte + 17, .header = noise(100, 2), .parts = {}};
    file.parts.push_back({.offset = 128, .bytes = 1000, .from = Bytes(memory_)});
    file.parts.push_back({.offset = 1128, .bytes = 5 * megabyte + 3, .from = PartOrigin::Stored{0, 77}});
    file.parts.push_back({.offset = 6 * megabyte, .bytes = 3001, .from = pattern_});
    file.parts.push_back(
        {.offset = 6 * megabyte + 3001, .bytes = 2 * megabyte, .from = PartOrigin::Stored{0, 4096}});
    file.parts.push_back(
        {.offset = 10 * megabyte, .bytes = megabyte, .from = PartOrigin::Stored{0, 5 * megabyte}});
    return file;
  }

  // All gaps are small. They are written as zeros, so the file has no holes and is allocated before the copy.
  PlannedFile plan_without_large_gaps() {
    auto file = plan_with_large_gaps();
    file.parts[1].bytes = 6 * megabyte - file.parts[1].offset - 100;
    file.parts[4].offset = file.parts[3].offset + file.parts[3].bytes + 100;
    file.bytes = file.parts[4].offset + file.parts[4].bytes + 17;
    return file;
  }

  std::vector<std::byte> expected_bytes(const PlannedFile& file) const {
    std::vector<std::byte> bytes(static_cast<std::size_t>(file.bytes));
    std::ranges::copy(file.header, bytes.begin());
    for (const auto& part : file.parts) {
      for (std::uint64_t i = 0; i < part.bytes; ++i) {
        auto& to = bytes[static_cast<std::size_t>(part.offset + i)];
        if (const auto* const from = std::get_if<PartOrigin::Stored>(&part.from)) {
          to = contents_[static_cast<std::size_t>(from->offset + i)];
        } else if (const auto* const memory = std::get_if<Bytes>(&part.from)) {
          to = (*memory)[static_cast<std::size_t>(i)];
        } else {
          const auto& repeated = std::get<PartOrigin::Repeated>(part.from);
          to = repeated.pattern[static_cast<std::size_t>(i % repeated.pattern_bytes)];
        }
      }
    }
    return bytes;
  }

  Result<CopiedBy> copy(const PlannedFile& file, CopyChecksums* sums = nullptr,
                        const WorkOptions& work = {}) {
    io::MappedFile source(io::FileSource::open(source_, port_).value());
    io::MappedFile* const sources[] = {&source};
    auto target = HT_TRY(io::AtomicFile::create(target_, IfExists::replace, port_));
    auto copied = HT_TRY(copy_file(file, target, {.sources = sources, .sums = sums, .work = work}));
    HT_TRY(std::move(target).commit());
    return copied;
  }

  void expect_planned_bytes(const PlannedFile& file) {
    EXPECT_TRUE(read_file(target_) == expected_bytes(file));
    EXPECT_EQ(folder_.names(), (std::vector<std::string>{"source", "target"}));
    EXPECT_EQ(port_.open_files(), 0);
    std::filesystem::remove(target_);
  }

  static constexpr std::uint64_t stored_bytes = 8 * megabyte + 3;  // of the parts from the source
  PartOrigin::Repeated pattern_{.pattern = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}},
                                .pattern_bytes = 4};
  TemporaryFolder folder_;
  std::filesystem::path source_ = folder_ / "source";
  std::filesystem::path target_ = folder_ / "target";
  std::vector<std::byte> contents_ = noise(static_cast<std::size_t>(7 * megabyte) + 13, 1);
  std::vector<std::byte> memory_ = noise(1000, 3);
  FaultyPort port_;
};

TEST_F(CopyingFiles, copies_the_planned_bytes_by_every_method) {
  const auto file = plan_with_large_gaps();
  const auto any = copy(file).value();
  EXPECT_EQ(any.reflink + any.direct + any.copy_file_range + any.read_write, stored_bytes);
  expect_planned_bytes(file);

  port_.fail_from(Call::clone_range, 0, std::errc::operation_not_supported);
  const auto not_shared = copy(file).value();
  EXPECT_EQ(not_shared.reflink, 0U);
  expect_planned_bytes(file);

  port_.fail_from(Call::reopen_direct, 0, std::errc::invalid_argument);
  const auto by_system = copy(file).value();
  EXPECT_EQ(by_system.direct, 0U);
  EXPECT_GT(by_system.copy_file_range, 0U);
  expect_planned_bytes(file);

  port_.fail_from(Call::copy_range, 0, std::errc::cross_device_link);
  const auto by_read_write = copy(file).value();
  EXPECT_EQ(by_read_write.read_write, stored_bytes);
  expect_planned_bytes(file);
}

TEST_F(CopyingFiles, reads_uncached_ranges_with_direct_io) {
  port_.fail_from(Call::clone_range, 0, std::errc::operation_not_supported);
  port_.fail_from(Call::cached, 0, std::errc::function_not_supported);
  const auto file = plan_with_large_gaps();
  const auto copied = copy(file).value();
  expect_planned_bytes(file);
  if (copied.direct == 0) GTEST_SKIP() << "the folder for temporary files has no direct writes";
  EXPECT_EQ(port_.count(Call::reopen_direct), 2) << "the target and the source";
}

TEST_F(CopyingFiles, retries_short_and_interrupted_calls) {
  port_.fail_from(Call::clone_range, 0, std::errc::operation_not_supported);
  const auto file = plan_without_large_gaps();
  port_.set_max_bytes(100'000);
  for (const auto call : {Call::read_at, Call::write_at, Call::allocate, Call::resize, Call::sync}) {
    port_.fail_at(call, port_.count(call), std::errc::interrupted);
  }
  ASSERT_TRUE(copy(file));
  expect_planned_bytes(file);
  port_.fail_from(Call::reopen_direct, 0, std::errc::invalid_argument);
  port_.fail_at(Call::copy_range, port_.count(Call::copy_range), std::errc::interrupted);
  ASSERT_TRUE(copy(file));
  expect_planned_bytes(file);
}

TEST_F(CopyingFiles, falls_back_to_buffered_writes) {
  port_.fail_from(Call::clone_range, 0, std::errc::operation_not_supported);
  // All of the file is aligned, so the only write is a direct one.
  const PlannedFile file{.path = target_,
                         .bytes = megabyte,
                         .header = {},
                         .parts = {{.offset = 0, .bytes = megabyte, .from = PartOrigin::Stored{0, 5}}}};
  port_.fail_at(Call::write_at, 0, std::errc::invalid_argument);
  EXPECT_EQ(copy(file).value().read_write, megabyte);
  expect_planned_bytes(file);
}

TEST_F(CopyingFiles, creates_empty_files_and_files_without_a_source) {
  PlannedFile file{.path = target_, .bytes = 0, .header = {}, .parts = {}};
  ASSERT_TRUE(copy(file));
  expect_planned_bytes(file);
  file.bytes = 5000;
  file.parts.push_back({.offset = 10, .bytes = 4000, .from = pattern_});
  const auto copied = copy(file).value();
  EXPECT_EQ(copied.direct + copied.read_write, 0U);
  expect_planned_bytes(file);
}

TEST_F(CopyingFiles, keeps_holes) {
  constexpr std::uint64_t gigabyte = std::uint64_t{1} << 30;
  std::filesystem::resize_file(source_, 5 * gigabyte);
  const PlannedFile file{.path = target_,
                         .bytes = 5 * gigabyte + 64,
                         .header = noise(64, 4),
                         .parts = {{.offset = 64, .bytes = 5 * gigabyte, .from = PartOrigin::Stored{0, 0}}}};
  ASSERT_TRUE(copy(file));
  struct stat attributes{};
  ASSERT_EQ(stat(target_.c_str(), &attributes), 0);
  EXPECT_EQ(static_cast<std::uint64_t>(attributes.st_size), file.bytes);
  EXPECT_LT(static_cast<std::uint64_t>(attributes.st_blocks) * 512, 64 * megabyte);
  const auto copied = io::FileSource::open(target_).value();
  std::vector<std::byte> begin(contents_.size());
  ASSERT_TRUE(copied->read(64, begin));
  EXPECT_TRUE(begin == contents_);
}

TEST_F(CopyingFiles, adds_every_byte_to_the_checksums) {
  const auto file = plan_with_large_gaps();
  CopyChecksums sums({});
  const auto copied = copy(file, &sums).value();
  EXPECT_EQ(copied.reflink + copied.copy_file_range, 0U);
  // Each byte is added once: otherwise the checksum of the whole file is unknown.
  EXPECT_EQ(sums.sum_of(0, file.bytes), crc64nvme(expected_bytes(file)));
  expect_planned_bytes(file);
}

TEST_F(CopyingFiles, leaves_no_file_after_any_failure) {
  const auto file = plan_without_large_gaps();
  for (const bool direct : {true, false}) {
    port_.clear_faults();
    port_.fail_from(Call::clone_range, 0, std::errc::operation_not_supported);
    if (!direct) port_.fail_from(Call::reopen_direct, 0, std::errc::invalid_argument);
    for (const auto call :
         {Call::resize, Call::allocate, Call::write_at, Call::sync, Call::name, Call::rename}) {
      port_.fail_at(call, port_.count(call), std::errc::io_error);
      const auto done = copy(file);
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().code(), ErrorCode::write_failed) << to_string(done.error());
      EXPECT_EQ(folder_.names(), std::vector<std::string>{"source"});
      EXPECT_EQ(port_.open_files(), 0);
    }
  }
}

TEST_F(CopyingFiles, bytes_can_be_copied) {
  port_.fail_from(Call::clone_range, 0, std::errc::operation_not_supported);
  port_.fail_from(Call::reopen_direct, 0, std::errc::invalid_argument);
  port_.fail_at(Call::copy_range, 0, std::errc::no_space_on_device);
  const auto done = copy(plan_with_large_gaps());
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), ErrorCode::no_space);
  EXPECT_EQ(done.error().rule(), "bytes_can_be_copied");
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"source"});
}

TEST_F(CopyingFiles, blocks_can_be_shared) {
  port_.fail_at(Call::clone_range, 0, std::errc::io_error);
  const auto done = copy({.path = target_,
                          .bytes = megabyte,
                          .header = {},
                          .parts = {{.offset = 0, .bytes = megabyte, .from = PartOrigin::Stored{0, 0}}}});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().rule(), "blocks_can_be_shared");
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"source"});
}

TEST_F(CopyingFiles, reports_an_unreadable_source) {
  port_.fail_from(Call::clone_range, 0, std::errc::operation_not_supported);
  port_.fail_from(Call::read_at, 0, std::errc::io_error);
  const auto done = copy(plan_with_large_gaps());
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), ErrorCode::read_failed);
  EXPECT_EQ(done.error().path(), source_.string());
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"source"});
}

TEST_F(CopyingFiles, reports_a_source_that_changes_or_shrinks) {
  const auto file = plan_with_large_gaps();
  for (const bool shrinks : {true, false}) {
    write_file(source_, contents_);
    bool is_done = false;
    port_.before_each([&](Call call, int) {
      if (call != Call::resize || std::exchange(is_done, true)) return;
      if (shrinks) {
        std::filesystem::resize_file(source_, 1000);
      } else {
        write_file(source_, noise(contents_.size(), 9));
      }
    });
    const auto done = copy(file);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), ErrorCode::changed_underfoot) << to_string(done.error());
    EXPECT_EQ(done.error().path(), source_.string());
    EXPECT_EQ(folder_.names(), std::vector<std::string>{"source"});
  }
}

TEST_F(CopyingFiles, can_be_cancelled_and_reports_the_written_bytes) {
  const auto file = plan_with_large_gaps();
  const std::stop_source stop;
  stop.request_stop();
  const auto done = copy(file, nullptr, {.stop = stop.get_token(), .on_progress = {}});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), ErrorCode::cancelled);
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"source"});
  Progress last;
  ASSERT_TRUE(copy(file, nullptr, {.stop = {}, .on_progress = [&](const Progress& now) { last = now; }}));
  EXPECT_EQ(last.total_bytes, file.bytes);
  EXPECT_GT(last.done_bytes, file.bytes / 2);
}

TEST_F(CopyingFiles, can_be_cancelled_between_two_holes) {
  // A page of data after each hole.
  constexpr int holes = 50;
  constexpr std::uint64_t step = megabyte;
  std::filesystem::resize_file(source_, 0);
  std::filesystem::resize_file(source_, holes * step);
  {
    std::fstream out(source_, std::ios::in | std::ios::out | std::ios::binary);
    for (int i = 1; i <= holes; ++i) {
      out.seekp(static_cast<std::streamoff>(static_cast<std::uint64_t>(i) * step - 1));
      out.put('x');
    }
  }
  const PlannedFile file{.path = target_,
                         .bytes = holes * step,
                         .header = {},
                         .parts = {{.offset = 0, .bytes = holes * step, .from = PartOrigin::Stored{0, 0}}}};
  std::stop_source stop;
  int polls = 0;
  const auto stop_at_third = [&](const Progress&) {
    if (++polls == 3) stop.request_stop();
  };
  const int before = port_.count(Call::next_data);
  const auto done = copy(file, nullptr, {.stop = stop.get_token(), .on_progress = stop_at_third});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), ErrorCode::cancelled);
  EXPECT_EQ(polls, 3);
  EXPECT_LT(port_.count(Call::next_data) - before, 3);
}

TEST_F(CopyingFiles, can_be_cancelled_within_a_column_major_piece) {
  const std::int64_t side = 1024;
  PlannedFile file{.path = target_, .bytes = megabyte, .header = {}, .parts = {}, .relayouts = {}};
  file.relayouts.push_back(std::make_shared<const Relayout>(
      Relayout{.unit_bytes = 1, .numbers = {}, .column_major = {side, side}}));
  file.parts.push_back({.offset = 0, .bytes = megabyte, .from = PartOrigin::Reordered{}});
  ASSERT_TRUE(copy(file));
  std::filesystem::remove(target_);
  const std::stop_source stop;
  stop.request_stop();
  const int before = port_.count(Call::write_at);
  const auto done = copy(file, nullptr, {.stop = stop.get_token(), .on_progress = {}});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message(), "stopped: 0 of 1048576 bytes written; the target is unchanged");
  EXPECT_EQ(port_.count(Call::write_at), before) << "no piece is written after the stop";
}

// A large alignment of tensors causes large gaps.
TEST_F(CopyingFiles, writes_large_gaps_as_holes) {
  PlannedFile file{
      .path = target_, .bytes = 65 * megabyte, .header = noise(100, 2), .parts = {}, .relayouts = {}};
  file.parts.push_back({.offset = 64 * megabyte, .bytes = megabyte, .from = PartOrigin::Stored{0, 0}});
  ASSERT_TRUE(copy(file));
  EXPECT_TRUE(read_file(target_) == expected_bytes(file));
  struct stat attributes{};
  ASSERT_EQ(::stat(target_.c_str(), &attributes), 0);
  EXPECT_LT(static_cast<std::uint64_t>(attributes.st_blocks) * 512, 2 * megabyte);
}

}  // namespace
}  // namespace ht::copy_engine_test
