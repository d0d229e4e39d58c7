// A kill after any call leaves the complete old set or the complete new set. The tests kill a writer after
// each of its crash points (`is_crash_point`): calls that change the names in a folder or wait for the disk.
// No other call of the writer changes files that have a visible name.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <fstream>
#include <htensor/convert/convert.hpp>
#include <htensor/convert/edit_metadata.hpp>
#include <htensor/integrity/seal.hpp>
#include <map>
#include <set>

#include "format/safetensors/test_file.hpp"
#include "io/port/port.hpp"
#include "model/journal/set_replacement.hpp"
#include "testing/child_process.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::replace_set_test {
namespace {

using testing::Call;
using testing::FaultyPort;
using testing::is_crash_point;
using testing::read_file;
using testing::TemporaryFolder;
using testing::write_file;

constexpr int tensors = 15;
constexpr std::uint64_t tensor_bytes = 64;

// The version is in the bytes of every tensor. A shard has five tensors if the set has three shards, and
// three tensors if it has five.
std::vector<std::byte> source_of(int version) {
  std::string json = "{";
  for (int i = 0; i < tensors; ++i) {
    const auto begin = static_cast<std::uint64_t>(i) * tensor_bytes;
    json += (i == 0 ? "\"t" : ",\"t") + std::to_string(i) +
            R"(":{"dtype":"I8","shape":[64],"data_offsets":[)" + std::to_string(begin) + "," +
            std::to_string(begin + tensor_bytes) + "]}";
  }
  auto bytes = testing::safetensors_file(json + "}", tensors * tensor_bytes);
  std::fill(bytes.end() - tensors * tensor_bytes, bytes.end(), static_cast<std::byte>(version));
  return bytes;
}

struct ReplacementCase {
  std::string name;
  std::string extension;
  int shards = 3;
  /// Whether the set that is replaced is also the source.
  bool onto_itself = false;
  bool sealed = false;
  /// Whether files without a name are supported. Otherwise temporary names exist from the beginning.
  bool nameless = true;
  IfExists if_exists = IfExists::replace;
};

std::uint64_t bytes_of_shard(int shards) {
  return static_cast<std::uint64_t>(tensors / shards) * tensor_bytes;
}

class ReplacingSets : public ::testing::Test {
 protected:
  explicit ReplacingSets() {
    std::filesystem::create_directory(set_);
    for (const int version : {1, 2}) write_file(source(version), source_of(version));
  }

  [[nodiscard]] std::filesystem::path source(int version) const {
    return folder_ / (std::to_string(version) + ".safetensors");
  }

  static Result<ConversionReport> write_set(const std::filesystem::path& from,
                                            const std::filesystem::path& target, int shards, bool seal,
                                            io::Port& port, IfExists if_exists = IfExists::replace) {
    const auto model = HT_TRY(Model::open(from, {.port = &port}));
    return convert(model, target, {.shard_bytes = bytes_of_shard(shards)},
                   {.if_exists = if_exists, .seal = seal});
  }

  void write_old(const ReplacementCase& replacement) {
    for (const auto& file : std::filesystem::directory_iterator(set_)) std::filesystem::remove(file.path());
    auto& files = old_sets_[{replacement.extension, replacement.sealed}];
    for (const auto& [path, bytes] : files) write_file(path, bytes);
    if (!files.empty()) return;
    ASSERT_TRUE(
        write_set(source(1), set_ / ("m" + replacement.extension), 3, replacement.sealed, io::system_port()));
    for (const auto& file : std::filesystem::directory_iterator(set_))
      files[file.path()] = read_file(file.path());
  }

  // Returns 1 or 2, the version of all tensors. Fails if versions are mixed or the number of shards is wrong.
  static int version_of(const Result<Model>& model, const ReplacementCase& replacement) {
    if (!model) {
      ADD_FAILURE() << to_string(model.error());
      return 0;
    }
    EXPECT_EQ(model->size(), static_cast<std::size_t>(tensors));
    std::set<int> versions;
    for (const AnyTensor& tensor : *model) {
      const auto bytes = tensor.bytes().value();
      EXPECT_EQ(bytes.size(), tensor_bytes);
      for (const auto byte : bytes) versions.insert(static_cast<int>(byte));
    }
    EXPECT_EQ(versions.size(), 1U) << "all tensors have the same version";
    // A set that replaces itself keeps its bytes: the number of shards shows the version.
    const int version = replacement.onto_itself ? (model->files().size() == 3 ? 1 : 2) : *versions.begin();
    EXPECT_EQ(model->files().size(), static_cast<std::size_t>(version == 1 ? 3 : replacement.shards));
    return version;
  }

  // Returns the version that a program finds if it does not know journals: it opens the index, or the first
  // part, and the files that belong to it. 0 if it finds no set.
  int version_without_journal(const ReplacementCase& replacement) {
    int found = 0;
    for (const int shards : {3, replacement.shards}) {
      std::vector<std::filesystem::path> files;
      for (int i = 1; i <= shards; ++i) {
        files.push_back(set_ / ("m-0000" + std::to_string(i) + "-of-0000" + std::to_string(shards) +
                                replacement.extension));
      }
      if (replacement.extension == ".safetensors") {
        std::ifstream index(set_ / "m.safetensors.index.json");
        const std::string text(std::istreambuf_iterator<char>(index), {});
        if (text.find(files[0].filename().string()) == std::string::npos) continue;
      } else if (!std::filesystem::exists(files[0])) {
        continue;
      }
      std::set<int> versions;
      for (const auto& file : files) {
        EXPECT_TRUE(std::filesystem::exists(file)) << file << " exists";
        if (!std::filesystem::exists(file)) continue;
        const auto bytes = read_file(file);
        versions.insert(static_cast<int>(bytes[bytes.size() - 1]));
      }
      EXPECT_EQ(versions.size(), 1U) << "all files have the same version";
      found = versions.empty() ? 0 : *versions.begin();
    }
    return found;
  }

  [[nodiscard]] Result<Model> open_by_name(const ReplacementCase& replacement) const {
    if (replacement.extension == ".safetensors") return Model::open(set_ / "m.safetensors.index.json");
    // The parts of the old and of the new set may have different names. Any part opens the whole set.
    auto model = Model::open(set_ / ("m-00002-of-00003" + replacement.extension));
    if (model) return model;
    return Model::open(set_ /
                       ("m-00001-of-0000" + std::to_string(replacement.shards) + replacement.extension));
  }

  // Runs the replacement in a child that kills itself after its nth crash point (from 0). Returns whether the
  // child finished.
  bool replace_and_kill(const ReplacementCase& replacement, int nth) {
    return testing::finishes_in_child([&] {
      FaultyPort port;
      if (!replacement.nameless) port.fail_from(Call::create_nameless, 0, std::errc::operation_not_supported);
      // The hook runs before each call, so the nth crash point is complete when the next call begins.
      std::atomic<int> left = nth;
      std::atomic<bool> kill = false;
      port.before_each([&](Call now, int) {
        if (kill) raise(SIGKILL);
        if (is_crash_point(now) && left-- == 0) kill = true;
      });
      const auto from = replacement.onto_itself ? set_ : source(2);
      return write_set(from, set_ / ("m" + replacement.extension), replacement.shards, replacement.sealed,
                       port, replacement.if_exists)
          .has_value();
    });
  }

  void expect_no_temporary_files() {
    for (const auto& file : std::filesystem::directory_iterator(set_)) {
      EXPECT_FALSE(file.path().filename().string().starts_with(".")) << file.path();
    }
  }

  void check_all_kills(const ReplacementCase& replacement) {
    SCOPED_TRACE(replacement.name);
    int unfinished = 0;
    bool is_finished = false;
    bool was_new = false;
    for (int nth = 0; !is_finished; ++nth) {
      SCOPED_TRACE("after crash point " + std::to_string(nth));
      ASSERT_LT(nth, 500);
      write_old(replacement);
      is_finished = replace_and_kill(replacement, nth);
      const int version = version_of(open_by_name(replacement), replacement);
      EXPECT_EQ(version_of(Model::open(set_), replacement), version)
          << "the folder opens as the same version";
      EXPECT_EQ(models_in(set_).value(), std::vector{set_});
      if (replacement.sealed) {
        const auto verified = compare_with_seal(set_);
        EXPECT_TRUE(replacement.extension == ".gguf" || (verified && verified->is_intact()));
        const auto sealed = ht::verify(*open_by_name(replacement));
        EXPECT_TRUE(sealed) << to_string(sealed.error());
      }
      const int without_journal = version_without_journal(replacement);
      if (!replacement.onto_itself) {
        EXPECT_TRUE(without_journal == 0 || without_journal == version);
      }
      EXPECT_TRUE(version == 2 || !was_new) << "the old set does not come back after the new one";
      was_new = version == 2;
      unfinished +=
          static_cast<int>(!is_finished && std::filesystem::exists(
                                               set_ / (".htensor-m" + replacement.extension + ".journal")));
      if (HasFailure()) return;
      // The next writer is a seal or the same conversion.
      if (nth % 3 == 0) {
        ASSERT_TRUE(ht::seal(*open_by_name(replacement), {.force = true}));
        EXPECT_EQ(version_of(open_by_name(replacement), replacement), version)
            << "a seal does not change the set";
        ASSERT_TRUE(ht::verify(*open_by_name(replacement)));
        expect_no_temporary_files();
      } else {
        ASSERT_TRUE(write_set(replacement.onto_itself ? set_ : source(2),
                              set_ / ("m" + replacement.extension), replacement.shards, replacement.sealed,
                              io::system_port()));
        EXPECT_EQ(version_of(open_by_name(replacement), replacement), 2);
        expect_no_temporary_files();
        const auto files = static_cast<std::ptrdiff_t>(replacement.shards) +
                           (replacement.extension == ".gguf" ? 0 : 1) + (replacement.sealed ? 1 : 0);
        EXPECT_EQ(std::distance(std::filesystem::directory_iterator(set_), {}), files)
            << "no old shard remains";
      }
    }
    EXPECT_TRUE(was_new);
    EXPECT_GT(unfinished, 10) << "many kills happen while the journal exists";
  }

  using Files = std::map<std::filesystem::path, std::vector<std::byte>>;

  TemporaryFolder folder_;
  std::map<std::pair<std::string, bool>, Files> old_sets_;
  std::filesystem::path set_ = folder_ / "set";
};

TEST_F(ReplacingSets, killed_after_any_call_is_old_or_new) {
  check_all_kills({.name = "3 shards by 3", .extension = ".safetensors"});
  check_all_kills({.name = "3 shards by 5", .extension = ".safetensors", .shards = 5});
}

TEST_F(ReplacingSets, killed_after_any_call_is_old_or_new_with_its_seal) {
  check_all_kills({.name = "3 shards by 3, sealed", .extension = ".safetensors", .sealed = true});
  check_all_kills(
      {.name = "3 shards by 5, sealed", .extension = ".safetensors", .shards = 5, .sealed = true});
}

TEST_F(ReplacingSets, killed_after_any_call_with_named_temporary_files_is_old_or_new) {
  check_all_kills({.name = "3 shards by 3", .extension = ".safetensors", .nameless = false});
  check_all_kills({.name = "3 shards by 5", .extension = ".gguf", .shards = 5, .nameless = false});
}

TEST_F(ReplacingSets, split_gguf_killed_after_any_call_is_old_or_new) {
  check_all_kills({.name = "3 shards by 3", .extension = ".gguf"});
  check_all_kills({.name = "3 shards by 5, sealed", .extension = ".gguf", .shards = 5, .sealed = true});
}

TEST_F(ReplacingSets, killed_after_any_call_onto_itself_is_old_or_new) {
  check_all_kills({.name = "3 shards by 5", .extension = ".safetensors", .shards = 5, .onto_itself = true});
  check_all_kills({.name = "3 shards by 5", .extension = ".gguf", .shards = 5, .onto_itself = true});
}

// Starts a second writer before each crash point of the first one. The second writer is refused, or runs
// before or after the first one.
TEST_F(ReplacingSets, two_writers_leave_the_set_of_one) {
  const auto target = set_ / "m.safetensors";
  const ReplacementCase replacement{.name = "two writers", .extension = ".safetensors", .shards = 5};
  int refused = 0;
  bool is_finished = false;
  for (int nth = 0; !is_finished; ++nth) {
    SCOPED_TRACE("before crash point " + std::to_string(nth));
    write_old(replacement);
    FaultyPort port;
    std::optional<Result<ConversionReport>> second;
    port.before_each([&, left = nth](Call now, int) mutable {
      if (is_crash_point(now) && left-- == 0)
        second.emplace(write_set(source(1), target, 3, false, io::system_port()));
    });
    const auto first = write_set(source(2), target, 5, false, port);
    is_finished = !second;
    const bool is_refused = second && !*second;
    if (is_refused) {
      EXPECT_EQ(second->error().code(), ErrorCode::in_use) << to_string(second->error());
      EXPECT_EQ(second->error().rule(), "set_has_one_writer");
      ++refused;
    }
    EXPECT_TRUE(first) << to_string(first.error());
    const int version = version_of(Model::open(set_ / "m.safetensors.index.json"), replacement);
    EXPECT_TRUE(version == 2 || (second && *second));
    expect_no_temporary_files();
  }
  EXPECT_GT(refused, 10);
}

// Kills two writers, each after a crash point: the first one during its replacement, the second one while it
// completes the work of the first.
TEST_F(ReplacingSets, killed_while_finishing_is_old_or_new) {
  const ReplacementCase replacement{.name = "3 shards by 3", .extension = ".safetensors", .sealed = true};
  int unfinished = 0;
  bool is_finished = false;
  for (int first = 14; !is_finished; first += 6) {
    for (int second = 0; second < 24; second += 6) {
      SCOPED_TRACE(std::to_string(first) + ", " + std::to_string(second));
      write_old(replacement);
      is_finished = replace_and_kill(replacement, first);
      if (is_finished) break;
      const int version = version_of(open_by_name(replacement), replacement);
      ASSERT_FALSE(replace_and_kill(replacement, second)) << "the second writer is killed before it finishes";
      unfinished +=
          static_cast<int>(version == 2 && std::filesystem::exists(set_ / ".htensor-m.safetensors.journal"));
      EXPECT_GE(version_of(open_by_name(replacement), replacement), version);
      EXPECT_TRUE(ht::verify(*open_by_name(replacement)));
      ASSERT_TRUE(write_set(source(2), set_ / "m.safetensors", 3, true, io::system_port()));
      expect_no_temporary_files();
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(unfinished, 5) << "many kills happen while the second writer completes the work of the first";
}

// Writers of other files leave the temporary files of a journal alone.
TEST_F(ReplacingSets, unfinished_set_survives_writers_of_other_files) {
  const ReplacementCase replacement{.name = "3 shards by 3", .extension = ".safetensors"};
  write_old(replacement);
  for (int nth = 20;; ++nth) {
    ASSERT_FALSE(replace_and_kill(replacement, nth));
    if (std::filesystem::exists(set_ / ".htensor-m.safetensors.journal") &&
        version_of(open_by_name(replacement), replacement) == 2)
      break;
    write_old(replacement);
  }
  ASSERT_TRUE(convert(Model::open(source(1)).value(), set_ / "other.irpa"));
  EXPECT_EQ(version_of(open_by_name(replacement), replacement), 2);
}

// If another program finds the first part or the index of a set, the set is complete.
TEST_F(ReplacingSets, fresh_set_killed_after_any_call_is_whole_or_absent) {
  for (const std::string extension : {".gguf", ".safetensors"}) {
    const ReplacementCase replacement{
        .name = "fresh", .extension = extension, .sealed = true, .if_exists = IfExists::fail};
    bool is_finished = false;
    for (int nth = 0; !is_finished; ++nth) {
      SCOPED_TRACE(extension + " after crash point " + std::to_string(nth));
      for (const auto& file : std::filesystem::directory_iterator(set_)) std::filesystem::remove(file.path());
      is_finished = replace_and_kill(replacement, nth);
      const int without_journal = version_without_journal(replacement);
      const auto model = open_by_name(replacement);
      bool has_visible_file = false;
      for (const auto& file : std::filesystem::directory_iterator(set_))
        has_visible_file = has_visible_file || !file.path().filename().string().starts_with(".");
      EXPECT_TRUE(without_journal == 0 || without_journal == 2);
      EXPECT_TRUE(model || !has_visible_file);
      ASSERT_TRUE(write_set(source(2), set_ / ("m" + extension), 3, true, io::system_port()));
      expect_no_temporary_files();
      if (HasFailure()) return;
    }
  }
}

TEST_F(ReplacingSets, fresh_set_that_fails_leaves_nothing) {
  const auto model = [&](io::Port& port) { return Model::open(source(2), {.port = &port}).value(); };
  for (const std::string extension : {".gguf", ".safetensors"}) {
    for (const auto call : {Call::name, Call::rename, Call::sync}) {
      bool is_finished = false;
      for (int nth = 0; !is_finished; ++nth) {
        SCOPED_TRACE(extension + " " + std::to_string(static_cast<int>(call)) + " " + std::to_string(nth));
        for (const auto& file : std::filesystem::directory_iterator(set_)) std::filesystem::remove(file);
        FaultyPort port;
        port.fail_at(call, nth, std::errc::io_error);
        const auto done = convert(model(port), set_ / ("m" + extension), {.shard_bytes = bytes_of_shard(3)});
        is_finished = port.count(call) <= nth;
        EXPECT_EQ(done.has_value(), is_finished);
        const bool is_whole = Model::open(set_).has_value();
        EXPECT_TRUE(is_whole || std::filesystem::is_empty(set_));
        expect_no_temporary_files();
      }
    }
  }
}

TEST_F(ReplacingSets, fresh_set_does_not_replace_a_file_created_during_the_write) {
  FaultyPort port;
  const auto name = set_ / "m-00002-of-00003.gguf";
  port.before_each([&](Call call, int) {
    if (call == Call::sync) write_file(name, "theirs");
  });
  const auto model = Model::open(source(2), {.port = &port}).value();
  const auto done = convert(model, set_ / "m.gguf", {.shard_bytes = bytes_of_shard(3)});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), ErrorCode::already_exists) << to_string(done.error());
  EXPECT_EQ(read_file(name).size(), 6U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(set_), {}), 1);
}

TEST_F(ReplacingSets, fresh_set_replaces_the_seal_of_removed_files) {
  const ReplacementCase replacement{.name = "fresh", .extension = ".safetensors", .sealed = true};
  write_old(replacement);
  for (const auto& file : std::filesystem::directory_iterator(set_)) {
    if (file.path().extension() != ".htseal") std::filesystem::remove(file.path());
  }
  const auto done = write_set(source(2), set_ / "m.safetensors", 3, true, io::system_port(), IfExists::fail);
  ASSERT_TRUE(done) << to_string(done.error());
  EXPECT_TRUE(compare_with_seal(set_)->is_intact());
}

TEST_F(ReplacingSets, target_may_be_named_like_a_shard) {
  const auto target = set_ / "m-00001-of-00002.safetensors";
  for (const int shards : {3, 5, 1, 3}) {
    const auto done = write_set(source(1), target, shards, true, io::system_port());
    ASSERT_TRUE(done) << to_string(done.error());
    expect_no_temporary_files();
  }
}

TEST_F(ReplacingSets, name_too_long_for_a_journal_is_refused_before_writing) {
  FaultyPort port;
  const auto done = write_set(source(1), set_ / (std::string(228, 'n') + ".safetensors"), 3, false, port);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().cause(), std::errc::filename_too_long) << to_string(done.error());
  EXPECT_EQ(port.count(Call::write_at), 0);
  EXPECT_TRUE(std::filesystem::is_empty(set_));
}

TEST_F(ReplacingSets, single_file_may_have_any_name) {
  const auto target = set_ / (std::string(243, 'n') + ".safetensors");
  const auto model = Model::open(source(1)).value();
  for (int i = 0; i < 2; ++i) {
    const auto done = convert(model, target, {}, {.if_exists = IfExists::replace});
    ASSERT_TRUE(done) << to_string(done.error());
  }
  const std::vector<MetadataEdit> edits{{.key = "key", .value = std::string(100, 'v')}};
  EXPECT_TRUE(edit_metadata(target, edits, {.grow = true}));
}

TEST_F(ReplacingSets, edit_and_seal_of_a_member_are_writers_of_the_set) {
  const ReplacementCase replacement{.name = "3 shards by 3", .extension = ".safetensors"};
  write_old(replacement);
  const auto shard = set_ / "m-00001-of-00003.safetensors";
  const std::vector<MetadataEdit> edits{{.key = "key", .value = std::string(100, 'v')}};
  const auto model = open_by_name(replacement).value();
  {
    const auto lock = SetLock::acquire(shard, io::system_port());
    ASSERT_TRUE(lock);
    EXPECT_EQ(edit_metadata(shard, edits, {.grow = true}).error().code(), ErrorCode::in_use);
    EXPECT_EQ(ht::seal(model).error().code(), ErrorCode::in_use);
  }
  FaultyPort port;
  int refused = 0;
  port.before_each([&](Call call, int) {
    if (call != Call::create_nameless) return;
    const auto second = write_set(source(2), set_ / "m.safetensors", 3, false, io::system_port());
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code(), ErrorCode::in_use);
    ++refused;
  });
  EXPECT_TRUE(edit_metadata(shard, edits, {.grow = true, .port = &port}));
  EXPECT_TRUE(ht::seal(Model::open(set_ / "m.safetensors.index.json", {.port = &port}).value()));
  EXPECT_EQ(refused, 2);
  expect_no_temporary_files();
}

}  // namespace
}  // namespace ht::replace_set_test
