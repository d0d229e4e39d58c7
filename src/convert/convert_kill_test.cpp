// A conversion that is killed leaves the old file or the new one, each with a seal, and its temporary files
// are removed by the next writer in the folder.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <htensor/convert/convert.hpp>
#include <htensor/integrity/seal.hpp>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "format/safetensors/test_file.hpp"
#include "io/port/port.hpp"
#include "testing/child_process.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::convert_kill_test {
namespace {

using testing::Call;
using testing::FaultyPort;
using testing::read_file;
using testing::TemporaryFolder;
using testing::write_file;

// Two models with the same tensors and different bytes, and a target that is converted from one or the other.
class Killed : public ::testing::Test {
 protected:
  using Contents = std::vector<std::byte>;

  explicit Killed(std::size_t tensor_bytes = 1'000'000) {
    const std::string json =
        R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[)" +
        std::to_string(tensor_bytes) + R"(],"data_offsets":[3,)" + std::to_string(tensor_bytes + 3) + "]}}";
    auto bytes = testing::safetensors_file(json, tensor_bytes + 3);
    for (std::size_t i = 0; i < 2; ++i) {
      bytes[bytes.size() / 2] = bytes.back() = static_cast<std::byte>(i);
      write_file(sources_[i], bytes);
      EXPECT_TRUE(convert_from(static_cast<int>(i), io::system_port()));
      contents_[i] = read_file(target_);
      seals_[i] = read_file(folder_ / "t.irpa.htseal");
    }
  }

  [[nodiscard]] bool convert_from(int source, io::Port& port) const {
    const auto model = Model::open(sources_[static_cast<std::size_t>(source)], {.port = &port});
    return model && convert(*model, target_, {}, {.if_exists = IfExists::replace, .seal = true});
  }

  // Converts in a child process, which `meanwhile` may kill, or which is killed before its call number
  // `killed_before`. Returns whether the child finished.
  [[nodiscard]] bool convert_in_child(int source, bool nameless, std::optional<int> killed_before,
                                      const std::function<void(pid_t)>& meanwhile = {}) {
    return testing::finishes_in_child(
        [&] {
          FaultyPort port;
          if (!nameless) port.fail_from(Call::create_nameless, 0, std::errc::operation_not_supported);
          if (killed_before) testing::kill_before(port, *killed_before);
          return convert_from(source, port);
        },
        meanwhile);
  }

  // Returns the number of the source, 0 or 1, that the target was converted from. Fails if the target has
  // other bytes.
  int read_target_version() {
    const auto now = read_file(target_);
    EXPECT_TRUE(now == contents_[0] || now == contents_[1]) << "the target is the old or the new file";
    return now == contents_[0] ? 0 : 1;
  }

  // The seal matches the target. Between the two renames, the seal instead matches the file that will replace
  // the target, and verify reports the mismatch.
  void expect_matching_seal_or_reported_mismatch(int before, int after) {
    const auto verified = compare_with_seal(target_);
    ASSERT_TRUE(verified) << to_string(verified.error());
    const auto seal = read_file(folder_ / "t.irpa.htseal");
    const auto sealed = seal == seals_[0] ? 0 : 1;
    EXPECT_TRUE(seal == seals_[0] || seal == seals_[1]) << "the seal is the old or the new seal";
    EXPECT_EQ(verified->is_intact(), sealed == after);
    EXPECT_TRUE(sealed == after || (after == before && sealed == 1 - before))
        << "a new file has the new seal";
    between_ += static_cast<int>(sealed != after);
  }

  void expect_no_temporary_files() {
    ASSERT_TRUE(convert_from(0, io::system_port()));
    EXPECT_EQ(folder_.names(),
              (std::vector<std::string>{"0.safetensors", "1.safetensors", "t.irpa", "t.irpa.htseal"}));
  }

  TemporaryFolder folder_;
  std::array<std::filesystem::path, 2> sources_{folder_ / "0.safetensors", folder_ / "1.safetensors"};
  std::filesystem::path target_ = folder_ / "t.irpa";
  std::array<Contents, 2> contents_;
  std::array<Contents, 2> seals_;
  int between_ = 0;
};

TEST_F(Killed, at_200_random_times_leaves_the_old_or_new_file) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  constexpr int rounds = 5;
  for (int i = 0; i < rounds; ++i) {
    ASSERT_TRUE(convert_in_child(i % 2, i % 2 == 0, std::nullopt));
  }
  const auto mean_microseconds =
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count() / rounds;
  std::mt19937 random(20261115);
  int finished = 0;
  int renewed = 0;
  constexpr int kills = 200;
  int before = read_target_version();
  for (int i = 0; i < kills; ++i) {
    const auto pause = std::uniform_int_distribution<std::int64_t>(0, mean_microseconds * 11 / 10)(random);
    finished += static_cast<int>(convert_in_child(1 - before, i % 2 == 0, std::nullopt, [&](pid_t child) {
      std::this_thread::sleep_for(std::chrono::microseconds(pause));
      kill(child, SIGKILL);
    }));
    const int after = read_target_version();
    // KilledAtCalls checks the seal after every call; here that would take most of the time.
    if (i % 8 == 0) expect_matching_seal_or_reported_mismatch(before, after);
    renewed += static_cast<int>(after != before);
    before = after;
  }
  EXPECT_LT(finished, kills) << "some processes are killed during their work";
  EXPECT_GE(renewed, finished) << "a finished process has replaced the file";
  expect_no_temporary_files();
}

class KilledAtCalls : public Killed {
 protected:
  KilledAtCalls() : Killed(5000) {}
};

// Kills at random times seldom hit short calls.
TEST_F(KilledAtCalls, leaves_the_old_or_new_file_and_no_temporary_files) {
  for (const bool nameless : {true, false}) {
    SCOPED_TRACE(nameless ? "without a name" : "with a name");
    bool finished = false;
    int call = 0;
    for (; !finished; ++call) {
      ASSERT_LT(call, 1000);
      SCOPED_TRACE("before call " + std::to_string(call));
      const int before = read_target_version();
      finished = convert_in_child(1 - before, nameless, call);
      const int after = read_target_version();
      expect_matching_seal_or_reported_mismatch(before, after);
      EXPECT_TRUE(!finished || after != before) << "a finished process has replaced the file";
      expect_no_temporary_files();
    }
    EXPECT_GT(call, 20);
    // Kills before the fsync of the folder, the link of a nameless file, and the rename of the file.
    EXPECT_EQ(std::exchange(between_, 0), nameless ? 3 : 2) << "processes killed between the two renames";
  }
}

}  // namespace
}  // namespace ht::convert_kill_test
