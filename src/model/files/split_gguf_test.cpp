#include <array>

#include "format/shards/numbered_name.hpp"
#include "model/test_formats.hpp"
#include "model/test_models.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::split_gguf_test {
namespace {

using testing::ByteBuffer;
using testing::expect_refusal;
using testing::message_contains;
using testing::names_of;
using testing::refusal;
using testing::write_file;
using Names = std::vector<std::string>;

struct Part {
  std::uint16_t number = 0;
  std::uint16_t count = 3;
  std::int32_t tensors = 4;
  Names names{};
  std::string_view omitted_key{};
  std::string_view u32_key{};
};

constexpr std::array<std::string_view, 3> split_keys{"split.no", "split.count", "split.tensors.count"};

// Returns a GGUF v3 file with F32 [1] tensors. Each value is the position of the tensor's name in the
// alphabet.
std::vector<std::byte> gguf(const Part& part, bool has_split_keys = true) {
  ByteBuffer file;
  const auto text = [&](std::string_view words) -> ByteBuffer& { return file.u64(words.size()).text(words); };
  const bool has_number = has_split_keys && part.omitted_key != "split.no";
  const bool has_count = has_split_keys && part.omitted_key != "split.count";
  const bool has_tensors = has_split_keys && part.omitted_key != "split.tensors.count";
  file.text("GGUF").u32(3).u64(part.names.size());
  file.u64(std::uint64_t{has_number} + std::uint64_t{has_count} + std::uint64_t{has_tensors});
  const auto number = [&](std::string_view key, auto value) {
    text(key).u32(static_cast<std::uint32_t>(meta_type_of<decltype(value)>)).number(value);
  };
  const auto is_u32 = [&](std::string_view key) { return part.u32_key == key; };
  if (has_number)
    is_u32("split.no") ? number("split.no", std::uint32_t{part.number}) : number("split.no", part.number);
  if (has_count)
    is_u32("split.count") ? number("split.count", std::uint32_t{part.count})
                          : number("split.count", part.count);
  if (has_tensors) {
    is_u32("split.tensors.count") ? number("split.tensors.count", static_cast<std::uint32_t>(part.tensors))
                                  : number("split.tensors.count", part.tensors);
  }
  for (std::size_t i = 0; i < part.names.size(); ++i) text(part.names[i]).u32(1).u64(1).u32(0).u64(32 * i);
  file.align(32);
  for (const auto& name : part.names) file.number(static_cast<float>(name[0] - 'a')).align(32);
  return file.bytes();
}

class SplitGguf : public ::testing::Test {
 protected:
  void SetUp() override {
    write(1, {.number = 0, .names = {"a", "b"}});
    write(2, {.number = 1, .names = {"c"}});
    write(3, {.number = 2, .names = {"d"}});
  }
  std::filesystem::path path(std::uint32_t number) const {
    return folder_.path() / NumberedName{"m", number, 3, ".gguf"}.name_of_part(number);
  }
  void write(std::uint32_t number, const Part& part, bool has_split_keys = true) {
    write_file(path(number), gguf(part, has_split_keys));
  }
  testing::TemporaryFolder folder_;
};

TEST_F(SplitGguf, opens_by_any_part_and_by_its_folder) {
  for (const auto& opened : {path(1), path(2), path(3), folder_.path()}) {
    const auto model = Model::open(opened);
    ASSERT_TRUE(model) << to_string(model.error());
    EXPECT_EQ(names_of(model->catalog()), (Names{"a", "b", "c", "d"}));
    EXPECT_EQ(model->files(), (std::vector{path(1), path(2), path(3)}));
    EXPECT_FALSE(model->catalog().metadata().find("split.no"));  // the joined model has no split keys
    for (const auto* name : {"a", "b", "c", "d"}) {
      EXPECT_EQ((model->tensor<F32, Rank<1>>(name).value()(0)), static_cast<float>(name[0] - 'a'));
    }
  }
}

TEST_F(SplitGguf, first_part_may_hold_no_tensor) {
  write(1, {.number = 0, .tensors = 2});
  write(2, {.number = 1, .tensors = 2, .names = {"c"}});
  write(3, {.number = 2, .tensors = 2, .names = {"d"}});
  const auto model = Model::open(path(1));
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_EQ(names_of(model->catalog()), (Names{"c", "d"}));
}

TEST_F(SplitGguf, missing_parts_are_reported_for_any_opened_path) {
  std::filesystem::remove(path(1));
  for (const auto& opened : {path(2), path(3), folder_.path()}) {
    const auto error = refusal(Model::open(opened), ErrorCode::missing_shard, "shards_exist");
    EXPECT_TRUE(message_contains(error, "m-00001-of-00003.gguf"));
  }
  std::filesystem::create_symlink("gone", path(1));
  expect_refusal(Model::open(folder_.path()), ErrorCode::missing_shard, "shards_exist");
}

TEST_F(SplitGguf, split_part_is_named_by_its_number) {
  const testing::TemporaryFolder other;
  for (const auto* name : {"part-one.gguf", "m-00002-of-00003.gguf", "m-00001-of-00004.gguf"}) {
    std::filesystem::copy_file(path(1), other / name);
    const auto error =
        refusal(Model::open(other / name), ErrorCode::missing_shard, "split_part_is_named_by_its_number");
    EXPECT_TRUE(message_contains(error, "part 1 of 3"));
    EXPECT_NE(error.hint().find("-00001-of-00003.gguf"), std::string_view::npos);
    EXPECT_EQ(error.path(), (other / name).string());
  }
}

TEST_F(SplitGguf, folder_with_a_misnamed_part_is_refused) {
  const testing::TemporaryFolder other;
  std::filesystem::copy_file(path(1), other / "model.gguf");
  expect_refusal(Model::open(other.path()), ErrorCode::missing_shard, "split_part_is_named_by_its_number");
}

TEST_F(SplitGguf, split_parts_belong_together) {
  for (const auto& wrong : {Part{.number = 2, .names = {"c"}}, Part{.number = 1, .count = 2, .names = {"c"}},
                            Part{.number = 1, .tensors = 5, .names = {"c"}}}) {
    write(2, wrong);
    for (const auto& opened : {path(1), path(3), folder_.path()}) {
      const auto error = refusal(Model::open(opened), ErrorCode::stale_index, "split_parts_belong_together");
      EXPECT_EQ(error.path(), path(2).string());
      EXPECT_TRUE(message_contains(error, "is named as part 2 of 3, but its split keys do not match"));
    }
  }
  write(2, {.names = {"c"}}, false);
  expect_refusal(Model::open(path(1)), ErrorCode::stale_index, "split_parts_belong_together");
}

TEST_F(SplitGguf, split_tensor_count_matches) {
  write(2, {.number = 1});
  const auto error = refusal(Model::open(path(3)), ErrorCode::stale_index, "split_tensor_count_matches");
  EXPECT_TRUE(message_contains(error, "the parts have 3 tensors, but split.tensors.count is 4"));
}

TEST_F(SplitGguf, parts_share_no_tensor) {
  write(2, {.number = 1, .names = {"a"}});
  const auto error = refusal(Model::open(path(2)), ErrorCode::duplicate_tensor, "shards_share_no_tensor");
  EXPECT_EQ(error.tensor(), "a");
}

TEST_F(SplitGguf, one_part_of_one_is_an_ordinary_file) {
  const testing::TemporaryFolder other;
  write_file(other / "m.gguf", gguf({.number = 0, .count = 1, .tensors = 1, .names = {"a"}}));
  EXPECT_TRUE(Model::open(other / "m.gguf"));
  EXPECT_TRUE(Model::open(other.path()));
}

TEST_F(SplitGguf, split_keys_exist) {
  for (const auto key : split_keys) {
    for (const std::uint32_t part : {1U, 2U}) {
      SetUp();
      write(part, {.number = static_cast<std::uint16_t>(part - 1), .names = {"x"}, .omitted_key = key});
      const auto error = refusal(Model::open(path(part)), ErrorCode::bad_header, "split_keys_exist");
      EXPECT_TRUE(message_contains(error, "'" + std::string(key) + "'"));
      EXPECT_EQ(error.path(), path(part).string());
      EXPECT_FALSE(Model::open(path(3)));
      EXPECT_FALSE(Model::open(folder_.path()));
    }
  }
  for (const std::uint32_t part : {1U, 2U, 3U}) write(part, {.names = {"abc"}}, false);
  for (const auto& opened : {path(2), folder_.path()})
    expect_refusal(Model::open(opened), ErrorCode::bad_header, "split_keys_exist");
}

TEST_F(SplitGguf, split_keys_have_their_types) {
  for (const auto key : split_keys) {
    for (const std::uint32_t part : {1U, 2U}) {
      SetUp();
      write(part, {.number = static_cast<std::uint16_t>(part - 1), .names = {"x"}, .u32_key = key});
      for (const auto& opened : {path(1), path(2), path(3), folder_.path()}) {
        const auto error = refusal(Model::open(opened), ErrorCode::bad_header, "split_keys_have_their_types");
        EXPECT_TRUE(message_contains(error, std::string(key) + "' is of type u32"));
        EXPECT_EQ(error.path(), path(part).string());
      }
    }
  }
}

TEST_F(SplitGguf, one_of_one_needs_no_split_keys) {
  const testing::TemporaryFolder other;
  write_file(other / "m-00001-of-00001.gguf", gguf({.names = {"a"}}, false));
  EXPECT_TRUE(Model::open(other.path()));
  // Keys that contradict the name are refused nevertheless.
  write_file(other / "m-00001-of-00001.gguf", gguf({.count = 3, .names = {"a"}}));
  expect_refusal(Model::open(other.path()), ErrorCode::missing_shard, "split_part_is_named_by_its_number");
  write_file(other / "m-00001-of-00002.gguf", gguf({.count = 1, .names = {"a"}}));
  expect_refusal(Model::open(other / "m-00001-of-00002.gguf"), ErrorCode::missing_shard,
                 "split_part_is_named_by_its_number");
}

TEST_F(SplitGguf, no_handle_leaks_if_a_call_fails) {
  for (const auto call :
       {testing::Call::open, testing::Call::stat, testing::Call::read_at, testing::Call::map}) {
    for (int nth = 0; nth < 3; ++nth) {
      testing::FaultyPort port;
      port.fail_at(call, nth, std::errc::io_error);
      const auto model = testing::open_and_map(path(2), {.port = &port});
      ASSERT_FALSE(model) << nth;
      EXPECT_EQ(model.error().cause(), std::errc::io_error);
      EXPECT_EQ(port.open_files(), 0);
      EXPECT_EQ(port.mapped_regions(), 0);
    }
  }
}

}  // namespace
}  // namespace ht::split_gguf_test
