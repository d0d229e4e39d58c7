#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <htensor/io/mapped.hpp>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::io {
namespace {

using ht::testing::Call;
using ht::testing::FaultyPort;
using ht::testing::TemporaryFolder;
using ht::testing::write_file;

std::vector<std::byte> some_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

// Lines of the process's map that name the file, and its open descriptors to it.
std::size_t traces_of(const std::filesystem::path& path) {
  std::size_t traces = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(path.string()) != std::string::npos) ++traces;
  }
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the iterator's own descriptor is closed by the time it is looked at
    if (std::filesystem::read_symlink(entry.path(), gone) == path) ++traces;
  }
  return traces;
}

class MappedFile : public ::testing::Test {
 protected:
  Result<Mapped> map() { return HT_TRY(Opened::open(path_, port_)).map(); }
  Result<Mapped> map(std::uint64_t offset, std::uint64_t bytes) {
    return HT_TRY(Opened::open(path_, port_)).map(offset, bytes);
  }

  void SetUp() override { write_file(path_, bytes_); }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "file";
  std::vector<std::byte> bytes_ = some_bytes(3 * 4096 + 123);
  FaultyPort port_;
};

TEST_F(MappedFile, shows_the_whole_file) {
  const auto mapped = map();
  ASSERT_TRUE(mapped);
  EXPECT_TRUE(std::ranges::equal(mapped->bytes(), bytes_));
  EXPECT_EQ(mapped->offset(), 0U);
  EXPECT_EQ(mapped->path(), path_);
  EXPECT_EQ(mapped->stat().bytes, bytes_.size());
}

TEST_F(MappedFile, takes_any_offset_and_any_size) {
  for (const std::uint64_t offset : {0U, 1U, 4095U, 4096U, 4097U, 8191U, 12410U}) {
    for (const std::uint64_t bytes : {0U, 1U, 4096U}) {
      if (offset + bytes > bytes_.size()) continue;
      const auto mapped = map(offset, bytes);
      ASSERT_TRUE(mapped) << offset << " " << bytes;
      EXPECT_TRUE(std::ranges::equal(mapped->bytes(), Bytes(bytes_).subspan(offset, bytes)));
      EXPECT_EQ(mapped->offset(), offset);
    }
  }
}

TEST_F(MappedFile, mapped_range_is_in_the_file) {
  const std::uint64_t size = bytes_.size();
  for (const auto& [offset, bytes] :
       std::vector<std::pair<std::uint64_t, std::uint64_t>>{{size, 1},
                                                            {size + 1, 0},
                                                            {0, size + 1},
                                                            {1, UINT64_MAX},
                                                            {UINT64_MAX, 1},
                                                            {UINT64_MAX, UINT64_MAX}}) {
    const auto mapped = map(offset, bytes);
    ASSERT_FALSE(mapped) << offset << " " << bytes;
    EXPECT_EQ(mapped.error().code(), ErrorCode::out_of_bounds);
    EXPECT_EQ(mapped.error().rule(), "mapped_range_is_in_the_file");
    EXPECT_EQ(mapped.error().offset(), offset);
  }
  EXPECT_EQ(port_.count(Call::map), 0);
  EXPECT_EQ(port_.open_files(), 0);
}

TEST_F(MappedFile, empty_file_is_fine) {
  write_file(path_, "");
  const auto mapped = map();
  ASSERT_TRUE(mapped);
  EXPECT_TRUE(mapped->bytes().empty());
  EXPECT_TRUE(mapped->range(0, 0));
  EXPECT_EQ(port_.count(Call::map), 0);
}

TEST_F(MappedFile, range_is_mapped) {
  const auto mapped = map(100, 50);
  ASSERT_TRUE(mapped);
  EXPECT_TRUE(std::ranges::equal(*mapped->range(120, 30), Bytes(bytes_).subspan(120, 30)));
  for (const auto& [offset, bytes] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
           {99, 1}, {150, 1}, {100, 51}, {120, UINT64_MAX}, {UINT64_MAX, 1}}) {
    const auto range = mapped->range(offset, bytes);
    ASSERT_FALSE(range);
    EXPECT_EQ(range.error().code(), ErrorCode::out_of_bounds);
    EXPECT_EQ(range.error().rule(), "range_is_mapped");
  }
}

TEST_F(MappedFile, process_map_is_as_before_after_the_last_owner) {
  ASSERT_EQ(traces_of(path_), 0U);
  std::shared_ptr<const void> owner;
  {
    const auto mapped = map().value();
    const Mapped copy = mapped;
    owner = copy.owner();
    EXPECT_EQ(traces_of(path_), 2U);  // one mapping and one descriptor, however many handles
  }
  EXPECT_EQ(traces_of(path_), 2U);
  owner.reset();
  EXPECT_EQ(traces_of(path_), 0U);
}

TEST_F(MappedFile, file_can_be_mapped) {
  port_.fail_at(Call::map, 0, std::errc::not_enough_memory);
  const auto mapped = map();
  ASSERT_FALSE(mapped);
  EXPECT_EQ(mapped.error().code(), ErrorCode::map_failed);
  EXPECT_EQ(mapped.error().rule(), "file_can_be_mapped");
  EXPECT_FALSE(mapped.error().hint().empty());
  EXPECT_EQ(port_.open_files(), 0);
}

TEST_F(MappedFile, system_without_mappings_is_unsupported) {
  port_.fail_at(Call::map, 0, std::errc::function_not_supported);
  EXPECT_EQ(map().error().code(), ErrorCode::unsupported_platform);
}

TEST_F(MappedFile, nobody_holds_the_mapping) {
  auto mapped = map();
  ASSERT_TRUE(mapped);
  auto owner = mapped->owner();
  const auto done = mapped->unmap();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), ErrorCode::in_use);
  EXPECT_EQ(done.error().rule(), "nobody_holds_the_mapping");
  owner.reset();
  EXPECT_TRUE(mapped->unmap());
  EXPECT_TRUE(mapped->bytes().empty());
  EXPECT_EQ(port_.mapped_regions(), 0);
}

TEST_F(MappedFile, mapping_can_be_given_back) {
  port_.fail_at(Call::unmap, 0, std::errc::not_enough_memory);
  auto mapped = map();
  ASSERT_TRUE(mapped);
  const auto done = mapped->unmap();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), ErrorCode::unmap_failed);
  EXPECT_EQ(done.error().rule(), "mapping_can_be_given_back");
  // It still stands, and the second try succeeds.
  EXPECT_TRUE(std::ranges::equal(mapped->bytes(), bytes_));
  EXPECT_TRUE(mapped->unmap());
  EXPECT_EQ(port_.mapped_regions(), 0);
}

TEST_F(MappedFile, opened_is_not_given_up) {
  auto opened = Opened::open(path_, port_).value();
  ASSERT_TRUE(std::move(opened).map());
  std::array<std::byte, 1> buffer{};
  // NOLINTBEGIN(bugprone-use-after-move): that is what is tested
  const auto whole = std::move(opened).map();
  const auto part = std::move(opened).map(0, 1);
  const auto read = opened.read(0, buffer);
  // NOLINTEND(bugprone-use-after-move)
  for (const auto* error : {&whole.error(), &part.error(), &read.error()}) {
    EXPECT_EQ(error->code(), ErrorCode::bad_state);
    EXPECT_EQ(error->rule(), "opened_is_not_given_up");
  }
}

TEST_F(MappedFile, every_failing_call_leaves_nothing_open) {
  for (const Call call : {Call::open, Call::stat, Call::map}) {
    FaultyPort port;
    port.fail_at(call, 0, std::errc::io_error);
    const auto mapped = [&]() -> Result<Mapped> { return HT_TRY(Opened::open(path_, port)).map(); }();
    EXPECT_FALSE(mapped);
    EXPECT_EQ(port.open_files(), 0);
    EXPECT_EQ(port.mapped_regions(), 0);
  }
}

TEST_F(MappedFile, large_sparse_file_maps_at_once) {
  constexpr std::uint64_t size = std::uint64_t{64} << 30;
  std::filesystem::resize_file(path_, size);
  const auto mapped = map();
  ASSERT_TRUE(mapped);
  EXPECT_EQ(mapped->bytes().size(), size);
  EXPECT_EQ(mapped->bytes()[size - 1], std::byte{0});
  EXPECT_EQ(mapped->bytes()[5000], bytes_[5000]);
}

TEST_F(MappedFile, is_read_from_many_threads) {
  const auto mapped = map();
  ASSERT_TRUE(mapped);
  std::vector<int> equal(4, 0);
  std::vector<std::thread> threads;
  for (auto& result : equal) {
    threads.emplace_back(
        [&result, copy = *mapped, this] { result = std::ranges::equal(copy.bytes(), bytes_) ? 1 : 0; });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(std::accumulate(equal.begin(), equal.end(), 0), 4);
}

TEST_F(MappedFile, pages_can_be_locked) {
  const auto mapped = map().value();
  port_.fail_at(Call::lock, 0, std::errc::not_enough_memory);
  const auto refused = mapped.lock(0, 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::out_of_memory);
  EXPECT_EQ(refused.error().rule(), "pages_can_be_locked");
  EXPECT_NE(refused.error().hint().find("ulimit -l"), std::string_view::npos);
  EXPECT_TRUE(mapped.lock(0, 1));
  EXPECT_TRUE(mapped.lock(0, 0));
}

TEST_F(MappedFile, advice_is_rounded_inward_to_drop_and_outward_to_fetch) {
  std::ofstream(path_, std::ios::binary) << std::string(4 * 4096, 'x');
  const auto mapped = map().value();
  const int before = port_.count(Call::advise);
  // No whole page inside: nothing is dropped.
  EXPECT_TRUE(mapped.advise(10, 4096, Advice::drop));
  EXPECT_EQ(port_.count(Call::advise), before);
  EXPECT_TRUE(mapped.advise(10, 2 * 4096, Advice::drop));
  EXPECT_EQ(port_.count(Call::advise), before + 1);
  for (const auto advice : {Advice::normal, Advice::sequential, Advice::random, Advice::will_need,
                            Advice::populate, Advice::cold}) {
    EXPECT_TRUE(mapped.advise(10, 4096 + 10, advice)) << static_cast<int>(advice);
  }
  EXPECT_EQ(mapped.advise(1, 4 * 4096, Advice::drop).error().rule(), "range_is_mapped");
  EXPECT_EQ(mapped.cached(1, 4 * 4096).error().rule(), "range_is_mapped");
}

}  // namespace
}  // namespace ht::io
