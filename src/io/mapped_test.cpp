#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "io/mapped.hpp"
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

class Mapping : public ::testing::Test {
 protected:
  Result<Mapped> map() { return map_by(port_); }
  Result<Mapped> map(std::uint64_t offset, std::uint64_t bytes) {
    return Mapped::map(HT_TRY(FileSource::open(path_, port_)), offset, bytes);
  }
  Result<Mapped> map_by(Port& port) {
    const auto file = HT_TRY(FileSource::open(path_, port));
    return Mapped::map(file, 0, file->size());
  }

  void SetUp() override { write_file(path_, bytes_); }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "file";
  std::vector<std::byte> bytes_ = some_bytes(3 * 4096 + 123);
  FaultyPort port_;
};

TEST_F(Mapping, shows_the_whole_file) {
  const auto mapped = map();
  ASSERT_TRUE(mapped);
  EXPECT_TRUE(std::ranges::equal(mapped->bytes(), bytes_));
}

TEST_F(Mapping, takes_any_offset_and_any_size) {
  for (const std::uint64_t offset : {0U, 1U, 4095U, 4096U, 4097U, 8191U, 12410U}) {
    for (const std::uint64_t bytes : {0U, 1U, 4096U}) {
      if (offset + bytes > bytes_.size()) continue;
      const auto mapped = map(offset, bytes);
      ASSERT_TRUE(mapped) << offset << " " << bytes;
      EXPECT_TRUE(std::ranges::equal(mapped->bytes(), Bytes(bytes_).subspan(offset, bytes)));
    }
  }
}

TEST_F(Mapping, mapped_range_is_in_the_file) {
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

TEST_F(Mapping, empty_file_is_fine) {
  write_file(path_, "");
  const auto mapped = map();
  ASSERT_TRUE(mapped);
  EXPECT_TRUE(mapped->bytes().empty());
  EXPECT_TRUE(mapped->range(0, 0));
  EXPECT_EQ(port_.count(Call::map), 0);
}

TEST_F(Mapping, range_is_mapped) {
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

TEST_F(Mapping, process_map_is_as_before_after_the_last_owner) {
  ASSERT_EQ(traces_of(path_), 0U);
  std::shared_ptr<const void> owner;
  {
    const auto mapped = map().value();
    const Mapped copy = mapped;
    owner = copy.memory().owner;
    EXPECT_EQ(traces_of(path_), 2U);  // one mapping and one descriptor, however many handles
  }
  EXPECT_EQ(traces_of(path_), 2U);
  owner.reset();
  EXPECT_EQ(traces_of(path_), 0U);
}

TEST_F(Mapping, file_can_be_mapped) {
  port_.fail_at(Call::map, 0, std::errc::not_enough_memory);
  const auto mapped = map();
  ASSERT_FALSE(mapped);
  EXPECT_EQ(mapped.error().code(), ErrorCode::map_failed);
  EXPECT_EQ(mapped.error().rule(), "file_can_be_mapped");
  EXPECT_FALSE(mapped.error().hint().empty());
  EXPECT_EQ(port_.open_files(), 0);
}

TEST_F(Mapping, system_without_mappings_is_unsupported) {
  port_.fail_at(Call::map, 0, std::errc::function_not_supported);
  EXPECT_EQ(map().error().code(), ErrorCode::unsupported_platform);
}

TEST_F(Mapping, nobody_holds_the_mapping) {
  auto mapped = map();
  ASSERT_TRUE(mapped);
  auto owner = mapped->memory().owner;
  const auto done = mapped->unmap();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), ErrorCode::in_use);
  EXPECT_EQ(done.error().rule(), "nobody_holds_the_mapping");
  owner.reset();
  EXPECT_TRUE(mapped->unmap());
  EXPECT_TRUE(mapped->bytes().empty());
  EXPECT_EQ(port_.mapped_regions(), 0);
}

TEST_F(Mapping, mapping_can_be_given_back) {
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

TEST_F(Mapping, every_failing_call_leaves_nothing_open) {
  for (const Call call : {Call::open, Call::stat, Call::map}) {
    FaultyPort port;
    port.fail_at(call, 0, std::errc::io_error);
    const auto mapped = map_by(port);
    EXPECT_FALSE(mapped);
    EXPECT_EQ(port.open_files(), 0);
    EXPECT_EQ(port.mapped_regions(), 0);
  }
}

TEST_F(Mapping, large_sparse_file_maps_at_once) {
  constexpr std::uint64_t size = std::uint64_t{64} << 30;
  std::filesystem::resize_file(path_, size);
  const auto mapped = map();
  ASSERT_TRUE(mapped);
  EXPECT_EQ(mapped->bytes().size(), size);
  EXPECT_EQ(mapped->bytes()[size - 1], std::byte{0});
  EXPECT_EQ(mapped->bytes()[5000], bytes_[5000]);
}

TEST_F(Mapping, is_read_from_many_threads) {
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

TEST_F(Mapping, advice_is_rounded_inward_to_drop_and_outward_to_fetch) {
  std::ofstream(path_, std::ios::binary) << std::string(4 * 4096, 'x');
  const auto mapped = map().value();
  const int before = port_.count(Call::advise);
  // No whole page inside: nothing is dropped.
  EXPECT_TRUE(mapped.advise(10, 4096, Advice::drop));
  EXPECT_EQ(port_.count(Call::advise), before);
  EXPECT_TRUE(mapped.advise(10, 2 * 4096, Advice::drop));
  EXPECT_EQ(port_.count(Call::advise), before + 1);
  for (const auto advice : {Advice::normal, Advice::random, Advice::will_need, Advice::populate}) {
    EXPECT_TRUE(mapped.advise(10, 4096 + 10, advice)) << static_cast<int>(advice);
  }
  EXPECT_EQ(mapped.advise(1, 4 * 4096, Advice::drop).error().rule(), "range_is_mapped");
}

}  // namespace
}  // namespace ht::io
