#include <gtest/gtest.h>
#include <sys/stat.h>

#include <htensor/model/model.hpp>

#include "format/ht/ht.hpp"
#include "model/test_models.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::model_hostile_test {
namespace {

using testing::Call;
using testing::FaultyPort;
using testing::TemporaryFolder;
using testing::write_file;

class HostileModel : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::vector<std::int64_t> dims{4};
    const auto header = format_ht::encode(format_ht::make_header(dtype_info<F32>(), dims).value());
    file_.assign(header.begin(), header.end());
    file_.resize(128 + 16);
    write_file(path_, file_);
  }
  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "t.ht";
  std::vector<std::byte> file_;
};

TEST_F(HostileModel, errors_name_the_path_from_the_user) {
  file_[9] ^= std::byte{1};
  write_file(path_, file_);
  const auto error = Model::open(path_).error();
  EXPECT_EQ(error.code(), ErrorCode::checksum_mismatch);
  EXPECT_EQ(error.path(), path_.string());
  EXPECT_FALSE(error.hint().empty());
  EXPECT_EQ(to_string(error).find(path_.string()), 0U);
}

TEST_F(HostileModel, non_regular_files_are_rejected) {
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("gone", folder_ / "link");
  EXPECT_EQ(Model::open(folder_ / "pipe").error().code(), ErrorCode::not_regular_file);
  EXPECT_EQ(Model::open("/dev/zero").error().code(), ErrorCode::not_regular_file);
  EXPECT_EQ(Model::open(folder_ / "link").error().code(), ErrorCode::open_failed);
  EXPECT_EQ(Model::open("").error().code(), ErrorCode::open_failed);
}

TEST_F(HostileModel, every_wrong_file_length_is_rejected) {
  for (std::size_t bytes = 0; bytes < file_.size() + 3; ++bytes) {
    auto file = file_;
    file.resize(bytes);
    write_file(path_, file);
    const auto model = Model::open(path_);
    if (bytes == file_.size()) {
      EXPECT_TRUE(model);
    } else {
      const auto expected = bytes == 0             ? ErrorCode::bad_magic
                            : bytes < file_.size() ? ErrorCode::truncated
                                                   : ErrorCode::trailing_bytes;
      ASSERT_FALSE(model) << bytes;
      EXPECT_EQ(model.error().code(), expected) << bytes;
    }
  }
}

TEST_F(HostileModel, every_failing_call_is_an_error_and_leaves_nothing_open) {
  const std::vector<std::pair<Call, ErrorCode>> cases{{Call::open, ErrorCode::open_failed},
                                                      {Call::stat, ErrorCode::open_failed},
                                                      {Call::read_at, ErrorCode::read_failed},
                                                      {Call::map, ErrorCode::map_failed}};
  for (const auto& [call, code] : cases) {
    FaultyPort port;
    port.fail_at(call, 0, std::errc::io_error);
    const auto model = testing::open_and_map(path_, {.port = &port});
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().code(), code);
    EXPECT_EQ(model.error().path(), path_.string());
    EXPECT_EQ(model.error().cause(), std::errc::io_error);
    EXPECT_EQ(port.open_files(), 0);
    EXPECT_EQ(port.mapped_regions(), 0);
  }
}

TEST_F(HostileModel, uses_one_descriptor_and_one_mapping_per_file) {
  FaultyPort port;
  {
    const auto model = Model::open(path_, {.port = &port}).value();
    const auto a = model.tensor<F32, Rank<1>>("t").value();
    const auto b = model.tensor<F32, Shape<4>>("t").value();
    EXPECT_EQ(port.open_files(), 1);
    EXPECT_EQ(port.mapped_regions(), 1);
  }
  EXPECT_EQ(port.open_files(), 0);
  EXPECT_EQ(port.mapped_regions(), 0);
}

TEST_F(HostileModel, catalog_only_keeps_no_file_open) {
  FaultyPort port;
  const auto model = Model::open(path_, {.catalog_only = true, .port = &port});
  ASSERT_TRUE(model);
  EXPECT_EQ(port.open_files(), 0);
}

TEST_F(HostileModel, file_that_shrinks_before_the_read_is_an_error) {
  FaultyPort port;
  port.before_each([&](Call call, int /*nth*/) {
    if (call == Call::read_at) std::filesystem::resize_file(path_, 60);
  });
  const auto model = Model::open(path_, {.port = &port});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code(), ErrorCode::truncated);
}

TEST_F(HostileModel, tensor_is_within_the_file) {
  std::filesystem::resize_file(path_, 130);
  const auto model = Model::open(path_, {.allow_incomplete = true});
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_EQ(model->catalog()[0].bytes, 16U);
  const auto tensor = model->tensor<F32, Rank<1>>("t");
  ASSERT_FALSE(tensor);
  EXPECT_EQ(tensor.error().code(), ErrorCode::truncated);
  EXPECT_EQ(tensor.error().rule(), "tensor_is_within_the_file");
}

}  // namespace
}  // namespace ht::model_hostile_test
