// Replaces sealed files together with their seal, with a failure of each call and a kill at each call.
#include "convert/copy/commit.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <htensor/convert/convert.hpp>
#include <htensor/convert/save.hpp>
#include <htensor/integrity/seal.hpp>

#include "format/safetensors/test_file.hpp"
#include "io/port/port.hpp"
#include "testing/child_process.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::commit_test {
namespace {

using testing::Call;
using testing::FaultyPort;
using testing::read_file;
using testing::TemporaryFolder;
using testing::write_file;

// A way to replace a file or a set.
struct WriteCase {
  std::string name;
  /// The file that a user opens.
  std::string model;
  HashAlgorithm algorithm = HashAlgorithm::crc64nvme;
  std::function<Result<void>(const TemporaryFolder& folder, int version, io::Port& port)> run;

  /// Whether a set is written, which is replaced through a journal.
  [[nodiscard]] bool is_set() const { return model.ends_with(".index.json"); }
};

// Tensors whose bytes depend on the version.
void write_source(const TemporaryFolder& folder, int version) {
  auto bytes = testing::safetensors_file(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                                         R"("b":{"dtype":"U8","shape":[5000],"data_offsets":[3,5003]},)"
                                         R"("c":{"dtype":"U8","shape":[500],"data_offsets":[5003,5503]}})",
                                         5503);
  bytes[bytes.size() - 4000] = bytes.back() = static_cast<std::byte>(version);
  write_file(folder / "source.safetensors", bytes);
}

Result<void> convert_to(const TemporaryFolder& folder, int version, io::Port& port, const std::string& target,
                        const ConvertOptions& options = {}) {
  write_source(folder, version);
  const auto source = HT_TRY(Model::open(folder / "source.safetensors", {.port = &port}));
  HT_TRY(convert(source, folder / target, options, {.if_exists = IfExists::replace}));
  return {};
}

std::vector<WriteCase> write_cases() {
  return {
      {.name = "write",
       .model = "t.ht",
       .run = [](const TemporaryFolder& folder, int version, io::Port& port) -> Result<void> {
         const std::vector<std::byte> bytes(5000, static_cast<std::byte>(version));
         return write(folder / "t.ht", dtype_info<U8>(), std::vector<std::int64_t>{5000}, bytes,
                      {.if_exists = IfExists::replace, .port = &port});
       }},
      {.name = "convert",
       .model = "t.irpa",
       .algorithm = HashAlgorithm::xxh3_128,
       .run = [](const auto& folder, int version,
                 io::Port& port) { return convert_to(folder, version, port, "t.irpa"); }},
      {.name = "convert to the same number of shards",
       .model = "t.safetensors.index.json",
       .run =
           [](const auto& folder, int version, io::Port& port) {
             return convert_to(folder, version, port, "t.safetensors", {.shard_bytes = 1000});
           }},
      {.name = "convert to more shards",
       .model = "t.safetensors.index.json",
       .run =
           [](const auto& folder, int version, io::Port& port) {
             return convert_to(folder, version, port, "t.safetensors",
                               {.shard_bytes = version == 2 ? 1000U : 5100U});
           }},
  };
}

class RenewingSeal : public ::testing::Test {
 protected:
  using Contents = std::map<std::string, std::vector<std::byte>>;

  // Writes the old version and its seal.
  static void prepare(const WriteCase& write_case, const TemporaryFolder& folder) {
    ASSERT_TRUE(write_case.run(folder, 1, io::system_port()));
    ASSERT_TRUE(
        ht::seal(Model::open(folder / write_case.model).value(), {.algorithm = write_case.algorithm}));
  }

  static Contents contents(const TemporaryFolder& folder) {
    Contents files;
    for (const auto& name : folder.names()) {
      if (!name.starts_with("source")) files[name] = read_file(folder / name);
    }
    return files;
  }

  static void write_all(const TemporaryFolder& folder, const Contents& files) {
    for (const auto& [name, bytes] : files) write_file(folder / name, bytes);
  }

  struct States {
    Contents old;
    Contents renewed;
  };
  static States states_of(const WriteCase& write_case) {
    const TemporaryFolder folder;
    prepare(write_case, folder);
    States states{.old = contents(folder), .renewed = {}};
    EXPECT_TRUE(write_case.run(folder, 2, io::system_port()));
    states.renewed = contents(folder);
    const auto verified = compare_with_seal(folder / write_case.model);
    EXPECT_TRUE(verified && verified->verdict == Verification::Verdict::intact &&
                verified->algorithm == write_case.algorithm);
    EXPECT_NE(states.old, states.renewed);
    return states;
  }

  static std::string name_of_seal(const Contents& files) {
    for (const auto& [name, bytes] : files) {
      if (name.ends_with(".htseal")) return name;
    }
    return {};
  }

  // Whether each file of a state, except its seal, exists with the contents that it has in this state. Other
  // files may exist, too.
  static bool matches_state_except_seal(const Contents& now, const Contents& state) {
    return std::ranges::all_of(state, [&](const auto& file) {
      const auto found = now.find(file.first);
      return file.first.ends_with(".htseal") || (found != now.end() && found->second == file.second);
    });
  }
};

TEST_F(RenewingSeal, leaves_the_old_pair_or_the_new_pair_after_any_failure) {
  for (const auto& write_case : write_cases()) {
    SCOPED_TRACE(write_case.name);
    const auto states = states_of(write_case);
    int failed = 0;
    for (const auto call : {Call::create_nameless, Call::write_at, Call::sync, Call::name, Call::rename,
                            Call::unlink, Call::open, Call::map, Call::stat_path}) {
      for (int nth = 0;; ++nth) {
        SCOPED_TRACE("call " + std::to_string(static_cast<int>(call)) + ", the " + std::to_string(nth) +
                     "th");
        const TemporaryFolder folder;
        write_all(folder, states.old);
        FaultyPort port;
        port.fail_at(call, nth, std::errc::io_error);
        const auto done = write_case.run(folder, 2, port);
        EXPECT_EQ(port.open_files(), 0);
        const auto now = contents(folder);
        failed += static_cast<int>(!done);
        for (const auto& [name, bytes] : now)
          EXPECT_FALSE(name.starts_with(".")) << name << " is not a temporary file";
        EXPECT_TRUE(!done || now == states.renewed);
        const auto seal = now.find(name_of_seal(states.old));
        ASSERT_NE(seal, now.end()) << "the seal exists";
        const bool is_new = seal->second == states.renewed.at(seal->first);
        EXPECT_TRUE(is_new || seal->second == states.old.at(seal->first));
        // A set that is being replaced has no index until all new files are in place.
        if (!now.contains(write_case.model)) continue;
        EXPECT_TRUE(matches_state_except_seal(now, is_new ? states.renewed : states.old));
        const auto verified = compare_with_seal(folder / write_case.model);
        EXPECT_TRUE(verified && verified->verdict == Verification::Verdict::intact);
        if (port.count(call) <= nth) break;
      }
    }
    EXPECT_GT(failed, 10);
  }
}

TEST_F(RenewingSeal, killed_at_any_call_leaves_a_pair_or_an_old_file_with_the_new_seal) {
  for (const auto& write_case : write_cases()) {
    SCOPED_TRACE(write_case.name);
    const auto states = states_of(write_case);
    int between = 0;
    bool finished = false;
    for (int nth = 0; !finished; ++nth) {
      ASSERT_LT(nth, 1000);
      SCOPED_TRACE("before crash point " + std::to_string(nth));
      const TemporaryFolder folder;
      write_all(folder, states.old);
      finished = testing::finishes_in_child([&] {
        FaultyPort port;
        testing::kill_before(port, nth, testing::is_crash_point);
        return write_case.run(folder, 2, port).has_value();
      });
      const auto repeat = [&] {
        ASSERT_TRUE(write_case.run(folder, 2, io::system_port())) << "a second run completes the replacement";
        EXPECT_EQ(contents(folder), states.renewed);
        const auto repeated = compare_with_seal(folder / write_case.model);
        EXPECT_TRUE(repeated && repeated->verdict == Verification::Verdict::intact);
      };
      const auto now = contents(folder);
      EXPECT_TRUE(!finished || now == states.renewed);
      const auto verified = compare_with_seal(folder / write_case.model);
      if (write_case.is_set()) {
        EXPECT_TRUE(verified && verified->is_intact()) << "the old or the new set matches its seal";
        repeat();
        continue;
      }
      const auto seal = now.find(name_of_seal(states.old));
      ASSERT_NE(seal, now.end()) << "the seal exists";
      const bool is_new_seal = seal->second == states.renewed.at(seal->first);
      EXPECT_TRUE(is_new_seal || seal->second == states.old.at(seal->first));
      const bool has_model = now.contains(write_case.model);
      const bool is_new = matches_state_except_seal(now, states.renewed);
      EXPECT_TRUE(is_new || !has_model || matches_state_except_seal(now, states.old));
      EXPECT_TRUE(is_new_seal || !is_new) << "new files have the new seal";
      EXPECT_EQ(verified && verified->is_intact(), has_model && is_new == is_new_seal);
      between += static_cast<int>(is_new != is_new_seal);
      repeat();
    }
    EXPECT_GE(between, write_case.is_set() ? 0 : 2) << "some processes are killed between the two renames";
  }
}

// Without the fsync between the two renames, a loss of power could keep the new file and lose its seal.
TEST_F(RenewingSeal, is_synced_before_the_file_gets_its_name) {
  for (const auto& write_case : write_cases()) {
    if (write_case.is_set()) continue;
    SCOPED_TRACE(write_case.name);
    const TemporaryFolder folder;
    write_all(folder, states_of(write_case).old);
    std::vector<Call> calls;
    FaultyPort port;
    port.before_each([&](Call call, int /*nth*/) {
      if (call == Call::rename || call == Call::sync) calls.push_back(call);
    });
    ASSERT_TRUE(write_case.run(folder, 2, port));
    ASSERT_GE(calls.size(), 4U);
    EXPECT_EQ(std::vector(calls.end() - 4, calls.end()),
              (std::vector{Call::rename, Call::sync, Call::rename, Call::sync}));
  }
}

// If there was no seal before, a failure to rename the file removes the new seal.
TEST_F(RenewingSeal, is_removed_if_the_rename_of_a_new_file_fails) {
  const TemporaryFolder folder;
  write_source(folder, 1);
  FaultyPort port;
  const auto source = Model::open(folder / "source.safetensors", {.port = &port}).value();
  // The first call of `name` is for the temporary file of the seal, the second one for the file.
  port.fail_at(Call::name, 1, std::errc::io_error);
  EXPECT_FALSE(convert(source, folder / "t.irpa", {}, {.seal = true}));
  EXPECT_EQ(folder.names(), std::vector<std::string>{"source.safetensors"});
}

TEST_F(RenewingSeal, leaves_the_old_files_if_the_rename_fails) {
  for (const auto& write_case : write_cases()) {
    SCOPED_TRACE(write_case.name);
    const auto states = states_of(write_case);
    const TemporaryFolder folder;
    write_all(folder, states.old);
    FaultyPort port;
    port.fail_from(Call::rename, 0, std::errc::operation_not_permitted);
    EXPECT_FALSE(write_case.run(folder, 2, port));
    EXPECT_TRUE(matches_state_except_seal(contents(folder), states.old));
    const auto verified = compare_with_seal(folder / write_case.model);
    EXPECT_TRUE(verified && verified->verdict == Verification::Verdict::intact);
  }
}

// The name of the seal of a split model contains the number of parts.
TEST_F(RenewingSeal, replaces_the_seal_of_other_parts_of_a_split_model) {
  const TemporaryFolder folder;
  write_file(folder / "source.safetensors",
             testing::safetensors_file(R"({"a":{"dtype":"F32","shape":[1000],"data_offsets":[0,4000]},)"
                                       R"("b":{"dtype":"F32","shape":[1000],"data_offsets":[4000,8000]},)"
                                       R"("c":{"dtype":"F32","shape":[1000],"data_offsets":[8000,12000]}})",
                                       12'000));
  const auto source = Model::open(folder / "source.safetensors").value();
  ASSERT_TRUE(convert(source, folder / "t.gguf", {.shard_bytes = 4100}));
  const auto first = folder / "t-00001-of-00003.gguf";
  ASSERT_TRUE(ht::seal(Model::open(first).value(), {.algorithm = HashAlgorithm::xxh3_128}));
  const auto done =
      convert(source, folder / "t.gguf", {.shard_bytes = 9000}, {.if_exists = IfExists::replace});
  ASSERT_TRUE(done) << to_string(done.error());
  EXPECT_FALSE(done->stale_seal);
  EXPECT_FALSE(std::filesystem::exists(folder / "t-00001-of-00003.gguf.htseal"));
  const auto verified = compare_with_seal(folder / "t-00001-of-00002.gguf");
  ASSERT_TRUE(verified);
  EXPECT_EQ(verified->verdict, Verification::Verdict::intact);
  EXPECT_EQ(verified->algorithm, HashAlgorithm::xxh3_128);
}

TEST_F(RenewingSeal, keeps_the_name_of_a_seal_of_a_folder_with_one_file) {
  const TemporaryFolder folder;
  const auto convert_version = [&](int version, IfExists if_exists) {
    write_source(folder, version);
    return convert(Model::open(folder / "source.safetensors").value(), folder / "model/t.safetensors", {},
                   {.if_exists = if_exists})
        .value();
  };
  std::filesystem::create_directory(folder / "model");
  convert_version(1, IfExists::fail);
  ASSERT_TRUE(seal(Model::open(folder / "model").value(), {.algorithm = HashAlgorithm::xxh3_128}));
  const auto converted = convert_version(2, IfExists::replace);
  EXPECT_EQ(std::vector<std::filesystem::path>(), converted.removed);
  EXPECT_EQ(folder / "model/model.htseal", converted.seal);
  EXPECT_FALSE(std::filesystem::exists(folder / "model/t.safetensors.htseal"));
  for (const auto& opened : {folder / "model", folder / "model/t.safetensors"}) {
    const auto verified = compare_with_seal(opened);
    ASSERT_TRUE(verified) << to_string(verified.error());
    EXPECT_EQ(verified->verdict, Verification::Verdict::intact);
    EXPECT_EQ(verified->algorithm, HashAlgorithm::xxh3_128);
  }
}

// The seal still lists the old name of the file.
TEST_F(RenewingSeal, renews_a_seal_that_was_renamed_with_its_file) {
  const TemporaryFolder folder;
  ASSERT_TRUE(convert_to(folder, 1, io::system_port(), "old.irpa"));
  ASSERT_TRUE(ht::seal(Model::open(folder / "old.irpa").value()));
  std::filesystem::rename(folder / "old.irpa", folder / "t.irpa");
  std::filesystem::rename(folder / "old.irpa.htseal", folder / "t.irpa.htseal");
  ASSERT_TRUE(convert_to(folder, 2, io::system_port(), "t.irpa"));
  const auto verified = compare_with_seal(folder / "t.irpa");
  ASSERT_TRUE(verified) << to_string(verified.error());
  EXPECT_EQ(verified->verdict, Verification::Verdict::intact);
}

}  // namespace
}  // namespace ht::commit_test
