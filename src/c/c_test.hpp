// Shared by the tests of the C API: RAII owners of handles, and a fixture with a temporary folder.
#pragma once

#include <gtest/gtest.h>
#include <htensor/htensor.h>

#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "testing/temporary_folder.hpp"

namespace ht::testing {

struct HandleDeleter {
  void operator()(ht_model* model) const { ht_model_free(model); }
  void operator()(ht_tensor* tensor) const { ht_tensor_free(tensor); }
  void operator()(ht_seal* seal) const { ht_seal_free(seal); }
  void operator()(ht_cancel* cancel) const { ht_cancel_free(cancel); }
  template <class Result>
  void operator()(const Result* result) const {
    ht_result_free(result);
  }
};
template <class T>
using Handle = std::unique_ptr<T, HandleDeleter>;

/// The error of the last call: `EXPECT_EQ(ht_…(…, failed.out()), HT_OK) << failed`.
class Failed {
 public:
  Failed() = default;
  Failed(const Failed&) = delete;
  Failed& operator=(const Failed&) = delete;
  ~Failed() { ht_error_free(error_); }

  ht_error** out() {
    ht_error_free(error_);
    error_ = nullptr;
    return &error_;
  }
  [[nodiscard]] const ht_error* get() const { return error_; }
  [[nodiscard]] std::string rule() const { return ht_error_rule(error_); }
  friend std::ostream& operator<<(std::ostream& out, const Failed& failed) {
    return out << ht_error_text(failed.error_);
  }

 private:
  ht_error* error_ = nullptr;
};

/// Returns a zeroed struct whose field `size` is set.
template <class T>
T sized() {
  T value{};
  value.size = sizeof(T);
  return value;
}

inline ht_string to_ht_string(std::string_view text) { return {text.data(), text.size()}; }
inline std::string text(const ht_string& text) { return {text.data, text.size}; }

/// Describes dense elements to save. Refers to `dims` and `data`, which must outlive the result.
template <class T>
ht_tensor_to_save dense(const char* name, ht_type type, const std::vector<std::int64_t>& dims,
                        const std::vector<T>& data) {
  auto tensor = sized<ht_tensor_to_save>();
  tensor.name = {name, 0};
  tensor.type = type;
  tensor.rank = static_cast<std::uint32_t>(dims.size());
  tensor.dims = dims.data();
  tensor.data = data.data();
  tensor.bytes = data.size() * sizeof(T);
  return tensor;
}

class CApi : public ::testing::Test {
 protected:
  std::string path(std::string_view name) const { return (folder_ / name).string(); }

  Handle<ht_model> open(std::string_view name, const ht_open_options* options = nullptr) {
    ht_model* model = nullptr;
    EXPECT_EQ(ht_model_open(path(name).c_str(), options, &model, failed_.out()), HT_OK) << failed_;
    return Handle<ht_model>(model);
  }
  Handle<ht_tensor> get(const Handle<ht_model>& model, const char* name) {
    ht_tensor* tensor = nullptr;
    EXPECT_EQ(ht_model_get(model.get(), name, 0, &tensor, failed_.out()), HT_OK) << failed_;
    return Handle<ht_tensor>(tensor);
  }
  ht_tensor_info describe(const Handle<ht_tensor>& tensor) {
    auto info = sized<ht_tensor_info>();
    EXPECT_EQ(ht_tensor_describe(tensor.get(), &info, failed_.out()), HT_OK) << failed_;
    return info;
  }
  void save(std::string_view name, const std::vector<ht_tensor_to_save>& tensors,
            const ht_save_options* options = nullptr) {
    EXPECT_EQ(ht_save(path(name).c_str(), tensors.data(), tensors.size(), options, nullptr, failed_.out()),
              HT_OK)
        << failed_;
  }
  /// Opens `m.safetensors`, which has two tensors: "w" is F32 [2, 3] with 1 to 6, "n" is I64 [2] with -1 and
  /// 2^53 + 1.
  Handle<ht_model> small_model() {
    if (!std::filesystem::exists(path("m.safetensors"))) {
      save("m.safetensors", {dense("w", HT_F32, two_by_three_, floats_), dense("n", HT_I64, two_, longs_)});
    }
    return open("m.safetensors");
  }

  testing::TemporaryFolder folder_;
  Failed failed_;
  const std::vector<std::int64_t> two_{2};
  const std::vector<std::int64_t> two_by_three_{2, 3};
  const std::vector<float> floats_{1, 2, 3, 4, 5, 6};
  const std::vector<std::int64_t> longs_{-1, (std::int64_t{1} << 53) + 1};
};

}  // namespace ht::testing
