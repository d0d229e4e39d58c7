#include "model/set_journal.hpp"

#include <gtest/gtest.h>

#include <htensor/hash/crc64.hpp>
#include <htensor/model/model.hpp>

#include "base/format_text.hpp"
#include "model/set_replacement.hpp"
#include "model/test_models.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht {
namespace {

using testing::FaultyPort;
using testing::TemporaryFolder;
using testing::write_file;

const SetJournal example{.old_files = {{"m.safetensors.index.json", ".htensor-1.part"},
                                       {"m-00001-of-00002.safetensors", ".htensor-2.part"}},
                         .new_files = {{"m-00001-of-00001.safetensors", ".htensor-3.part"},
                                       {"model.htseal", ".htensor-4.part"},
                                       {"m.safetensors.index.json", ".htensor-5.part"}}};

// With the checksum that makes the parser read on.
std::vector<std::byte> journal_of(std::string text) {
  for (auto& c : text) c = c == '|' ? '\0' : c;
  text += format_text("{:016x}", crc64nvme(bytes_of(text)));
  text += '\0';
  const Bytes bytes = bytes_of(text);
  return {bytes.begin(), bytes.end()};
}

TEST(SetJournal, is_found_by_any_file_of_its_set) {
  for (const auto* const member : {"m-00002-of-00003.gguf", "m.gguf", "m.gguf.index.json"})
    EXPECT_EQ(journal_path(std::filesystem::path("f") / member), "f/.htensor-m.gguf.journal");
}

TEST(SetJournal, is_read_as_it_was_written) {
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

// A split GGUF or a set with an index, and a journal beside it.
class Unfinished : public ::testing::Test {
 protected:
  void write_journal(const SetJournal& journal) {
    write_file(folder_ / ".htensor-m.safetensors.journal", encode_journal(journal));
  }
  TemporaryFolder folder_;
  FaultyPort port_;
};

TEST_F(Unfinished, malformed_journal_is_an_error_where_it_matters) {
  write_file(folder_ / ".htensor-m.safetensors.journal", "anything");
  const auto index = folder_ / "m.safetensors.index.json";
  EXPECT_EQ(Model::open(index).error().rule(), "journal_is_well_formed");
  EXPECT_EQ(Model::open(folder_.path()).error().rule(), "journal_is_well_formed");
  EXPECT_EQ(finish_set(index, port_).error().rule(), "journal_is_well_formed");
  EXPECT_EQ(port_.open_files(), 0);
  EXPECT_EQ(folder_.names(), std::vector<std::string>{".htensor-m.safetensors.journal"});
}

TEST_F(Unfinished, journaled_files_are_there) {
  write_file(folder_ / ".htensor-1.part", "the old index");
  write_file(folder_ / "m-00001-of-00002.safetensors", "an old shard");
  write_file(folder_ / ".htensor-4.part", "the new seal");
  write_file(folder_ / ".htensor-5.part", "the new index");
  write_journal(example);
  const auto before = folder_.names();
  const auto done = finish_set(folder_ / "m.safetensors.index.json", port_);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), ErrorCode::missing_shard);
  EXPECT_EQ(done.error().rule(), "journaled_files_are_there");
  EXPECT_EQ(folder_.names(), before) << "nothing is touched";
}

TEST_F(Unfinished, set_has_one_writer) {
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
  EXPECT_TRUE(SetLock::acquire(folder_ / "n.safetensors", port_)) << "another set";
}

TEST_F(Unfinished, set_stays_while_it_is_opened) {
  const auto index = folder_ / "m.safetensors.index.json";
  const std::string text = R"({"weight_map":{"a":"m-00001-of-00001.safetensors"}})";
  write_file(folder_ / "m-00001-of-00001.safetensors", testing::shard_file({"a"}));
  write_file(index, text);
  int replaced = 0;
  port_.before_each([&](testing::Call call, int) {
    // Before the last look at the index.
    if (call != testing::Call::stat_path) return;
    ++replaced;
    write_file(folder_ / "new", text);
    std::filesystem::rename(folder_ / "new", index);
  });
  const auto opened = Model::open(index, {.port = &port_});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), ErrorCode::changed_underfoot);
  EXPECT_EQ(opened.error().rule(), "set_stays_while_it_is_opened");
  EXPECT_GT(replaced, 1) << "tried again";
  port_.before_each({});
  EXPECT_TRUE(Model::open(index, {.port = &port_}));
}

TEST_F(Unfinished, costs_one_stat_where_there_is_no_journal) {
  const auto index = folder_ / "m.safetensors.index.json";
  write_file(folder_ / "m-00001-of-00001.safetensors", testing::shard_file({"a"}));
  write_file(index, R"({"weight_map":{"a":"m-00001-of-00001.safetensors"}})");
  ASSERT_TRUE(Model::open(index, {.port = &port_}));
  EXPECT_EQ(port_.count(testing::Call::stat_path), 1);
  EXPECT_EQ(port_.count(testing::Call::list), 0);
  FaultyPort single;
  ASSERT_TRUE(Model::open(folder_ / "m-00001-of-00001.safetensors", {.port = &single}));
  EXPECT_EQ(single.count(testing::Call::stat_path), 0);
  EXPECT_EQ(single.count(testing::Call::open), 1);
}

}  // namespace
}  // namespace ht
