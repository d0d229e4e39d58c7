// Fixture for tests that map a file and truncate it.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <htensor/base/fault.hpp>

#include "io/file_source.hpp"
#include "io/strategy/mapped_file.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::io {

/// All bytes of a file, in a mapping of the whole file or in a window.
class Mapped {
 public:
  static Result<Mapped> map(const std::shared_ptr<const FileSource>& file, MapOptions options = {}) {
    Mapped mapped;
    mapped.file_ = std::make_unique<MappedFile>(file, std::move(options));
    mapped.memory_ = HT_TRY(mapped.file_->map(0, file->size())).memory;
    return mapped;
  }
  [[nodiscard]] Bytes bytes() const { return memory_.bytes; }
  [[nodiscard]] std::optional<Error> fault() const { return file_->fault(); }
  /// Unmaps a window.
  [[nodiscard]] Result<bool> unmap() { return file_->release(memory_); }

 private:
  std::unique_ptr<MappedFile> file_;
  Memory memory_;
};

class FaultFixture : public ::testing::Test {
 protected:
  static constexpr std::size_t page = 4096;
  static constexpr std::size_t pages = 8;

  void SetUp() override { testing::write_file(path_, std::string(pages * page, '\1')); }
  /// Fails the mapping of the whole file, so that all bytes are mapped as a window, which can be unmapped.
  Result<Mapped> map_window(MapOptions options = {}) {
    port_.fail_at(testing::Call::map, port_.count(testing::Call::map), std::errc::not_enough_memory);
    return Mapped::map(HT_TRY(FileSource::open(path_, port_)), std::move(options));
  }
  static Mapped map_whole(const std::filesystem::path& path) {
    return Mapped::map(FileSource::open(path).value()).value();
  }
  void truncate_to(std::size_t bytes) { std::filesystem::resize_file(path_, bytes); }

  // Reads each byte; `volatile` keeps the reads if the sum is not used.
  static int sum_of(Bytes bytes) {
    int sum = 0;
    for (const volatile std::byte& byte : bytes) sum += static_cast<int>(byte);
    return sum;
  }
  static Result<int> guarded_sum(Bytes bytes) {
    return guarded(bytes, [&] { return sum_of(bytes); });
  }

  // Runs the body in a child process. Returns the signal that terminates the child; 0 if the child exits.
  template <class Body>
  static int terminating_signal(Body body) {
    const pid_t child = fork();
    if (child == 0) {
      const rlimit no_core{0, 0};
      setrlimit(RLIMIT_CORE, &no_core);
      // The handler of a sanitizer would report the signal and exit.
      std::signal(SIGBUS, SIG_DFL);
      body();
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

  testing::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "model";
  testing::FaultyPort port_;
};

}  // namespace ht::io
