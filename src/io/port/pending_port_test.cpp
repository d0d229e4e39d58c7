#include "io/port/pending_port.hpp"

#include <gtest/gtest.h>

#include <array>

#include "io/file_source.hpp"
#include "io/strategy/mapped_file.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::pending_port_test {
namespace {

using io::AtomicFile;
using testing::Call;
using testing::write_file;

class Pending : public ::testing::TestWithParam<bool> {
 protected:
  Pending() {
    if (!GetParam()) port_.fail_from(Call::create_nameless, 0, std::errc::operation_not_supported);
    write_file(folder_ / "new", "old bytes");
    write_file(folder_ / "gone", "old");
    write_file(folder_ / "kept", "kept");
  }

  testing::TemporaryFolder folder_;
  testing::FaultyPort port_;
};

TEST_P(Pending, files_are_read_under_their_final_names) {
  std::array files{AtomicFile::create(folder_ / "new", IfExists::replace, port_).value()};
  ASSERT_TRUE(files[0].write(0, bytes_of("new")));
  const std::array removed{folder_ / "gone"};
  {
    io::PendingPort pending(files, removed, port_);
    io::MappedFile mapped(io::FileSource::open(folder_ / "." / "new", pending).value());
    EXPECT_TRUE(std::ranges::equal(mapped.map(0, 3).value().memory.bytes, bytes_of("new")));
    EXPECT_TRUE(mapped.source().check_unchanged());
    EXPECT_EQ(pending.stat(folder_ / "new")->bytes, 3U);
    EXPECT_EQ(pending.stat(folder_ / "kept")->bytes, 4U);
    EXPECT_EQ(pending.stat(folder_ / "gone").error(), std::errc::no_such_file_or_directory);
    EXPECT_EQ(pending.open(folder_ / "gone").error(), std::errc::no_such_file_or_directory);
    EXPECT_TRUE(io::FileSource::open(folder_ / "kept", pending));
  }
  ASSERT_TRUE(std::move(files[0]).commit()) << "PendingPort closed the handle of the AtomicFile";
  EXPECT_EQ(testing::read_file(folder_ / "new").size(), 3U);
  EXPECT_EQ(port_.open_files(), 1) << "the folder, until the AtomicFile is destroyed";
}

INSTANTIATE_TEST_SUITE_P(NamelessOrNot, Pending, ::testing::Bool());

}  // namespace
}  // namespace ht::pending_port_test
