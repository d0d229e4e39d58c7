#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <vector>

#include "io/port/port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::io::port_test {
namespace {

using ht::testing::TemporaryFolder;
using ht::testing::write_file;

TEST(PosixPort, opens_files_with_close_on_exec) {
  const TemporaryFolder folder;
  write_file(folder / "f", "x");
  auto& port = system_port();
  for (const auto& handle : {port.open(folder / "f"), port.create(folder / "g", std::nullopt)}) {
    ASSERT_TRUE(handle);
    EXPECT_NE(fcntl(handle->value, F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_TRUE(port.close(*handle));
  }
}

TEST(PosixPort, distinguishes_file_kinds) {
  const TemporaryFolder folder;
  write_file(folder / "f", "12345");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  auto& port = system_port();
  EXPECT_EQ(port.stat(folder / "f")->kind, FileKind::regular);
  EXPECT_EQ(port.stat(folder / "f")->bytes, 5U);
  EXPECT_EQ(port.stat(folder.path())->kind, FileKind::folder);
  EXPECT_EQ(port.stat(folder / "pipe")->kind, FileKind::pipe);
  EXPECT_EQ(port.stat("/dev/zero")->kind, FileKind::device);
  EXPECT_EQ(port.stat(folder / "none").error(), std::errc::no_such_file_or_directory);
}

TEST(PosixPort, returns_no_bytes_after_the_end) {
  const TemporaryFolder folder;
  write_file(folder / "f", "12345");
  auto& port = system_port();
  const auto handle = port.open(folder / "f");
  ASSERT_TRUE(handle);
  std::array<std::byte, 8> buffer{};
  EXPECT_EQ(port.read_at(*handle, 2, buffer), 3U);
  EXPECT_EQ(buffer[0], std::byte{'3'});
  EXPECT_EQ(port.read_at(*handle, 5, buffer), 0U);
  EXPECT_EQ(port.read_at(*handle, UINT64_MAX, buffer).error(), std::errc::invalid_argument);
  EXPECT_TRUE(port.close(*handle));
}

// Makes cachestat fail with ENOSYS, as on kernels before 6.5.
bool hide_cachestat() {
  constexpr unsigned cachestat_number = 451;
  std::array<sock_filter, 4> rules{{{BPF_LD | BPF_W | BPF_ABS, 0, 0, 0},
                                    {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, cachestat_number},
                                    {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | ENOSYS},
                                    {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}}};
  const sock_fprog filter{static_cast<unsigned short>(rules.size()), rules.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Afterwards root has no more rights than other users.
bool drop_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> none{};
  return syscall(SYS_capset, &header, none.data()) == 0;
}

// The result of `cached` in a child process without capabilities, for a file that is not in the page cache.
enum class Answer { nothing_cached, not_permitted, other, not_set_up };
Answer query_page_cache_as_user(const std::filesystem::path& path, bool with_cachestat) {
  const pid_t child = fork();
  if (child == 0) {
    const auto answer = [&] {
      if ((!with_cachestat && !hide_cachestat()) || !drop_capabilities()) return Answer::not_set_up;
      auto& port = system_port();
      const auto file = port.open(path);
      if (!file) return Answer::other;
      Source::CacheQuery query{.offset = 0, .bytes = 1 << 16};
      const auto cached = port.cached(*file, std::span(&query, 1));
      if (!cached)
        return cached.error() == std::errc::operation_not_permitted ? Answer::not_permitted : Answer::other;
      return query.cached_bytes == 0 ? Answer::nothing_cached : Answer::other;
    };
    _exit(static_cast<int>(answer()));
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? static_cast<Answer>(WEXITSTATUS(status)) : Answer::other;
}

TEST(PosixPort, reports_the_page_cache_only_to_the_owner) {
  const TemporaryFolder folder;
  const auto path = folder / "f";
  write_file(path, std::string(1 << 16, 'x'));
  ASSERT_EQ(chmod(path.c_str(), 0444), 0);
  auto& port = system_port();
  const auto file = port.open(path).value();
  const bool in_memory = port.file_system(file).value() == FileSystem::memory;
  ASSERT_TRUE(port.sync(file));
  ASSERT_TRUE(port.drop_cached(file, 0, 1 << 16));
  ASSERT_TRUE(port.close(file));
  if (in_memory) GTEST_SKIP() << "the folder for temporary files is a memory file system";
  constexpr uid_t nobody = 65534;
  if (geteuid() != 0 || query_page_cache_as_user(path, false) == Answer::not_set_up)
    GTEST_SKIP() << "needs root and seccomp filters";
  for (const bool with_cachestat : {true, false})
    EXPECT_EQ(query_page_cache_as_user(path, with_cachestat), Answer::nothing_cached);
  ASSERT_EQ(chown(path.c_str(), nobody, nobody), 0);
  EXPECT_EQ(query_page_cache_as_user(path, false), Answer::not_permitted);
  // Before Linux 6.16 cachestat reports to every user; that result is correct too.
  const auto answer = query_page_cache_as_user(path, true);
  EXPECT_TRUE(answer == Answer::not_permitted || answer == Answer::nothing_cached)
      << static_cast<int>(answer);
}

TEST(PosixPort, allocates_the_pages_of_private_memory) {
  auto& port = system_port();
  const auto bytes = static_cast<std::size_t>(port.page_bytes()) * 16;
  const std::unique_ptr<std::byte, decltype(&std::free)> memory(
      static_cast<std::byte*>(std::aligned_alloc(static_cast<std::size_t>(port.page_bytes()), bytes)),
      &std::free);
  std::vector<unsigned char> resident(16);
  const auto allocated = port.advise({memory.get(), bytes}, Strategy::Advice::allocate);
  if (!allocated) GTEST_SKIP() << "needs Linux 5.14: " << allocated.error().message();
  ASSERT_EQ(mincore(memory.get(), bytes, resident.data()), 0);
  for (const auto page : resident) EXPECT_EQ(page & 1U, 1U);
}

TEST(PosixPort, creates_only_missing_files) {
  const TemporaryFolder folder;
  write_file(folder / "f", "old");
  auto& port = system_port();
  EXPECT_EQ(port.create(folder / "f", std::nullopt).error(), std::errc::file_exists);
  const auto handle = port.create(
      folder / "g", io::Source::Rights{.permissions = 0640, .owner = getuid(), .group = getgid()});
  ASSERT_TRUE(handle);
  EXPECT_EQ(port.stat(*handle)->rights.permissions, 0640U);
  EXPECT_TRUE(port.close(*handle));
}

TEST(PosixPort, renames_over_another_file_only_if_requested) {
  const TemporaryFolder folder;
  write_file(folder / "new", "new");
  write_file(folder / "old", "old");
  auto& port = system_port();
  EXPECT_EQ(port.rename(folder / "new", folder / "old", IfExists::fail).error(), std::errc::file_exists);
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"new", "old"}));
  EXPECT_TRUE(port.rename(folder / "new", folder / "old", IfExists::replace));
  EXPECT_EQ(folder.names(), std::vector<std::string>{"old"});
  EXPECT_EQ(port.stat(folder / "old")->bytes, 3U);
}

TEST(PosixPort, lists_the_names_in_a_folder) {
  const TemporaryFolder folder;
  auto& port = system_port();
  EXPECT_EQ(port.list(folder.path()), std::vector<std::string>{});
  write_file(folder / "f", "x");
  write_file(folder / ".hidden", "x");
  std::filesystem::create_directory(folder / "inner");
  write_file(folder / "inner/g", "x");
  std::filesystem::create_symlink("gone", folder / "link");
  auto names = port.list(folder.path());
  ASSERT_TRUE(names);
  std::ranges::sort(*names);
  EXPECT_EQ(*names, (std::vector<std::string>{".hidden", "f", "inner", "link"}));
}

TEST(PosixPort, refuses_to_list_a_path_that_is_not_a_folder) {
  const TemporaryFolder folder;
  write_file(folder / "f", "x");
  auto& port = system_port();
  EXPECT_EQ(port.list(folder / "f").error(), std::errc::not_a_directory);
  EXPECT_EQ(port.list(folder / "none").error(), std::errc::no_such_file_or_directory);
}

// Runs the body in a child process, because it changes limits or descriptors. Exit status 0 is success.
template <class Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST(PosixPort, size_limit_is_an_error_not_a_signal) {
  const TemporaryFolder folder;
  const int status = in_child([&] {
    const rlimit limit{4096, 4096};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
    auto& port = system_port();
    const auto handle = port.create(folder / "f", std::nullopt);
    const std::vector<std::byte> bytes(8192);
    return handle && port.write_at(*handle, 0, bytes).error() == std::errc::file_too_large &&
           port.allocate(*handle, 8192).error() == std::errc::file_too_large &&
           port.resize(*handle, 8192).error() == std::errc::file_too_large &&
           port.write_at(*handle, 0, Bytes(bytes).first(4096)) == 4096U;
  });
  EXPECT_EQ(status, 0);
}

TEST(PosixPort, syncs_a_folder) {
  const TemporaryFolder folder;
  const auto handle = system_port().open(folder.path());
  ASSERT_TRUE(handle);
  EXPECT_TRUE(system_port().sync(*handle));
  EXPECT_TRUE(system_port().close(*handle));
}

TEST(PosixPort, descriptors_of_standard_streams_are_not_used) {
  const TemporaryFolder folder;
  const int status = in_child([&] {
    close(STDERR_FILENO);
    close(STDIN_FILENO);
    const auto created = system_port().create(folder / "f", std::nullopt);
    const auto opened = system_port().open(folder / "f");
    return created && opened && created->value > 2 && opened->value > 2 &&
           (fcntl(created->value, F_GETFD) & FD_CLOEXEC) != 0;
  });
  EXPECT_EQ(status, 0);
}

TEST(PosixPort, nameless_files_appear_when_they_are_named) {
  const TemporaryFolder folder;
  auto& port = system_port();
  const auto file = port.create_nameless(
      folder.path(), io::Source::Rights{.permissions = 0640, .owner = getuid(), .group = getgid()});
  if (!file) {
    EXPECT_EQ(file.error(), std::errc::operation_not_supported);
    GTEST_SKIP() << "the folder for temporary files does not support nameless files";
  }
  EXPECT_EQ(port.stat(*file)->rights.permissions, 0640U);
  EXPECT_TRUE(folder.names().empty());
  EXPECT_TRUE(port.name(*file, folder / "f"));
  EXPECT_EQ(port.name(*file, folder / "f").error(), std::errc::file_exists);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"f"});
  EXPECT_TRUE(port.close(*file));
}

TEST(PosixPort, a_file_has_at_most_one_lock) {
  const TemporaryFolder folder;
  write_file(folder / "f", "x");
  auto& port = system_port();
  const auto first = port.open(folder / "f").value();
  const auto second = port.open(folder / "f").value();
  EXPECT_TRUE(port.claim(first));
  EXPECT_EQ(port.claim(second).error(), std::errc::resource_unavailable_try_again);
  EXPECT_TRUE(port.close(first));
  EXPECT_TRUE(port.claim(second));
  EXPECT_TRUE(port.close(second));
}

TEST(PosixPort, copies_from_file_to_file) {
  const TemporaryFolder folder;
  write_file(folder / "f", "0123456789");
  auto& port = system_port();
  const auto from = port.open(folder / "f").value();
  const auto to = port.create(folder / "g", std::nullopt).value();
  EXPECT_EQ(port.copy_range({.from = from, .from_offset = 2, .to = to, .to_offset = 1, .bytes = 3}), 3U);
  EXPECT_EQ(port.copy_range({.from = from, .from_offset = 10, .to = to, .to_offset = 4, .bytes = 3}), 0U);
  std::array<std::byte, 8> buffer{};
  EXPECT_EQ(port.read_at(to, 0, buffer), 4U);
  EXPECT_EQ(buffer[1], std::byte{'2'});
  EXPECT_EQ(buffer[3], std::byte{'4'});
  EXPECT_FALSE(port.copy_range({.from = from, .to = to, .to_offset = UINT64_MAX, .bytes = 2}));
  EXPECT_EQ(port.clone_range({.from = from, .to = to, .to_offset = UINT64_MAX, .bytes = 2}).error(),
            std::errc::file_too_large);
  EXPECT_FALSE(port.clone_range({.from = from, .to = to, .to_offset = 1, .bytes = 3}))
      << "offset and size are not whole blocks";
  EXPECT_TRUE(port.close(from));
  EXPECT_TRUE(port.close(to));
}

TEST(PosixPort, distinguishes_holes_from_data) {
  const TemporaryFolder folder;
  auto& port = system_port();
  const auto file = port.create(folder / "f", std::nullopt).value();
  constexpr std::uint64_t at = std::uint64_t{1} << 20;
  ASSERT_TRUE(port.resize(file, 2 * at));
  ASSERT_EQ(port.write_at(file, at, bytes_of("x")), 1U);
  const auto data = port.next_data(file, 0).value();
  EXPECT_LE(data, at);
  const auto hole = port.next_hole(file, at).value();
  EXPECT_GT(hole, at);
  EXPECT_LE(hole, 2 * at);
  EXPECT_EQ(port.next_data(file, 2 * at).error(), std::errc::no_such_device_or_address);
  EXPECT_TRUE(port.close(file));
}

}  // namespace
}  // namespace ht::io::port_test
