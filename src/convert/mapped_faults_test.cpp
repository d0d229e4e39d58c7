// The file is cut under a mapped model: whatever walks its tensors tells which of them, and where.
#include <gtest/gtest.h>

#include <htensor/base/fault.hpp>
#include <htensor/compute/elementwise.hpp>
#include <htensor/convert/write.hpp>
#include <htensor/model/model.hpp>
#include <htensor/values/cast.hpp>

#include "format/safetensors/test_file.hpp"
#include "testing/temporary_folder.hpp"

namespace ht {
namespace {

using testing::TemporaryFolder;

class MappedFaults : public ::testing::Test {
 protected:
  // Two tensors of 32 KiB; all but the first page is lost then, which has the header in it.
  void SetUp() override {
    std::string json = R"({"first":{"dtype":"F32","shape":[8192],"data_offsets":[0,32768]},)"
                       R"("second":{"dtype":"F32","shape":[8192],"data_offsets":[32768,65536]}})";
    while ((json.size() + 8) % alignof(float) != 0) json += ' ';
    testing::write_file(path_, testing::safetensors_file(json, 65536));
    model_ = Model::open(path_).value();
    tensor_ = model_->tensor<F32, Rank<1>>("second").value();
    std::filesystem::resize_file(path_, 4096);
  }

  template <class T>
  void expect_told(const Result<T>& result, std::string_view rule = "mapped_pages_are_still_there") {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), ErrorCode::changed_underfoot) << to_string(result.error());
    EXPECT_EQ(result.error().rule(), rule);
    EXPECT_EQ(result.error().path(), path_.string());
    EXPECT_EQ(result.error().tensor(), "second");
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "model.safetensors";
  std::optional<Model> model_;
  std::optional<Tensor<const F32, Rank<1>>> tensor_;
};

TEST_F(MappedFaults, are_told_by_a_users_own_walk) {
  expect_told(guarded([&] {
    float sum = 0;
    for (const auto value : *tensor_) sum += value;
    return sum;
  }));
}

TEST_F(MappedFaults, are_told_when_the_model_is_gone_already) {
  model_.reset();
  expect_told(tensor_->copy());
}

TEST_F(MappedFaults, are_told_by_copies) {
  expect_told(tensor_->copy());
  // It looks at the file first.
  expect_told(model_->copy<F32, Rank<1>>("second"), "file_is_as_it_was");
}

TEST_F(MappedFaults, are_told_by_casts) { expect_told(cast<F64>(*tensor_)); }

TEST_F(MappedFaults, are_told_by_arithmetic) {
  const auto whole = Tensor<F32, Rank<1>>::zeros(Rank<1>(8192)).value();
  expect_told(*tensor_ + *tensor_);
  expect_told(whole + *tensor_);
  EXPECT_TRUE(whole + whole);
}

TEST_F(MappedFaults, are_told_by_writing_and_leave_no_file) {
  expect_told(write(folder_ / "out.ht", *tensor_));
  const Bytes bytes = tensor_->bytes().value();
  bool given = false;
  const DataSource source = [&]() -> Result<std::optional<DataPiece>> {
    if (std::exchange(given, true)) return std::nullopt;
    return DataPiece{0, bytes};
  };
  expect_told(
      write(folder_ / "out.bin", Encoded{.header = {}, .offsets = {}, .file_bytes = bytes.size()}, source));
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"model.safetensors"});
}

TEST_F(MappedFaults, are_not_told_of_what_was_not_touched) {
  EXPECT_TRUE(guarded([&] { return model_->tensor<F32, Rank<1>>("first").value()(0); }));
}

}  // namespace
}  // namespace ht
