// Pages that are gone when they are touched: an Error where it is asked for, and never the end of the
// process.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <htensor/base/fault.hpp>
#include <htensor/io/mapped.hpp>
#include <latch>
#include <numeric>
#include <thread>

#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::io {
namespace {

using ht::testing::Call;
using ht::testing::FaultyPort;
using ht::testing::TemporaryFolder;
using ht::testing::write_file;

constexpr std::size_t page = 4096;
constexpr std::size_t pages = 8;

// Each byte is read, whether or not somebody wants the sum.
int sum_of(Bytes bytes) {
  int sum = 0;
  for (const volatile std::byte& byte : bytes) sum += static_cast<int>(byte);
  return sum;
}

class FaultGuard : public ::testing::Test {
 protected:
  void SetUp() override { write_file(path_, std::string(pages * page, '\1')); }
  Result<Mapped> map(MapOptions options = {}) {
    return HT_TRY(Opened::open(path_, port_)).map(std::move(options));
  }
  void cut_to(std::size_t bytes) { std::filesystem::resize_file(path_, bytes); }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "model";
  FaultyPort port_;
};

TEST_F(FaultGuard, mapped_pages_are_still_there) {
  const auto mapped =
      map({.tensor_at = [](std::uint64_t offset) { return "t" + std::to_string(offset / page); }});
  ASSERT_TRUE(mapped);
  EXPECT_EQ(guarded([&] { return sum_of(mapped->bytes()); }), int{pages * page});
  cut_to(3 * page);
  const auto sum = guarded([&] { return sum_of(mapped->bytes()); });
  ASSERT_FALSE(sum);
  EXPECT_EQ(sum.error().code(), ErrorCode::changed_underfoot);
  EXPECT_EQ(sum.error().rule(), "mapped_pages_are_still_there");
  EXPECT_EQ(sum.error().path(), path_.string());
  EXPECT_EQ(sum.error().offset(), 3 * page);
  EXPECT_EQ(sum.error().tensor(), "t3");
  EXPECT_FALSE(sum.error().hint().empty());
  // What is left can still be read.
  EXPECT_EQ(guarded([&] { return sum_of(mapped->bytes().first(3 * page)); }), int{3 * page});
}

TEST_F(FaultGuard, tells_everybody_who_touches_and_nobody_else) {
  const auto mapped = map();
  ASSERT_TRUE(mapped);
  cut_to(page);
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(guarded([&] { return sum_of(mapped->bytes()); }).error().code(), ErrorCode::changed_underfoot);
    EXPECT_TRUE(guarded([&] { return sum_of(mapped->bytes().first(page)); }));
  }
}

TEST_F(FaultGuard, mapped_pages_can_be_read) {
  const auto mapped = map();
  ASSERT_TRUE(mapped);
  cut_to(page);
  // As if the file were as long as ever: then it was the disk that could not.
  const auto sum = guarded([&] {
    const int found = sum_of(mapped->bytes());
    cut_to(pages * page);
    return found;
  });
  ASSERT_FALSE(sum);
  EXPECT_EQ(sum.error().code(), ErrorCode::read_failed);
  EXPECT_EQ(sum.error().rule(), "mapped_pages_can_be_read");
  EXPECT_EQ(sum.error().offset(), page);
}

TEST_F(FaultGuard, gives_zeros_to_who_is_not_guarded) {
  const auto mapped = map();
  ASSERT_TRUE(mapped);
  cut_to(page);
  EXPECT_EQ(sum_of(mapped->bytes()), int{page});
  // And to those who are, the truth.
  EXPECT_FALSE(guarded([&] { return sum_of(mapped->bytes()); }));
}

TEST_F(FaultGuard, hears_of_faults_on_other_threads) {
  const auto mapped = map();
  ASSERT_TRUE(mapped);
  cut_to(page);
  EXPECT_FALSE(guarded([&] { std::thread([&] { sum_of(mapped->bytes()); }).join(); }));
}

TEST_F(FaultGuard, does_not_hear_of_what_it_does_not_touch) {
  const auto mapped = map();
  ASSERT_TRUE(mapped);
  const auto whole = mapped->bytes().first(page);
  cut_to(page);
  const auto walk_all = [&] { return sum_of(mapped->bytes()); };
  EXPECT_TRUE(guarded(whole, walk_all));
  EXPECT_FALSE(guarded(mapped->bytes().last(1), walk_all));
  const std::array<Bytes, 2> both{whole, mapped->bytes().subspan(3 * page, 1)};
  EXPECT_FALSE(guarded(both, walk_all));
  EXPECT_FALSE(guarded(walk_all));
}

TEST_F(FaultGuard, nests) {
  const auto mapped = map();
  ASSERT_TRUE(mapped);
  cut_to(page);
  bool inner_failed = false;
  const auto outer = guarded([&] {
    EXPECT_TRUE(guarded([] { return 1; }));
    inner_failed = !guarded([&] { return sum_of(mapped->bytes()); });
  });
  EXPECT_TRUE(inner_failed);
  EXPECT_FALSE(outer);
}

TEST_F(FaultGuard, a_fault_counts_more_than_what_the_body_says) {
  const auto mapped = map();
  ASSERT_TRUE(mapped);
  cut_to(page);
  const auto said = guarded([&]() -> Result<int> {
    sum_of(mapped->bytes());
    return fail(ErrorCode::checksum_mismatch, "sum_is_right", "it is wrong");
  });
  EXPECT_EQ(said.error().code(), ErrorCode::changed_underfoot);
}

TEST_F(FaultGuard, many_threads_fault_at_once) {
  const auto mapped = map();
  ASSERT_TRUE(mapped);
  cut_to(page);
  std::atomic<int> told = 0;
  constexpr int threads = 8;
  std::latch ready(threads);
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < threads; ++i) {
      workers.emplace_back([&] {
        ready.arrive_and_wait();
        for (int round = 0; round < 50; ++round) {
          told += !guarded([&] { return sum_of(mapped->bytes()); }).has_value();
        }
      });
    }
  }
  EXPECT_EQ(told, threads * 50);
}

TEST_F(FaultGuard, tells_of_zeros_that_cannot_be_replaced) {
  const auto mapped = map();
  ASSERT_TRUE(mapped);
  cut_to(page);
  EXPECT_FALSE(guarded([&] { return sum_of(mapped->bytes()); }));
  port_.fail_at(Call::map_over, 0, std::errc::not_enough_memory);
  // Where it is not known who reads zeros, everybody is warned.
  EXPECT_FALSE(guarded([&] { return sum_of(mapped->bytes().first(1)); }));
  EXPECT_TRUE(guarded([&] { return sum_of(mapped->bytes().first(1)); }));
}

TEST_F(FaultGuard, outlives_the_mapping) {
  std::optional<Mapped> mapped = map().value();
  cut_to(page);
  const auto gone = guarded([&] {
    sum_of(mapped->bytes());
    mapped.reset();
  });
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().rule(), "mapped_pages_can_be_read");
}

TEST_F(FaultGuard, stays_where_unmapping_fails) {
  auto mapped = map();
  ASSERT_TRUE(mapped);
  port_.fail_at(Call::unmap, 0, std::errc::not_enough_memory);
  EXPECT_EQ(mapped->unmap().error().code(), ErrorCode::unmap_failed);
  cut_to(page);
  EXPECT_FALSE(guarded([&] { return sum_of(mapped->bytes()); }));
  EXPECT_TRUE(mapped->unmap());
}

TEST_F(FaultGuard, file_is_as_it_was) {
  const auto mapped = map();
  ASSERT_TRUE(mapped);
  EXPECT_TRUE(mapped->check_unchanged());
  cut_to(page);
  const auto error = mapped->check_unchanged().error();
  EXPECT_EQ(error.code(), ErrorCode::changed_underfoot);
  EXPECT_EQ(error.rule(), "file_is_as_it_was");
  cut_to(pages * page);
  EXPECT_EQ(mapped->check_unchanged().error().rule(), "file_is_as_it_was");
  // A new file in its place leaves the mapped one alone.
  write_file(path_, "x");
  const auto again = map();
  ASSERT_TRUE(again);
  write_file(folder_ / "new", "y");
  std::filesystem::rename(folder_ / "new", path_);
  EXPECT_TRUE(again->check_unchanged());
  port_.fail_at(Call::stat, port_.count(Call::stat), std::errc::io_error);
  EXPECT_EQ(again->check_unchanged().error().code(), ErrorCode::read_failed);
}

// What ends a child that runs the body; 0 where it ends by itself.
template <class Body>
int signal_that_ends(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    // Without the sanitizer's own handler, which reports and exits.
    std::signal(SIGBUS, SIG_DFL);
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST_F(FaultGuard, can_be_left_out) {
  EXPECT_EQ(signal_that_ends([&] {
              const auto mapped = map({.guard = false}).value();
              cut_to(page);
              sum_of(mapped.bytes());
            }),
            SIGBUS);
  EXPECT_EQ(signal_that_ends([&] {
              write_file(path_, std::string(pages * page, '\1'));
              const auto mapped = map().value();
              cut_to(page);
              sum_of(mapped.bytes());
            }),
            0);
}

// A mapping of somebody else, of a file that is cut behind the first page.
const volatile char* foreign_pages(const std::filesystem::path& path) {
  write_file(path, std::string(2 * page, '\1'));
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  void* const data = mmap(nullptr, 2 * page, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  std::filesystem::resize_file(path, page);
  return static_cast<const volatile char*>(data);
}

TEST_F(FaultGuard, leaves_foreign_faults_to_the_default) {
  EXPECT_EQ(signal_that_ends([&] {
              const auto mapped = map().value();
              static_cast<void>(foreign_pages(folder_ / "foreign")[page]);
            }),
            SIGBUS);
  EXPECT_EQ(signal_that_ends([&] {
              const auto mapped = map().value();
              raise(SIGBUS);
            }),
            SIGBUS);
}

std::atomic<int> seen_by_earlier = 0;
const volatile char* foreign = nullptr;

void put_a_page_there() {
  ++seen_by_earlier;
  mmap(const_cast<char*>(foreign) + page, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}
void earlier_with_info(int, siginfo_t* info, void*) {
  if (info->si_addr == foreign + page) put_a_page_there();
}
void earlier_plain(int) { put_a_page_there(); }

TEST_F(FaultGuard, chains_to_an_earlier_handler_and_restores_it) {
  struct sigaction at_first{};
  sigaction(SIGBUS, nullptr, &at_first);
  for (const bool with_info : {true, false}) {
    struct sigaction earlier{};
    if (with_info) {
      earlier.sa_sigaction = earlier_with_info;
      earlier.sa_flags = SA_SIGINFO;
    } else {
      earlier.sa_handler = earlier_plain;
    }
    sigaction(SIGBUS, &earlier, nullptr);
    foreign = foreign_pages(folder_ / "foreign");
    seen_by_earlier = 0;
    write_file(path_, std::string(pages * page, '\1'));
    {
      const auto mapped = map().value();
      EXPECT_EQ(foreign[page], 0);
      EXPECT_EQ(seen_by_earlier, 1);
      cut_to(page);
      EXPECT_FALSE(guarded([&] { return sum_of(mapped.bytes()); }));
      EXPECT_EQ(seen_by_earlier, 1);
    }
    struct sigaction now{};
    sigaction(SIGBUS, nullptr, &now);
    EXPECT_EQ(now.sa_handler, earlier.sa_handler);
    munmap(const_cast<char*>(foreign), 2 * page);
  }
  sigaction(SIGBUS, &at_first, nullptr);
}

void on_top(int, siginfo_t*, void*) {}

TEST_F(FaultGuard, leaves_a_later_handler_in_place) {
  struct sigaction at_first{};
  sigaction(SIGBUS, nullptr, &at_first);
  EXPECT_EQ(signal_that_ends([&] {
              {
                const auto mapped = map().value();
                struct sigaction later{};
                later.sa_sigaction = on_top;
                later.sa_flags = SA_SIGINFO;
                sigaction(SIGBUS, &later, nullptr);
              }
              struct sigaction now{};
              sigaction(SIGBUS, nullptr, &now);
              if (now.sa_sigaction != on_top) abort();
            }),
            0);
}

TEST_F(FaultGuard, many_mappings_are_told_apart) {
  std::vector<Mapped> mappings;
  for (int i = 0; i < 200; ++i) {
    const auto path = folder_ / std::to_string(i);
    write_file(path, std::string(2 * page, '\1'));
    mappings.push_back(Opened::open(path).value().map().value());
    if (i % 2 == 0) std::filesystem::resize_file(path, page);
  }
  for (int i = 0; i < 200; ++i) {
    const auto sum = guarded([&] { return sum_of(mappings[static_cast<std::size_t>(i)].bytes()); });
    EXPECT_EQ(sum.has_value(), i % 2 == 1) << i;
    if (!sum) {
      EXPECT_EQ(sum.error().path(), (folder_ / std::to_string(i)).string());
    }
  }
}

TEST_F(FaultGuard, sections_without_a_fault_give_what_the_body_gives) {
  EXPECT_EQ(guarded([] { return 3; }), 3);
  EXPECT_TRUE(guarded([] {}));
  EXPECT_EQ(guarded([]() -> Result<int> { return 4; }), 4);
  EXPECT_EQ(guarded([]() -> Result<int> { return fail(Error(ErrorCode::not_found)); }).error().code(),
            ErrorCode::not_found);
  EXPECT_THROW(static_cast<void>(guarded([]() -> int { throw 5; })), int);
}

}  // namespace
}  // namespace ht::io
