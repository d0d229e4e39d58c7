#include <htensor/io/source.hpp>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <htensor/base/bytes.hpp>
#include <vector>

#include "io/file_source.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::io::source_test {
namespace {

using ht::testing::Call;
using ht::testing::FaultyPort;
using ht::testing::TemporaryFolder;
using ht::testing::write_file;

Error error_of(const std::filesystem::path& path, Port& port = system_port()) {
  auto file = FileSource::open(path, port);
  if (file) return Error(ErrorCode::internal, "test_expects_an_error", "file was opened");
  return std::move(file).error();
}

TEST(FileSource, file_can_be_opened) {
  const TemporaryFolder folder;
  const auto error = error_of(folder / "none");
  EXPECT_EQ(error.code(), ErrorCode::open_failed);
  EXPECT_EQ(error.rule(), "file_can_be_opened");
  EXPECT_EQ(error.path(), (folder / "none").string());
  EXPECT_EQ(error.cause(), std::errc::no_such_file_or_directory);
  EXPECT_FALSE(error.hint().empty());
}

TEST(FileSource, reports_missing_permission) {
  const TemporaryFolder folder;
  write_file(folder / "f", "x");
  FaultyPort port;
  port.fail_at(Call::open, 0, std::errc::permission_denied);
  const auto error = error_of(folder / "f", port);
  EXPECT_EQ(error.code(), ErrorCode::open_failed);
  EXPECT_NE(error.hint().find("permission"), std::string_view::npos);
}

TEST(FileSource, is_refused_without_permission) {
  const TemporaryFolder folder;
  write_file(folder / "f", "x");
  ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
  ASSERT_EQ(chmod((folder / "f").c_str(), 0), 0);
  // Root may read every file, so a child process opens the file as another user.
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && setuid(65534) != 0) _exit(2);
    _exit(error_of(folder / "f").code() == ErrorCode::open_failed ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(FileSource, link_target_exists) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("gone.ht", folder / "link");
  const auto error = error_of(folder / "link");
  EXPECT_EQ(error.code(), ErrorCode::open_failed);
  EXPECT_EQ(error.rule(), "link_target_exists");
  EXPECT_NE(error.message().find("gone.ht"), std::string_view::npos);
}

TEST(FileSource, links_are_followed) {
  const TemporaryFolder folder;
  write_file(folder / "f", "abc");
  std::filesystem::create_symlink("f", folder / "link");
  const auto file = FileSource::open(folder / "link", system_port());
  ASSERT_TRUE(file);
  EXPECT_EQ((*file)->stat().bytes, 3U);
}

TEST(FileSource, file_is_regular) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  // The pipe has no writer: an `open` that waits for a writer would hang.
  for (const auto& path : {folder.path(), folder / "pipe", std::filesystem::path("/dev/zero")}) {
    const auto error = error_of(path);
    EXPECT_EQ(error.code(), ErrorCode::not_regular_file) << path;
    EXPECT_EQ(error.rule(), "file_is_regular");
    EXPECT_EQ(error.path(), path.string());
    EXPECT_FALSE(error.hint().empty());
  }
}

TEST(FileSource, file_can_be_examined) {
  const TemporaryFolder folder;
  write_file(folder / "f", "x");
  FaultyPort port;
  port.fail_at(Call::stat, 0, std::errc::io_error);
  const auto error = error_of(folder / "f", port);
  EXPECT_EQ(error.rule(), "file_can_be_examined");
  EXPECT_EQ(error.code(), ErrorCode::open_failed);
  EXPECT_EQ(port.open_files(), 0);
}

class Reading : public ::testing::Test {
 protected:
  Result<std::string> read(std::uint64_t offset, std::size_t bytes) {
    auto file = HT_TRY(FileSource::open(folder_ / "f", port_));
    std::string text(bytes, '.');
    HT_TRY(file->read(offset, std::as_writable_bytes(std::span(text))));
    return text;
  }

  void SetUp() override { write_file(folder_ / "f", "0123456789"); }
  TemporaryFolder folder_;
  FaultyPort port_;
};

TEST_F(Reading, continues_after_short_reads) {
  port_.set_max_bytes(3);
  EXPECT_EQ(read(1, 8), "12345678");
  EXPECT_EQ(port_.count(Call::read_at), 3);
}

TEST_F(Reading, continues_after_interruptions) {
  port_.set_max_bytes(4);
  port_.fail_at(Call::read_at, 0, std::errc::interrupted);
  port_.fail_at(Call::read_at, 2, std::errc::interrupted);
  EXPECT_EQ(read(0, 10), "0123456789");
}

TEST_F(Reading, bytes_can_be_read) {
  port_.set_max_bytes(4);
  port_.fail_at(Call::read_at, 1, std::errc::io_error);
  const auto error = read(0, 10).error();
  EXPECT_EQ(error.code(), ErrorCode::read_failed);
  EXPECT_EQ(error.rule(), "bytes_can_be_read");
  EXPECT_EQ(error.offset(), 4U);
  EXPECT_EQ(error.cause(), std::errc::io_error);
  EXPECT_EQ(port_.open_files(), 0);
}

TEST_F(Reading, file_size_is_unchanged) {
  const auto error = read(8, 4).error();
  EXPECT_EQ(error.code(), ErrorCode::truncated);
  EXPECT_EQ(error.rule(), "file_size_is_unchanged");
  EXPECT_EQ(error.offset(), 10U);
}

// Changes an open file on the real file system.
class FileChange : public ::testing::Test {
 protected:
  void SetUp() override {
    write_file(path_, "0123456789");
    before_ = port_.stat(path_).value();
    file_ = FileSource::open(path_, port_).value();
  }

  // The clock for ctime advances every few milliseconds. Repeats the change until ctime differs.
  template <class Change>
  void repeat_until_ctime_differs(const Change& change) {
    do {
      change();
    } while (port_.stat(file_->handle()).value().changed_ns == before_.changed_ns);
  }
  // Returns a source without a path. Without a path, `check_unchanged` cannot distinguish a rename from a
  // write whose mtime was set back, because each changes only ctime. Therefore it reports a rename as a
  // change.
  [[nodiscard]] std::shared_ptr<const FileSource> open_by_descriptor() const {
    const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    auto file = FileSource::from_fd(fd, port_).value();
    ::close(fd);
    return file;
  }
  void write_and_set_the_time_back() const {
    const int fd = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    ASSERT_EQ(::pwrite(fd, "x", 1, 3), 1);
    const timespec modified{before_.modified_ns / 1'000'000'000, before_.modified_ns % 1'000'000'000};
    const std::array times{modified, modified};
    ASSERT_EQ(::futimens(fd, times.data()), 0);
    ::close(fd);
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "f";
  Port& port_ = system_port();
  FileStat before_;
  std::shared_ptr<const FileSource> file_;
};

TEST_F(FileChange, is_not_detected_in_an_untouched_file) { EXPECT_TRUE(file_->check_unchanged()); }

TEST_F(FileChange, is_detected_after_a_write_with_restored_mtime) {
  const auto by_descriptor = open_by_descriptor();
  EXPECT_TRUE(by_descriptor->check_unchanged());
  repeat_until_ctime_differs([&] { write_and_set_the_time_back(); });
  const auto now = port_.stat(path_).value();
  ASSERT_EQ(now.modified_ns, before_.modified_ns);
  ASSERT_EQ(now.bytes, before_.bytes);
  for (const auto& file : {file_, by_descriptor}) {
    const auto unchanged = file->check_unchanged();
    ASSERT_FALSE(unchanged) << file->path();
    EXPECT_EQ(unchanged.error().code(), ErrorCode::changed_underfoot);
    EXPECT_EQ(unchanged.error().rule(), "file_is_unchanged");
    EXPECT_FALSE(unchanged.error().hint().empty());
  }
}

TEST_F(FileChange, is_not_detected_after_a_link) {
  repeat_until_ctime_differs([&] {
    std::filesystem::remove(folder_ / "link");
    std::filesystem::create_hard_link(path_, folder_ / "link");
  });
  EXPECT_TRUE(file_->check_unchanged());
}

TEST_F(FileChange, is_not_detected_after_an_unlink) {
  std::filesystem::create_hard_link(path_, folder_ / "link");
  file_ = FileSource::open(path_, port_).value();
  before_ = file_->stat();
  repeat_until_ctime_differs([&] {
    std::filesystem::rename(folder_ / "link", folder_ / "other");
    std::filesystem::rename(folder_ / "other", folder_ / "link");
  });
  std::filesystem::remove(folder_ / "link");
  EXPECT_TRUE(file_->check_unchanged());
  std::filesystem::remove(path_);
  EXPECT_TRUE(file_->check_unchanged());
}

TEST_F(FileChange, is_not_detected_after_a_rename_over_the_file) {
  const auto by_descriptor = open_by_descriptor();
  repeat_until_ctime_differs([&] {
    std::filesystem::rename(path_, folder_ / "other");
    std::filesystem::rename(folder_ / "other", path_);
  });
  EXPECT_FALSE(by_descriptor->check_unchanged());
  write_file(folder_ / "new", "9876543210");
  std::filesystem::rename(folder_ / "new", path_);
  EXPECT_EQ(port_.stat(file_->handle()).value().links, 0U);
  EXPECT_TRUE(file_->check_unchanged());
  // The new number of links explains the new ctime.
  EXPECT_TRUE(by_descriptor->check_unchanged());
}

TEST_F(FileChange, is_not_detected_after_a_rename_of_the_file) {
  repeat_until_ctime_differs([&] {
    std::filesystem::rename(path_, folder_ / "other");
    std::filesystem::rename(folder_ / "other", path_);
  });
  std::filesystem::rename(path_, folder_ / "other");
  EXPECT_TRUE(file_->check_unchanged());
  write_file(path_, "another");
  EXPECT_TRUE(file_->check_unchanged());
}

TEST_F(FileChange, is_not_detected_after_chmod) {
  repeat_until_ctime_differs([&] { ASSERT_EQ(::chmod(path_.c_str(), 0600), 0); });
  ASSERT_EQ(::chmod(path_.c_str(), 0711), 0);
  EXPECT_TRUE(file_->check_unchanged());
}

TEST_F(FileChange, is_detected_in_a_renamed_file) {
  std::filesystem::rename(path_, folder_ / "other");
  write_file(folder_ / "other", "012345678901");
  EXPECT_EQ(file_->check_unchanged().error().code(), ErrorCode::changed_underfoot);
}

TEST(FileSource, descriptor_can_be_duplicated) {
  const TemporaryFolder folder;
  write_file(folder / "f", "some bytes");
  FaultyPort port;
  const int fd = open((folder / "f").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  {
    const auto file = FileSource::from_fd(fd, port).value();
    ASSERT_EQ(close(fd), 0);  // the source has its own descriptor
    std::vector<std::byte> bytes(5);
    ASSERT_TRUE(file->read(5, bytes));
    EXPECT_TRUE(std::ranges::equal(bytes, bytes_of("bytes")));
    EXPECT_EQ(file->path().string(), "fd " + std::to_string(fd));
  }
  EXPECT_EQ(port.open_files(), 0);
  const auto refused = FileSource::from_fd(fd, port);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::open_failed);
  EXPECT_EQ(refused.error().rule(), "descriptor_can_be_duplicated");
}

TEST(FileSource, queried_range_is_in_the_file) {
  const TemporaryFolder folder;
  write_file(folder / "f", std::string(10'000, 'x'));
  const auto file = FileSource::open(folder / "f").value();
  for (const auto& [offset, bytes] :
       std::vector<std::pair<std::uint64_t, std::uint64_t>>{{1, 10'000}, {10'001, 0}, {UINT64_MAX, 2}}) {
    Source::CacheQuery query{.offset = offset, .bytes = bytes};
    const auto refused = file->cached(std::span(&query, 1));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), ErrorCode::out_of_bounds);
    EXPECT_EQ(refused.error().rule(), "queried_range_is_in_the_file");
  }
}

TEST(FileSource, queries_all_ranges_in_one_call) {
  const TemporaryFolder folder;
  write_file(folder / "f", std::string(100'000, 'x'));
  FaultyPort port;
  const auto file = FileSource::open(folder / "f", port).value();
  std::vector<Source::CacheQuery> queries{{.offset = 0, .bytes = 100'000}, {.offset = 5000, .bytes = 10}, {}};
  const auto known = file->cached(queries);
  ASSERT_TRUE(known);
  EXPECT_EQ(port.count(Call::cached), 1);
  if (!*known) GTEST_SKIP() << "the kernel does not report the page cache";
  EXPECT_EQ(queries[0].cached_bytes, 100'000U);
  EXPECT_EQ(queries[1].cached_bytes, 10U);
  EXPECT_EQ(queries[2].cached_bytes, 0U);
}

TEST(FileSource, identity_is_equal_for_the_same_unchanged_file) {
  const TemporaryFolder folder;
  write_file(folder / "a", "1234");
  write_file(folder / "b", "1234");
  const auto first = FileSource::open(folder / "a").value()->identity();
  EXPECT_EQ(FileSource::open(folder / "a").value()->identity(), first);
  EXPECT_NE(FileSource::open(folder / "b").value()->identity(), first);
  write_file(folder / "a", "12345");
  EXPECT_NE(FileSource::open(folder / "a").value()->identity(), first);
}

TEST(MemorySource, read_is_within_the_memory) {
  const auto bytes = bytes_of("0123456789");
  const MemorySource source(bytes, nullptr);
  EXPECT_EQ(source.size(), 10U);
  EXPECT_EQ(source.memory()->bytes.data(), bytes.data());
  EXPECT_EQ(source.capabilities().latency, Source::Latency::memory);
  std::vector<std::byte> into(4);
  ASSERT_TRUE(source.read(6, into));
  EXPECT_TRUE(std::ranges::equal(into, bytes_of("6789")));
  const auto refused = source.read(7, into);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::truncated);
  EXPECT_EQ(refused.error().rule(), "read_is_within_the_memory");
}

}  // namespace
}  // namespace ht::io::source_test
