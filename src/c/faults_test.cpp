// Every function returns an error, and raises no SIGBUS, if the file is truncated while it is mapped.
#include <csignal>
#include <cstdlib>
#include <numeric>

#include "c/c_test.hpp"

namespace ht::c_faults_test {
namespace {

using testing::Handle;
using testing::sized;

class CFaults : public testing::CApi {
 protected:
  static constexpr std::size_t elements = 16 * 4096;

  Handle<ht_model> truncated_model(ht_faults faults) {
    std::vector<float> data(elements);
    std::iota(data.begin(), data.end(), 1.0F);
    const std::vector<std::int64_t> dims{elements / 4, 4};
    save("cut.safetensors", {testing::dense("t", HT_F32, dims, data)});
    auto options = sized<ht_open_options>();
    options.faults = faults;
    auto model = open("cut.safetensors", &options);
    tensor_ = get(model, "t");
    EXPECT_EQ(ht_tensor_data(tensor_.get(), &data_, &bytes_, failed_.out()), HT_OK) << failed_;
    std::filesystem::resize_file(path("cut.safetensors"), 8192);
    return model;
  }
  static double sum(const void* data, std::size_t bytes) {
    double total = 0;
    const auto* const values = static_cast<const volatile float*>(data);
    for (std::size_t i = 0; i < bytes / sizeof(float); ++i) total += static_cast<double>(values[i]);
    return total;
  }

  Handle<ht_tensor> tensor_;
  const void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

TEST_F(CFaults, functions_return_an_error_for_a_truncated_file) {
  const auto model = truncated_model(HT_FAULTS_GUARDED);
  std::vector<float> out(elements);
  EXPECT_NE(ht_tensor_copy_to(tensor_.get(), 0, out.data(), bytes_, failed_.out()), HT_OK);
  EXPECT_EQ(ht_error_path(failed_.get()), path("cut.safetensors"));
  EXPECT_NE(ht_tensor_read_f32(tensor_.get(), nullptr, 0, out.data(), elements, nullptr), HT_OK);
  const std::int64_t last[] = {elements / 4 - 1, 3};
  double value = 0;
  EXPECT_NE(ht_tensor_value(tensor_.get(), last, 2, &value, nullptr), HT_OK);
  auto statistics = sized<ht_statistics>();
  EXPECT_NE(ht_tensor_statistics(tensor_.get(), nullptr, &statistics, nullptr), HT_OK);
  const ht_hashes* hashes = nullptr;
  EXPECT_NE(ht_model_hash(model.get(), nullptr, &hashes, nullptr), HT_OK);
  EXPECT_NE(ht_model_seal(model.get(), nullptr, nullptr, nullptr), HT_OK);
  EXPECT_NE(ht_model_convert(model.get(), path("out.gguf").c_str(), nullptr, nullptr, nullptr), HT_OK);
  EXPECT_NE(ht_model_load(model.get(), nullptr, nullptr, nullptr), HT_OK);
  DLManagedTensor* managed = nullptr;
  EXPECT_NE(ht_tensor_to_dlpack(tensor_.get(), HT_ACCESS_COPY, &managed, nullptr), HT_OK);
  auto copy = sized<ht_tensor_to_save>();
  copy.name = {"c", 0};
  copy.tensor = tensor_.get();
  EXPECT_NE(ht_save(path("saved.gguf").c_str(), &copy, 1, nullptr, nullptr, nullptr), HT_OK);
  EXPECT_FALSE(std::filesystem::exists(path("out.gguf")) || std::filesystem::exists(path("saved.gguf")));
}

TEST_F(CFaults, guard_returns_an_error) {
  const auto model = truncated_model(HT_FAULTS_GUARDED);
  struct Read {
    const void* data;
    std::size_t bytes;
    double total = 0;
  } read{data_, bytes_};
  const auto body = [](void* context) {
    auto& all = *static_cast<Read*>(context);
    all.total = sum(all.data, all.bytes);
  };
  EXPECT_NE(ht_guard(data_, bytes_, body, &read, failed_.out()), HT_OK);
  EXPECT_GT(read.total, 0);
  read.bytes = 4096;
  EXPECT_EQ(ht_guard(data_, 4096, body, &read, failed_.out()), HT_OK) << failed_;
}

TEST_F(CFaults, zero_fill_reads_zeros_and_reports_the_fault) {
  const auto model = truncated_model(HT_FAULTS_ZERO_FILL);
  EXPECT_EQ(ht_model_fault(model.get(), failed_.out()), HT_OK) << failed_;
  EXPECT_GT(sum(data_, bytes_), 0);
  EXPECT_NE(ht_model_fault(model.get(), failed_.out()), HT_OK);
  EXPECT_EQ(ht_error_path(failed_.get()), path("cut.safetensors"));
}

TEST_F(CFaults, off_reads_by_system_calls) {
  const auto model = truncated_model(HT_FAULTS_OFF);
  std::vector<float> out(elements);
  EXPECT_NE(ht_tensor_copy_to(tensor_.get(), 0, out.data(), bytes_, failed_.out()), HT_OK);
}

}  // namespace
}  // namespace ht::c_faults_test
