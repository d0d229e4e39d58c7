// A mapped file is truncated: operations that read its tensors return an Error that names the tensor.
#include <gtest/gtest.h>

#include <atomic>
#include <htensor/base/fault.hpp>
#include <htensor/compute/elementwise.hpp>
#include <htensor/convert/convert.hpp>
#include <htensor/convert/save.hpp>
#include <htensor/model/model.hpp>
#include <htensor/values/cast.hpp>
#include <thread>

#include "format/safetensors/test_file.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::mapped_faults_test {
namespace {

using testing::TemporaryFolder;

class MappedFaults : public ::testing::Test {
 protected:
  // Two tensors of 32 KiB. Only the first page of the file remains, which contains the header.
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
  void expect_fault(const Result<T>& result, std::string_view rule = "mapped_pages_are_in_the_file") {
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

TEST_F(MappedFaults, fail_a_user_defined_loop) {
  expect_fault(guarded(tensor_->storage().bytes(), [&] {
    float sum = 0;
    for (const auto value : *tensor_) sum += value;
    return sum;
  }));
}

TEST_F(MappedFaults, are_reported_after_the_model_is_destroyed) {
  model_.reset();
  expect_fault(tensor_->copy());
}

TEST_F(MappedFaults, fail_copies) {
  expect_fault(tensor_->copy());
  // `Model::copy` checks the file before it reads.
  expect_fault(model_->copy<F32, Rank<1>>("second"), "file_is_unchanged");
}

TEST_F(MappedFaults, fail_access_to_an_element) {
  expect_fault(tensor_->at(8191));
  expect_fault(as<F64>(*tensor_).at(8191));
  // A tensor over bytes that the caller has taken from the model.
  const auto borrowed = Storage::borrowed_read_only(tensor_->bytes().value()).value();
  expect_fault(Tensor<const F32, Rank<1>>::over(borrowed, Rank<1>(8192)).value().at(0));
}

TEST_F(MappedFaults, fail_casts) { expect_fault(cast<F64>(*tensor_)); }

TEST_F(MappedFaults, fail_arithmetic) {
  const auto whole = Tensor<F32, Rank<1>>::zeros(Rank<1>(8192)).value();
  expect_fault(*tensor_ + *tensor_);
  expect_fault(whole + *tensor_);
  EXPECT_TRUE(whole + whole);
}

TEST_F(MappedFaults, fail_a_write_and_leave_no_file) {
  expect_fault(write(folder_ / "out.ht", *tensor_));
  const Bytes bytes = tensor_->bytes().value();
  bool is_given = false;
  const DataSource source = [&]() -> Result<std::optional<DataPiece>> {
    if (std::exchange(is_given, true)) return std::nullopt;
    return DataPiece{0, bytes};
  };
  expect_fault(write(folder_ / "out.bin",
                     EncodedFile{.header = {}, .offsets = {}, .file_bytes = bytes.size()}, source));
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"model.safetensors"});
}

// Each mapping is read by one thread only.
TEST_F(MappedFaults, do_not_fail_a_copy_of_another_model) {
  const auto good_path = folder_ / "good.safetensors";
  testing::write_file(
      good_path,
      testing::safetensors_file(R"({"t":{"dtype":"F32","shape":[8192],"data_offsets":[0,32768]}})", 32768));
  const auto good = Model::open(good_path).value();
  std::atomic<bool> is_over = false;
  std::atomic<bool> has_failed = false;
  const std::jthread failing([&] {
    while (!is_over) {
      has_failed = !tensor_->copy().has_value();
    }
  });
  while (!has_failed) std::this_thread::yield();
  const auto tensor = good.at(0).value();
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(tensor.cast<F64>());
    EXPECT_TRUE(convert(good, folder_ / "copy.safetensors", {}, {.if_exists = IfExists::replace}));
    EXPECT_TRUE(write(folder_ / "copy.ht", tensor.flat<F32>().value(), {.if_exists = IfExists::replace}));
  }
  is_over = true;
}

TEST_F(MappedFaults, do_not_fail_reads_of_other_pages) {
  const auto first = model_->tensor<F32, Rank<1>>("first").value();
  EXPECT_TRUE(first.at(0));
  const auto begin = first.slice<0>(0, 64).value();
  const auto packed = Tensor<const U4, Rank<1>>::over(first.storage(), Rank<1>(65536)).value();
  std::atomic<bool> is_over = false;
  std::atomic<bool> has_failed = false;
  const std::jthread failing([&] {
    while (!is_over) has_failed = !first.at(8191).has_value();
  });
  while (!has_failed) std::this_thread::yield();
  int failed = 0;
  for (int i = 0; i < 2000; ++i) {
    failed += begin.copy() && cast<F64>(begin) && begin + begin && packed.at(1) ? 0 : 1;
  }
  EXPECT_EQ(failed, 0);
  is_over = true;
}

}  // namespace
}  // namespace ht::mapped_faults_test
