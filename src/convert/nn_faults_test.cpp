// In this folder because compute does not depend on model, whose mapped tensors the test reads.
//
// A mapped file is truncated before an operation reads it: the operation returns the Error of the file.
#include <gtest/gtest.h>

#include <filesystem>
#include <htensor/compute/conv.hpp>
#include <htensor/compute/elementwise.hpp>
#include <htensor/compute/embedding.hpp>
#include <htensor/compute/nn.hpp>
#include <htensor/model/model.hpp>
#include <string>
#include <vector>

#include "format/safetensors/test_file.hpp"
#include "tensor/test_tools.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::nn_faults_test {
namespace {

using tests::must;

class NnFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string json = R"({"x":{"dtype":"F32","shape":[8192],"data_offsets":[0,32768]}})";
    while ((json.size() + 8) % alignof(float) != 0) json += ' ';
    testing::write_file(path_, testing::safetensors_file(json, 32768));
    model_ = must(Model::open(path_));
    unreadable_ = must(model_->tensor<F32, Rank<1>>("x"));
    std::filesystem::resize_file(path_, 4096);
  }

  template <class S>
  [[nodiscard]] auto unreadable(S shape) const {
    return must(unreadable_->reshape(shape));
  }

  template <class T>
  void expect_error(const Result<T>& result) const {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), ErrorCode::changed_underfoot) << to_string(result.error());
    EXPECT_EQ(result.error().path(), path_.string());
  }

  testing::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "model.safetensors";
  std::optional<Model> model_;
  std::optional<Tensor<const F32, Rank<1>>> unreadable_;
};

TEST_F(NnFaults, inputs_that_cannot_be_read_are_errors) {
  const auto x = unreadable(Rank<2>(8, 1024));
  const auto heads = unreadable(Rank<3>(8, 8, 128));
  const auto readable = must(Tensor<F32, Rank<2>>::zeros(Rank<2>(8, 1024)));
  const auto weight = must(Tensor<F32, Rank<1>>::zeros(Rank<1>(1024)));
  expect_error(softmax(x));
  expect_error(log_softmax(x.transpose()));
  expect_error(rms_norm(x, weight, 1e-5));
  expect_error(layer_norm(x, weight, weight, 1e-5));
  expect_error(silu(x));
  expect_error(gelu(x));
  expect_error(swiglu(readable, x));
  expect_error(swiglu(x, readable));
  expect_error(rope(heads));
  expect_error(argmax(x));
  expect_error(scale(x, 2.0F));
  expect_error(add_into(readable, x));
  expect_error(embedding(x, std::vector<std::int32_t>{7}));
  expect_error(embedding<F64>(x, std::vector<std::int64_t>{7}));
  expect_error(
      conv2d(unreadable(Rank<4>(1, 8, 32, 32)), must(Tensor<F32, Rank<4>>::zeros(Rank<4>(1, 8, 3, 3)))));
}

TEST_F(NnFaults, weights_that_cannot_be_read_are_errors) {
  const auto x = must(Tensor<F32, Rank<2>>::zeros(Rank<2>(1, 8192)));
  const auto weight = unreadable(Rank<1>(8192));
  const auto readable = must(Tensor<F32, Rank<1>>::zeros(Rank<1>(8192)));
  expect_error(rms_norm(x, weight, 1e-5));
  expect_error(layer_norm(x, weight, 1e-5));
  expect_error(layer_norm(x, readable, weight, 1e-5));
  const auto image = must(Tensor<F32, Rank<4>>::zeros(Rank<4>(1, 8, 4, 4)));
  expect_error(conv2d(image, unreadable(Rank<4>(1024, 8, 1, 1))));
}

}  // namespace
}  // namespace ht::nn_faults_test
