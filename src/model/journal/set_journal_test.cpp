#include "model/journal/set_journal.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <htensor/hash/digest.hpp>
#include <htensor/model/model.hpp>

#include "base/format_text.hpp"
#include "io/port/port.hpp"
#include "model/journal/set_replacement.hpp"
#include "model/test_models.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::set_journal_test {
namespace {

using testing::Call;
using testing::FaultyPort;
using testing::TemporaryFolder;
using testing::write_file;

const SetJournal example{.old_files = {{"m.safetensors.index.json", ".htensor-1.part"},
                                       {"m-00001-of-00002.safetensors", ".htensor-2.part"}},
                         .new_files = {{"m-00001-of-00001.safetensors", ".htensor-3.part"},
                                       {"model.htseal", ".htensor-4.part"},
                                       {"m.safetensors.index.json", ".htensor-5.part"}}};

// Returns a journal with a valid checksum, so that the parser reads the fields. `|` stands for a zero byte.
std::vector<std::byte> journal_of(std::string text) {
  for (auto& c : text) c = c == '|' ? '\0' : c;
  text += format_text("{:016x}", crc64nvme(bytes_of(text)));
  text += '\0';
  const Bytes bytes = bytes_of(text);
  return {bytes.begin(), bytes.end()};
}

TEST(SetJournal, is_found_by_any_file_of_its_set) {
  for (const auto* const member :
       {"m-00002-of-00003.gguf", "m.gguf", "m.gguf.index.json", "m-00001-of-00002-00003-of-00003.gguf",
        "m-00001-of-00002.gguf.index.json"})
    EXPECT_EQ(journal_path(std::filesystem::path("f") / member), "f/.htensor-m.gguf.journal");
}

TEST(SetJournal, round_trips) {
  EXPECT_EQ(parse_journal(encode_journal(example), "m.safetensors").value(), example);
}

TEST(SetJournal, journal_is_well_formed) {
  const auto whole = encode_journal(example);
  const auto rule = [](Bytes bytes) -> std::string {
    const auto parsed = parse_journal(bytes, "m.safetensors");
    if (parsed) return "none";
    EXPECT_EQ(parsed.error().code(), ErrorCode::bad_header);
    return std::string(parsed.error().rule());
  };
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_EQ(rule(Bytes(whole).first(size)), "journal_is_well_formed") << size;
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    auto flipped = whole;
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_EQ(rule(flipped), "journal_is_well_formed") << bit;
  }
  for (const auto* const text :
       {"", "htensor-journal-1", "htensor-journal-1|", "htensor-journal-2|new|.htensor-1.part|m.safetensors|",
        "htensor-journal-1|new|.htensor-1.part|", "htensor-journal-1|mew|.htensor-1.part|m.safetensors|",
        "htensor-journal-1|old|.htensor-1.part|m.safetensors|",
        "htensor-journal-1|new|.htensor-1.part|m.safetensors|new|.htensor-1.part|m.safetensors|"}) {
    EXPECT_EQ(rule(journal_of(text)), "journal_is_well_formed") << text;
  }
}

TEST(SetJournal, journal_names_files_of_its_set) {
  for (const auto* const text :
       {"new|.htensor-1.part|n.safetensors|", "new|.htensor-1.part|../m.safetensors|",
        "new|.htensor-1.part||", "new|.htensor-1.part|/m.safetensors|",
        "new|.htensor-1.part|x/../m-00001-of-00002.safetensors|", "new|.htensor-1.part|.|",
        "new|.htensor-1.part|..|", "new|../.htensor-1.part|m.safetensors|",
        "new|.htensor-/../../x.part|m.safetensors|", "new|m-00001-of-00002.safetensors|m.safetensors|",
        "new|.htensor-1.part|m.safetensors|old|.htensor-2.part|n.safetensors.htseal|"}) {
    const auto parsed = parse_journal(journal_of(std::string("htensor-journal-1|") + text), "m.safetensors");
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code(), ErrorCode::path_escapes);
    EXPECT_EQ(parsed.error().rule(), "journal_names_files_of_its_set");
  }
}

// A folder with the files of a set and its journal.
class SetFolder : public ::testing::Test {
 protected:
  void write_journal(const SetJournal& journal) {
    write_file(folder_ / ".htensor-m.safetensors.journal", encode_journal(journal));
  }
  TemporaryFolder folder_;
  FaultyPort port_;
};

TEST_F(SetFolder, malformed_journal_is_an_error_for_readers_and_writers) {
  write_file(folder_ / ".htensor-m.safetensors.journal", "anything");
  const auto index = folder_ / "m.safetensors.index.json";
  EXPECT_EQ(Model::open(index).error().rule(), "journal_is_well_formed");
  EXPECT_EQ(Model::open(folder_.path()).error().rule(), "journal_is_well_formed");
  EXPECT_EQ(finish_set(index, port_).error().rule(), "journal_is_well_formed");
  EXPECT_EQ(port_.open_files(), 0);
  EXPECT_EQ(folder_.names(), std::vector<std::string>{".htensor-m.safetensors.journal"});
}

TEST_F(SetFolder, journaled_files_exist) {
  write_file(folder_ / ".htensor-1.part", "the old index");
  write_file(folder_ / "m-00001-of-00002.safetensors", "an old shard");
  write_file(folder_ / ".htensor-4.part", "the new seal");
  write_file(folder_ / ".htensor-5.part", "the new index");
  write_journal(example);
  const auto before = folder_.names();
  const auto done = finish_set(folder_ / "m.safetensors.index.json", port_);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), ErrorCode::missing_shard);
  EXPECT_EQ(done.error().rule(), "journaled_files_exist");
  EXPECT_EQ(folder_.names(), before) << "no file is changed";
}

TEST_F(SetFolder, file_can_be_examined) {
  port_.fail_at(Call::stat_path, 0, std::errc::permission_denied);
  const auto error = testing::refusal(is_committed(example, folder_.path(), port_), ErrorCode::open_failed,
                                      "file_can_be_examined");
  EXPECT_EQ(error.path(), (folder_ / ".htensor-1.part").string());
  EXPECT_EQ(error.message(), "cannot stat: Permission denied");
}

TEST_F(SetFolder, old_files_can_be_removed) {
  port_.fail_at(Call::unlink, 0, std::errc::permission_denied);
  const auto error = testing::refusal(remove_file(folder_ / "old", port_), ErrorCode::write_failed,
                                      "old_files_can_be_removed");
  EXPECT_EQ(error.path(), (folder_ / "old").string());
  EXPECT_EQ(error.message(), "cannot remove the file: Permission denied");
}

TEST_F(SetFolder, set_has_one_writer) {
  const auto member = folder_ / "m-00001-of-00002.safetensors";
  const auto first = SetLock::acquire(member, port_);
  ASSERT_TRUE(first);
  for (const auto* const name :
       {"m-00001-of-00002.safetensors", "m.safetensors", "m-00003-of-00005.safetensors"}) {
    const auto second = SetLock::acquire(folder_ / name, port_);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code(), ErrorCode::in_use);
    EXPECT_EQ(second.error().rule(), "set_has_one_writer");
  }
  EXPECT_TRUE(SetLock::acquire(folder_ / "n.safetensors", port_)) << "a set of another name";
}

TEST_F(SetFolder, lock_is_refused_if_the_journal_cannot_be_examined) {
  const auto member = folder_ / "m.safetensors";
  int stats = 0;
  {
    const auto lock = SetLock::acquire(member, port_);
    ASSERT_TRUE(lock);
    stats = port_.count(Call::stat_path);
  }
  FaultyPort port;
  port.fail_at(Call::stat_path, stats - 1, std::errc::permission_denied);  // the stat of the journal
  const auto error =
      testing::refusal(SetLock::acquire(member, port), ErrorCode::write_failed, "target_can_be_examined");
  EXPECT_EQ(error.path(), (folder_ / ".htensor-m.safetensors.journal").string());
  EXPECT_TRUE(folder_.names().empty()) << "the lock file is removed";
}

TEST_F(SetFolder, set_is_unchanged_while_opening) {
  const auto index = folder_ / "m.safetensors.index.json";
  const std::string text = R"({"weight_map":{"a":"m-00001-of-00001.safetensors"}})";
  write_file(folder_ / "m-00001-of-00001.safetensors", testing::shard_file({"a"}));
  write_file(index, text);
  int replaced = 0;
  port_.before_each([&](Call call, int) {
    // Replaces the index before each stat of it.
    if (call != Call::stat_path) return;
    ++replaced;
    write_file(folder_ / "new", text);
    std::filesystem::rename(folder_ / "new", index);
  });
  const auto opened = Model::open(index, {.port = &port_});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), ErrorCode::changed_underfoot);
  EXPECT_EQ(opened.error().rule(), "set_is_unchanged_while_opening");
  EXPECT_GT(replaced, 1) << "opening is retried";
  port_.before_each({});
  EXPECT_TRUE(Model::open(index, {.port = &port_}));
}

// A replacement begins and is rolled back while a reader opens the set. Afterwards the index is the old file,
// but the reader has opened a new shard.
TEST_F(SetFolder, failed_replacement_does_not_mix_old_and_new_shards) {
  const auto index = folder_ / "m.safetensors.index.json";
  const auto one = folder_ / "m-00001-of-00002.safetensors";
  const auto two = folder_ / "m-00002-of-00002.safetensors";
  write_file(one, testing::shard_file({"a"}, R"("one":"old")"));
  write_file(two, testing::shard_file({"b"}, R"("two":"old")"));
  write_file(folder_ / "new-1", testing::shard_file({"a"}, R"("one":"new")"));
  write_file(folder_ / "new-2", testing::shard_file({"b"}, R"("two":"new")"));
  write_file(index, testing::index_text({{"a", one.filename()}, {"b", two.filename()}}));
  const auto move = [&](std::initializer_list<std::array<std::filesystem::path, 2>> renames) {
    for (const auto& [from, to] : renames)
      std::filesystem::rename(folder_.path() / from, folder_.path() / to);
  };
  bool is_placed = false;
  bool is_undone = false;
  port_.before_each([&](Call call, int nth) {
    // The index is opened twice, then the shards.
    if (call == Call::open && nth == 3 && !is_placed) {
      move({{index, "old-index"}, {one, "old-1"}, {two, "old-2"}, {"new-1", one}, {"new-2", two}});
      is_placed = true;
    } else if (call == Call::stat_path && is_placed && !is_undone) {
      move({{two, "new-2"}, {one, "new-1"}, {"old-2", two}, {"old-1", one}, {"old-index", index}});
      is_undone = true;
    }
  });
  const auto model = Model::open(index, {.port = &port_});
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_TRUE(is_undone);
  EXPECT_EQ(model->catalog().metadata().find("one")->text(), "old");
  EXPECT_EQ(model->catalog().metadata().find("two")->text(), "old");
}

TEST_F(SetFolder, opening_a_set_without_a_journal_costs_one_stat_per_file) {
  const auto index = folder_ / "m.safetensors.index.json";
  write_file(folder_ / "m-00001-of-00001.safetensors", testing::shard_file({"a"}));
  write_file(index, R"({"weight_map":{"a":"m-00001-of-00001.safetensors"}})");
  ASSERT_TRUE(Model::open(index, {.port = &port_}));
  EXPECT_EQ(port_.count(Call::stat_path), 2);
  EXPECT_EQ(port_.count(Call::list), 0);
  FaultyPort single;
  ASSERT_TRUE(Model::open(folder_ / "m-00001-of-00001.safetensors", {.port = &single}));
  EXPECT_EQ(single.count(Call::stat_path), 0);
  EXPECT_EQ(single.count(Call::open), 1);
}

// Writes files whose contents are their names.
void write_names(const TemporaryFolder& folder, std::initializer_list<std::string_view> names) {
  for (const auto name : names) write_file(folder / name, name);
}

TEST_F(SetFolder, old_files_stay_until_all_new_files_are_renamed) {
  // The new seal was renamed into place before the kill, and a user removed it later.
  write_names(folder_, {".htensor-1.part", ".htensor-2.part", "m-00001-of-00001.safetensors",
                        "m.safetensors.index.json"});
  write_journal(example);
  const auto before = folder_.names();
  const auto done = finish_set(folder_ / "m.safetensors.index.json", port_);
  testing::expect_refusal(done, ErrorCode::missing_shard, "journaled_files_exist");
  EXPECT_EQ(folder_.names(), before) << "no file is changed";
}

TEST_F(SetFolder, old_files_are_removed_after_the_last_rename_is_synced) {
  write_names(folder_, {"m.safetensors.index.json", "m-00001-of-00002.safetensors", ".htensor-3.part",
                        ".htensor-4.part", ".htensor-5.part"});
  std::filesystem::rename(folder_ / "m.safetensors.index.json", folder_ / ".htensor-1.part");
  write_journal(example);
  std::vector<Call> calls;
  port_.before_each([&](Call call, int) {
    if (call == Call::rename || call == Call::sync || call == Call::unlink) calls.push_back(call);
  });
  ASSERT_TRUE(finish_set(folder_ / "m.safetensors.index.json", port_));
  const auto removed = std::ranges::find(calls, Call::unlink);
  ASSERT_NE(removed, calls.end());
  EXPECT_EQ(*std::prev(removed), Call::sync);
}

TEST_F(SetFolder, journal_is_removed_before_the_files_of_an_uncommitted_replacement) {
  for (int nth = 0; nth < 4; ++nth) {
    write_names(folder_, {"m.safetensors.index.json", "m-00001-of-00002.safetensors", ".htensor-3.part",
                          ".htensor-4.part", ".htensor-5.part"});
    write_journal(example);
    // All further calls of unlink fail, which leaves the files as a kill would.
    FaultyPort port;
    port.fail_from(Call::unlink, nth, std::errc::io_error);
    EXPECT_FALSE(finish_set(folder_ / "m.safetensors.index.json", port));
    const bool has_journal = std::filesystem::exists(folder_ / ".htensor-m.safetensors.journal");
    EXPECT_TRUE(!has_journal || std::filesystem::exists(folder_ / ".htensor-5.part"))
        << "the journal is removed before the new files";
  }
}

// flock over NFS may need a writable descriptor; some file systems do not support flock.
TEST_F(SetFolder, lock_can_be_claimed) {
  const auto member = folder_ / "m.safetensors";
  for (const auto cause :
       {std::errc::bad_file_descriptor, std::errc::no_lock_available, std::errc::function_not_supported}) {
    FaultyPort port;
    port.fail_from(Call::claim, 0, cause);
    {
      const auto live = SetLock::acquire(member, io::system_port());
      ASSERT_TRUE(live);
      const auto refused =
          testing::refusal(SetLock::acquire(member, port), ErrorCode::in_use, "lock_can_be_claimed");
      EXPECT_EQ(refused.path(), (folder_ / ".htensor-m.safetensors.part").string());
      EXPECT_TRUE(std::filesystem::exists(refused.path()));
    }
    write_names(folder_, {"m.safetensors.index.json", ".htensor-1.part"});
    write_journal(example);
    const auto before = folder_.names();
    const auto refused = testing::refusal(finish_set(member, port), ErrorCode::in_use, "lock_can_be_claimed");
    EXPECT_EQ(refused.path(), (folder_ / ".htensor-m.safetensors.journal").string());
    EXPECT_EQ(folder_.names(), before);
    for (const auto& name : before) std::filesystem::remove(folder_ / name);
  }
}

TEST_F(SetFolder, without_flock_an_existing_lock_file_is_a_held_lock) {
  port_.fail_from(Call::claim, 0, std::errc::no_lock_available);
  {
    const auto first = SetLock::acquire(folder_ / "m.safetensors", port_);
    ASSERT_TRUE(first);
    EXPECT_EQ(SetLock::acquire(folder_ / "m.safetensors", port_).error().code(), ErrorCode::in_use);
  }
  EXPECT_TRUE(SetLock::acquire(folder_ / "m.safetensors", port_));
}

// Each writer in the folder removes the lock files of killed writers. It claims a lock file for a moment
// before it removes the file.
TEST_F(SetFolder, waits_for_a_briefly_held_lock) {
  write_file(folder_ / ".htensor-m.safetensors.part", "");
  const auto other = io::system_port().open(folder_ / ".htensor-m.safetensors.part").value();
  ASSERT_TRUE(io::system_port().claim(other));
  port_.before_each([&](Call call, int nth) {
    if (call != Call::claim || nth != 1) return;
    ASSERT_TRUE(io::system_port().unlink(folder_ / ".htensor-m.safetensors.part"));
    ASSERT_TRUE(io::system_port().close(other));
  });
  EXPECT_TRUE(SetLock::acquire(folder_ / "m.safetensors", port_));
}

// Replaces a set in which each file has its name as its contents.
class ReplacedSet : public SetFolder {
 protected:
  Result<void> replace() {
    write_names(folder_, {"m.safetensors.index.json", "m-00001-of-00002.safetensors"});
    auto lock = HT_TRY(SetLock::acquire(folder_ / "m.safetensors", port_));
    std::vector<io::AtomicFile> files;
    for (const auto* const name : {"m-00001-of-00001.safetensors", "m.safetensors.index.json"}) {
      files.push_back(HT_TRY(io::AtomicFile::create(folder_ / name, IfExists::replace, port_)));
      HT_TRY(files.back().write(0, bytes_of("new")));
      HT_TRY(files.back().sync());
    }
    std::vector<io::AtomicFile*> pointers{&files[0], &files[1]};
    const std::vector old{folder_ / "m.safetensors.index.json", folder_ / "m-00001-of-00002.safetensors"};
    return std::move(lock).replace(old, pointers);
  }
  [[nodiscard]] bool is_old() const {
    return std::filesystem::exists(folder_ / "m-00001-of-00002.safetensors");
  }

  // Replaces the set once to count the renames and fsyncs of a replacement. Then, for each of these calls,
  // replaces the old set again while this one call fails. Passes the renames, fsyncs and removals of each
  // failed replacement to `check`.
  template <class Check>
  void fail_each_rename_and_fsync(const Check& check) {
    ASSERT_TRUE(replace());
    EXPECT_EQ(folder_.names(),
              (std::vector<std::string>{"m-00001-of-00001.safetensors", "m.safetensors.index.json"}));
    const int renames = port_.count(Call::rename);
    const int syncs = port_.count(Call::sync);
    for (int nth = 0; nth < renames + syncs; ++nth) {
      SCOPED_TRACE(nth);
      for (const auto& name : folder_.names()) std::filesystem::remove(folder_ / name);
      port_.clear_faults();
      const auto kind = nth < renames ? Call::rename : Call::sync;
      port_.fail_at(kind, port_.count(kind) + (nth < renames ? nth : nth - renames), std::errc::io_error);
      std::vector<Call> calls;
      port_.before_each([&](Call call, int) {
        if (call == Call::rename || call == Call::sync || call == Call::unlink) calls.push_back(call);
      });
      EXPECT_FALSE(replace());
      port_.before_each({});
      check(calls);
    }
  }
};

TEST_F(ReplacedSet, is_complete_after_any_failed_rename_or_fsync) {
  fail_each_rename_and_fsync([&](const std::vector<Call>&) {
    const auto index = testing::read_file(folder_ / "m.safetensors.index.json");
    EXPECT_EQ(is_old(), index.size() != 3);
    EXPECT_NE(is_old(), std::filesystem::exists(folder_ / "m-00001-of-00001.safetensors"));
    for (const auto& name : folder_.names()) EXPECT_FALSE(name.starts_with(".")) << name;
  });
}

TEST_F(ReplacedSet, is_rolled_back_with_fsyncs_before_and_after_the_rename_of_the_index) {
  int rolled_back = 0;
  fail_each_rename_and_fsync([&](const std::vector<Call>& calls) {
    // The first rename gives the journal its name. Without a second rename, nothing was rolled back.
    if (!is_old() || std::ranges::count(calls, Call::rename) < 2) return;
    ++rolled_back;
    // The last rename gives the old index its name. New files are removed only afterwards.
    const auto first_removal = std::ranges::find(calls, Call::unlink);
    ASSERT_GE(first_removal - calls.begin(), 3);
    EXPECT_EQ(std::vector(first_removal - 3, first_removal),
              (std::vector{Call::sync, Call::rename, Call::sync}));
  });
  EXPECT_GT(rolled_back, 0);
}

// Runs a writer before each call of a reader in turn: the reader must get one of the two sets.
class LiveWriter : public SetFolder {
 protected:
  static constexpr std::string_view index_name = "m.safetensors.index.json";
  static constexpr std::string_view shard_name = "m-00001-of-00001.safetensors";
  static std::string index_of(std::string_view tensor) {
    return testing::index_text({{std::string(tensor), std::string(shard_name)}});
  }
  const SetJournal journal_{.old_files = {{std::string(index_name), ".htensor-1.part"},
                                          {std::string(shard_name), ".htensor-2.part"}},
                            .new_files = {{std::string(shard_name), ".htensor-3.part"},
                                          {std::string(index_name), ".htensor-4.part"}}};
};

TEST_F(LiveWriter, may_finish_during_a_read) {
  for (const bool by_folder : {false, true}) {
    bool is_done = false;
    for (int call = 0; !is_done; ++call) {
      SCOPED_TRACE(call);
      write_file(folder_ / ".htensor-1.part", index_of("a"));
      write_file(folder_ / ".htensor-2.part", testing::shard_file({"a"}));
      write_file(folder_ / ".htensor-3.part", testing::shard_file({"b"}));
      write_file(folder_ / ".htensor-4.part", index_of("b"));
      write_journal(journal_);
      FaultyPort port;
      is_done = true;
      port.before_each([&, left = call](Call, int) mutable {
        if (left-- != 0) return;
        is_done = false;
        ASSERT_TRUE(finish_set(folder_ / index_name, io::system_port()));
      });
      const auto model = Model::open(by_folder ? folder_.path() : folder_ / index_name, {.port = &port});
      port.before_each({});
      EXPECT_TRUE(model) << to_string(model.error());
      for (const auto& name : folder_.names()) std::filesystem::remove(folder_ / name);
    }
  }
}

TEST_F(LiveWriter, may_replace_a_set_during_a_read) {
  for (const bool by_folder : {false, true}) {
    bool is_done = false;
    for (int call = 0; !is_done; ++call) {
      SCOPED_TRACE(call);
      write_file(folder_ / index_name, index_of("a"));
      write_file(folder_ / shard_name, testing::shard_file({"a"}));
      FaultyPort port;
      is_done = true;
      port.before_each([&, left = call](Call, int) mutable {
        if (left-- != 0) return;
        is_done = false;
        write_file(folder_ / ".htensor-3.part", testing::shard_file({"b"}));
        write_file(folder_ / ".htensor-4.part", index_of("b"));
        std::filesystem::rename(folder_ / index_name, folder_ / ".htensor-1.part");
        write_journal(journal_);
        ASSERT_TRUE(finish_set(folder_ / index_name, io::system_port()));
      });
      const auto model = Model::open(by_folder ? folder_.path() : folder_ / index_name, {.port = &port});
      port.before_each({});
      EXPECT_TRUE(model) << to_string(model.error());
      for (const auto& name : folder_.names()) std::filesystem::remove(folder_ / name);
    }
  }
}

// A file name of 255 bytes is legal, but the name of its journal would be longer.
TEST_F(SetFolder, file_with_a_name_too_long_for_a_journal_has_none) {
  const auto path = folder_ / (std::string(243, 'n') + ".safetensors");
  EXPECT_TRUE(finish_set(path, port_));
  EXPECT_EQ(Model::open(path).error().cause(), std::errc::no_such_file_or_directory);
}

}  // namespace
}  // namespace ht::set_journal_test
