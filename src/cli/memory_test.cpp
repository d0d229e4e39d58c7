// Beyond the catalog, the memory for a listing does not grow with the number of tensors.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "cli/cli.hpp"
#include "testing/allocations.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::memory_test {
namespace {

constexpr std::size_t tensors = 20'000;

// Discards standard output during its lifetime.
class WithoutOutput {
 public:
  WithoutOutput() : before_(dup(STDOUT_FILENO)) {
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(nowhere, STDOUT_FILENO);
    close(nowhere);
  }
  WithoutOutput(const WithoutOutput&) = delete;
  WithoutOutput& operator=(const WithoutOutput&) = delete;
  ~WithoutOutput() {
    std::fflush(stdout);
    dup2(before_, STDOUT_FILENO);
    close(before_);
  }

 private:
  int before_;
};

class ListingMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    CatalogBuilder builder("gguf");
    const std::array<std::int64_t, 2> dims{1, 1};
    for (std::size_t i = 0; i < tensors; ++i) {
      const std::string name = "blk." + std::to_string(i) + ".weight";
      ASSERT_TRUE(builder.add({.name = name, .dtype = F32::tag, .dims = dims, .bytes = 4}));
    }
    const auto catalog = std::move(builder).build().value();
    auto encoded = encode("gguf", catalog).value();
    encoded.header.resize(static_cast<std::size_t>(encoded.file_bytes));
    testing::write_file(path_, encoded.header);
  }

  // The peak of the memory that the program allocates with these options.
  std::size_t peak_of(const std::vector<const char*>& options) { return peak_of("ls", options); }
  std::size_t peak_of(const char* verb, const std::vector<const char*>& options) {
    const std::string path = path_.string();
    std::vector<const char*> arguments{"htensor", verb, path.c_str()};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const WithoutOutput quiet;
    const testing::PeakMemory peak;
    EXPECT_EQ(cli::run(static_cast<int>(arguments.size()), arguments.data()), 0);
    return peak.bytes();
  }

  testing::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "m.gguf";
};

// Listing one tensor needs the memory for opening the file; listing all must need no more.
TEST_F(ListingMemory, does_not_grow_with_the_number_of_tensors) {
  const std::size_t for_one = peak_of({"--json", "--filter", "blk.0.weight"});
  EXPECT_GT(for_one, tensors * 40);
  constexpr std::size_t buffers = std::size_t{128} << 10;
  EXPECT_LE(peak_of({"--json"}), for_one + buffers);
  EXPECT_LE(peak_of({"--jsonl"}), for_one + buffers);
  EXPECT_LE(peak_of({}), for_one + buffers);
  EXPECT_LE(peak_of({"--filter", "*"}), for_one + buffers);
}

TEST_F(ListingMemory, residency_does_not_grow_with_the_number_of_tensors) {
  const std::size_t for_one = peak_of("residency", {"--json", "--filter", "blk.0.weight"});
  EXPECT_GT(for_one, tensors * 40);
  constexpr std::size_t buffers = std::size_t{128} << 10;
  EXPECT_LE(peak_of("residency", {"--json"}), for_one + buffers);
  EXPECT_LE(peak_of("residency", {"--jsonl"}), for_one + buffers);
  EXPECT_LE(peak_of("residency", {}), for_one + buffers);
}

// The order takes 4 bytes for each tensor.
TEST_F(ListingMemory, sorted_list_needs_4_bytes_per_tensor) {
  const std::size_t for_one = peak_of({"--json", "--filter", "blk.0.weight"});
  constexpr std::size_t order = 4 * tensors + (std::size_t{128} << 10);
  for (const char* const key : {"name", "size", "offset"}) {
    EXPECT_LE(peak_of({"--json", "--sort", key}), for_one + order);
  }
  EXPECT_LE(peak_of({"--tree"}), for_one + order);
}

}  // namespace
}  // namespace ht::memory_test
