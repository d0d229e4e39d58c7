#include "io/atomic_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>

#include "io/port/port.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::atomic_file_test {
namespace {

using io::AtomicFile;
using testing::Call;
using testing::FaultyPort;
using testing::read_file;
using testing::TemporaryFolder;
using testing::write_file;

class Replacing : public ::testing::Test {
 protected:
  // Performs each step of a writer once.
  Result<void> replace(IfExists if_exists = IfExists::replace) {
    auto file = HT_TRY(AtomicFile::create(target_, if_exists, port_));
    HT_TRY(file.resize(6));
    HT_TRY(file.allocate(6));
    HT_TRY(file.write(0, bytes_of("newest")));
    return std::move(file).commit();
  }

  void without_nameless_files() {
    port_.fail_from(Call::create_nameless, 0, std::errc::operation_not_supported);
  }

  std::string target_text() {
    const auto bytes = read_file(target_);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  // Makes the call fail, and expects an unchanged old file and no other file in the folder.
  void expect_untouched(Call call, std::errc cause, ErrorCode code, std::string_view rule) {
    write_file(target_, "old");
    port_.fail_at(call, port_.count(call), cause);
    const auto done = replace();
    ASSERT_FALSE(done) << rule;
    EXPECT_EQ(done.error().code(), code) << to_string(done.error());
    EXPECT_EQ(done.error().rule(), rule);
    EXPECT_EQ(done.error().path(), target_.string());
    EXPECT_EQ(target_text(), "old");
    EXPECT_EQ(folder_.names(), std::vector<std::string>{"target"});
    EXPECT_EQ(port_.open_files(), 0);
  }

  TemporaryFolder folder_;
  std::filesystem::path target_ = folder_ / "target";
  FaultyPort port_;
};

TEST_F(Replacing, renames_the_new_file_into_place) {
  ASSERT_TRUE(replace());
  EXPECT_EQ(target_text(), "newest");
  ASSERT_TRUE(replace());
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"target"});
  EXPECT_EQ(port_.open_files(), 0);
}

TEST_F(Replacing, syncs_the_file_before_and_the_folder_after_the_rename) {
  std::vector<Call> order;
  port_.before_each([&](Call call, int) { order.push_back(call); });
  ASSERT_TRUE(replace());
  const std::vector<Call> end{Call::write_at, Call::sync,  Call::name, Call::rename,
                              Call::sync,     Call::close, Call::close};
  ASSERT_GE(order.size(), end.size());
  EXPECT_TRUE(std::equal(end.rbegin(), end.rend(), order.rbegin()));
}

TEST_F(Replacing, keeps_the_permissions_of_the_replaced_file) {
  write_file(target_, "old");
  ASSERT_EQ(chmod(target_.c_str(), 0604), 0);
  ASSERT_TRUE(replace());
  EXPECT_EQ(port_.stat(target_)->rights.permissions, 0604U);
}

TEST_F(Replacing, keeps_the_owner_if_permitted) {
  write_file(target_, "old");
  constexpr unsigned other_user = 12345;
  if (chown(target_.c_str(), other_user, other_user) != 0) GTEST_SKIP() << "needs root to change the owner";
  ASSERT_EQ(chmod(target_.c_str(), 0600), 0);
  ASSERT_TRUE(replace());
  EXPECT_EQ(port_.stat(target_)->rights,
            (io::Source::Rights{.permissions = 0600, .owner = other_user, .group = other_user}));
}

TEST_F(Replacing, works_in_the_current_folder) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  target_ = "target";
  const auto done = replace();
  std::filesystem::current_path(before);
  EXPECT_TRUE(done);
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"target"});
}

TEST_F(Replacing, removes_the_temporary_file_when_abandoned) {
  {
    auto file = AtomicFile::create(target_, IfExists::replace, port_);
    ASSERT_TRUE(file);
    EXPECT_TRUE(folder_.names().empty()) << "the file has no name before the rename";
  }
  EXPECT_TRUE(folder_.names().empty());
  without_nameless_files();
  {
    auto file = AtomicFile::create(target_, IfExists::replace, port_);
    ASSERT_TRUE(file);
    EXPECT_EQ(folder_.names().size(), 1U);
  }
  EXPECT_TRUE(folder_.names().empty());
}

TEST_F(Replacing, ends_its_claim_after_removing_the_temporary_file) {
  without_nameless_files();
  std::vector<Call> calls;
  {
    auto file = AtomicFile::create(target_, IfExists::replace, port_);
    ASSERT_TRUE(file);
    port_.before_each([&](Call call, int) { calls.push_back(call); });
  }
  ASSERT_FALSE(calls.empty());
  EXPECT_EQ(calls.front(), Call::unlink);
}

TEST_F(Replacing, works_without_nameless_files) {
  without_nameless_files();
  ASSERT_TRUE(replace());
  EXPECT_EQ(target_text(), "newest");
  EXPECT_EQ(replace(IfExists::fail).error().rule(), "target_is_free");
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"target"});
  EXPECT_EQ(port_.open_files(), 0);
}

TEST_F(Replacing, removes_leftovers_of_a_killed_process) {
  write_file(folder_ / ".htensor-0123-0.part", "half of a file");
  write_file(folder_ / ".htensor-0123-1.part", "");
  write_file(folder_ / ".htensor-0123-0.other", "a file of another program");
  ASSERT_TRUE(replace());
  EXPECT_EQ(folder_.names(), (std::vector<std::string>{".htensor-0123-0.other", "target"}));
}

TEST_F(Replacing, keeps_files_of_live_writers) {
  without_nameless_files();
  auto theirs = AtomicFile::create(folder_ / "theirs", IfExists::replace, port_).value();
  ASSERT_TRUE(replace()) << "an empty file of a live writer is kept";
  ASSERT_TRUE(theirs.write(0, bytes_of("theirs")));
  ASSERT_TRUE(replace()) << "a file of a live writer is kept";
  ASSERT_TRUE(std::move(theirs).commit());
  EXPECT_EQ(folder_.names(), (std::vector<std::string>{"target", "theirs"}));
}

// Another writer takes the file for a leftover and claims it before its creator does. The other writer has
// then removed the file, or still holds the claim.
TEST_F(Replacing, retries_if_another_writer_claims_or_removes_its_file) {
  without_nameless_files();
  for (const bool other_holds_the_claim : {false, true}) {
    std::optional<io::FileHandle> other;
    bool once = false;
    port_.before_each([&](Call call, int) {
      if (call != Call::claim || std::exchange(once, true)) return;
      const auto name = folder_.names().front();
      ASSERT_TRUE(name.starts_with(".htensor-"));
      other = io::system_port().open(folder_ / name).value();
      ASSERT_TRUE(io::system_port().claim(*other));
      if (!other_holds_the_claim) {
        ASSERT_TRUE(io::system_port().unlink(folder_ / name));
        ASSERT_TRUE(io::system_port().close(*other));
      }
    });
    ASSERT_TRUE(replace());
    EXPECT_TRUE(once);
    EXPECT_EQ(port_.open_files(), 0);
    EXPECT_EQ(target_text(), "newest");
    if (other_holds_the_claim) static_cast<void>(io::system_port().close(*other));
    port_.before_each({});
    ASSERT_TRUE(replace());
    EXPECT_EQ(folder_.names(), std::vector<std::string>{"target"});
  }
}

// Writer A opens the lock file of a killed writer to remove it as a leftover. Before A claims the file,
// writer B replaces it with its own lock file. A keeps the file of B.
TEST_F(Replacing, keeps_a_lock_file_that_replaces_a_leftover) {
  const auto lock = folder_ / ".htensor-set.part";
  const auto create_lock = [&] {
    return AtomicFile::create_locked(lock, folder_ / "set", io::system_port()).value();
  };
  write_file(lock, "");
  std::optional<AtomicFile> theirs;
  port_.before_each([&](Call call, int) {
    if (call == Call::claim && !theirs) theirs.emplace(create_lock().value());
  });
  ASSERT_TRUE(replace());
  ASSERT_TRUE(theirs);
  EXPECT_EQ(folder_.names(), (std::vector<std::string>{".htensor-set.part", "target"}));
  EXPECT_FALSE(create_lock()) << "a second writer holds the lock";
}

TEST_F(Replacing, reports_a_lock_file_that_cannot_be_removed) {
  const auto lock = folder_ / ".htensor-set.part";
  const auto expect_refusal = [&](std::string_view cause) {
    const auto refused = AtomicFile::create_locked(lock, folder_ / "set", port_);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().rule(), "lock_can_be_claimed");
    EXPECT_NE(refused.error().message().find(cause), std::string_view::npos) << refused.error().message();
  };
  std::filesystem::create_directory(lock);
  expect_refusal("Is a directory");
  std::filesystem::remove(lock);
  write_file(lock, "");
  port_.fail_at(Call::unlink, port_.count(Call::unlink), std::errc::operation_not_permitted);
  expect_refusal("Operation not permitted");
  EXPECT_EQ(port_.open_files(), 0);
}

TEST_F(Replacing, continues_if_leftovers_cannot_be_removed) {
  for (const auto call : {Call::list, Call::claim, Call::unlink}) {
    write_file(folder_ / ".htensor-0123-0.part", "half of a file");
    port_.fail_at(call, port_.count(call), std::errc::permission_denied);
    EXPECT_TRUE(replace());
    EXPECT_EQ(port_.open_files(), 0);
  }
}

TEST_F(Replacing, file_can_be_named) {
  expect_untouched(Call::name, std::errc::permission_denied, ErrorCode::write_failed, "file_can_be_named");
}

TEST_F(Replacing, target_is_free) {
  write_file(target_, "old");
  const auto done = replace(IfExists::fail);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), ErrorCode::already_exists);
  EXPECT_EQ(done.error().rule(), "target_is_free");
  EXPECT_EQ(target_text(), "old");
}

TEST_F(Replacing, does_not_replace_a_file_created_meanwhile) {
  port_.before_each([&](Call call, int) {
    if (call == Call::rename || call == Call::name) write_file(target_, "theirs");
  });
  EXPECT_EQ(replace(IfExists::fail).error().code(), ErrorCode::already_exists);
  EXPECT_EQ(target_text(), "theirs");
  std::filesystem::remove(target_);
  without_nameless_files();
  EXPECT_EQ(replace(IfExists::fail).error().code(), ErrorCode::already_exists);
  EXPECT_EQ(target_text(), "theirs");
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"target"});
}

TEST_F(Replacing, target_can_be_examined) {
  expect_untouched(Call::stat_path, std::errc::permission_denied, ErrorCode::write_failed,
                   "target_can_be_examined");
}

TEST_F(Replacing, target_is_a_regular_file) {
  std::filesystem::create_directory(target_);
  const auto done = replace();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), ErrorCode::not_regular_file);
  EXPECT_EQ(done.error().rule(), "target_is_a_regular_file");
  EXPECT_EQ(AtomicFile::create("/dev/null", IfExists::replace, port_).error().code(),
            ErrorCode::not_regular_file);
}

TEST_F(Replacing, file_can_be_created) {
  expect_untouched(Call::create_nameless, std::errc::permission_denied, ErrorCode::write_failed,
                   "file_can_be_created");
  without_nameless_files();
  expect_untouched(Call::create, std::errc::permission_denied, ErrorCode::write_failed,
                   "file_can_be_created");
  expect_untouched(Call::create, std::errc::no_space_on_device, ErrorCode::no_space, "file_can_be_created");
}

TEST_F(Replacing, folder_can_be_opened) {
  const auto refused = AtomicFile::create(folder_ / "none" / "target", IfExists::replace, port_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::write_failed);
  EXPECT_EQ(refused.error().rule(), "folder_can_be_opened");
  expect_untouched(Call::open, std::errc::permission_denied, ErrorCode::write_failed, "folder_can_be_opened");
}

TEST_F(Replacing, folder_exists) {
  EXPECT_TRUE(AtomicFile::check_target(folder_ / "new", IfExists::fail, port_));
  const auto refused = AtomicFile::check_target(folder_ / "none" / "target", IfExists::replace, port_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::write_failed);
  EXPECT_EQ(refused.error().rule(), "folder_exists");
  EXPECT_EQ(refused.error().path(), (folder_ / "none" / "target").string());
}

TEST_F(Replacing, continues_if_a_folder_cannot_be_synced) {
  port_.fail_at(Call::sync, 1, std::errc::invalid_argument);
  EXPECT_TRUE(replace());
}

TEST_F(Replacing, retries_with_another_name_if_the_name_exists) {
  without_nameless_files();
  port_.fail_at(Call::create, 0, std::errc::file_exists);
  port_.fail_at(Call::create, 1, std::errc::interrupted);
  EXPECT_TRUE(replace());
  EXPECT_EQ(target_text(), "newest");
}

TEST_F(Replacing, disk_has_space) {
  expect_untouched(Call::allocate, std::errc::no_space_on_device, ErrorCode::no_space, "disk_has_space");
}

TEST_F(Replacing, continues_if_space_cannot_be_reserved) {
  port_.fail_at(Call::allocate, 0, std::errc::operation_not_supported);
  EXPECT_TRUE(replace());
  EXPECT_EQ(target_text(), "newest");
}

TEST_F(Replacing, file_size_can_be_set) {
  expect_untouched(Call::resize, std::errc::file_too_large, ErrorCode::write_failed, "file_size_can_be_set");
}

TEST_F(Replacing, bytes_can_be_written) {
  port_.set_max_bytes(4);
  port_.fail_at(Call::write_at, 1, std::errc::no_space_on_device);
  write_file(target_, "old");
  const auto done = replace();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), ErrorCode::no_space);
  EXPECT_EQ(done.error().rule(), "bytes_can_be_written");
  EXPECT_EQ(done.error().offset(), 4U);
  EXPECT_EQ(target_text(), "old");
  expect_untouched(Call::write_at, std::errc::io_error, ErrorCode::write_failed, "bytes_can_be_written");
}

TEST_F(Replacing, continues_after_short_and_interrupted_calls) {
  port_.set_max_bytes(1);
  port_.fail_at(Call::write_at, 2, std::errc::interrupted);
  port_.fail_at(Call::allocate, 0, std::errc::interrupted);
  port_.fail_at(Call::resize, 0, std::errc::interrupted);
  port_.fail_at(Call::sync, 0, std::errc::interrupted);
  EXPECT_TRUE(replace());
  EXPECT_EQ(target_text(), "newest");
}

TEST_F(Replacing, write_makes_progress) {
  // A write of 0 bytes without an error must not cause an endless loop.
  port_.set_max_bytes(0);
  write_file(target_, "old");
  const auto done = replace();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().rule(), "write_makes_progress");
  EXPECT_EQ(target_text(), "old");
}

TEST_F(Replacing, file_can_be_synced) {
  expect_untouched(Call::sync, std::errc::io_error, ErrorCode::write_failed, "file_can_be_synced");
}

TEST_F(Replacing, file_can_be_closed) {
  // At this point the bytes are on the disk and the file has been renamed into place.
  port_.fail_at(Call::close, 0, std::errc::io_error);
  const auto done = replace();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().rule(), "file_can_be_closed");
  EXPECT_EQ(target_text(), "newest");
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"target"});
  EXPECT_EQ(port_.open_files(), 0);
}

TEST_F(Replacing, file_can_be_renamed) {
  expect_untouched(Call::rename, std::errc::permission_denied, ErrorCode::write_failed,
                   "file_can_be_renamed");
}

TEST_F(Replacing, folder_can_be_synced) {
  // At this point the new file is in place; the error only reports that a crash may undo the rename.
  port_.fail_at(Call::sync, 1, std::errc::io_error);
  const auto done = replace();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().rule(), "folder_can_be_synced");
  EXPECT_EQ(target_text(), "newest");
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"target"});
}

}  // namespace
}  // namespace ht::atomic_file_test
