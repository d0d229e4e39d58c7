// The library's SIGBUS handler together with handlers of the program, threads and forked children.
#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <latch>
#include <thread>

#include "io/fault_test.hpp"

namespace ht::io::fault_handler_test {
namespace {

using ht::testing::write_file;

constexpr std::size_t page = 4096;

class FaultHandlers : public FaultFixture {
 protected:
  template <class Body>
  int terminating_signal_after_truncation(FaultPolicy policy, const Body& body) {
    write_file(path_, std::string(pages * page, '\1'));
    return terminating_signal([&] {
      const auto mapped = map_window({.faults = policy}).value();
      truncate_to(page);
      body(mapped.bytes());
    });
  }
};

TEST_F(FaultHandlers, a_fault_outside_of_sections_ends_the_process) {
  const auto walk = [](Bytes bytes) { sum_of(bytes); };
  EXPECT_EQ(terminating_signal_after_truncation(FaultPolicy::guarded, walk), SIGBUS);
  EXPECT_EQ(terminating_signal_after_truncation(FaultPolicy::off, walk), SIGBUS);
  EXPECT_EQ(terminating_signal_after_truncation(FaultPolicy::zero_fill, walk), 0);
  // The same after a section that returned an Error.
  EXPECT_EQ(terminating_signal_after_truncation(FaultPolicy::guarded,
                                                [](Bytes bytes) {
                                                  if (guarded_sum(bytes)) abort();
                                                  sum_of(bytes);
                                                }),
            SIGBUS);
}

TEST_F(FaultHandlers, a_fault_in_a_section_over_other_bytes_ends_the_process) {
  EXPECT_EQ(terminating_signal_after_truncation(FaultPolicy::guarded,
                                                [](Bytes bytes) {
                                                  static_cast<void>(guarded(bytes.first(2 * page),
                                                                            [&] { sum_of(bytes.last(1)); }));
                                                }),
            SIGBUS);
  EXPECT_EQ(
      terminating_signal_after_truncation(
          FaultPolicy::off, [](Bytes bytes) { static_cast<void>(guarded(bytes, [&] { sum_of(bytes); })); }),
      SIGBUS);
}

// Returns a mapping that the library does not know, of a file that ends after the first page.
const volatile char* foreign_pages(const std::filesystem::path& path) {
  write_file(path, std::string(2 * page, '\1'));
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  void* const data = mmap(nullptr, 2 * page, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  std::filesystem::resize_file(path, page);
  return static_cast<const volatile char*>(data);
}

TEST_F(FaultHandlers, leave_unrelated_faults_to_the_default_handler) {
  EXPECT_EQ(terminating_signal([&] {
              const auto mapped = map_window().value();
              static_cast<void>(foreign_pages(folder_ / "foreign")[page]);
            }),
            SIGBUS);
  EXPECT_EQ(terminating_signal([&] {
              const auto mapped = map_window().value();
              raise(SIGBUS);
            }),
            SIGBUS);
}

std::atomic<int> earlier_calls = 0;
std::atomic<const volatile char*> bad_page = nullptr;

void map_page() {
  ++earlier_calls;
  mmap(const_cast<char*>(bad_page.load()), page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}
void earlier_with_info(int, siginfo_t* info, void*) {
  if (info->si_addr == bad_page) map_page();
}
void earlier_plain(int) { map_page(); }

TEST_F(FaultHandlers, chain_to_an_earlier_handler_and_restore_it) {
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
    const volatile char* const foreign = foreign_pages(folder_ / "foreign");
    bad_page = foreign + page;
    earlier_calls = 0;
    write_file(path_, std::string(pages * page, '\1'));
    {
      const auto mapped = map_window().value();
      EXPECT_EQ(foreign[page], 0);
      EXPECT_EQ(earlier_calls, 1);
      truncate_to(page);
      EXPECT_FALSE(guarded_sum(mapped.bytes()));
      EXPECT_EQ(earlier_calls, 1);
      // A fault outside of a section, in a page of the library's mapping.
      bad_page = reinterpret_cast<const volatile char*>(mapped.bytes().data()) + page;
      EXPECT_EQ(*bad_page.load(), 0);
      EXPECT_EQ(earlier_calls, 2);
    }
    struct sigaction now{};
    sigaction(SIGBUS, nullptr, &now);
    EXPECT_EQ(now.sa_handler, earlier.sa_handler);
    munmap(const_cast<char*>(foreign), 2 * page);
  }
  sigaction(SIGBUS, &at_first, nullptr);
}

// Installs the disposition that the library finds when it maps a file.
void install(void (*handler)(int), int flags = 0) {
  struct sigaction earlier{};
  earlier.sa_handler = handler;
  earlier.sa_flags = flags;
  sigaddset(&earlier.sa_mask, SIGUSR1);
  sigaction(SIGBUS, &earlier, nullptr);
}

void reraise(int signal) {
  if (++earlier_calls > 1) _exit(0);
  raise(signal);
}
void fault_again(int) {
  if (++earlier_calls > 1) _exit(0);
  static_cast<void>(*bad_page.load());
}
void expect_mask(int) {
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  if (sigismember(&blocked, SIGBUS) == 0 || sigismember(&blocked, SIGUSR1) == 0) abort();
  map_page();
}

TEST_F(FaultHandlers, call_an_earlier_handler_as_the_system_does) {
  const auto signal_under = [&](void (*handler)(int), int flags) {
    write_file(path_, std::string(pages * page, '\1'));
    return terminating_signal([&] {
      install(handler, flags);
      const auto mapped = map_window().value();
      truncate_to(page);
      bad_page = reinterpret_cast<const volatile char*>(mapped.bytes().data()) + page;
      earlier_calls = 0;
      static_cast<void>(*bad_page.load());
    });
  };
  // The second signal has the default action.
  EXPECT_EQ(signal_under(reraise, static_cast<int>(SA_RESETHAND)), SIGBUS);
  EXPECT_EQ(signal_under(reraise, static_cast<int>(SA_RESETHAND | SA_NODEFER)), SIGBUS);
  EXPECT_EQ(signal_under(fault_again, 0), SIGBUS);
  EXPECT_EQ(signal_under(expect_mask, 0), 0);
  EXPECT_EQ(signal_under(SIG_IGN, 0), SIGBUS);
  EXPECT_EQ(signal_under(SIG_DFL, SA_SIGINFO), SIGBUS);
}

TEST_F(FaultHandlers, ignore_a_sent_signal_that_was_ignored_before) {
  EXPECT_EQ(terminating_signal([&] {
              install(SIG_IGN);
              const auto mapped = map_window().value();
              raise(SIGBUS);
              truncate_to(page);
              if (guarded_sum(mapped.bytes())) abort();
            }),
            0);
}

struct sigaction replaced{};  // the disposition of the library
void make_the_page_readable(int signal, siginfo_t* info, void* context) {
  replaced.sa_sigaction(signal, info, context);
  map_page();
}

TEST_F(FaultHandlers, end_the_process_even_if_the_page_is_readable_again) {
  EXPECT_EQ(terminating_signal_after_truncation(FaultPolicy::guarded,
                                                [](Bytes bytes) {
                                                  struct sigaction later{};
                                                  later.sa_sigaction = make_the_page_readable;
                                                  later.sa_flags = SA_SIGINFO;
                                                  sigaction(SIGBUS, &later, &replaced);
                                                  bad_page =
                                                      reinterpret_cast<const volatile char*>(&bytes[page]);
                                                  static_cast<void>(*bad_page.load());
                                                }),
            SIGBUS);
}

void do_nothing(int, siginfo_t*, void*) {}

TEST_F(FaultHandlers, leave_a_later_handler_installed) {
  EXPECT_EQ(terminating_signal([&] {
              {
                const auto mapped = map_window().value();
                struct sigaction later{};
                later.sa_sigaction = do_nothing;
                later.sa_flags = SA_SIGINFO;
                sigaction(SIGBUS, &later, nullptr);
              }
              struct sigaction now{};
              sigaction(SIGBUS, nullptr, &now);
              if (now.sa_sigaction != do_nothing) abort();
            }),
            0);
}

TEST_F(FaultHandlers, are_installed_again_after_the_program_reset_the_signal) {
  write_file(folder_ / "other", std::string(pages * page, '\1'));
  for (const auto disposition : {SIG_DFL, SIG_IGN}) {
    for (const bool is_mapped : {true, false}) {
      write_file(path_, std::string(pages * page, '\1'));
      EXPECT_EQ(terminating_signal([&] {
                  {
                    std::optional<Mapped> earlier = map_whole(folder_ / "other");
                    std::signal(SIGBUS, disposition);
                    if (!is_mapped) earlier.reset();
                    const auto mapped = map_window().value();
                    truncate_to(page);
                    if (guarded_sum(mapped.bytes())) abort();
                  }
                  struct sigaction now{};
                  sigaction(SIGBUS, nullptr, &now);
                  if (now.sa_handler != disposition) abort();
                }),
                0)
          << is_mapped;
    }
  }
}

TEST_F(FaultHandlers, a_forked_child_has_no_sections_of_other_threads) {
  struct sigaction at_first{};
  sigaction(SIGBUS, nullptr, &at_first);
  std::signal(SIGBUS, SIG_DFL);
  {
    const auto mapped = map_window().value();
    truncate_to(page);
    std::latch is_open(1);
    std::latch is_over(1);
    const std::jthread other([&] {
      static_cast<void>(guarded(mapped.bytes(), [&] {
        is_open.count_down();
        is_over.wait();
      }));
    });
    is_open.wait();
    const auto run = [&](bool in_section) {
      const pid_t child = fork();
      if (child == 0) {
        const rlimit no_core{0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        if (in_section) _exit(guarded_sum(mapped.bytes()).has_value() ? 1 : 0);
        _exit(sum_of(mapped.bytes()) == 0 ? 1 : 2);
      }
      int status = 0;
      waitpid(child, &status, 0);
      return status;
    };
    EXPECT_EQ(WTERMSIG(run(false)), SIGBUS);
    EXPECT_EQ(run(true), 0);
    is_over.count_down();
  }
  sigaction(SIGBUS, &at_first, nullptr);
}

TEST_F(FaultHandlers, distinguish_many_mappings) {
  std::vector<Mapped> mappings;
  for (int i = 0; i < 200; ++i) {
    const auto path = folder_ / std::to_string(i);
    write_file(path, std::string(2 * page, '\1'));
    mappings.push_back(map_whole(path));
    if (i % 2 == 0) std::filesystem::resize_file(path, page);
  }
  for (int i = 0; i < 200; ++i) {
    const auto sum = guarded_sum(mappings[static_cast<std::size_t>(i)].bytes());
    EXPECT_EQ(sum.has_value(), i % 2 == 1) << i;
    if (!sum) {
      EXPECT_EQ(sum.error().path(), (folder_ / std::to_string(i)).string());
    }
  }
}

// Some threads fault in their own mappings. Other threads map a file, fault, unmap the file and map memory at
// its address. A handler that runs too late would replace this memory by zeros.
TEST_F(FaultHandlers, never_replace_memory_at_a_reused_address) {
  constexpr int rounds = 100;
  constexpr int threads = 2;
  const auto fault = [](Bytes bytes) { return guarded(bytes, [&] { return sum_of(bytes.last(1)); }); };
  const auto open_and_fault = [&](const std::filesystem::path& path) {
    write_file(path, std::string(pages * page, '\1'));
    auto mapped = map_whole(path);
    std::filesystem::resize_file(path, page);
    EXPECT_FALSE(fault(mapped.bytes()));
    return mapped;
  };
  std::atomic<int> at_work = threads;
  std::vector<std::jthread> all;
  for (int i = 0; i < threads; ++i) {
    all.emplace_back([&, i] {
      const auto mapped = open_and_fault(folder_ / ("faults" + std::to_string(i)));
      while (at_work != 0) EXPECT_FALSE(fault(mapped.bytes()));
    });
    all.emplace_back([&, i] {
      const auto path = folder_ / ("maps" + std::to_string(i));
      for (int round = 0; round < rounds; ++round) {
        std::optional<Mapped> mapped = open_and_fault(path);
        void* const place = const_cast<std::byte*>(mapped->bytes().data());
        mapped.reset();
        void* const memory =
            mmap(place, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(memory, MAP_FAILED);
        const std::span words(static_cast<volatile std::uint64_t*>(memory), pages * page / 8);
        for (std::size_t at = 0; at < words.size(); at += page / 8) words[at] = at + 1;
        std::this_thread::yield();
        for (std::size_t at = 0; at < words.size(); at += page / 8) EXPECT_EQ(words[at], at + 1);
        munmap(memory, pages * page);
      }
      --at_work;
    });
  }
}

}  // namespace
}  // namespace ht::io::fault_handler_test
