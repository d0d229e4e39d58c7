// Full disks, limits on file sizes, and file systems that share blocks between files.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>
#include <htensor/convert/convert.hpp>
#include <htensor/integrity/seal.hpp>
#include <iostream>

#include "format/safetensors/test_file.hpp"
#include "testing/child_process.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::convert_disk_test {
namespace {

using testing::status_in_child;
using testing::TemporaryFolder;
using testing::write_file;
using Path = std::filesystem::path;

constexpr int skipped_status = 77;
constexpr std::size_t megabyte = std::size_t{1} << 20;

// Returns the condition. Prints `expectation` if it is false: the tests run in child processes.
bool check(bool condition, std::string_view expectation) {
  if (!condition) std::cerr << "false: " << expectation << '\n';
  return condition;
}

std::vector<std::byte> model_of(std::size_t data_bytes) {
  const auto count = std::to_string(data_bytes);
  return testing::safetensors_file(
      R"({"t":{"dtype":"U8","shape":[)" + count + R"(],"data_offsets":[0,)" + count + "]}}", data_bytes);
}

std::vector<std::string> names_in(const Path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  return names;
}

class Disks : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  Path source_ = folder_ / "source.safetensors";
};

// Whether the conversion fails with this code and a hint.
bool is_refused(const Path& source, const Path& target, ErrorCode code, const ApplyOptions& options) {
  const auto model = Model::open(source).value();
  const auto done = convert(model, target, {}, options);
  const bool refused = !done && done.error().code() == code && !done.error().hint().empty();
  if (!refused) std::cerr << (done ? "the conversion succeeded" : to_string(done.error())) << '\n';
  return refused;
}

TEST_F(Disks, full_disk_is_reported_and_cleaned_up) {
  write_file(source_, model_of(6 * megabyte));
  const Path disk = folder_ / "disk";
  std::filesystem::create_directory(disk);
  const int status = status_in_child([&] {
    if (!testing::mount_small_disk(disk, "4m")) return skipped_status;
    write_file(disk / "old.irpa", "old");
    bool good = true;
    for (const bool seal : {false, true}) {
      for (const auto* const name : {"new.irpa", "new.safetensors", "new.ht", "old.irpa"}) {
        const ApplyOptions options{.if_exists = IfExists::replace, .lossy = true, .seal = seal};
        good = is_refused(source_, disk / name, ErrorCode::no_space, options) && good;
        good = check(names_in(disk) == std::vector<std::string>{"old.irpa"}, "no temporary files remain") &&
               good;
      }
    }
    // A target with holes is not allocated in advance.
    std::filesystem::resize_file(source_, model_of(6 * megabyte).size() - 5 * megabyte);
    std::filesystem::resize_file(source_, model_of(6 * megabyte).size());
    const auto sparse = convert(Model::open(source_).value(), disk / "sparse.irpa");
    return check(good, "all conversions failed") && check(sparse.has_value(), "holes use no space") ? 0 : 1;
  });
  if (status == skipped_status) GTEST_SKIP() << "no permission to mount a small disk";
  EXPECT_EQ(status, 0);
}

TEST_F(Disks, file_size_limit_is_reported) {
  write_file(source_, model_of(2 * megabyte));
  const int status = status_in_child([&] {
    const rlimit limit{.rlim_cur = megabyte, .rlim_max = megabyte};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return skipped_status;
    bool good = true;
    for (const auto* const name : {"new.irpa", "new.ht", "new.gguf", "new.npy"}) {
      good =
          is_refused(source_, folder_ / name, ErrorCode::write_failed, {.lossy = true, .seal = true}) && good;
    }
    return good && check(folder_.names() == std::vector<std::string>{"source.safetensors"},
                         "no temporary files remain")
               ? 0
               : 1;
  });
  if (status == skipped_status) GTEST_SKIP() << "the system does not limit file sizes";
  EXPECT_EQ(status, 0);
}

std::uint64_t free_bytes(const Path& disk) {
  struct statvfs now{};
  const int folder = open(disk.c_str(), O_RDONLY | O_CLOEXEC);
  // statvfs does not count data that is not on the disk yet.
  const bool known = syncfs(folder) == 0 && fstatvfs(folder, &now) == 0;
  close(folder);
  if (!known) return 0;
  return static_cast<std::uint64_t>(now.f_bfree) * now.f_frsize;
}

// Whether a conversion on this file system shares blocks with its source until the target is written to.
bool shares_blocks(const Path& disk) {
  constexpr std::size_t tensor_bytes = 20 * megabyte;
  const Path source = disk / "source.safetensors";
  write_file(source, model_of(tensor_bytes));
  const auto model = Model::open(source).value();
  const auto digests = ht::hash(model, {.per_tensor = true}).value().tensors;
  bool good = true;
  for (const auto* const name : {"t.irpa", "t.safetensors"}) {
    const std::uint64_t before = free_bytes(disk);
    const auto done = convert(model, disk / name, {.share_blocks = true});
    if (!check(done.has_value(), name)) return false;
    const std::uint64_t used = before - std::min(before, free_bytes(disk));
    const auto target = Model::open(disk / name).value();
    good = check(done->copied_by.reflink > tensor_bytes - megabyte, "blocks are shared") && good;
    good = check(used < 4 * megabyte, "the space is used once") && good;
    good =
        check(ht::hash(target, {.per_tensor = true}).value().tensors == digests, "the bytes are the same") &&
        good;
    // Writing to the target does not change the source.
    const int file = open((disk / name).c_str(), O_RDWR | O_CLOEXEC);
    const auto at = static_cast<off_t>(target.catalog()[0].offset + tensor_bytes / 2);
    good = check(pwrite(file, "changed", 7, at) == 7 && close(file) == 0, "the copy is writable") && good;
    good =
        check(ht::hash(model, {.per_tensor = true}).value().tensors == digests, "the source is unchanged") &&
        good;
  }
  return good;
}

// A file system in an image file. Its loop device is released with the mount.
class SharedBlocks : public Disks {
 protected:
  void expect_shared_blocks(const std::string& make, const std::string& type) {
    const Path disk = folder_ / "disk";
    std::filesystem::create_directory(disk);
    const auto image = (folder_ / "image").string();
    write_file(image, "");
    std::filesystem::resize_file(image, 320 * megabyte);
    if (std::system((make + " '" + image + "' >/dev/null 2>&1").c_str()) != 0) {
      GTEST_SKIP() << "no " << make << " here";
    }
    const int status = status_in_child([&] {
      const auto command =
          "mount -t " + type + " -o loop '" + image + "' '" + disk.string() + "' >/dev/null 2>&1";
      if (!testing::hide_mounts() || std::system(command.c_str()) != 0) return skipped_status;
      const bool good = shares_blocks(disk);
      // The device is busy until this process ends and unmaps its files, so the mount is only detached here.
      umount2(disk.c_str(), MNT_DETACH);
      return good ? 0 : 1;
    });
    if (status == skipped_status) GTEST_SKIP() << "no " << type << " can be mounted here";
    EXPECT_EQ(status, 0);
  }
};

TEST_F(SharedBlocks, are_shared_with_the_source_on_btrfs) { expect_shared_blocks("mkfs.btrfs -q", "btrfs"); }

TEST_F(SharedBlocks, are_shared_with_the_source_on_xfs) {
  expect_shared_blocks("mkfs.xfs -q -m reflink=1", "xfs");
}

}  // namespace
}  // namespace ht::convert_disk_test
