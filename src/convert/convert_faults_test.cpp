// Fails each system call of a conversion. Afterwards the target is the old file or the new one.
#include <gtest/gtest.h>

#include <array>
#include <htensor/convert/convert.hpp>
#include <htensor/integrity/seal.hpp>

#include "format/safetensors/test_file.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::convert_faults_test {
namespace {

using testing::all_calls;
using testing::Call;
using testing::FaultyPort;
using testing::read_file;
using testing::TemporaryFolder;
using testing::write_file;

// Smaller than a piece, so that one thread makes all calls and the nth call is the same in every run.
std::vector<std::byte> small_model() {
  return testing::safetensors_file(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
      R"("b":{"dtype":"F32","shape":[25000],"data_offsets":[3,100003]},)"
      R"("c":{"dtype":"BF16","shape":[100],"data_offsets":[100003,100203]}})",
      100'203);
}

struct ConversionCase {
  std::string name;
  std::string target;
  ConvertOptions options{};
  ApplyOptions apply{};
  // The calls that the file system does not support, with their errors.
  std::vector<std::pair<Call, std::errc>> lacks{};
};

std::vector<ConversionCase> conversion_cases() {
  const auto replace = IfExists::replace;
  return {
      {.name = "a new file", .target = "t.irpa"},
      {.name = "over an old file, sealed",
       .target = "t.irpa",
       .options = {.share_blocks = true},
       .apply = {.if_exists = replace, .seal = true}},
      {.name = "over old shards, sealed",
       .target = "t.safetensors",
       .options = {.shard_bytes = 1000},
       .apply = {.if_exists = replace, .seal = true}},
      {.name = "with a checksum in the header",
       .target = "t.ht",
       .options = {.filter = "b"},
       .apply = {.if_exists = replace, .lossy = true}},
      {.name = "by copy_file_range, without O_TMPFILE",
       .target = "t.gguf",
       .apply = {.if_exists = replace, .lossy = true},
       .lacks = {{Call::clone_range, std::errc::operation_not_supported},
                 {Call::reopen_direct, std::errc::invalid_argument},
                 {Call::create_nameless, std::errc::operation_not_supported}}},
      {.name = "without shared blocks, copy_file_range, fallocate and page cache queries",
       .target = "t.irpa",
       .lacks = {{Call::clone_range, std::errc::operation_not_supported},
                 {Call::copy_range, std::errc::function_not_supported},
                 {Call::cached, std::errc::function_not_supported},
                 {Call::allocate, std::errc::operation_not_supported}}},
  };
}

// All files of a folder, by name.
std::map<std::string, std::vector<std::byte>> files_in(const TemporaryFolder& folder) {
  std::map<std::string, std::vector<std::byte>> files;
  for (const auto& name : folder.names()) files[name] = read_file(folder / name);
  return files;
}

class FailingConversion : public ::testing::Test {
 protected:
  using Files = std::map<std::string, std::vector<std::byte>>;

  // Writes the source and, if the case replaces files, a target that was converted from other data.
  static void prepare(const ConversionCase& each_case, const TemporaryFolder& folder) {
    auto bytes = small_model();
    bytes.back() = std::byte{99};
    write_file(folder / "source.safetensors", bytes);
    if (each_case.apply.if_exists == IfExists::replace) {
      const auto old = Model::open(folder / "source.safetensors").value();
      ASSERT_TRUE(convert(old, folder / each_case.target, each_case.options, each_case.apply));
    }
    write_file(folder / "source.safetensors", small_model());
  }

  struct Run {
    Files before;
    Files after;
    Result<ConversionReport> done;
    std::map<Call, int> calls;
  };

  // Each run has a new folder, so all runs start with the same files.
  static Run run(const ConversionCase& each_case, std::optional<std::pair<Call, int>> fault,
                 std::errc cause) {
    const TemporaryFolder folder;
    prepare(each_case, folder);
    Run run{.before = files_in(folder), .after = {}, .done = fail(Error(ErrorCode::internal)), .calls = {}};
    FaultyPort port;
    for (const auto& [call, error] : each_case.lacks) port.fail_from(call, 0, error);
    {
      const auto source = Model::open(folder / "source.safetensors", {.port = &port}).value();
      const int open_before = port.open_files();
      std::map<Call, int> counts;
      for (const auto call : all_calls) counts[call] = port.count(call);
      if (fault) port.fail_at(fault->first, counts[fault->first] + fault->second, cause);
      run.done = convert(source, folder / each_case.target, each_case.options, each_case.apply);
      for (const auto call : all_calls) run.calls[call] = port.count(call) - counts[call];
      EXPECT_EQ(port.open_files(), open_before) << "the conversion closes all handles that it opens";
    }
    EXPECT_EQ(port.open_files(), 0);
    EXPECT_EQ(port.open_queues(), 0);
    run.after = files_in(folder);
    expect_no_wrong_seal(folder);
    return run;
  }

  // Each seal in the folder matches its files.
  static void expect_no_wrong_seal(const TemporaryFolder& folder) {
    for (const auto& name : folder.names()) {
      const bool is_index = name.ends_with(".index.json");
      const bool has_seal = is_index ? std::filesystem::exists(folder / "model.htseal")
                                     : std::filesystem::exists(folder / (name + ".htseal"));
      if (!has_seal) continue;
      const auto verified = compare_with_seal(folder / name);
      ASSERT_TRUE(verified) << name << ": " << to_string(verified.error());
      EXPECT_TRUE(verified->is_intact()) << name;
    }
  }

  static void expect_old_or_new(const Run& run, const Files& expected) {
    for (const auto& [name, bytes] : run.after) {
      const auto old = run.before.find(name);
      const auto written = expected.find(name);
      const bool is_old = old != run.before.end() && old->second == bytes;
      const bool is_new = written != expected.end() && written->second == bytes;
      EXPECT_TRUE(is_old || is_new) << name
                                    << (old == run.before.end() && written == expected.end()
                                            ? " is removed after a failure"
                                            : " is the old or the new file");
    }
  }
};

// The text of an error without the name of the temporary folder.
std::string text_without_path(const Error& error) {
  auto name = std::filesystem::path(error.path()).filename().string();
  if (name.starts_with("htensor-test-")) name = "the folder";
  return std::string(to_string(error.code())) + " " + std::string(error.rule()) + " " +
         std::string(error.message()) + " " + name + " " + std::to_string(error.offset().value_or(0));
}

TEST_F(FailingConversion, leaves_the_old_or_new_file) {
  for (const auto& each_case : conversion_cases()) {
    SCOPED_TRACE(each_case.name);
    const auto good = run(each_case, std::nullopt, {});
    ASSERT_TRUE(good.done) << to_string(good.done.error());
    int failed = 0;
    for (const auto call : all_calls) {
      const int count = good.calls.at(call);
      for (const int nth : std::set{0, 1, count - 1}) {
        if (nth < 0 || nth >= count) continue;
        SCOPED_TRACE("call " + std::to_string(static_cast<int>(call)) + ", the " + std::to_string(nth) +
                     "th");
        const auto bad = run(each_case, std::pair(call, nth), std::errc::io_error);
        expect_old_or_new(bad, good.after);
        if (bad.done) {
          EXPECT_TRUE(bad.after == good.after) << "a conversion that reports success writes all files";
          continue;
        }
        ++failed;
        EXPECT_NE(bad.done.error().code(), ErrorCode::internal) << to_string(bad.done.error());
        EXPECT_EQ(bad.done.error().cause(), std::errc::io_error) << to_string(bad.done.error());
        EXPECT_FALSE(bad.done.error().path().empty()) << to_string(bad.done.error());
        if (nth != 0) continue;
        const auto repeated = run(each_case, std::pair(call, nth), std::errc::io_error);
        ASSERT_FALSE(repeated.done);
        EXPECT_EQ(text_without_path(repeated.done.error()), text_without_path(bad.done.error()));
        EXPECT_TRUE(repeated.after == bad.after);
      }
    }
    EXPECT_GT(failed, 5);
  }
}

TEST_F(FailingConversion, reports_a_full_disk) {
  for (const auto& each_case : conversion_cases()) {
    SCOPED_TRACE(each_case.name);
    int failed = 0;
    for (const auto call : {Call::create, Call::create_nameless, Call::write_at, Call::allocate, Call::resize,
                            Call::copy_range, Call::clone_range, Call::sync, Call::name, Call::rename}) {
      const auto full = run(each_case, std::pair(call, 0), std::errc::no_space_on_device);
      if (full.done) continue;
      ++failed;
      EXPECT_EQ(full.done.error().code(), ErrorCode::no_space) << to_string(full.done.error());
      EXPECT_FALSE(full.done.error().hint().empty());
    }
    EXPECT_GE(failed, 4);
  }
}

}  // namespace
}  // namespace ht::convert_faults_test
