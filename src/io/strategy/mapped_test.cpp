#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "io/file_source.hpp"
#include "io/strategy/mapped_file.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::io::mapped_test {
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

// Returns the number of mappings of the file in this process plus the number of its open descriptors.
std::size_t traces_of(const std::filesystem::path& path) {
  std::size_t traces = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(path.string()) != std::string::npos) ++traces;
  }
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // set for the descriptor of the iterator, which may be closed already
    if (std::filesystem::read_symlink(entry.path(), gone) == path) ++traces;
  }
  return traces;
}

class Mapping : public ::testing::Test {
 protected:
  std::unique_ptr<MappedFile> open() {
    return std::make_unique<MappedFile>(FileSource::open(path_, port_).value());
  }
  // Opens the file as if the address space had no room for it.
  std::unique_ptr<MappedFile> open_windowed() {
    port_.fail_at(Call::map, port_.count(Call::map), std::errc::not_enough_memory);
    return open();
  }
  static Result<Memory> map_all(MappedFile& file) { return HT_TRY(file.map(0, file.source().size())).memory; }

  void SetUp() override { write_file(path_, bytes_); }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "file";
  std::vector<std::byte> bytes_ = some_bytes(3 * 4096 + 123);
  FaultyPort port_;
};

TEST_F(Mapping, shows_the_whole_file) {
  const auto file = open();
  EXPECT_TRUE(std::ranges::equal(map_all(*file).value().bytes, bytes_));
}

TEST_F(Mapping, accepts_any_offset_and_size) {
  for (const bool is_windowed : {false, true}) {
    const auto file = is_windowed ? open_windowed() : open();
    for (const std::uint64_t offset : {0U, 1U, 4095U, 4096U, 4097U, 8191U, 12410U}) {
      for (const std::uint64_t bytes : {0U, 1U, 4096U}) {
        if (offset + bytes > bytes_.size()) continue;
        const auto mapped = file->map(offset, bytes);
        ASSERT_TRUE(mapped) << offset << " " << bytes;
        EXPECT_TRUE(std::ranges::equal(mapped->memory.bytes, Bytes(bytes_).subspan(offset, bytes)));
      }
    }
  }
}

TEST_F(Mapping, mapped_range_is_in_the_file) {
  const auto file = open();
  const std::uint64_t size = bytes_.size();
  for (const auto& [offset, bytes] :
       std::vector<std::pair<std::uint64_t, std::uint64_t>>{{size, 1},
                                                            {size + 1, 0},
                                                            {0, size + 1},
                                                            {1, UINT64_MAX},
                                                            {UINT64_MAX, 1},
                                                            {UINT64_MAX, UINT64_MAX}}) {
    const auto mapped = file->map(offset, bytes);
    ASSERT_FALSE(mapped) << offset << " " << bytes;
    EXPECT_EQ(mapped.error().code(), ErrorCode::out_of_bounds);
    EXPECT_EQ(mapped.error().rule(), "mapped_range_is_in_the_file");
    EXPECT_EQ(mapped.error().offset(), offset);
    EXPECT_EQ(file->advise(offset, bytes, Strategy::Advice::drop).error().rule(),
              "mapped_range_is_in_the_file");
  }
  EXPECT_EQ(port_.count(Call::map), 0);
}

TEST_F(Mapping, empty_file_needs_no_mapping) {
  write_file(path_, "");
  const auto file = open();
  EXPECT_TRUE(map_all(*file).value().bytes.empty());
  EXPECT_TRUE(file->advise(0, 0, Strategy::Advice::populate));
  EXPECT_EQ(port_.count(Call::map), 0);
}

TEST_F(Mapping, last_owner_unmaps_and_closes_the_file) {
  ASSERT_EQ(traces_of(path_), 0U);
  std::shared_ptr<const void> owner;
  {
    const auto file = open();
    owner = map_all(*file).value().owner;
    EXPECT_EQ(map_all(*file).value().owner, owner);
    EXPECT_EQ(traces_of(path_), 2U);  // one mapping and one descriptor for any number of owners
  }
  EXPECT_EQ(traces_of(path_), 2U);
  owner.reset();
  EXPECT_EQ(traces_of(path_), 0U);
}

TEST_F(Mapping, file_can_be_mapped) {
  for (const auto cause : {std::errc::io_error, std::errc::not_enough_memory}) {
    port_.fail_from(Call::map, 0, cause);
    const auto file = open();
    const auto mapped = map_all(*file);
    ASSERT_FALSE(mapped);
    EXPECT_EQ(mapped.error().code(), ErrorCode::map_failed);
    EXPECT_EQ(mapped.error().rule(), "file_can_be_mapped");
    EXPECT_FALSE(mapped.error().hint().empty());
  }
  EXPECT_EQ(port_.open_files(), 0);
}

TEST_F(Mapping, system_without_mappings_is_unsupported) {
  port_.fail_at(Call::map, 0, std::errc::function_not_supported);
  EXPECT_EQ(map_all(*open()).error().code(), ErrorCode::unsupported_platform);
}

TEST_F(Mapping, mapping_is_not_in_use) {
  const auto file = open_windowed();
  auto memory = map_all(*file).value();
  auto owner = memory.owner;
  const auto done = file->release(memory);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), ErrorCode::in_use);
  EXPECT_EQ(done.error().rule(), "mapping_is_not_in_use");
  owner.reset();
  EXPECT_EQ(file->release(memory), true);
  EXPECT_TRUE(memory.bytes.empty());
  EXPECT_EQ(port_.mapped_regions(), 0);
}

TEST_F(Mapping, mapping_can_be_unmapped) {
  port_.fail_at(Call::unmap, 0, std::errc::not_enough_memory);
  const auto file = open_windowed();
  auto memory = map_all(*file).value();
  const auto done = file->release(memory);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), ErrorCode::unmap_failed);
  EXPECT_EQ(done.error().rule(), "mapping_can_be_unmapped");
  // The mapping still exists, and the second attempt succeeds.
  EXPECT_TRUE(std::ranges::equal(memory.bytes, bytes_));
  EXPECT_EQ(file->release(memory), true);
  EXPECT_EQ(port_.mapped_regions(), 0);
}

TEST_F(Mapping, no_handle_leaks_if_a_call_fails) {
  for (const Call call : {Call::open, Call::stat, Call::map}) {
    FaultyPort port;
    port.fail_at(call, 0, std::errc::io_error);
    if (const auto file = FileSource::open(path_, port)) {
      EXPECT_FALSE(MappedFile(*file).map(0, 1));
    }
    EXPECT_EQ(port.open_files(), 0);
    EXPECT_EQ(port.mapped_regions(), 0);
  }
}

TEST_F(Mapping, large_sparse_file_is_mapped_as_a_whole) {
  constexpr std::uint64_t size = std::uint64_t{64} << 30;
  std::filesystem::resize_file(path_, size);
  const auto file = open();
  const auto mapped = map_all(*file).value().bytes;
  EXPECT_EQ(mapped.size(), size);
  EXPECT_EQ(mapped[size - 1], std::byte{0});
  EXPECT_EQ(mapped[5000], bytes_[5000]);
}

TEST_F(Mapping, is_read_from_many_threads) {
  const auto file = open();
  std::vector<int> equal(4, 0);
  std::vector<std::thread> threads;
  for (auto& result : equal) {
    threads.emplace_back([&] { result = std::ranges::equal(map_all(*file).value().bytes, bytes_) ? 1 : 0; });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(std::accumulate(equal.begin(), equal.end(), 0), 4);
}

TEST_F(Mapping, advice_is_rounded_inward_to_drop_and_outward_to_fetch) {
  std::ofstream(path_, std::ios::binary) << std::string(4 * 4096, 'x');
  const auto file = open();
  const auto* const first_page = map_all(*file).value().bytes.data();
  // No whole page inside: nothing is dropped.
  EXPECT_TRUE(file->advise(10, 4096, Strategy::Advice::drop));
  EXPECT_TRUE(port_.advised_regions().empty());
  EXPECT_TRUE(file->advise(10, 2 * 4096, Strategy::Advice::drop));
  ASSERT_EQ(port_.advised_regions().size(), 1U);
  EXPECT_EQ(port_.advised_regions().back().data, first_page + 4096);
  EXPECT_EQ(port_.advised_regions().back().bytes, 4096U);
  for (const auto advice : {Strategy::Advice::normal, Strategy::Advice::random, Strategy::Advice::will_need,
                            Strategy::Advice::populate}) {
    const auto before = port_.advised_regions().size();
    EXPECT_TRUE(file->advise(4096 + 10, 4096, advice)) << static_cast<int>(advice);
    ASSERT_EQ(port_.advised_regions().size(), before + 1) << static_cast<int>(advice);
    EXPECT_EQ(port_.advised_regions().back().data, first_page + 4096) << static_cast<int>(advice);
    EXPECT_EQ(port_.advised_regions().back().bytes, 2U * 4096) << static_cast<int>(advice);
  }
}

}  // namespace
}  // namespace ht::io::mapped_test
