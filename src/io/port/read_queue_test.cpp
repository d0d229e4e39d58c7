// Tests that the read queue of the system and ThreadQueue behave in the same way.
#include <gtest/gtest.h>

#include <map>

#include "io/port/port.hpp"
#include "io/port/thread_queue.hpp"
#include "testing/blocked_signal.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::io::read_queue_test {
namespace {

using ht::testing::Call;
using ht::testing::FaultyPort;
using ht::testing::TemporaryFolder;
using ht::testing::write_file;

enum class Kind { system, threads };

ThreadQueue::ReadFunction read_from(Port& port) {
  return [&port](const ReadRequest& request) {
    return port.read_at(request.file, request.offset, request.into);
  };
}

class ReadQueues : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    write_file(folder_ / "f", std::string(100, 'a') + std::string(100, 'b') + std::string(100, 'c'));
    file_ = port_.open(folder_ / "f").value();
    if (GetParam() == Kind::threads) {
      queue_ = std::make_unique<ThreadQueue>(read_from(port_), 4, 4);
      return;
    }
    auto opened = port_.read_queue(4);
    if (!opened) GTEST_SKIP() << "io_uring is not available";
    queue_ = *std::move(opened);
  }
  void TearDown() override {
    queue_.reset();
    EXPECT_EQ(port_.open_queues(), 0);
    EXPECT_TRUE(port_.close(file_));
  }

  IoResult<void> submit(std::uint64_t offset, std::uint64_t tag, std::string& into) {
    return queue_->submit({file_, offset, std::as_writable_bytes(std::span(into)), tag});
  }

  TemporaryFolder folder_;
  FaultyPort port_;
  FileHandle file_;
  std::unique_ptr<ReadQueue> queue_;
};

TEST_P(ReadQueues, read_the_requested_ranges_in_any_order) {
  std::array<std::string, 3> texts{std::string(10, '.'), std::string(10, '.'), std::string(10, '.')};
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(submit(100 * i, i, texts[i]));
  std::map<std::uint64_t, std::uint64_t> bytes;
  for (int i = 0; i < 3; ++i) {
    const auto done = queue_->complete();
    ASSERT_TRUE(done);
    bytes[done->tag] = done->bytes.value();
  }
  EXPECT_EQ(bytes, (std::map<std::uint64_t, std::uint64_t>{{0, 10}, {1, 10}, {2, 10}}));
  EXPECT_EQ(texts[0], std::string(10, 'a'));
  EXPECT_EQ(texts[1], std::string(10, 'b'));
  EXPECT_EQ(texts[2], std::string(10, 'c'));
}

TEST_P(ReadQueues, return_fewer_bytes_at_the_end_of_the_file) {
  std::string text(10, '.');
  ASSERT_TRUE(submit(295, 0, text));
  EXPECT_EQ(queue_->complete().value().bytes, 5U);
  EXPECT_EQ(text, "ccccc.....");
  ASSERT_TRUE(submit(300, 0, text));
  EXPECT_EQ(queue_->complete().value().bytes, 0U);
}

TEST_P(ReadQueues, refuse_more_reads_than_their_depth) {
  std::array<std::string, 5> texts;
  texts.fill(std::string(1, '.'));
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(submit(i, i, texts[i]));
  const auto fifth = submit(4, 4, texts[4]);
  ASSERT_FALSE(fifth);
  EXPECT_EQ(fifth.error(), std::errc::resource_unavailable_try_again);
  ASSERT_TRUE(queue_->complete());
  EXPECT_TRUE(submit(4, 4, texts[4]));
  queue_.reset();  // before `texts`, which the reads write to
}

TEST_P(ReadQueues, return_no_completion_without_a_read_in_flight) {
  const auto nothing = queue_->complete();
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error(), std::errc::invalid_argument);
}

TEST_P(ReadQueues, report_the_error_of_a_read) {
  std::string text(1, '.');
  ASSERT_TRUE(queue_->submit({FileHandle{-1}, 0, std::as_writable_bytes(std::span(text)), 7}));
  const auto done = queue_->complete();
  ASSERT_TRUE(done);
  EXPECT_EQ(done->tag, 7U);
  ASSERT_FALSE(done->bytes);
  EXPECT_EQ(done->bytes.error(), std::errc::bad_file_descriptor);
}

TEST_P(ReadQueues, wait_for_reads_in_flight_on_destruction) {
  std::array<std::string, 4> texts;
  texts.fill(std::string(100, '.'));
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(submit(0, i, texts[i]));
  queue_.reset();  // a sanitizer would report a read that writes to `texts` after it is freed
}

TEST_P(ReadQueues, can_be_reused) {
  std::string text(100, '.');
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(submit(static_cast<std::uint64_t>(i % 3) * 100, 0, text));
    ASSERT_EQ(queue_->complete().value().bytes, 100U);
    ASSERT_EQ(text, std::string(100, static_cast<char>('a' + i % 3)));
  }
}

INSTANTIATE_TEST_SUITE_P(Both, ReadQueues, ::testing::Values(Kind::system, Kind::threads),
                         [](const auto& each) { return each.param == Kind::threads ? "threads" : "system"; });

TEST(ThreadQueues, read_with_sigbus_unblocked_if_the_caller_blocks_it) {
  const ht::testing::BlockedSigbus blocked;
  const auto read = [](const ReadRequest&) -> IoResult<std::uint64_t> {
    return ht::testing::BlockedSigbus::is_blocked() ? 1 : 0;
  };
  ThreadQueue queue(read, 1, 1);
  ASSERT_TRUE(queue.submit({}));
  EXPECT_EQ(queue.complete()->bytes, 0U);
}

TEST(ThreadQueues, read_even_without_a_thread) {
  const TemporaryFolder folder;
  write_file(folder / "f", "abc");
  auto& port = system_port();
  const auto file = port.open(folder / "f").value();
  ThreadQueue queue(read_from(port), 0, 8);  // depth 0: the queue is always full
  std::string text(3, '.');
  EXPECT_FALSE(queue.submit({file, 0, std::as_writable_bytes(std::span(text)), 1}));
  ThreadQueue without_threads(read_from(port), 2, 0);
  for (std::uint64_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(without_threads.submit({file, i, std::as_writable_bytes(std::span(text)).first(1), i}));
  }
  EXPECT_EQ(without_threads.complete().value().tag, 0U);
  EXPECT_EQ(text, "a..");
  EXPECT_EQ(without_threads.complete().value().bytes, 1U);
  EXPECT_FALSE(without_threads.complete());
  EXPECT_TRUE(port.close(file));
}

TEST(DirectReads, return_the_bytes_of_an_aligned_page) {
  const TemporaryFolder folder;
  write_file(folder / "f", std::string(3 * 4096, 'x'));
  auto& port = system_port();
  const auto file = port.open(folder / "f").value();
  const auto direct = port.reopen_direct(file, Access::read);
  if (!direct) {
    EXPECT_EQ(direct.error(), std::errc::invalid_argument);
    EXPECT_TRUE(port.close(file));
    GTEST_SKIP() << "the folder for temporary files has no direct reads";
  }
  const auto alignment = port.direct_alignment(file);
  ASSERT_TRUE(alignment);
  EXPECT_TRUE(std::has_single_bit(alignment->offset) && std::has_single_bit(alignment->memory));
  EXPECT_EQ(port.stat(*direct).value(), port.stat(file).value());
  alignas(4096) static std::array<std::byte, 4096> page;
  ASSERT_LE(alignment->both(), page.size());
  EXPECT_EQ(port.read_at(*direct, 4096, page), 4096U);
  EXPECT_EQ(page[0], std::byte{'x'});
  EXPECT_TRUE(port.close(*direct));
  EXPECT_TRUE(port.close(file));
}

}  // namespace
}  // namespace ht::io::read_queue_test
