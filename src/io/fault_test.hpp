// A mapped file whose end is cut off.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <htensor/base/fault.hpp>

#include "io/mapped.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::io {

class FaultFixture : public ::testing::Test {
 protected:
  static constexpr std::size_t page = 4096;
  static constexpr std::size_t pages = 8;

  void SetUp() override { testing::write_file(path_, std::string(pages * page, '\1')); }
  Result<Mapped> map(MapOptions options = {}) {
    const auto file = HT_TRY(FileSource::open(path_, port_));
    return Mapped::map(file, 0, file->size(), std::move(options));
  }
  static Mapped map_file(const std::filesystem::path& path) {
    const auto file = FileSource::open(path).value();
    return Mapped::map(file, 0, file->size()).value();
  }
  void cut_to(std::size_t bytes) { std::filesystem::resize_file(path_, bytes); }

  // Reads each byte, also where the sum is not used.
  static int sum_of(Bytes bytes) {
    int sum = 0;
    for (const volatile std::byte& byte : bytes) sum += static_cast<int>(byte);
    return sum;
  }
  static Result<int> guarded_sum(Bytes bytes) {
    return guarded(bytes, [&] { return sum_of(bytes); });
  }

  // The signal that ends a child which runs the body; 0 where the child exits.
  template <class Body>
  static int signal_that_ends(Body body) {
    const pid_t child = fork();
    if (child == 0) {
      const rlimit no_core{0, 0};
      setrlimit(RLIMIT_CORE, &no_core);
      // Without the handler of a sanitizer, which reports and exits.
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
