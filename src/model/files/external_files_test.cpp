#include "model/test_formats.hpp"
#include "model/test_models.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::external_files_test {
namespace {

using testing::Call;
using testing::expect_refusal;
using testing::FaultyPort;
using testing::irpa_file;
using testing::message_contains;
using testing::refusal;
using testing::tensor_note;
using testing::write_file;

// An archive with one tensor of its own and one tensor in each of two other files.
class ExternalFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto note = tensor_note("uint8", "[4]");
    std::filesystem::create_directory(folder_ / "data");
    write_file(folder_ / "x.bin", "..abcd");
    write_file(folder_ / "data/y.bin", "efgh");
    write_file(archive_, irpa_file({{.name = "own", .note = note, .length = 4},
                                    {.name = "x", .note = note, .length = 4, .offset = 2, .path = "x.bin"},
                                    {.name = "y", .note = note, .length = 4, .path = "data/y.bin"}},
                                   "ijkl"));
  }
  testing::TemporaryFolder folder_;
  std::filesystem::path archive_ = folder_ / "m.irpa";
};

TEST_F(ExternalFiles, are_opened_with_the_file_that_names_them) {
  for (const auto& path : {archive_, folder_.path()}) {
    const auto model = Model::open(path);
    ASSERT_TRUE(model) << to_string(model.error());
    EXPECT_EQ(model->files(), (std::vector{archive_, folder_ / "x.bin", folder_ / "data/y.bin"}));
    EXPECT_EQ((model->tensor<U8, Rank<1>>("own").value()(0)), 'i');
    EXPECT_EQ((model->tensor<U8, Rank<1>>("x").value()(0)), 'a');
    EXPECT_EQ((model->copy<U8, Rank<1>>("y").value()(3)), 'h');
    const auto raw = model->storage("x").value();
    EXPECT_EQ(std::get<Storage::FileBacked>(raw.origin()).path, folder_ / "x.bin");
    EXPECT_EQ(std::get<Storage::FileBacked>(raw.origin()).offset, 2U);
  }
}

TEST_F(ExternalFiles, external_files_exist) {
  std::filesystem::remove(folder_ / "data/y.bin");
  const auto error = refusal(Model::open(archive_), ErrorCode::missing_shard, "external_files_exist");
  EXPECT_EQ(error.path(), archive_.string());
  EXPECT_EQ(error.cause(), std::errc::no_such_file_or_directory);
  EXPECT_TRUE(message_contains(error, "'data/y.bin'"));
  std::filesystem::create_directory(folder_ / "data/y.bin");
  for (const bool allow_incomplete : {false, true}) {
    EXPECT_EQ(Model::open(archive_, {.allow_incomplete = allow_incomplete}).error().code(),
              ErrorCode::not_regular_file);
  }
}

TEST_F(ExternalFiles, file_with_a_name_that_is_too_long_is_missing) {
  write_file(archive_, irpa_file({{.name = "t", .length = 4, .path = std::string(300, 'x')}}));
  expect_refusal(Model::open(archive_), ErrorCode::missing_shard, "external_files_exist");
}

TEST_F(ExternalFiles, missing_files_are_listed_with_allow_incomplete) {
  std::filesystem::remove(folder_ / "x.bin");
  for (const auto& path : {archive_, folder_.path()}) {
    const auto model = Model::open(path, {.allow_incomplete = true});
    ASSERT_TRUE(model) << to_string(model.error());
    EXPECT_EQ(model->catalog().size(), 3U);
    EXPECT_EQ(model->files(), (std::vector{archive_, folder_ / "x.bin", folder_ / "data/y.bin"}));
    const auto error = refusal(model->storage("x"), ErrorCode::missing_shard, "external_files_exist");
    EXPECT_EQ(error.path(), (folder_ / "x.bin").string());
    EXPECT_EQ(error.tensor(), "x");
    expect_refusal(model->tensor<U8, Rank<1>>("x"), ErrorCode::missing_shard, "external_files_exist");
    EXPECT_EQ((model->tensor<U8, Rank<1>>("own").value()(0)), 'i');
    EXPECT_EQ((model->copy<U8, Rank<1>>("y").value()(3)), 'h');
  }
}

TEST_F(ExternalFiles, missing_files_of_numbered_archives_are_listed) {
  const auto note = tensor_note("uint8", "[4]");
  std::filesystem::rename(archive_, folder_ / "m-00001-of-00002.irpa");
  write_file(folder_ / "m-00002-of-00002.irpa",
             irpa_file({{.name = "more", .note = note, .length = 4}}, "mnop"));
  std::filesystem::remove(folder_ / "x.bin");
  const auto model = Model::open(folder_.path(), {.allow_incomplete = true});
  ASSERT_TRUE(model) << to_string(model.error());
  expect_refusal(model->storage("x"), ErrorCode::missing_shard, "external_files_exist");
  EXPECT_EQ((model->tensor<U8, Rank<1>>("y").value()(0)), 'e');
  EXPECT_EQ((model->tensor<U8, Rank<1>>("more").value()(0)), 'm');
}

TEST_F(ExternalFiles, external_files_have_a_folder) {
  // An archive that is opened from bytes must not open files of the current folder.
  const auto bytes = testing::read_file(archive_);
  for (const bool allow_incomplete : {false, true}) {
    const auto error = refusal(Model::from_bytes(bytes, nullptr, {.allow_incomplete = allow_incomplete}),
                               ErrorCode::missing_shard, "external_files_have_a_folder");
    EXPECT_TRUE(message_contains(error, "x.bin"));
  }
}

TEST_F(ExternalFiles, external_data_is_complete) {
  write_file(folder_ / "x.bin", "..abc");
  const auto error = refusal(Model::open(archive_), ErrorCode::truncated, "external_data_is_complete");
  EXPECT_EQ(error.tensor(), "x");
  EXPECT_TRUE(message_contains(error, "ends at byte 6 of 'x.bin', which has 5"));
  const auto model = Model::open(archive_, {.allow_incomplete = true});
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_TRUE(model->storage("y"));
  expect_refusal(model->storage("x"), ErrorCode::truncated, "tensor_is_within_the_file");
}

TEST_F(ExternalFiles, each_numbered_archive_has_its_own_external_files) {
  const auto note = tensor_note("uint8", "[4]");
  std::filesystem::remove(archive_);
  // The first archive also names the second as an external file. The model lists the second archive once.
  const std::string second = "m-00002-of-00002.irpa";
  write_file(folder_ / "m-00001-of-00002.irpa",
             irpa_file({{.name = "x", .note = note, .length = 4, .offset = 2, .path = "x.bin"},
                        {.name = "magic", .note = note, .length = 4, .path = second}}));
  write_file(folder_ / second, irpa_file({{.name = "own", .note = note, .length = 4},
                                          {.name = "y", .note = note, .length = 4, .path = "data/y.bin"}},
                                         "ijkl"));
  const auto model = Model::open(folder_.path());
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_EQ(model->files().size(), model->catalog().files().size());
  EXPECT_EQ((model->tensor<U8, Rank<1>>("x").value()(0)), 'a');
  EXPECT_EQ((model->tensor<U8, Rank<1>>("magic").value()(0)), 'I');
  EXPECT_EQ((model->tensor<U8, Rank<1>>("own").value()(0)), 'i');
  EXPECT_EQ((model->tensor<U8, Rank<1>>("y").value()(0)), 'e');
}

TEST_F(ExternalFiles, no_handle_leaks_if_a_call_fails) {
  for (const auto call : {Call::open, Call::stat, Call::map}) {
    for (int nth = 0; nth < 3; ++nth) {
      FaultyPort port;
      port.fail_at(call, nth, std::errc::io_error);
      const auto model = testing::open_and_map(archive_, {.port = &port});
      ASSERT_FALSE(model) << nth;
      EXPECT_EQ(model.error().cause(), std::errc::io_error);
      EXPECT_EQ(port.open_files(), 0);
      EXPECT_EQ(port.mapped_regions(), 0);
    }
  }
}

}  // namespace
}  // namespace ht::external_files_test
