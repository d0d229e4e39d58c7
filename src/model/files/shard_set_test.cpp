#include "model/files/model_files.hpp"

#include "model/test_models.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::shard_set_test {
namespace {

using testing::Call;
using testing::expect_refusal;
using testing::FaultyPort;
using testing::index_text;
using testing::message_contains;
using testing::names_of;
using testing::refusal;
using testing::shard_file;
using testing::write_file;
using Names = std::vector<std::string>;

class ShardSet : public ::testing::Test {
 protected:
  void SetUp() override {
    write_file(one_, shard_file({"b", "a"}, R"("format":"pt","who":"one")"));
    write_file(two_, shard_file({"c"}, R"("who":"two","more":"yes")"));
    write_file(index_, index_text({{"a", "m-00001-of-00002.safetensors"},
                                   {"c", "m-00002-of-00002.safetensors"},
                                   {"b", "m-00001-of-00002.safetensors"}}));
  }
  testing::TemporaryFolder folder_;
  std::filesystem::path one_ = folder_ / "m-00001-of-00002.safetensors";
  std::filesystem::path two_ = folder_ / "m-00002-of-00002.safetensors";
  std::filesystem::path index_ = folder_ / "model.safetensors.index.json";
};

TEST_F(ShardSet, opens_by_its_index_and_by_its_folder) {
  for (const auto& path : {index_, folder_.path()}) {
    const auto model = Model::open(path);
    ASSERT_TRUE(model) << to_string(model.error());
    EXPECT_EQ(names_of(model->catalog()), (Names{"b", "a", "c"}));
    EXPECT_EQ(model->files(), (std::vector{one_, two_}));
    EXPECT_EQ(model->catalog()[2].file, 1U);
    EXPECT_EQ(model->catalog().files(), (Names{"", "m-00002-of-00002.safetensors"}));
    EXPECT_EQ((model->tensor<U8, Rank<1>>("a").value()(3)), 7);
    EXPECT_EQ((model->tensor<U8, Shape<4>>("c").value()(3)), 3);
    EXPECT_EQ(std::get<Storage::FileBacked>(model->storage("c")->origin()).path, two_);
  }
}

TEST_F(ShardSet, metadata_of_an_earlier_file_wins) {
  const auto model = Model::open(index_).value();
  const auto& metadata = model.catalog().metadata();
  ASSERT_EQ(metadata.size(), 3U);
  EXPECT_EQ(metadata.find("format")->text(), "pt");
  EXPECT_EQ(metadata.find("who")->text(), "one");
  EXPECT_EQ(metadata.find("more")->text(), "yes");
}

TEST_F(ShardSet, error_of_a_missing_tensor_names_the_opened_path) {
  EXPECT_EQ(Model::open(index_)->storage("zzz").error().path(), index_.string());
  const auto wrong = Model::open(index_)->tensor<F32, Rank<1>>("c");
  EXPECT_EQ(wrong.error().path(), two_.string());
}

TEST_F(ShardSet, index_may_name_files_in_folders_below_its_own) {
  std::filesystem::create_directory(folder_ / "below");
  write_file(folder_ / "below/x.safetensors", shard_file({"x"}));
  write_file(folder_ / "c.safetensors", shard_file({"c"}));
  write_file(index_, index_text({{"x", "below/x.safetensors"}, {"c", "c.safetensors"}}));
  const auto model = Model::open(index_);
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_EQ(names_of(model->catalog()), (Names{"x", "c"}));
}

TEST_F(ShardSet, shards_exist) {
  std::filesystem::remove(two_);
  const auto error = refusal(Model::open(index_), ErrorCode::missing_shard, "shards_exist");
  EXPECT_EQ(error.message(), "1 of 2 files of this model are missing: m-00002-of-00002.safetensors");
  EXPECT_EQ(error.path(), folder_.path().string());
  EXPECT_EQ(error.cause(), std::errc::no_such_file_or_directory);
  std::filesystem::create_symlink("gone", two_);
  expect_refusal(Model::open(index_), ErrorCode::missing_shard, "shards_exist");
}

TEST_F(ShardSet, missing_files_are_named_as_in_the_index) {
  write_file(folder_ / "c.safetensors", shard_file({"c"}));
  write_file(index_, index_text({{"x", "below/x.safetensors"}, {"c", "c.safetensors"}}));
  const auto error = refusal(Model::open(index_), ErrorCode::missing_shard, "shards_exist");
  EXPECT_EQ(error.message(), "1 of 2 files of this model are missing: below/x.safetensors");
  EXPECT_EQ(error.path(), folder_.path().string());
}

TEST_F(ShardSet, ten_missing_files_are_named_and_the_others_counted) {
  write_file(folder_ / "c", shard_file({"c"}));
  std::vector<std::pair<std::string, std::string>> map{{"c", "c"}};
  const auto message = [&] {
    write_file(index_, index_text(map));
    return std::string(Model::open(index_).error().message());
  };
  for (int i = 0; i < 10; ++i) map.emplace_back("t" + std::to_string(i), "f" + std::to_string(i));
  const std::string ten = "f0, f1, f2, f3, f4, f5, f6, f7, f8, f9";
  EXPECT_EQ(message(), "10 of 11 files of this model are missing: " + ten);
  map.emplace_back("u", "g");
  map.emplace_back("v", "h");
  EXPECT_EQ(message(), "12 of 13 files of this model are missing: " + ten + " … and 2 more");
}

TEST_F(ShardSet, missing_file_without_a_folder_is_reported_in_the_current_one) {
  const auto shards = open_shards({"no-such-1.safetensors", "no-such-2.safetensors"}, {}, {}, {});
  EXPECT_EQ(refusal(shards, ErrorCode::missing_shard, "shards_exist").path(), ".");
}

TEST_F(ShardSet, shard_with_a_name_that_is_too_long_is_missing) {
  write_file(index_, index_text({{"x", std::string(300, 'x')}}));
  const auto error = refusal(Model::open(index_), ErrorCode::missing_shard, "shards_exist");
  EXPECT_EQ(error.cause(), std::errc::filename_too_long);
}

TEST_F(ShardSet, shard_that_is_not_a_regular_file_is_not_reported_as_missing) {
  std::filesystem::remove(two_);
  std::filesystem::create_directory(two_);
  EXPECT_EQ(Model::open(index_).error().code(), ErrorCode::not_regular_file);
}

TEST_F(ShardSet, broken_shard_is_named) {
  write_file(two_, "no weights, but words");
  const auto error = Model::open(index_).error();
  EXPECT_EQ(error.code(), ErrorCode::bad_magic);
  EXPECT_EQ(error.path(), two_.string());
}

TEST_F(ShardSet, indexed_tensors_exist) {
  write_file(one_, shard_file({"b"}));
  const auto error = refusal(Model::open(index_), ErrorCode::stale_index, "indexed_tensors_exist");
  EXPECT_EQ(error.tensor(), "a");
  EXPECT_EQ(error.path(), index_.string());
  EXPECT_TRUE(message_contains(error, "'m-00001-of-00002.safetensors'"));
  // A tensor in another file than the index says counts as missing.
  write_file(two_, shard_file({"c", "a"}));
  expect_refusal(Model::open(index_), ErrorCode::stale_index, "indexed_tensors_exist");
}

TEST_F(ShardSet, index_names_every_tensor) {
  write_file(two_, shard_file({"c", "extra"}));
  const auto error = refusal(Model::open(folder_.path()), ErrorCode::stale_index, "index_names_every_tensor");
  EXPECT_EQ(error.tensor(), "extra");
  EXPECT_TRUE(message_contains(error, "'m-00002-of-00002.safetensors'"));
}

TEST_F(ShardSet, shards_share_no_tensor) {
  write_file(two_, shard_file({"c", "a"}));
  const auto by_index = refusal(Model::open(index_), ErrorCode::duplicate_tensor, "shards_share_no_tensor");
  EXPECT_EQ(by_index.tensor(), "a");
  std::filesystem::remove(index_);
  const auto by_folder =
      refusal(Model::open(folder_.path()), ErrorCode::duplicate_tensor, "shards_share_no_tensor");
  EXPECT_TRUE(
      message_contains(by_folder, "in 2 files: m-00001-of-00002.safetensors, m-00002-of-00002.safetensors"));
  EXPECT_EQ(by_folder.path(), folder_.path().string());
}

TEST_F(ShardSet, index_names_all_numbered_files) {
  for (const bool exists : {true, false}) {
    write_file(index_,
               index_text({{"a", "m-00001-of-00002.safetensors"}, {"b", "m-00001-of-00002.safetensors"}}));
    if (!exists) std::filesystem::remove(two_);
    for (const auto& path : {index_, folder_.path()}) {
      const auto error =
          refusal(Model::open(path), ErrorCode::missing_shard, "index_names_all_numbered_files");
      EXPECT_TRUE(message_contains(error, "1 of the 2 files"));
      EXPECT_TRUE(message_contains(error, "but not m-00002-of-00002.safetensors"));
      EXPECT_EQ(error.path(), index_.string());
    }
  }
}

TEST_F(ShardSet, a_numbered_file_opens_alone_by_its_path) {
  std::filesystem::remove(index_);
  std::filesystem::remove(two_);
  EXPECT_EQ(names_of(Model::open(one_)->catalog()), (Names{"b", "a"}));
  expect_refusal(Model::open(folder_.path()), ErrorCode::missing_shard, "shards_exist");
}

TEST_F(ShardSet, index_names_files) {
  write_file(index_, index_text({}));
  const auto error = refusal(Model::open(index_), ErrorCode::stale_index, "index_names_files");
  EXPECT_EQ(error.path(), index_.string());
}

TEST_F(ShardSet, shard_path_stays_in_the_folder) {
  std::filesystem::create_directory(folder_ / "inner");
  const auto inner = folder_ / "inner/model.safetensors.index.json";
  for (const auto& file : {std::string("../m-00002-of-00002.safetensors"), two_.string(),
                           std::string("x/../../m-00002-of-00002.safetensors")}) {
    write_file(inner, index_text({{"c", file}}));
    for (const auto& path : {inner, folder_ / "inner"}) {
      const auto error =
          refusal(Model::open(path), ErrorCode::path_escapes, "shard_path_stays_in_the_folder");
      EXPECT_EQ(error.path(), inner.string());
      EXPECT_EQ(error.tensor(), "c");
    }
  }
}

TEST_F(ShardSet, truncated_shard_opens_with_allow_incomplete) {
  std::filesystem::resize_file(two_, std::filesystem::file_size(two_) - 1);
  EXPECT_EQ(Model::open(index_).error().code(), ErrorCode::truncated);
  const auto model = Model::open(index_, {.allow_incomplete = true});
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_TRUE(model->storage("a"));
  const auto error = refusal(model->storage("c"), ErrorCode::truncated, "tensor_is_within_the_file");
  EXPECT_EQ(error.path(), two_.string());
}

TEST_F(ShardSet, no_handle_leaks_if_a_call_fails) {
  const std::vector<std::pair<Call, ErrorCode>> cases{{Call::open, ErrorCode::open_failed},
                                                      {Call::stat, ErrorCode::open_failed},
                                                      {Call::read_at, ErrorCode::read_failed},
                                                      {Call::map, ErrorCode::map_failed}};
  for (const auto& path : {index_, folder_.path()}) {
    for (const auto& [call, code] : cases) {
      int nth = 0;
      for (bool reached = true; reached; ++nth) {
        FaultyPort port;
        port.fail_at(call, nth, std::errc::io_error);
        {
          const auto model = testing::open_and_map(path, {.port = &port});
          reached = port.count(call) > nth;
          ASSERT_EQ(model.has_value(), !reached) << nth;
          if (reached) {
            EXPECT_EQ(model.error().code(), code) << to_string(model.error());
            EXPECT_EQ(model.error().cause(), std::errc::io_error) << to_string(model.error());
          }
        }
        EXPECT_EQ(port.open_files(), 0);
        EXPECT_EQ(port.mapped_regions(), 0);
      }
      EXPECT_GT(nth, 2);  // each shard makes the call at least once
    }
  }
}

TEST_F(ShardSet, files_with_non_utf8_names_are_distinguished) {
  const auto other = folder_ / "other";
  std::filesystem::create_directory(other);
  write_file(other / "a.safetensors", shard_file({"x"}));
  write_file(other / "b\xFE.safetensors", shard_file({"y"}));
  write_file(other / "b\xFF.safetensors", shard_file({"p", "q", "z"}));
  const auto model = Model::open(other);
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_EQ(model->files().size(), 3U);
  EXPECT_EQ((model->tensor<U8, Rank<1>>("z").value()(0)), 8);
}

}  // namespace
}  // namespace ht::shard_set_test
