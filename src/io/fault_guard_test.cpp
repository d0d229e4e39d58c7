// A guarded section returns an Error if a page of its ranges cannot be read.
#include <fcntl.h>

#include <array>
#include <atomic>
#include <latch>
#include <thread>

#include "io/fault_test.hpp"
#include "io/file_source.hpp"

namespace ht::io::fault_guard_test {
namespace {

using ht::testing::Call;
using ht::testing::write_file;

class FaultGuard : public FaultFixture {};

TEST_F(FaultGuard, mapped_pages_are_in_the_file) {
  const auto mapped =
      map_window({.tensor_at = [](std::uint64_t offset) { return "t" + std::to_string(offset / page); }});
  ASSERT_TRUE(mapped);
  EXPECT_EQ(guarded_sum(mapped->bytes()), int{pages * page});
  truncate_to(3 * page);
  const auto sum = guarded_sum(mapped->bytes());
  ASSERT_FALSE(sum);
  EXPECT_EQ(sum.error().code(), ErrorCode::changed_underfoot);
  EXPECT_EQ(sum.error().rule(), "mapped_pages_are_in_the_file");
  EXPECT_EQ(sum.error().path(), path_.string());
  EXPECT_EQ(sum.error().offset(), 3 * page);
  EXPECT_EQ(sum.error().tensor(), "t3");
  EXPECT_FALSE(sum.error().hint().empty());
  // The other pages can still be read.
  EXPECT_EQ(guarded_sum(mapped->bytes().first(3 * page)), int{3 * page});
}

TEST_F(FaultGuard, reports_to_every_section_that_reads_the_page_and_to_no_other) {
  const auto mapped = map_window();
  ASSERT_TRUE(mapped);
  truncate_to(page);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(guarded_sum(mapped->bytes()).error().code(), ErrorCode::changed_underfoot);
    EXPECT_TRUE(guarded_sum(mapped->bytes().first(page)));
  }
}

TEST_F(FaultGuard, mapped_pages_can_be_read) {
  const auto mapped = map_window();
  ASSERT_TRUE(mapped);
  truncate_to(page);
  // The body restores the size of the file, so that the fault looks like a failure of the disk.
  const auto sum = guarded(mapped->bytes(), [&] {
    const int found = sum_of(mapped->bytes());
    truncate_to(pages * page);
    return found;
  });
  ASSERT_FALSE(sum);
  EXPECT_EQ(sum.error().code(), ErrorCode::read_failed);
  EXPECT_EQ(sum.error().rule(), "mapped_pages_can_be_read");
  EXPECT_EQ(sum.error().offset(), page);
}

TEST_F(FaultGuard, restores_the_pages_of_the_file_when_it_ends) {
  const auto mapped = map_window();
  ASSERT_TRUE(mapped);
  truncate_to(page);
  EXPECT_FALSE(guarded(mapped->bytes(), [&] { EXPECT_EQ(sum_of(mapped->bytes()), int{page}); }));
  write_file(path_, std::string(pages * page, '\2'));
  // Read outside of a section, because a section would restore the pages too.
  EXPECT_EQ(sum_of(mapped->bytes()), int{2 * pages * page});
}

TEST_F(FaultGuard, replaces_only_pages_of_its_ranges) {
  const auto mapped = map_window();
  ASSERT_TRUE(mapped);
  const Bytes middle = mapped->bytes().subspan(2 * page, 2 * page);
  truncate_to(page);
  EXPECT_FALSE(guarded(middle, [&] {
    EXPECT_EQ(sum_of(middle), 0);
    write_file(path_, std::string(pages * page, '\1'));
    EXPECT_EQ(sum_of(mapped->bytes()), int{(pages - 2) * page});
  }));
}

TEST_F(FaultGuard, reports_faults_on_other_threads) {
  const auto mapped = map_window();
  ASSERT_TRUE(mapped);
  truncate_to(page);
  EXPECT_FALSE(guarded(mapped->bytes(), [&] { std::thread([&] { sum_of(mapped->bytes()); }).join(); }));
}

TEST_F(FaultGuard, reports_to_all_sections_over_the_page) {
  const auto mapped = map_window();
  ASSERT_TRUE(mapped);
  truncate_to(page);
  std::latch both_are_open(2);
  std::latch is_replaced(1);
  std::atomic<int> reported = 0;
  {
    const std::jthread first([&] {
      reported += !guarded(mapped->bytes(), [&] {
        both_are_open.arrive_and_wait();
        sum_of(mapped->bytes());
        is_replaced.count_down();
      });
    });
    const std::jthread second([&] {
      reported += !guarded(mapped->bytes().last(page), [&] {
        both_are_open.arrive_and_wait();
        is_replaced.wait();
        sum_of(mapped->bytes().last(page));
      });
    });
  }
  EXPECT_EQ(reported, 2);
}

TEST_F(FaultGuard, reports_to_a_section_that_begins_over_replaced_pages) {
  const auto mapped = map_window();
  ASSERT_TRUE(mapped);
  truncate_to(page);
  EXPECT_FALSE(guarded(mapped->bytes(), [&] {
    sum_of(mapped->bytes());
    std::jthread([&] {
      EXPECT_FALSE(guarded_sum(mapped->bytes().last(page)));
      EXPECT_TRUE(guarded_sum(mapped->bytes().first(page)));
      // This section does not read its pages.
      EXPECT_TRUE(guarded(mapped->bytes().last(page), [] {}));
    }).join();
  }));
}

TEST_F(FaultGuard, reports_no_faults_of_another_file) {
  const auto mapped = map_window();
  ASSERT_TRUE(mapped);
  write_file(folder_ / "bad", std::string(pages * page, '\1'));
  const auto bad = map_whole(folder_ / "bad");
  std::filesystem::resize_file(folder_ / "bad", page);
  std::atomic<bool> is_over = false;
  std::latch has_begun(1);
  std::jthread faulting([&] {
    EXPECT_FALSE(guarded_sum(bad.bytes()));
    has_begun.count_down();
    while (!is_over) EXPECT_FALSE(guarded_sum(bad.bytes()));
  });
  has_begun.wait();
  for (int i = 0; i < 200; ++i) EXPECT_EQ(guarded_sum(mapped->bytes()), int{pages * page});
  is_over = true;
}

TEST_F(FaultGuard, accepts_several_ranges) {
  const auto mapped = map_window();
  ASSERT_TRUE(mapped);
  truncate_to(page);
  const std::array<Bytes, 2> both{mapped->bytes().first(page), mapped->bytes().subspan(3 * page, 1)};
  EXPECT_FALSE(guarded(both, [&] { return sum_of(both[0]) + sum_of(both[1]); }));
  EXPECT_TRUE(guarded(both, [&] { return sum_of(both[0]); }));
}

TEST_F(FaultGuard, nests) {
  const auto mapped = map_window();
  ASSERT_TRUE(mapped);
  truncate_to(page);
  bool inner_failed = false;
  const auto outer = guarded(mapped->bytes(), [&] {
    EXPECT_TRUE(guarded(mapped->bytes().first(1), [] { return 1; }));
    inner_failed = !guarded_sum(mapped->bytes());
  });
  EXPECT_TRUE(inner_failed);
  EXPECT_FALSE(outer);
}

TEST_F(FaultGuard, a_fault_replaces_the_result_of_the_body) {
  const auto mapped = map_window();
  ASSERT_TRUE(mapped);
  truncate_to(page);
  const auto result = guarded(mapped->bytes(), [&]() -> Result<int> {
    sum_of(mapped->bytes());
    return fail(ErrorCode::checksum_mismatch, "sum_matches", "sum differs");
  });
  EXPECT_EQ(result.error().code(), ErrorCode::changed_underfoot);
}

TEST_F(FaultGuard, reports_faults_of_many_threads_at_once) {
  const auto mapped = map_window();
  ASSERT_TRUE(mapped);
  truncate_to(page);
  std::atomic<int> reported = 0;
  constexpr int threads = 8;
  std::latch ready(threads);
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < threads; ++i) {
      workers.emplace_back([&] {
        ready.arrive_and_wait();
        for (int round = 0; round < 50; ++round) reported += !guarded_sum(mapped->bytes()).has_value();
      });
    }
  }
  EXPECT_EQ(reported, threads * 50);
}

TEST_F(FaultGuard, reports_pages_that_cannot_be_restored) {
  const auto mapped = map_window();
  ASSERT_TRUE(mapped);
  truncate_to(page);
  port_.fail_from(Call::map_over, 0, std::errc::not_enough_memory);
  EXPECT_FALSE(guarded_sum(mapped->bytes()));
  // The page may hold zeros, so a section over it fails even if the body does not read it.
  EXPECT_FALSE(guarded(mapped->bytes().last(1), [] {}));
  EXPECT_TRUE(guarded_sum(mapped->bytes().first(page)));
  port_.fail_from(Call::map_over, INT_MAX, std::errc::not_enough_memory);
  EXPECT_TRUE(guarded(mapped->bytes().last(1), [] {}));
}

TEST_F(FaultGuard, outlives_the_mapping) {
  std::optional<Mapped> mapped = map_window().value();
  truncate_to(page);
  const auto failed = guarded(mapped->bytes(), [&] {
    sum_of(mapped->bytes());
    mapped.reset();
  });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().rule(), "mapped_pages_can_be_read");
}

TEST_F(FaultGuard, keeps_guarding_the_pages_if_unmapping_fails) {
  auto mapped = map_window();
  ASSERT_TRUE(mapped);
  port_.fail_at(Call::unmap, 0, std::errc::not_enough_memory);
  EXPECT_EQ(mapped->unmap().error().code(), ErrorCode::unmap_failed);
  truncate_to(page);
  EXPECT_FALSE(guarded_sum(mapped->bytes()));
  EXPECT_TRUE(mapped->unmap());
}

TEST_F(FaultGuard, restores_zeroed_pages_after_unmapping_failed) {
  auto mapped = map_window({.faults = FaultPolicy::zero_fill});
  ASSERT_TRUE(mapped);
  truncate_to(page);
  EXPECT_EQ(sum_of(mapped->bytes()), int{page});
  port_.fail_at(Call::unmap, 0, std::errc::not_enough_memory);
  EXPECT_FALSE(mapped->unmap());
  EXPECT_TRUE(mapped->fault());
  write_file(path_, std::string(pages * page, '\2'));
  EXPECT_EQ(guarded_sum(mapped->bytes()), int{2 * pages * page});
}

TEST_F(FaultGuard, zero_fill_replaces_only_unreadable_pages) {
  const auto mapped = map_window({.faults = FaultPolicy::zero_fill});
  ASSERT_TRUE(mapped);
  truncate_to(page);
  EXPECT_EQ(sum_of(mapped->bytes().subspan(page, page)), 0);
  write_file(path_, std::string(pages * page, '\1'));
  EXPECT_EQ(sum_of(mapped->bytes()), int{(pages - 1) * page});
}

TEST_F(FaultGuard, explains_efault_of_a_system_call) {
  const auto write_page = [&](const Mapped& mapped) {
    const Bytes last = mapped.bytes().last(page);
    return guarded(last, [&]() -> Result<void> {
      const int file = ::open((folder_ / "out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
      const bool is_written = ::write(file, last.data(), last.size()) == ssize_t{page};
      const std::error_code cause(errno, std::generic_category());
      ::close(file);
      if (is_written) return {};
      return fail(Error(ErrorCode::write_failed, "page_is_written", "").with_cause(cause));
    });
  };
  const auto mapped = map_window().value();
  const auto unguarded = map_window({.faults = FaultPolicy::off}).value();
  EXPECT_TRUE(write_page(mapped));
  truncate_to(page);
  const auto failed = write_page(mapped);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().rule(), "mapped_pages_are_in_the_file");
  EXPECT_EQ(failed.error().offset(), (pages - 1) * page);
  // With `FaultPolicy::off` the page is not touched to find the cause: the fault would end the process.
  EXPECT_EQ(write_page(unguarded).error().rule(), "page_is_written");
}

TEST_F(FaultGuard, zero_fill_reads_zeros_and_stores_the_first_fault) {
  const auto mapped = map_window({.faults = FaultPolicy::zero_fill});
  ASSERT_TRUE(mapped);
  truncate_to(3 * page);
  EXPECT_FALSE(mapped->fault());
  EXPECT_EQ(sum_of(mapped->bytes().last(page)), 0);
  EXPECT_EQ(sum_of(mapped->bytes()), int{3 * page});
  const auto fault = mapped->fault();
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->rule(), "mapped_pages_are_in_the_file");
  EXPECT_EQ(fault->offset(), (pages - 1) * page);
  EXPECT_FALSE(guarded_sum(mapped->bytes()));
  EXPECT_EQ(sum_of(mapped->bytes()), int{3 * page});
}

TEST_F(FaultGuard, zero_fill_keeps_the_fault_of_an_unmapped_window) {
  auto mapped = map_window({.faults = FaultPolicy::zero_fill});
  ASSERT_TRUE(mapped);
  truncate_to(page);
  EXPECT_EQ(sum_of(mapped->bytes()), int{page});
  ASSERT_TRUE(mapped->unmap());
  const auto fault = mapped->fault();
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->offset(), page);
}

TEST_F(FaultGuard, policy_off_reads_with_system_calls) {
  io::MappedFile unguarded(
      FileSource::open(path_, port_).value(),
      {.faults = FaultPolicy::off, .tensor_at = [](std::uint64_t) { return std::string("t"); }});
  EXPECT_TRUE(unguarded.must_read());
  const Bytes in_place = unguarded.map(page, 3).value().memory.bytes;
  int sum = 0;
  const auto add = [&](Bytes bytes) -> Result<void> {
    EXPECT_NE(bytes.data(), in_place.data());
    sum = sum_of(bytes);
    return {};
  };
  ASSERT_TRUE(unguarded.visit(page, 3, add));
  EXPECT_EQ(sum, 3);
  EXPECT_EQ(unguarded.visit(pages * page, 1, add).error().code(), ErrorCode::out_of_bounds);
  truncate_to(page);
  const auto truncated = unguarded.visit(page - 1, 3, add);
  ASSERT_FALSE(truncated);
  EXPECT_EQ(truncated.error().code(), ErrorCode::changed_underfoot);
  EXPECT_EQ(truncated.error().path(), path_.string());
  EXPECT_EQ(truncated.error().tensor(), "t");
  EXPECT_EQ(truncated.error().offset(), page);
  // Fetching pages does not touch a page either.
  EXPECT_EQ(unguarded.advise(0, pages * page, Strategy::Advice::populate).error().code(),
            ErrorCode::changed_underfoot);
  EXPECT_FALSE(unguarded.fault());
}

TEST_F(FaultGuard, file_is_unchanged) {
  const auto file = FileSource::open(path_, port_).value();
  EXPECT_TRUE(file->check_unchanged());
  truncate_to(page);
  const auto error = file->check_unchanged().error();
  EXPECT_EQ(error.code(), ErrorCode::changed_underfoot);
  EXPECT_EQ(error.rule(), "file_is_unchanged");
  truncate_to(pages * page);
  EXPECT_EQ(file->check_unchanged().error().rule(), "file_is_unchanged");
  // A rename of another file to the same path does not change the open file.
  write_file(path_, "x");
  const auto reopened = FileSource::open(path_, port_).value();
  write_file(folder_ / "new", "y");
  std::filesystem::rename(folder_ / "new", path_);
  EXPECT_TRUE(reopened->check_unchanged());
  port_.fail_at(Call::stat, port_.count(Call::stat), std::errc::io_error);
  EXPECT_EQ(reopened->check_unchanged().error().code(), ErrorCode::read_failed);
}

TEST_F(FaultGuard, sections_without_a_fault_return_the_result_of_the_body) {
  const Bytes none;
  EXPECT_EQ(guarded(none, [] { return 3; }), 3);
  EXPECT_TRUE(guarded(none, [] {}));
  EXPECT_EQ(guarded(none, []() -> Result<int> { return 4; }), 4);
  EXPECT_EQ(guarded(none, []() -> Result<int> { return fail(Error(ErrorCode::not_found)); }).error().code(),
            ErrorCode::not_found);
  const auto mapped = map_window();
  ASSERT_TRUE(mapped);
  EXPECT_THROW(static_cast<void>(guarded(mapped->bytes(), []() -> int { throw 5; })), int);
}

}  // namespace
}  // namespace ht::io::fault_guard_test
