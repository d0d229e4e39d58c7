#include <htensor/tensor/storage.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tensor/test_tools.hpp"

namespace ht::storage_test {
namespace {

using tests::fails;
using tests::must;

bool all_zero(Bytes bytes) {
  return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
}

TEST(Storage, has_no_bytes_by_default) {
  const Storage nothing;
  EXPECT_TRUE(nothing.bytes().empty());
  EXPECT_FALSE(nothing.is_writable());
  EXPECT_TRUE(std::holds_alternative<Storage::Borrowed>(nothing.origin()));
  EXPECT_EQ(nothing, Storage());
}

TEST(Storage, owns_zeroed_and_aligned_memory) {
  for (const std::uint64_t alignment : {1U, 2U, 8U, 64U, 256U, 4096U, 65536U}) {
    for (const std::uint64_t bytes : {1U, 63U, 64U, 1000U}) {
      const auto storage = must(Storage::owned(bytes, alignment));
      ASSERT_EQ(storage.bytes().size(), bytes);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(storage.bytes().data()) % alignment, 0U) << alignment;
      EXPECT_TRUE(all_zero(storage.bytes()));
      EXPECT_TRUE(storage.is_writable());
      EXPECT_TRUE(std::holds_alternative<Storage::Owned>(storage.origin()));
    }
  }
}

TEST(Storage, aligns_to_a_cache_line_by_default) {
  const auto storage = must(Storage::owned(1));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(storage.bytes().data()) % 64, 0U);
}

// Returns the kernel's VmFlags of the memory at an address, from /proc/self/smaps.
std::string kernel_flags(const void* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  std::ifstream maps("/proc/self/smaps");
  bool is_inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    if (std::istringstream range(line); range >> std::hex >> begin >> dash >> end && dash == '-')
      is_inside = begin <= address && address < end;
    if (is_inside && line.starts_with("VmFlags:")) return line + ' ';
  }
  return {};
}

TEST(Storage, backs_large_memory_by_huge_pages) {
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage"))
    GTEST_SKIP() << "this kernel has no huge pages";
  constexpr std::uint64_t huge_page = std::uint64_t{2} << 20;
  const auto large = must(Storage::owned(16 * huge_page + 1));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large.bytes().data()) % huge_page, 0U);
  EXPECT_NE(kernel_flags(large.bytes().data()).find(" hg "), std::string::npos);
  EXPECT_TRUE(all_zero(large.bytes()));
}

TEST(Storage, owns_no_bytes_for_size_0) {
  const auto storage = must(Storage::owned(0));
  EXPECT_TRUE(storage.bytes().empty());
  EXPECT_TRUE(storage.is_writable());
  EXPECT_EQ(must(storage.writable_bytes()).size(), 0U);
}

TEST(Storage, reports_out_of_memory_for_a_huge_size) {
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t bytes : {std::uint64_t{1} << 60, std::uint64_t{1} << 63, most - 63, most}) {
    EXPECT_TRUE(fails(Storage::owned(bytes), ErrorCode::out_of_memory, "out_of_memory")) << bytes;
    EXPECT_EQ(Storage::owned(bytes).error().message(), "out of memory: " + std::to_string(bytes) + " bytes");
  }
  EXPECT_TRUE(fails(Storage::owned(1, std::uint64_t{1} << 63), ErrorCode::out_of_memory, "out_of_memory"));
}

TEST(Storage, alignment_is_a_power_of_two) {
  for (const std::uint64_t alignment : {0U, 3U, 48U, 65U}) {
    EXPECT_TRUE(fails(Storage::owned(16, alignment), ErrorCode::misaligned, "alignment_is_a_power_of_two"));
  }
}

TEST(Storage, writes_to_the_borrowed_bytes) {
  std::array<std::byte, 4> mine{};
  const auto storage = must(Storage::borrowed(MutableBytes(mine)));
  EXPECT_EQ(storage.bytes().data(), mine.data());
  EXPECT_EQ(storage.bytes().size(), 4U);
  EXPECT_TRUE(storage.is_writable());
  EXPECT_TRUE(std::holds_alternative<Storage::Borrowed>(storage.origin()));
  must(storage.writable_bytes())[2] = std::byte{7};
  EXPECT_EQ(mine[2], std::byte{7});
}

TEST(Storage, storage_is_writable) {
  const std::array<std::byte, 4> mine{};
  const auto storage = must(Storage::borrowed_read_only(Bytes(mine)));
  EXPECT_EQ(storage.bytes().data(), mine.data());
  EXPECT_FALSE(storage.is_writable());
  EXPECT_TRUE(fails(storage.writable_bytes(), ErrorCode::bad_state, "storage_is_writable"));
  EXPECT_TRUE(fails(Storage().writable_bytes(), ErrorCode::bad_state, "storage_is_writable"));
}

TEST(Storage, equals_only_handles_to_the_same_bytes) {
  const auto one = must(Storage::owned(4));
  const auto other = must(Storage::owned(4));
  const Storage same = one;
  EXPECT_EQ(one, same);
  EXPECT_FALSE(one == other);
  EXPECT_FALSE(one == Storage());
}

TEST(Storage, shares_its_bytes_with_its_copies) {
  auto one = must(Storage::owned(4));
  const Storage copy = one;
  must(one.writable_bytes())[0] = std::byte{9};
  one = Storage();
  // Only the copy keeps the bytes alive now.
  EXPECT_EQ(copy.bytes()[0], std::byte{9});
}

// An owner that counts how often it was released.
struct Owner {
  std::array<std::byte, 16> bytes{};
  std::atomic<int>* released;

  explicit Owner(std::atomic<int>& count) : released(&count) {}
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  ~Owner() { ++*released; }
};

TEST(Storage, releases_its_owner_once_and_after_the_last_handle) {
  std::atomic<int> released = 0;
  auto owner = std::make_shared<Owner>(released);
  const MutableBytes bytes = owner->bytes;
  auto first = must(Storage::owned_by(std::move(owner), bytes));
  EXPECT_TRUE(first.is_writable());
  EXPECT_TRUE(std::holds_alternative<Storage::Owned>(first.origin()));
  EXPECT_EQ(first.bytes().data(), bytes.data());
  {
    Storage second = first;
    const Storage third = std::move(second);
    first = Storage();
    EXPECT_EQ(released, 0);
    EXPECT_EQ(third.bytes().data(), bytes.data());
  }
  EXPECT_EQ(released, 1);
}

TEST(Storage, remembers_the_range_of_the_file_it_came_from) {
  std::atomic<int> released = 0;
  {
    auto owner = std::make_shared<Owner>(released);
    const Bytes bytes = owner->bytes;
    const auto storage =
        must(Storage::file_backed(std::move(owner), bytes, {"weights/model.ht", 4096, bytes.size()}));
    const Storage copy = storage;
    const auto* range = std::get_if<Storage::FileBacked>(&copy.origin());
    ASSERT_NE(range, nullptr);
    EXPECT_EQ(range->path, "weights/model.ht");
    EXPECT_EQ(range->offset, 4096U);
    EXPECT_EQ(range->bytes, 16U);
    EXPECT_EQ(copy.bytes().data(), bytes.data());
    EXPECT_TRUE(fails(copy.writable_bytes(), ErrorCode::bad_state, "storage_is_writable"));
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
}

TEST(Storage, is_copied_and_dropped_from_many_threads) {
  std::atomic<int> released = 0;
  std::atomic<int> wrong = 0;
  {
    auto owner = std::make_shared<Owner>(released);
    const MutableBytes bytes = owner->bytes;
    auto storage = must(Storage::owned_by(std::move(owner), bytes));
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([handle = storage, &wrong] {
        for (int i = 0; i < 2000; ++i) {
          const Storage copy = handle;
          const Storage another = copy;
          if (another.bytes().size() != 16 || !(another == handle)) ++wrong;
        }
      });
    }
    // Only the threads own the bytes now, so the last thread releases the owner.
    storage = Storage();
    for (auto& thread : threads) thread.join();
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(released, 1);
}

template <class Container>
concept Borrowable = requires(Container& container) { Storage::borrowed(container); };

TEST(Storage, borrows_the_bytes_of_a_container) {
  EXPECT_TRUE(Borrowable<std::vector<std::byte>>);
  // Read-only bytes need `borrowed_read_only`, so that they are not borrowed as writable by mistake.
  EXPECT_FALSE(Borrowable<const std::vector<std::byte>>);
}

}  // namespace
}  // namespace ht::storage_test
