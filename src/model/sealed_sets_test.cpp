// Seals of models of several files, and verifying while loading.
#include <algorithm>

#include "model/load_test.hpp"
#include "model/seal_test.hpp"
#include "model/test_formats.hpp"

namespace ht {
namespace {

using io::Strategy;
using testing::expect_refusal;
using testing::flip_bit;
using testing::noise_file;
using testing::read_file;
using testing::write_file;

// Two shards and their index.
class SealedSet : public testing::LoadModel {
 protected:
  void SetUp() override {
    testing::LoadModel::SetUp();
    const auto sealed = model_->seal();
    ASSERT_TRUE(sealed) << to_string(sealed.error());
    EXPECT_EQ(sealed->seal, folder_ / "model.htseal");
  }
  [[nodiscard]] std::uint64_t offset_of(int file, int i) const {
    return model_->catalog()[*model_->catalog().find(tensor(file, i))].offset;
  }
  [[nodiscard]] LoadOptions checked(Strategy strategy) const {
    auto how = options(strategy);
    how.verify = true;
    return how;
  }
};

TEST_F(SealedSet, has_one_seal_for_all_files_and_the_index) {
  const auto seal = read_seal(folder_ / "model.htseal").value();
  std::vector<std::string> names;
  for (const auto& file : seal.files) names.push_back(file.name);
  EXPECT_EQ(names, (std::vector<std::string>{"part0.safetensors", "part1.safetensors",
                                             "model.safetensors.index.json"}));
  for (const auto& path : {folder_.path(), folder_ / "model.safetensors.index.json"}) {
    EXPECT_TRUE(verify(path).value().ok());
    EXPECT_TRUE(Model::open(path).value().verify());
  }
  // By whatever name it is opened, the seal is the same.
  const auto bytes = read_file(folder_ / "model.htseal");
  ASSERT_TRUE(Model::open(folder_.path()).value().seal());
  EXPECT_EQ(read_file(folder_ / "model.htseal"), bytes);
}

TEST_F(SealedSet, names_the_file_and_the_tensor_that_are_bad) {
  flip_bit(folder_ / "part1.safetensors", offset_of(1, 2) + 7);
  const auto found = verify(folder_.path()).value();
  const std::vector<BadRange> wanted{
      {folder_ / "part1.safetensors", FilePart::tensor, tensor(1, 2), offset_of(1, 2), tensor_bytes}};
  EXPECT_EQ(found.bad, wanted);
}

TEST_F(SealedSet, covers_the_index) {
  const auto index = folder_ / "model.safetensors.index.json";
  write_file(index, testing::index_text({{"t0.0", "part0.safetensors"}}));
  const auto found = verify(folder_.path()).value();
  EXPECT_EQ(found.verdict, Verdict::truncated);
  EXPECT_EQ(found.bad.front().file, index);
}

TEST_F(SealedSet, tells_a_file_that_is_missing) {
  std::filesystem::remove(folder_ / "part0.safetensors");
  const auto found = verify(folder_.path()).value();
  EXPECT_EQ(found.verdict, Verdict::missing);
  EXPECT_EQ(found.bad.front().file, folder_ / "part0.safetensors");
  EXPECT_EQ(std::ranges::count(found.bad, FilePart::tensor, &BadRange::part), per_file);
  EXPECT_EQ(found.result().error().code(), ErrorCode::missing_shard);
}

TEST_F(SealedSet, is_verified_while_it_is_loaded_by_each_strategy) {
  for (const bool cold : {false, true}) {
    for (const auto strategy : {Strategy::mapped, Strategy::read, Strategy::automatic}) {
      ASSERT_TRUE(model_->evict());
      if (cold) forget_everything();
      const auto loaded = model_->load(checked(strategy));
      ASSERT_TRUE(loaded) << to_string(loaded.error());
      EXPECT_EQ(loaded->bytes, 2U * per_file * tensor_bytes);
      EXPECT_EQ(loaded->verified_bytes, 2U * per_file * tensor_bytes);
      expect_all_tensors();
    }
    for (const auto strategy : {Strategy::mapped, Strategy::staged, Strategy::automatic}) {
      if (cold) forget_everything();
      const auto streamed = stream(checked(strategy));
      ASSERT_TRUE(streamed) << to_string(streamed.error());
      EXPECT_GE(streamed->verified_bytes, 2U * per_file * tensor_bytes);
      expect_streamed_all();
    }
  }
}

TEST_F(SealedSet, loaded_bytes_are_as_sealed) {
  flip_bit(folder_ / "part1.safetensors", offset_of(1, 1) + 99'999, 7);
  model_ = Model::open(folder_.path(), {.port = &port_}).value();
  const auto expect_named = [&](const Result<Loaded>& loaded) {
    const auto error = testing::refusal(loaded, ErrorCode::checksum_mismatch, "loaded_bytes_are_as_sealed");
    EXPECT_EQ(error.tensor(), tensor(1, 1));
    EXPECT_EQ(error.offset(), offset_of(1, 1));
    EXPECT_EQ(error.path(), (folder_ / "part1.safetensors").native());
  };
  for (const bool cold : {false, true}) {
    for (const auto strategy : {Strategy::mapped, Strategy::read}) {
      if (cold) forget_everything();
      expect_named(model_->load(checked(strategy)));
      // Nothing of it is handed out as loaded.
      EXPECT_FALSE(residences().contains(Residence::resident));
    }
    for (const auto strategy : {Strategy::mapped, Strategy::staged}) {
      if (cold) forget_everything();
      expect_named(stream(checked(strategy)));
    }
    std::vector<std::byte> memory(tensor_bytes);
    const std::string name = tensor(1, 1);
    const Target target{name, memory};
    expect_named(model_->load_into(std::span(&target, 1), checked(Strategy::automatic)));
  }
  // The others are good.
  auto others = checked(Strategy::read);
  others.glob = "t0.*";
  EXPECT_EQ(model_->load(others).value().verified_bytes, per_file * tensor_bytes);
}

TEST_F(SealedSet, is_not_loaded_where_its_header_or_size_is_bad) {
  std::filesystem::resize_file(folder_ / "part1.safetensors",
                               std::filesystem::file_size(folder_ / "part1.safetensors") + 5);
  const auto grown = Model::open(folder_.path(), {.headers_only = true, .port = &port_});
  // Formats that are tiled say so themselves.
  if (grown) {
    EXPECT_FALSE(grown->load(checked(Strategy::mapped)));
  }
  const auto seal = read_file(folder_ / "model.htseal");
  std::filesystem::remove(folder_ / "model.htseal");
  expect_refusal(model_->load(checked(Strategy::mapped)), ErrorCode::not_sealed, "model_is_sealed");
}

TEST_F(SealedSet, file_is_of_the_seal) {
  // The seal of another model in the same folder.
  write_file(folder_ / "x.safetensors", noise_file("safetensors", {5}));
  ASSERT_TRUE(Model::open(folder_ / "x.safetensors").value().seal());
  std::filesystem::rename(folder_ / "x.safetensors.htseal", folder_ / "model.htseal");
  EXPECT_EQ(model_->load(checked(Strategy::mapped)).error().rule(), "file_is_of_the_seal");
}

TEST_F(SealedSet, is_found_for_each_of_its_tensors) {
  const auto one = (model_->tensor<U8, Rank<1>>(tensor(1, 0))).value();
  EXPECT_TRUE(validate(one));
  flip_bit(folder_ / "part1.safetensors", offset_of(1, 0));
  EXPECT_EQ(validate(one).error().rule(), "tensor_is_as_sealed");
}

TEST_F(SealedSet, survives_each_call_that_fails_once_while_it_is_loaded) {
  using testing::Call;
  for (const auto call : {Call::open, Call::stat, Call::read_at, Call::advise, Call::cached, Call::map}) {
    for (int nth = 0; nth < 4; ++nth) {
      for (const auto strategy : {Strategy::mapped, Strategy::read}) {
        ASSERT_TRUE(model_->evict());
        port_.fail_at(call, port_.count(call) + nth, std::errc::io_error);
        const auto loaded = model_->load(checked(strategy));
        port_.clear_faults();
        if (loaded) {
          EXPECT_EQ(loaded->verified_bytes, 2U * per_file * tensor_bytes);
        }
        const auto again = model_->load(checked(strategy));
        ASSERT_TRUE(again) << to_string(again.error());
      }
    }
  }
  expect_all_tensors();
}

TEST(SealedSplit, lies_beside_the_first_part) {
  const testing::TemporaryFolder folder;
  // An archive whose tensor is in another file is a model of two files, too.
  std::filesystem::create_directory(folder / "data");
  write_file(folder / "data" / "w.bin", std::string_view("weights!"));
  write_file(folder / "m.irpa",
             testing::irpa_file({{.name = "w", .length = 8, .offset = 0, .path = "data/w.bin"}}));
  const auto model = Model::open(folder / "m.irpa").value();
  ASSERT_TRUE(model.seal());
  const auto seal = read_seal(folder / "m.irpa.htseal").value();
  EXPECT_EQ(seal.files[1].name, "data/w.bin");
  EXPECT_TRUE(model.verify());
  flip_bit(folder / "data" / "w.bin", 3);
  const auto found = verify(folder / "m.irpa").value();
  EXPECT_EQ(found.verdict, Verdict::damaged);
  EXPECT_EQ(found.bad[0].tensor, "w");
  EXPECT_EQ(found.bad[0].file, folder / "data" / "w.bin");
}

TEST(SealedSplit, works_where_paths_are_relative) {
  const testing::TemporaryFolder folder;
  write_file(folder / "m.gguf", noise_file("gguf", {100, 200}));
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const auto model = Model::open("m.gguf").value();
  const auto sealed = model.seal();
  const auto checked = verify("m.gguf");
  const auto loaded = model.load({.verify = true});
  const auto in_folder = Model::open(".").value().seal();
  const auto folder_checked = verify(".");
  std::filesystem::current_path(before);
  ASSERT_TRUE(sealed) << to_string(sealed.error());
  EXPECT_EQ(sealed->seal, "m.gguf.htseal");
  EXPECT_TRUE(checked.value().ok());
  EXPECT_TRUE(loaded) << to_string(loaded.error());
  ASSERT_TRUE(in_folder) << to_string(in_folder.error());
  EXPECT_TRUE(folder_checked.value().ok());
}

}  // namespace
}  // namespace ht
