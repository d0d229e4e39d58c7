#include "model/files/model_files.hpp"

#include "model/test_models.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::model_folder_test {
namespace {

using testing::message_contains;
using testing::refusal;
using testing::shard_file;
using testing::write_file;
using Path = std::filesystem::path;
using Paths = std::vector<Path>;

class ModelsIn : public ::testing::Test {
 protected:
  Paths models() {
    const auto found = models_in(folder_.path());
    EXPECT_TRUE(found) << to_string(found.error());
    return found.value_or(Paths{});
  }
  // Expects the error of a folder without weights and returns it.
  Error missing(const Path& folder) {
    return refusal(Model::open(folder), ErrorCode::not_found, "folder_holds_weights");
  }
  Path make_folder(std::string_view name) {
    auto path = folder_ / name;
    std::filesystem::create_directories(path);
    return path;
  }
  testing::TemporaryFolder folder_;
};

TEST_F(ModelsIn, a_file_is_one_model) {
  EXPECT_EQ(models_in("nowhere").value(), Paths{"nowhere"});
  write_file(folder_ / "a.safetensors", shard_file({"a"}));
  EXPECT_EQ(models_in(folder_ / "a.safetensors").value(), Paths{folder_ / "a.safetensors"});
}

TEST_F(ModelsIn, folder_with_one_model_is_returned_unchanged) {
  write_file(folder_ / "a.safetensors", shard_file({"a"}));
  EXPECT_EQ(models(), Paths{folder_.path()});
  write_file(folder_ / "b.safetensors", shard_file({"b"}));
  EXPECT_EQ(models(), Paths{folder_.path()});
}

TEST_F(ModelsIn, files_that_share_names_of_tensors_are_models_of_their_own) {
  for (const auto* name : {"a.safetensors", "b.safetensors"})
    write_file(folder_ / name, shard_file({"same"}));
  EXPECT_EQ(models(), (Paths{folder_ / "a.safetensors", folder_ / "b.safetensors"}));
}

TEST_F(ModelsIn, every_model_is_listed) {
  for (const auto* name :
       {"b.ht", "a.npy", "c.safetensors", "m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"})
    write_file(folder_ / name, shard_file({name}));
  EXPECT_EQ(models(),
            (Paths{folder_ / "c.safetensors", folder_ / "a.npy", folder_ / "b.ht",
                   folder_ / "m-00001-of-00002.safetensors", folder_ / "m-00002-of-00002.safetensors"}));
  std::filesystem::remove(folder_ / "m-00002-of-00002.safetensors");
  EXPECT_TRUE(message_contains(refusal(models_in(folder_.path()), ErrorCode::missing_shard, "shards_exist"),
                               "m-00002-of-00002.safetensors"));
}

TEST_F(ModelsIn, indexes_of_variants_are_models_of_their_own) {
  for (const auto* name : {"model.fp16.safetensors.index.json", "model.int8.safetensors.index.json"})
    write_file(folder_ / name, "{}");
  EXPECT_EQ(models(), (Paths{folder_ / "model.fp16.safetensors.index.json",
                             folder_ / "model.int8.safetensors.index.json"}));
}

TEST_F(ModelsIn, hint_for_a_pipeline_names_its_subfolders_with_weights) {
  write_file(make_folder("unet") / "model.safetensors", shard_file({"a"}));
  write_file(make_folder("vae") / "model.safetensors", shard_file({"a"}));
  make_folder("scheduler");
  write_file(folder_ / "model_index.json", "{}");
  const auto error = missing(folder_.path());
  EXPECT_EQ(error.hint(), "open one of " + (folder_ / "unet").string() + ", " + (folder_ / "vae").string());
  EXPECT_EQ(refusal(models_in(folder_.path()), ErrorCode::not_found, "folder_holds_weights").hint(),
            error.hint());
}

TEST_F(ModelsIn, hint_for_a_hugging_face_cache_names_the_snapshot_to_open) {
  const auto model = make_folder("hub/models--org--name");
  const auto old = make_folder("hub/models--org--name/snapshots/0123");
  const auto current = make_folder("hub/models--org--name/snapshots/4567");
  for (const auto& snapshot : {old, current}) write_file(snapshot / "model.safetensors", shard_file({"a"}));
  EXPECT_EQ(missing(model).hint(), "open one of " + old.string() + ", " + current.string());
  make_folder("hub/models--org--name/refs");
  write_file(model / "refs/main", "4567");
  EXPECT_EQ(missing(model).hint(), "open " + current.string());
  EXPECT_EQ(missing(model / "snapshots").hint(), "open one of " + old.string() + ", " + current.string());
  EXPECT_EQ(missing(folder_ / "hub").hint(), "open " + current.string());
  EXPECT_EQ(missing(folder_.path()).hint(), "open " + current.string());
  const auto other = make_folder("hub/models--org--other/snapshots/89ab");
  write_file(other / "model.gguf", "x");
  EXPECT_EQ(missing(folder_ / "hub").hint(), "open one of " + current.string() + ", " + other.string());
  EXPECT_TRUE(Model::open(current));
  // A reference that does not name a snapshot of the model is not followed.
  write_file(model / "refs/main", "../../../outside");
  EXPECT_EQ(missing(model).hint(), "open one of " + old.string() + ", " + current.string());
}

TEST_F(ModelsIn, at_most_ten_folders_are_named) {
  for (char c = 'a'; c <= 'l'; ++c)
    write_file(make_folder(std::string(1, c)) / "model.safetensors", shard_file({"a"}));
  const auto error = missing(folder_.path());
  EXPECT_NE(error.hint().find((folder_ / "j").string() + " … and 2 more"), std::string_view::npos)
      << error.hint();
}

TEST_F(ModelsIn, hint_for_a_folder_with_only_a_pickle_says_how_to_convert_it) {
  write_file(folder_ / "config.json", "{}");
  write_file(folder_ / "pytorch_model.bin", "\x80\x02}q");
  const auto pickle = missing(folder_.path());
  EXPECT_TRUE(message_contains(pickle, "'pytorch_model.bin' is a pickle"));
  EXPECT_NE(pickle.hint().find("safetensors.torch.save_file"), std::string_view::npos);
  write_file(folder_ / "pytorch_model.bin", "version https://git-lfs.github.com/spec/v1\nsize 7\n");
  EXPECT_NE(missing(folder_.path()).hint().find("git lfs pull"), std::string_view::npos);
}

}  // namespace
}  // namespace ht::model_folder_test
