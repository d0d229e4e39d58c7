#include "model/files/model_files.hpp"

#include "format/safetensors/test_file.hpp"
#include "model/test_models.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::model_files_test {
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

class ModelFolder : public ::testing::Test {
 protected:
  Names tensors(const OpenOptions& options = {}) {
    const auto model = Model::open(folder_.path(), options);
    if (!model) {
      ADD_FAILURE() << to_string(model.error());
      return {};
    }
    return names_of(model->catalog());
  }
  testing::TemporaryFolder folder_;
};

TEST_F(ModelFolder, may_hold_one_file_among_other_files) {
  write_file(folder_ / "model.safetensors", shard_file({"a"}));
  write_file(folder_ / "config.json", "{}");
  write_file(folder_ / "tokenizer.model", "x");
  write_file(folder_ / "README.md", "# {}");
  const auto model = Model::open(folder_.path());
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_EQ(names_of(model->catalog()), Names{"a"});
  EXPECT_EQ(model->files(), std::vector{folder_ / "model.safetensors"});
}

TEST_F(ModelFolder, numbered_files_are_one_model_without_an_index) {
  write_file(folder_ / "m-00002-of-00002.safetensors", shard_file({"a"}));
  write_file(folder_ / "m-00001-of-00002.safetensors", shard_file({"b"}));
  EXPECT_EQ(tensors(), (Names{"b", "a"}));
}

TEST_F(ModelFolder, missing_numbered_file_is_reported) {
  for (const auto* file_name : {"m-00001-of-00003.safetensors", "m-00003-of-00003.safetensors"}) {
    const testing::TemporaryFolder folder;
    write_file(folder / file_name, shard_file({"a"}));
    const auto error = refusal(Model::open(folder.path()), ErrorCode::missing_shard, "shards_exist");
    EXPECT_TRUE(message_contains(error, "2 of 3 files"));
    EXPECT_TRUE(message_contains(error, "m-00002-of-00003.safetensors"));
    EXPECT_EQ(error.path(), folder.path().string());
  }
}

TEST_F(ModelFolder, missing_numbered_files_of_any_format_are_reported) {
  write_file(folder_ / "m-00002-of-00002.ht", "x");
  const auto error = refusal(Model::open(folder_.path()), ErrorCode::missing_shard, "shards_exist");
  EXPECT_TRUE(message_contains(error, "m-00001-of-00002.ht"));
}

TEST_F(ModelFolder, several_safetensors_without_numbers_are_one_model) {
  write_file(folder_ / "text.safetensors", shard_file({"t"}));
  write_file(folder_ / "image.safetensors", shard_file({"i"}));
  EXPECT_EQ(tensors(), (Names{"i", "t"}));
}

TEST_F(ModelFolder, folder_holds_one_model) {
  write_file(folder_ / "m-00001-of-00002.safetensors", shard_file({"a"}));
  write_file(folder_ / "m-00002-of-00002.safetensors", shard_file({"b"}));
  write_file(folder_ / "other.safetensors", shard_file({"c"}));
  const auto error = refusal(Model::open(folder_.path()), ErrorCode::not_found, "folder_holds_one_model");
  EXPECT_EQ(error.message(), "the folder holds 2 models: other.safetensors, m-00001-of-00002.safetensors");
  EXPECT_EQ(error.path(), folder_.path().string());
}

TEST_F(ModelFolder, ten_of_many_models_are_named) {
  for (char c = 'a'; c <= 'l'; ++c) write_file(folder_ / (std::string(1, c) + ".ht"), "x");
  const auto error = refusal(Model::open(folder_.path()), ErrorCode::not_found, "folder_holds_one_model");
  EXPECT_EQ(
      error.message(),
      "the folder holds 12 models: a.ht, b.ht, c.ht, d.ht, e.ht, f.ht, g.ht, h.ht, i.ht, j.ht … and 2 more");
}

TEST_F(ModelFolder, the_default_index_is_chosen_among_several) {
  write_file(folder_ / "m-00001-of-00001.safetensors", shard_file({"a"}));
  write_file(folder_ / "m.fp16-00001-of-00001.safetensors", shard_file({"a"}));
  write_file(folder_ / "model.fp16.safetensors.index.json",
             index_text({{"a", "m.fp16-00001-of-00001.safetensors"}}));
  EXPECT_EQ(Model::open(folder_.path())->files(), std::vector{folder_ / "m.fp16-00001-of-00001.safetensors"});
  write_file(folder_ / "model.int8.safetensors.index.json",
             index_text({{"a", "m.fp16-00001-of-00001.safetensors"}}));
  const auto error = refusal(Model::open(folder_.path()), ErrorCode::not_found, "folder_holds_one_model");
  EXPECT_TRUE(
      message_contains(error, "model.fp16.safetensors.index.json, model.int8.safetensors.index.json"));
  write_file(folder_ / "model.safetensors.index.json", index_text({{"a", "m-00001-of-00001.safetensors"}}));
  EXPECT_EQ(Model::open(folder_.path())->files(), std::vector{folder_ / "m-00001-of-00001.safetensors"});
}

TEST_F(ModelFolder, index_of_an_unsupported_format_is_skipped) {
  write_file(folder_ / "model.safetensors", shard_file({"a"}));
  write_file(folder_ / "pytorch_model.bin.index.json",
             index_text({{"a", "pytorch_model-00001-of-00002.bin"}}));
  EXPECT_EQ(tensors(), Names{"a"});
}

// The parent folder may contain a set named `m`, whose journal says nothing about the folder `m`.
TEST_F(ModelFolder, journal_beside_the_folder_is_ignored) {
  std::filesystem::create_directory(folder_ / "m");
  write_file(folder_ / "m/model.safetensors", "not a safetensors file");
  write_file(folder_ / ".htensor-m.journal", "malformed");
  const auto refused = Model::open(folder_ / "m");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().path(), (folder_ / "m/model.safetensors").string());
}

TEST_F(ModelFolder, hidden_files_and_folders_are_skipped) {
  write_file(folder_ / "model.safetensors", shard_file({"a"}));
  write_file(folder_ / "._model.safetensors", shard_file({"b"}));
  write_file(folder_ / ".safetensors", "x");
  std::filesystem::create_directories(folder_ / "old.safetensors");
  std::filesystem::create_directories(folder_ / "model.safetensors.index.json");
  write_file(folder_ / "old.safetensors/b.safetensors", shard_file({"b"}));
  EXPECT_EQ(tensors(), Names{"a"});
}

class MergedModels : public ::testing::Test {
 protected:
  void write(std::string_view name, const std::string& tensor, const std::string& metadata) {
    write_file(folder_ / name,
               testing::safetensors_file(R"({"__metadata__":{)" + metadata + R"(},")" + tensor +
                                             R"(":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
                                         4));
  }
  Result<Model> merge(std::initializer_list<std::string_view> names) {
    std::vector<std::filesystem::path> paths;
    for (const auto name : names) paths.push_back(folder_ / name);
    return Model::open_merged(paths);
  }
  testing::TemporaryFolder folder_;
};

TEST_F(MergedModels, models_are_merged_in_order) {
  std::filesystem::create_directory(folder_ / "sub");
  write("b.safetensors", "b", R"("format":"pt","of_b":"1")");
  write("sub/a.safetensors", "a", R"("format":"pt","of_a":"2")");
  const auto merged = merge({"b.safetensors", "sub/a.safetensors"}).value();
  EXPECT_EQ(names_of(merged.catalog()), (Names{"b", "a"}));
  EXPECT_EQ(merged.files().size(), 2U);
  EXPECT_EQ(merged.catalog().metadata().size(), 3U);
  EXPECT_TRUE(merged.storage("a"));
  // An absolute path and a relative path name different files.
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  const std::vector<std::filesystem::path> mixed{"b.safetensors", folder_ / "sub" / "a.safetensors"};
  const auto also = Model::open_merged(mixed);
  std::filesystem::current_path(before);
  ASSERT_TRUE(also) << to_string(also.error());
  EXPECT_EQ(also->catalog()[1].file, 1U);
}

TEST_F(MergedModels, merged_models_share_no_tensor) {
  write("a.safetensors", "x", "");
  write("b.safetensors", "x", "");
  const auto refused = merge({"a.safetensors", "b.safetensors"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::duplicate_tensor);
  EXPECT_EQ(refused.error().rule(), "merged_models_share_no_tensor");
  EXPECT_NE(refused.error().message().find("a.safetensors' and in '"), std::string_view::npos);
  EXPECT_NE(refused.error().message().find("b.safetensors'"), std::string_view::npos);
}

TEST_F(MergedModels, merged_models_agree_on_metadata) {
  write("a.safetensors", "a", R"("k":"1")");
  write("b.safetensors", "b", R"("k":"2")");
  const auto refused = merge({"a.safetensors", "b.safetensors"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::duplicate_key);
  EXPECT_EQ(refused.error().rule(), "merged_models_agree_on_metadata");
  EXPECT_NE(refused.error().message().find("'k'"), std::string_view::npos);
  write("c.safetensors", "c", R"("general.alignment":"32")");
  write("d.safetensors", "d", R"("general.alignment":"64")");
  EXPECT_TRUE(merge({"c.safetensors", "d.safetensors"}))
      << "keys of the layout belong to a file, not to the model";
}

TEST_F(ModelFolder, folder_holds_weights) {
  write_file(folder_ / "config.json", "{}");
  const auto error = refusal(Model::open(folder_.path()), ErrorCode::not_found, "folder_holds_weights");
  EXPECT_NE(error.hint().find("safetensors"), std::string_view::npos);
  EXPECT_EQ(error.path(), folder_.path().string());
}

TEST_F(ModelFolder, folder_can_be_listed) {
  write_file(folder_ / "model.safetensors", shard_file({"a"}));
  FaultyPort port;
  port.fail_at(Call::list, 0, std::errc::permission_denied);
  const auto error =
      refusal(Model::open(folder_.path(), {.port = &port}), ErrorCode::open_failed, "folder_can_be_listed");
  EXPECT_EQ(error.cause(), std::errc::permission_denied);
  EXPECT_EQ(port.open_files(), 0);
}

TEST_F(ModelFolder, dangling_link_is_a_missing_file) {
  std::filesystem::create_symlink("../gone", folder_ / "model.safetensors");
  expect_refusal(Model::open(folder_.path()), ErrorCode::missing_shard, "shards_exist");
}

TEST_F(ModelFolder, hugging_face_snapshot_of_links_opens) {
  const auto blobs = folder_ / "blobs";
  const auto snapshot = folder_ / "snapshots/abc";
  std::filesystem::create_directories(blobs);
  std::filesystem::create_directories(snapshot);
  write_file(blobs / "0a1b", shard_file({"a"}));
  write_file(blobs / "2c3d", shard_file({"b"}));
  write_file(blobs / "4e5f",
             index_text({{"b", "m-00002-of-00002.safetensors"}, {"a", "m-00001-of-00002.safetensors"}}));
  const auto one = snapshot / "m-00001-of-00002.safetensors";
  const auto two = snapshot / "m-00002-of-00002.safetensors";
  std::filesystem::create_symlink("../../blobs/0a1b", one);
  std::filesystem::create_symlink("../../blobs/2c3d", two);
  std::filesystem::create_symlink("../../blobs/4e5f", snapshot / "model.safetensors.index.json");
  std::filesystem::create_directory_symlink("abc", folder_ / "snapshots/main");
  for (const auto& path : {snapshot, snapshot / "model.safetensors.index.json"}) {
    const auto model = Model::open(path);
    ASSERT_TRUE(model) << to_string(model.error());
    EXPECT_EQ(names_of(model->catalog()), (Names{"a", "b"}));
    EXPECT_EQ(model->files(), (std::vector{one, two}));
    EXPECT_EQ((model->tensor<U8, Rank<1>>("b").value()(2)), 2);
  }
  EXPECT_TRUE(Model::open(folder_ / "snapshots/main"));
  std::filesystem::remove(blobs / "2c3d");
  expect_refusal(Model::open(snapshot), ErrorCode::missing_shard, "shards_exist");
}

TEST_F(ModelFolder, json_that_is_not_an_index_has_no_known_format) {
  for (const auto* text : {"{}", "{ }\n", R"({"architectures":["LlamaForCausalLM"],"hidden_size":4096})",
                           R"(["weight_map"])", R"({"metadata":{"weight_map":{}}})"}) {
    write_file(folder_ / "config.json", text);
    const auto model = Model::open(folder_ / "config.json");
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().code(), ErrorCode::bad_magic) << text << to_string(model.error());
    EXPECT_EQ(model.error().path(), (folder_ / "config.json").string());
  }
}

TEST_F(ModelFolder, index_is_recognised_by_content_not_by_name) {
  write_file(folder_ / "a", shard_file({"a"}));
  write_file(folder_ / "index", index_text({{"a", "a"}}));
  const auto model = Model::open(folder_ / "index");
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_EQ(model->files(), std::vector{folder_ / "a"});
}

TEST_F(ModelFolder, broken_index_reports_the_offset) {
  const auto path = folder_ / "model.safetensors.index.json";
  const std::string_view text = R"({"weight_map":{"a":"m.safetensors")";
  write_file(path, text);
  for (const auto& opened : {path, folder_.path()}) {
    const auto error = refusal(Model::open(opened), ErrorCode::bad_header, "index_is_json");
    EXPECT_EQ(error.path(), path.string());
    EXPECT_EQ(error.offset(), text.size() - 1);
  }
}

TEST_F(ModelFolder, file_named_as_an_index_must_be_an_index) {
  write_file(folder_ / "m-00001-of-00002.safetensors", shard_file({"a"}));
  const auto path = folder_ / "model.safetensors.index.json";
  const auto expect = [&](std::string_view text, ErrorCode code, std::string_view rule) {
    write_file(path, text);
    for (const auto& opened : {path, folder_.path()})
      EXPECT_EQ(refusal(Model::open(opened), code, rule).path(), path.string()) << text;
  };
  expect("", ErrorCode::bad_magic, "file_is_not_empty");
  expect("version https://git-lfs.github.com/spec/v1\noid sha256:8ed0\nsize 3587\n", ErrorCode::bad_magic,
         "file_is_not_an_lfs_pointer");
  expect("<!doctype html><html>", ErrorCode::bad_magic, "file_is_not_html");
  expect("[1]", ErrorCode::bad_header, "index_is_json");
  expect("words", ErrorCode::bad_header, "index_is_json");
  expect(R"({"metadata":{"total_size":4},"wei)", ErrorCode::bad_header, "index_is_json");
  expect(R"({"metadata":{"total_size":4})", ErrorCode::bad_header, "index_is_json");
}

TEST_F(ModelFolder, index_has_a_weight_map) {
  const auto path = folder_ / "model.safetensors.index.json";
  write_file(folder_ / "m.safetensors", shard_file({"a"}));
  for (const auto* text : {"{}", R"({"metadata":{"weight_map":{}}})"}) {
    write_file(path, text);
    for (const auto& opened : {path, folder_.path()}) {
      const auto error = refusal(Model::open(opened), ErrorCode::bad_header, "index_has_a_weight_map");
      EXPECT_EQ(error.path(), path.string());
    }
  }
}

TEST_F(ModelFolder, index_size_within_limit) {
  const auto path = folder_ / "model.safetensors.index.json";
  // A long name, so that the shard's header is shorter than the index.
  const std::string shard = "shard-with-a-name-of-some-length.safetensors";
  write_file(folder_ / shard, shard_file({"a"}));
  write_file(path, index_text({{"a", shard}}));
  const auto bytes = std::filesystem::file_size(path);
  for (const auto& opened : {path, folder_.path()}) {
    const auto error = refusal(Model::open(opened, {.max_header_bytes = bytes - 1}),
                               ErrorCode::header_too_large, "index_size_within_limit");
    EXPECT_TRUE(message_contains(error, std::to_string(bytes)));
    EXPECT_EQ(error.path(), path.string());
    const auto model = Model::open(opened, {.max_header_bytes = bytes});
    EXPECT_TRUE(model) << to_string(model.error());
  }
}

class FilesOfModel : public ::testing::Test {
 protected:
  // Returns the paths of the model's files, relative to the folder.
  Names files(const std::filesystem::path& path) {
    Names names;
    for (const auto& file : files_of_model(path).value_or(std::vector<std::filesystem::path>()))
      names.push_back(file.lexically_relative(folder_.path()).string());
    return names;
  }
  Names files_of_index(std::string_view text) {
    write_file(folder_ / "m.safetensors.index.json", text);
    const auto names = files(folder_ / "m.safetensors.index.json");
    EXPECT_EQ(files(folder_.path()), names);
    return names;
  }
  testing::TemporaryFolder folder_;
};

TEST_F(FilesOfModel, index_files_are_found_in_any_valid_text) {
  EXPECT_EQ(files_of_index(R"({"weight_map":{"a":"x","b":"y","c":"x"}})"), (Names{"x", "y"}));
  EXPECT_EQ(
      files_of_index(R"({"metadata":{"weight_map":"no","m":{"q":"no"}}, "weight_map" : { "a\"{:" : "x" } })"),
      Names{"x"});
  EXPECT_EQ(files_of_index(R"({"weight_map":{"weight_map":"x"},"more":{"a":"no"}})"), Names{"x"});
  EXPECT_EQ(files_of_index(R"({"weight_map":{"a":"x)"), Names{});
  EXPECT_EQ(files_of_index(R"({"weight_map":{"a":"\)"), Names{});
}

TEST_F(FilesOfModel, numbered_name_gives_the_names_of_all_files) {
  const Names both{"a-00001-of-00002.gguf", "a-00002-of-00002.gguf"};
  write_file(folder_ / both[1], "GGUF");
  EXPECT_EQ(files(folder_ / both[1]), both);
  EXPECT_EQ(files(folder_.path()), both);
  for (const std::string name :
       {"-of-", "a.gguf", "a-1-of-2.gguf", "00001-of-00002", "-0000a-of-00002", "-00001-of-0000"}) {
    write_file(folder_ / name, "GGUF");
    EXPECT_EQ(files(folder_ / name), Names{name});
  }
  EXPECT_EQ(refusal(files_of_model(folder_.path()), ErrorCode::not_found, "folder_holds_one_model").path(),
            folder_.path().string());
}

}  // namespace
}  // namespace ht::model_files_test
