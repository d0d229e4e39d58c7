// The seal of a file or set whose metadata is edited.
#include <gtest/gtest.h>

#include <htensor/integrity/seal.hpp>
#include <htensor/model/model.hpp>

#include "convert/edit_metadata_test.hpp"
#include "testing/child_process.hpp"

namespace ht::edit_metadata_seal_test {
namespace {

using namespace edit_metadata_test;

TEST_F(EditMeta, updates_the_seal) {
  EXPECT_FALSE(edit(gguf_, {{.key = "general.name", .value = "w"}})->seal);
  for (const auto algorithm : all_hash_algorithms) {
    const auto sealed = ht::seal(*Model::open(gguf_), {.algorithm = algorithm, .force = true}).value();
    EXPECT_FALSE(edit(gguf_, {})->seal) << "an edit without a change writes no seal";
    // An edit that fits before the data, one that moves the data, and one that moves it by more than a chunk
    // of the seal.
    for (const std::size_t length : {3U, 5000U, 5'000'000U}) {
      const auto done =
          edit(gguf_, {{.key = "general.name", .value = std::string(length, 'x')}}, true).value();
      EXPECT_EQ(done.seal, sealed.seal);
      EXPECT_EQ(compare_with_seal(gguf_).value().verdict, Verification::Verdict::intact);
      const auto carried = read_file(sealed.seal);
      ASSERT_TRUE(ht::seal(*Model::open(gguf_), {.algorithm = algorithm, .force = true}));
      EXPECT_EQ(read_file(sealed.seal), carried) << "the edit and `seal` write the same seal";
    }
    ASSERT_TRUE(edit(gguf_, {{.key = "general.name", .value = "x"}}));
    EXPECT_EQ(compare_with_seal(gguf_).value().verdict, Verification::Verdict::intact);
  }
  EXPECT_FALSE(edit(big_endian_gguf_, {{.key = "general.name", .value = "x"}})->seal)
      << "a file without a seal gets none";
}

TEST_F(EditMeta, updates_the_seal_of_a_set) {
  const TemporaryFolder set;
  for (const auto* const name : {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}) {
    const std::string tensor = name[10] == '1' ? "a" : "b";
    write_file(set / name, safetensors_file(R"({"__metadata__":{"k":"v"},")" + tensor +
                                                R"(":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}})",
                                            9));
  }
  const auto sealed = ht::seal(*Model::open(set.path())).value();
  for (const auto* const name : {"model-00002-of-00002.safetensors", "model-00001-of-00002.safetensors"}) {
    const auto done = edit(set / name, {{.key = "k", .value = std::string(5000, 'y')}}, true).value();
    EXPECT_EQ(done.seal, sealed.seal);
    EXPECT_EQ(compare_with_seal(set.path()).value().verdict, Verification::Verdict::intact);
  }
}

TEST_F(EditMeta, damage_of_the_data_stays_visible) {
  ASSERT_TRUE(ht::seal(*Model::open(gguf_)));
  auto bytes = read_file(gguf_);
  bytes.back() ^= std::byte{1};
  write_file(gguf_, bytes);
  ASSERT_TRUE(edit(gguf_, {{.key = "general.name", .value = std::string(5000, 'x')}}, true));
  const auto found = compare_with_seal(gguf_).value();
  EXPECT_EQ(found.verdict, Verification::Verdict::damaged);
  ASSERT_EQ(found.bad.size(), 1U);
  EXPECT_EQ(found.bad[0].tensor, "u");
}

TEST_F(EditMeta, edited_file_matches_its_seal) {
  const auto expect_refused = [&](std::size_t offset, HashAlgorithm algorithm) {
    auto bytes = gguf_file(std::endian::little);
    write_file(gguf_, bytes);
    const auto seal = ht::seal(*Model::open(gguf_), {.algorithm = algorithm, .force = true}).value().seal;
    const auto sealed = read_file(seal);
    bytes[offset] ^= std::byte{1};
    write_file(gguf_, bytes);
    const auto refused = edit(gguf_, {{.key = "general.name", .value = "x"}});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), ErrorCode::checksum_mismatch);
    EXPECT_EQ(refused.error().rule(), "edited_file_matches_its_seal");
    EXPECT_NE(refused.error().hint().find("seal --force"), std::string_view::npos);
    EXPECT_EQ(read_file(gguf_), bytes);
    EXPECT_EQ(read_file(seal), sealed);
  };
  const auto name_at = 24 + 8 + std::string_view("general.name").size() + 4 + 8;
  for (const auto algorithm : all_hash_algorithms) expect_refused(name_at, algorithm);
  // With these algorithms the digest of the whole file needs all bytes, so a damaged byte would be sealed.
  const auto last = gguf_file(std::endian::little).size() - 1;
  expect_refused(last, HashAlgorithm::xxh3_128);
  expect_refused(last, HashAlgorithm::sha256);
}

TEST_F(EditMeta, restores_the_old_seal_if_the_rename_fails) {
  const auto seal = ht::seal(*Model::open(gguf_)).value().seal;
  const auto before = read_file(gguf_);
  const auto sealed = read_file(seal);
  for (const auto call : {Call::rename, Call::name}) {
    FaultyPort counting;
    ASSERT_TRUE(edit_metadata(gguf_, Edits{{.key = "general.name", .value = "x"}}, {.port = &counting}));
    write_file(gguf_, before);
    write_file(seal, sealed);
    FaultyPort port;
    port.fail_at(call, counting.count(call) - 1, std::errc::io_error);
    ASSERT_FALSE(edit_metadata(gguf_, Edits{{.key = "general.name", .value = "x"}}, {.port = &port}));
    EXPECT_EQ(read_file(gguf_), before);
    EXPECT_EQ(compare_with_seal(gguf_).value().verdict, Verification::Verdict::intact);
  }
}

// Kills the edit before each call. verify never reports wrong bytes as intact, and repeating the edit
// completes it.
TEST_F(EditMeta, killed_at_any_call_can_be_completed) {
  const auto seal = ht::seal(*Model::open(gguf_)).value().seal;
  const auto before = read_file(gguf_);
  const auto sealed = read_file(seal);
  const Edits edits{{.key = "general.name", .value = std::string(5000, 'x')}};
  ASSERT_TRUE(edit(gguf_, edits, true));
  const auto after = read_file(gguf_);
  bool finished = false;
  int halfway = 0;
  for (int call = 0; !finished; ++call) {
    ASSERT_LT(call, 1000);
    SCOPED_TRACE("before call " + std::to_string(call));
    write_file(gguf_, before);
    write_file(seal, sealed);
    finished = testing::finishes_in_child([&] {
      FaultyPort port;
      testing::kill_before(port, call);
      return edit_metadata(gguf_, edits, {.grow = true, .port = &port}).has_value();
    });
    const auto now = read_file(gguf_);
    ASSERT_TRUE(now == before || now == after);
    const auto found = compare_with_seal(gguf_).value();
    if (!found.is_intact()) {
      ++halfway;
      EXPECT_EQ(now, before) << "the new seal gets its name before the new file";
    }
    ASSERT_TRUE(edit(gguf_, edits, true));
    EXPECT_EQ(read_file(gguf_), after);
    EXPECT_EQ(compare_with_seal(gguf_).value().verdict, Verification::Verdict::intact);
  }
  EXPECT_GT(halfway, 0);
  EXPECT_EQ(folder_.names(),
            (std::vector<std::string>{"big.gguf", "m.gguf", "m.gguf.htseal", "m.safetensors"}));
}

}  // namespace
}  // namespace ht::edit_metadata_seal_test
