// A file system that returns EIO for a part of a file. The test mounts it with FUSE in a child process.
#define FUSE_USE_VERSION 31
#include <fuse3/fuse.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <htensor/base/fault.hpp>
#include <htensor/load/load.hpp>
#include <htensor/model/model.hpp>
#include <thread>

#include "format/safetensors/test_file.hpp"
#include "io/file_source.hpp"
#include "io/strategy/staged.hpp"
#include "model/test_models.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::failing_disk_test {
namespace {

constexpr std::size_t tensor_bytes = std::size_t{1} << 20;
constexpr std::size_t good_bytes = tensor_bytes + tensor_bytes / 2;

// Two tensors. The second half of the second tensor cannot be read.
const std::vector<std::byte>& contents() {
  static const auto file =
      testing::safetensors_file(testing::u8_header({"good", "bad"}, tensor_bytes), 2 * tensor_bytes);
  return file;
}

int attributes(const char* path, struct stat* into, fuse_file_info* /*file*/) {
  *into = {};
  if (std::strcmp(path, "/") == 0) {
    into->st_mode = S_IFDIR | 0755;
    into->st_nlink = 2;
    return 0;
  }
  if (std::strcmp(path, "/model.safetensors") != 0) return -ENOENT;
  into->st_mode = S_IFREG | 0444;
  into->st_nlink = 1;
  into->st_size = static_cast<off_t>(contents().size());
  return 0;
}

int read_bytes(const char* /*path*/, char* into, std::size_t bytes, off_t offset, fuse_file_info* /*file*/) {
  const auto begin = static_cast<std::size_t>(offset);
  // The whole request fails: a short read would mean the end of the file.
  if (begin + bytes > good_bytes) return -EIO;
  std::memcpy(into, contents().data() + begin, bytes);
  return static_cast<int>(bytes);
}

class FailingDisk : public ::testing::Test {
 protected:
  void SetUp() override {
    contents();
    child_ = fork();
    if (child_ == 0) {
      // Discards the output of FUSE. If the mount fails, the test is skipped.
      static_cast<void>(std::freopen("/dev/null", "w", stderr));
      fuse_operations operations{};
      operations.getattr = attributes;
      operations.read = read_bytes;
      std::string folder = folder_.path().string();
      std::array<char*, 4> arguments{const_cast<char*>("test"), const_cast<char*>("-f"),
                                     const_cast<char*>("-s"), folder.data()};
      _exit(fuse_main(static_cast<int>(arguments.size()), arguments.data(), &operations, nullptr));
    }
    while (!std::filesystem::exists(path_)) {
      if (waitpid(child_, nullptr, WNOHANG) != 0) {
        child_ = -1;
        GTEST_SKIP() << "no file system can be mounted here";
      }
      std::this_thread::yield();
    }
  }
  void TearDown() override {
    if (child_ < 0) return;
    if (umount2(folder_.path().c_str(), MNT_DETACH) != 0) kill(child_, SIGTERM);
    waitpid(child_, nullptr, 0);
  }

  void expect_reported(const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::read_failed) << to_string(error);
    EXPECT_EQ(error.path(), path_.string());
    EXPECT_EQ(error.tensor(), "bad");
    ASSERT_TRUE(error.offset());
    EXPECT_GE(*error.offset(), tensor_bytes);
    EXPECT_FALSE(error.hint().empty());
  }

  testing::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "model.safetensors";
  pid_t child_ = -1;
};

TEST_F(FailingDisk, is_reported_by_every_access_to_the_tensor) {
  const auto model = Model::open(path_).value();
  const auto good = model.copy<U8, Rank<1>>("good");
  ASSERT_TRUE(good) << to_string(good.error());
  const auto bad = model.copy<U8, Rank<1>>("bad");
  ASSERT_FALSE(bad);
  expect_reported(bad.error());
  const auto tensor = model.tensor<U8, Rank<1>>("bad").value();
  const auto last =
      guarded(tensor.storage().bytes(), [&] { return tensor(static_cast<std::int64_t>(tensor_bytes) - 1); });
  ASSERT_FALSE(last);
  expect_reported(last.error());
  EXPECT_EQ(last.error().rule(), "mapped_pages_can_be_read");
  const auto element = tensor.at(static_cast<std::int64_t>(tensor_bytes) - 1);
  ASSERT_FALSE(element);
  expect_reported(element.error());
}

TEST_F(FailingDisk, is_reported_by_prefetch) {
  const auto model = Model::open(path_).value();
  EXPECT_TRUE(ht::prefetch(model, "good"));
  const auto fetched = ht::prefetch(model);
  ASSERT_FALSE(fetched);
  expect_reported(fetched.error());
}

TEST_F(FailingDisk, is_reported_by_a_staged_load) {
  const io::Sources files{io::FileSource::open(path_).value()};
  std::uint64_t bytes = 0;
  const auto take = [&](const io::Chunk& chunk, Bytes) -> Result<void> {
    bytes = io::end_of(chunk.range);
    return {};
  };
  for (const bool direct : {true, false}) {
    const std::vector<io::FileRange> all{{0, 0, contents().size()}};
    const auto loaded = io::load_staged(files, all, take, {.chunk_bytes = 65536, .direct = direct});
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code(), ErrorCode::read_failed);
    EXPECT_EQ(loaded.error().cause(), std::errc::io_error);
    EXPECT_EQ(loaded.error().path(), path_.string());
    EXPECT_LE(bytes, good_bytes);
    EXPECT_GE(loaded.error().offset().value_or(0), bytes);
  }
}

}  // namespace
}  // namespace ht::failing_disk_test
