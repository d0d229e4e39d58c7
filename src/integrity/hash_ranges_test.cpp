#include "integrity/hash_ranges.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <htensor/hash/digest.hpp>
#include <random>

#include "io/file_source.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::hash_ranges_test {
namespace {

using testing::Call;

class HashRanges : public ::testing::Test {
 protected:
  static constexpr std::size_t file_bytes = 9'000'001;

  void SetUp() override {
    std::mt19937_64 random(5);
    contents_.resize(file_bytes);
    for (auto& byte : contents_) byte = static_cast<std::byte>(random());
    testing::write_file(folder_ / "data", contents_);
    for (std::uint64_t at = 0; at < file_bytes; at += 1'000'000) {
      ranges_.push_back({0, at, std::min<std::uint64_t>(1'000'000, file_bytes - at)});
    }
    open();
  }
  void TearDown() override {
    mapped_.reset();
    EXPECT_EQ(port_.open_files(), 0);
    EXPECT_EQ(port_.mapped_regions(), 0);
    EXPECT_EQ(port_.open_queues(), 0);
  }

  void open() {
    mapped_.reset();
    mapped_.emplace(io::FileSource::open(folder_ / "data", port_).value());
    files_ = {&*mapped_};
  }
  // Evicts the file from the page cache, if the file system can, so that it is read with direct I/O.
  void make_cold() {
    const auto file = io::system_port().open(folder_ / "data").value();
    ASSERT_TRUE(io::system_port().sync(file));
    ASSERT_TRUE(io::system_port().close(file));
    ASSERT_TRUE(mapped_->advise(0, file_bytes, io::Strategy::Advice::evict));
  }

  Result<std::vector<Digest>> hash_all(HashAlgorithm algorithm, const WorkOptions& work = {}) {
    return hash_ranges({.files = files_, .algorithm = algorithm}, ranges_, work);
  }
  void expect_right(const Result<std::vector<Digest>>& found, HashAlgorithm algorithm) {
    ASSERT_TRUE(found) << to_string(found.error());
    ASSERT_EQ(found->size(), ranges_.size());
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      const Bytes part = Bytes(contents_).subspan(ranges_[i].offset, ranges_[i].bytes);
      EXPECT_EQ((*found)[i], digest(algorithm, part).value()) << to_string(algorithm) << ' ' << i;
    }
  }

  testing::TemporaryFolder folder_;
  testing::FaultyPort port_;
  std::vector<std::byte> contents_;
  std::optional<io::MappedFile> mapped_;
  std::vector<io::MappedFile*> files_;
  std::vector<io::FileRange> ranges_;
};

TEST_F(HashRanges, returns_the_digest_of_each_range_cached_or_not) {
  for (const auto algorithm : all_hash_algorithms) {
    expect_right(hash_all(algorithm), algorithm);
    make_cold();
    expect_right(hash_all(algorithm), algorithm);
  }
}

TEST_F(HashRanges, accepts_unsorted_overlapping_and_empty_ranges) {
  ranges_ = {{0, 5'000'000, 4'000'001}, {0, 0, 0}, {0, 17, 9}, {0, 0, file_bytes}, {0, file_bytes, 0}};
  for (const auto algorithm : all_hash_algorithms) expect_right(hash_all(algorithm), algorithm);
  ranges_ = {{0, 0, 0}, {0, 100, 50}, {0, 150, 0}, {0, 150, 7}, {0, 4'000'000, 4'500'000}, {0, 8'500'000, 0}};
  make_cold();
  expect_right(hash_all(HashAlgorithm::crc64nvme), HashAlgorithm::crc64nvme);
  ranges_.clear();
  expect_right(hash_all(HashAlgorithm::crc64nvme), HashAlgorithm::crc64nvme);
}

TEST_F(HashRanges, reports_progress) {
  for (const bool cold : {false, true}) {
    if (cold) make_cold();
    Progress last;
    ASSERT_TRUE(hash_all(HashAlgorithm::crc64nvme, {.stop = {}, .on_progress = [&](const Progress& progress) {
                                                      EXPECT_GE(progress.done_bytes, last.done_bytes);
                                                      last = progress;
                                                    }}));
    EXPECT_EQ(last.done_bytes, file_bytes);
    EXPECT_EQ(last.total_bytes, file_bytes);
  }
}

TEST_F(HashRanges, work_is_completed) {
  for (const bool cold : {false, true}) {
    if (cold) make_cold();
    std::stop_source stop;
    stop.request_stop();
    const auto found = hash_all(HashAlgorithm::crc64nvme, {.stop = stop.get_token(), .on_progress = {}});
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code(), ErrorCode::cancelled);
  }
}

TEST_F(HashRanges, reports_a_changed_file) {
  testing::write_file(folder_ / "data", "short");
  const auto found = hash_all(HashAlgorithm::crc64nvme);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code(), ErrorCode::changed_underfoot);
}

TEST_F(HashRanges, reports_a_file_truncated_while_hashing) {
  std::atomic<int> advise_calls = 0;
  port_.before_each([&](Call call, int) {
    // The first advise call comes after the file is checked and before its pages are touched.
    if (call == Call::advise && advise_calls++ == 0) std::filesystem::resize_file(folder_ / "data", 4096);
  });
  const auto found = hash_all(HashAlgorithm::crc64nvme);
  port_.before_each({});
  ASSERT_FALSE(found);
  EXPECT_TRUE(found.error().code() == ErrorCode::changed_underfoot ||
              found.error().code() == ErrorCode::read_failed)
      << to_string(found.error());
}

TEST_F(HashRanges, survives_each_call_that_fails_once) {
  for (const bool cold : {false, true}) {
    for (const auto call : {Call::stat, Call::advise, Call::cached, Call::submit, Call::completed_read,
                            Call::read_at, Call::reopen_direct, Call::direct_alignment, Call::read_queue}) {
      for (int nth = 0; nth < 3; ++nth) {
        if (cold) make_cold();
        port_.fail_at(call, port_.count(call) + nth, std::errc::io_error);
        const auto found = hash_all(HashAlgorithm::crc64nvme);
        port_.clear_faults();
        if (found) {
          expect_right(found, HashAlgorithm::crc64nvme);
        } else {
          EXPECT_NE(found.error().code(), ErrorCode::internal) << to_string(found.error());
        }
      }
    }
  }
  expect_right(hash_all(HashAlgorithm::crc64nvme), HashAlgorithm::crc64nvme);
}

}  // namespace
}  // namespace ht::hash_ranges_test
