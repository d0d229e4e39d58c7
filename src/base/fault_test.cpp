// The tables of sections and mappings, as the signal handler uses them.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <htensor/base/fault.hpp>
#include <thread>
#include <vector>

#include "base/fault_registry.hpp"

namespace ht::fault::fault_test {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t pages = 8;

struct FakeBacking : Backing {
  explicit FakeBacking(std::string name) : path(std::move(name)) {}
  [[nodiscard]] Error describe(std::uint64_t offset) const override {
    return Error(ErrorCode::read_failed, "mapped_pages_can_be_read", "fake").at_path(path).at_offset(offset);
  }
  [[nodiscard]] bool restore(std::uint64_t offset) noexcept override {
    if (!can_restore) return false;
    restored.push_back(offset / page);
    return true;
  }
  std::string path;
  bool can_restore = true;
  std::vector<std::uint64_t> restored;  // the first page of each call
};

// Memory of `pages` pages, which tests register as a mapping and address by page number.
class FaultTables : public ::testing::Test {
 protected:
  Bytes part(std::size_t first, std::size_t count) {
    return Bytes(memory_).subspan(first * page, count * page);
  }
  std::uintptr_t address(std::size_t number) {
    return reinterpret_cast<std::uintptr_t>(&memory_[number * page]);
  }

  // Simulates a fault in a page. Returns how many pages the handler replaces.
  std::size_t fault(std::size_t number) {
    Incident incident(&memory_[number * page + 5]);
    const auto claimed = incident.claim(page);
    if (!claimed) return 0;
    EXPECT_EQ(claimed->begin, address(number));
    return (claimed->end - claimed->begin) / page;
  }
  Registration add(FaultPolicy policy = FaultPolicy::guarded) {
    return Registration::add(part(0, pages), backing_, policy).value();
  }

  alignas(page) std::array<std::byte, pages * page> memory_{};
  FakeBacking backing_{"model"};
};

TEST_F(FaultTables, a_fault_outside_of_sections_is_not_handled) {
  const auto registration = add();
  EXPECT_EQ(fault(1), 0U);
  EXPECT_TRUE(guarded(part(3, 2), [&] { EXPECT_EQ(fault(1), 0U); }));
  EXPECT_FALSE(registration.first_fault());
  EXPECT_TRUE(backing_.restored.empty());
}

TEST_F(FaultTables, a_fault_outside_of_mappings_is_not_handled) {
  EXPECT_TRUE(guarded(part(0, pages), [&] { EXPECT_EQ(fault(1), 0U); }));
}

TEST_F(FaultTables, a_section_gets_the_fault_and_its_pages_are_restored_at_its_end) {
  const auto registration = add();
  const auto done = guarded(part(2, 4), [&] { EXPECT_EQ(fault(3), 3U); });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().path(), "model");
  EXPECT_EQ(done.error().offset(), 3 * page + 5);
  EXPECT_EQ(backing_.restored, std::vector<std::uint64_t>{3});
  EXPECT_EQ(registration.first_fault()->offset(), 3 * page + 5);
  EXPECT_TRUE(guarded(part(2, 4), [] {}));
  EXPECT_EQ(backing_.restored.size(), 1U);
}

TEST_F(FaultTables, pages_that_are_only_partly_in_the_section_are_covered) {
  const auto registration = add();
  EXPECT_FALSE(guarded(part(2, 2).subspan(100, page), [&] {
    EXPECT_EQ(fault(2), 2U);
    EXPECT_EQ(fault(3), 1U);
    EXPECT_EQ(fault(4), 0U);
  }));
}

TEST_F(FaultTables, the_smallest_section_limits_the_replaced_pages) {
  const auto registration = add();
  EXPECT_FALSE(
      guarded(part(0, 8), [&] { EXPECT_FALSE(guarded(part(1, 3), [&] { EXPECT_EQ(fault(2), 2U); })); }));
}

TEST_F(FaultTables, pages_of_a_section_without_the_faulting_page_are_not_replaced) {
  const auto registration = add();
  const Bytes later = part(5, 2).subspan(10);
  EXPECT_TRUE(guarded(later, [&] {
    EXPECT_FALSE(guarded(part(0, 8), [&] { EXPECT_EQ(fault(2), 3U); }));
    EXPECT_TRUE(guarded(part(0, 2), [] {}));
  }));
}

TEST_F(FaultTables, a_section_that_begins_over_zeros_gets_the_pages_of_the_file) {
  const auto registration = add();
  EXPECT_FALSE(guarded(part(0, 8), [&] {
    EXPECT_EQ(fault(2), 6U);
    EXPECT_TRUE(guarded(part(0, 2), [] {}));
    EXPECT_TRUE(backing_.restored.empty());
    EXPECT_TRUE(guarded(part(6, 1), [] {}));
    EXPECT_EQ(backing_.restored, std::vector<std::uint64_t>{2});
    // The inner section reports this second fault; the outer section reports its first fault.
    EXPECT_FALSE(guarded(part(6, 1), [&] { EXPECT_EQ(fault(6), 1U); }));
  }));
}

TEST_F(FaultTables, zeros_that_cannot_be_restored_are_reported_to_the_next_section) {
  const auto registration = add();
  backing_.can_restore = false;
  EXPECT_FALSE(guarded(part(0, 8), [&] { fault(2); }));
  EXPECT_EQ(guarded(part(7, 1), [] {}).error().offset(), 2 * page);
  EXPECT_TRUE(guarded(part(0, 2), [] {}));
  backing_.can_restore = true;
  EXPECT_TRUE(guarded(part(7, 1), [] {}));
  EXPECT_EQ(backing_.restored, std::vector<std::uint64_t>{2});
}

TEST_F(FaultTables, zero_fill_needs_no_section) {
  const auto registration = add(FaultPolicy::zero_fill);
  EXPECT_EQ(fault(5), 1U);
  EXPECT_EQ(fault(2), 1U);
  EXPECT_EQ(registration.first_fault()->offset(), 5 * page + 5);
  EXPECT_TRUE(backing_.restored.empty());
  EXPECT_TRUE(guarded(part(7, 1), [] {}));
  EXPECT_EQ(backing_.restored, std::vector<std::uint64_t>{2});
  EXPECT_FALSE(guarded(part(7, 1), [&] { EXPECT_EQ(fault(7), 1U); }));
}

TEST_F(FaultTables, memory_that_cannot_be_unmapped_stays_registered_with_its_zeros) {
  auto registration = add(FaultPolicy::zero_fill);
  fault(2);
  backing_.can_restore = false;
  EXPECT_FALSE(registration.remove([&] {
    EXPECT_EQ(fault(3), 0U);
    return false;
  }));
  EXPECT_EQ(registration.first_fault()->offset(), 2 * page + 5);
  EXPECT_EQ(guarded(part(7, 1), [] {}).error().offset(), 2 * page);
  EXPECT_TRUE(registration.remove([] { return true; }));
  EXPECT_FALSE(registration.first_fault());
  EXPECT_TRUE(guarded(part(7, 1), [] {}));
}

TEST_F(FaultTables, several_ranges_are_one_section) {
  const auto registration = add();
  const std::array<Bytes, 3> ranges{part(1, 1), Bytes(), part(4, 1)};
  for (const std::size_t number : {1U, 4U}) {
    EXPECT_FALSE(guarded(ranges, [&] { EXPECT_EQ(fault(number), 1U); }));
    EXPECT_TRUE(guarded(ranges, [&] { EXPECT_EQ(fault(2), 0U); }));
  }
}

TEST_F(FaultTables, a_fault_is_not_attributed_to_a_later_mapping_of_the_address) {
  auto registration = add();
  FakeBacking other("other");
  const auto done = guarded(part(0, 8), [&] {
    fault(2);
    registration = Registration();
    registration = Registration::add(part(0, pages), other, FaultPolicy::guarded).value();
  });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().rule(), "mapped_pages_can_be_read");
  EXPECT_EQ(done.error().path(), "");
  EXPECT_TRUE(other.restored.empty());
}

// Memory is unmapped after its registration ends, and the address may be reused by another mapping.
TEST_F(FaultTables, unregistering_waits_for_a_handler_that_replaces_pages) {
  auto registration = std::make_optional(add());
  std::atomic<bool> is_replaced = false;
  std::jthread unregistering;
  EXPECT_FALSE(guarded(part(0, 8), [&] {
    Incident incident(&memory_[0]);
    EXPECT_TRUE(incident.claim(page));
    unregistering = std::jthread([&] {
      registration.reset();
      EXPECT_TRUE(is_replaced);
    });
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    is_replaced = true;
  }));
}

TEST_F(FaultTables, a_section_that_ends_waits_for_a_handler_that_replaces_its_pages) {
  const auto registration = add();
  std::atomic<bool> is_replaced = false;
  std::atomic<bool> is_claimed = false;
  std::jthread handler;
  EXPECT_FALSE(guarded(part(0, 8), [&] {
    handler = std::jthread([&] {
      Incident incident(&memory_[0]);
      EXPECT_TRUE(incident.claim(page));
      is_claimed = true;
      for (int i = 0; i < 100; ++i) std::this_thread::yield();
      is_replaced = true;
    });
    while (!is_claimed) std::this_thread::yield();
  }));
  EXPECT_TRUE(is_replaced);
}

TEST_F(FaultTables, a_section_covers_hundreds_of_ranges) {
  const auto registration = add();
  std::vector<Bytes> ranges(300, part(1, 1));
  EXPECT_FALSE(guarded(ranges, [&] { EXPECT_EQ(fault(1), 1U); }));
  EXPECT_TRUE(guarded(ranges, [] {}));
}

// Registers and unregisters mappings in the same entries while handlers read them: a handler must never
// combine the begin of one mapping with the end of another.
TEST_F(FaultTables, reused_entries_never_refer_to_other_pages) {
  constexpr int rounds = 20'000;
  std::atomic<bool> is_over = false;
  std::jthread faulting([&] {
    static_cast<void>(guarded(part(0, 8), [&] {
      while (!is_over) {
        // These pages are between the two mappings, which are registered alternately.
        for (std::size_t number = 2; number < 6; ++number) EXPECT_EQ(fault(number), 0U);
      }
    }));
  });
  for (int i = 0; i < rounds; ++i) {
    {
      const auto low = Registration::add(part(0, 2), backing_, FaultPolicy::guarded).value();
    }
    {
      const auto high = Registration::add(part(6, 2), backing_, FaultPolicy::guarded).value();
    }
  }
  is_over = true;
}

}  // namespace
}  // namespace ht::fault::fault_test
