// Eight threads use one model at once. The preset `tsan` runs this test under the thread sanitizer.
#include <atomic>
#include <functional>
#include <thread>

#include "c/c_test.hpp"
#include "c/dlpack.hpp"
#include "format/gguf/gguf_test_file.hpp"

namespace ht::c_threads_test {
namespace {

using testing::Handle;
using testing::sized;

class CThreads : public testing::CApi {
 protected:
  static void on_8_threads(const std::function<void()>& body) {
    std::vector<std::thread> threads;
    std::atomic<int> waiting = 8;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        --waiting;
        while (waiting != 0) std::this_thread::yield();
        body();
      });
    }
    for (auto& thread : threads) thread.join();
  }
};

TEST_F(CThreads, metadata_is_built_once) {
  testing::write_file(folder_ / "all.gguf", testing::all_values(std::endian::little).bytes());
  const auto model = open("all.gguf");
  const ht_metadata_item* first[15] = {};
  std::atomic<int> different = 0;
  std::mutex mutex;
  on_8_threads([&] {
    for (std::size_t i = 0; i < 15; ++i) {
      const ht_metadata_item* item = nullptr;
      if (ht_model_metadata_at(model.get(), i, &item, nullptr) != HT_OK) ++different;
      const std::lock_guard lock(mutex);
      if (first[i] == nullptr) first[i] = item;
      if (first[i] != item) ++different;
    }
  });
  EXPECT_EQ(different, 0);
}

TEST_F(CThreads, all_threads_read_one_model) {
  const auto model = small_model();
  ASSERT_EQ(ht_model_seal(model.get(), nullptr, nullptr, failed_.out()), HT_OK) << failed_;
  const auto shared = get(model, "w");
  std::atomic<int> failures = 0;
  const auto check = [&](ht_status status) {
    if (status != HT_OK) ++failures;
  };
  on_8_threads([&] {
    for (int round = 0; round < 20; ++round) {
      auto info = sized<ht_tensor_info>();
      check(ht_model_describe(model.get(), 1, &info, nullptr));
      ht_tensor* tensor = nullptr;
      check(ht_model_get(model.get(), "w", 0, &tensor, nullptr));
      const Handle<ht_tensor> owner(tensor);
      ht_tensor* row = nullptr;
      check(ht_tensor_rows(tensor, 1, 2, &row, nullptr));
      ht_tensor_free(row);
      for (const ht_tensor* each :
           {static_cast<const ht_tensor*>(tensor), static_cast<const ht_tensor*>(shared.get())}) {
        const void* data = nullptr;
        check(ht_tensor_data(each, &data, nullptr, nullptr));
        float values[6] = {};
        check(ht_tensor_read_f32(each, nullptr, 0, values, 6, nullptr));
        if (values[5] != 6) ++failures;
        check(ht_tensor_copy_to(each, 0, values, 24, nullptr));
        auto statistics = sized<ht_statistics>();
        check(ht_tensor_statistics(each, nullptr, &statistics, nullptr));
        check(ht_tensor_verify(each, nullptr));
      }
      check(ht_model_load(model.get(), nullptr, nullptr, nullptr));
      check(ht_model_prefetch(model.get(), nullptr, nullptr, nullptr, nullptr));
      ht_residency where[2] = {};
      check(ht_model_residency(model.get(), 0, 2, where, nullptr));
      check(ht_model_verify(model.get(), nullptr, nullptr));
      const ht_hashes* hashes = nullptr;
      check(ht_model_hash(model.get(), nullptr, &hashes, nullptr));
      ht_result_free(hashes);
      const ht_differences* differences = nullptr;
      check(ht_diff(model.get(), model.get(), nullptr, &differences, nullptr));
      ht_result_free(differences);
      check(ht_model_fault(model.get(), nullptr));
    }
  });
  EXPECT_EQ(failures, 0);
}

// Every thread writes files of its own; all threads seal and evict the same model.
TEST_F(CThreads, all_threads_convert_and_seal_one_model) {
  const auto model = small_model();
  const auto shared = get(model, "w");
  std::mutex mutex;
  std::vector<std::string> failures;
  std::atomic<int> next = 0;
  on_8_threads([&] {
    const int thread = next++;
    const auto check = [&](const char* name, const std::function<ht_status(ht_error**)>& call) {
      ht_error* error = nullptr;
      if (call(&error) == HT_OK) return;
      const std::lock_guard lock(mutex);
      failures.emplace_back(std::string(name) + ": " + ht_error_text(error));
      ht_error_free(error);
    };
    const auto expect = [&](const char* name, bool holds) {
      check(name, [&](ht_error**) { return holds ? HT_OK : HT_INTERNAL; });
    };
    const std::string target = path(std::to_string(thread) + ".irpa");
    for (int round = 0; round < 5; ++round) {
      auto options = sized<ht_convert_options>();
      options.force = 1;
      options.seal = 1;
      check("convert", [&](ht_error** e) {
        return ht_model_convert(model.get(), target.c_str(), &options, nullptr, e);
      });
      check("verify", [&](ht_error** e) {
        const ht_verification* found = nullptr;
        const auto status = ht_verify(target.c_str(), nullptr, &found, e);
        expect("verdict", status != HT_OK || found->ok != 0);
        ht_result_free(found);
        return status;
      });
      auto of_model = sized<ht_tensor_to_save>();
      of_model.name = {"w", 0};
      of_model.tensor = shared.get();
      auto saved = sized<ht_save_options>();
      auto replace = sized<ht_convert_options>();
      replace.force = 1;
      saved.convert = &replace;
      check("save", [&](ht_error** e) {
        return ht_save(path(std::to_string(thread) + ".ht").c_str(), &of_model, 1, &saved, nullptr, e);
      });
      check("seal", [&](ht_error** e) { return ht_model_seal(model.get(), nullptr, nullptr, e); });
      check("evict", [&](ht_error** e) { return ht_model_evict(model.get(), nullptr, nullptr, e); });
      for (const auto access : {HT_ACCESS_READ_ONLY, HT_ACCESS_PRIVATE, HT_ACCESS_COPY}) {
        check("to_dlpack_versioned", [&](ht_error** e) {
          DLManagedTensorVersioned* managed = nullptr;
          const auto status = ht_tensor_to_dlpack_versioned(shared.get(), access, &managed, e);
          if (status != HT_OK) return status;
          expect("dlpack", static_cast<const float*>(managed->dl_tensor.data)[5] == 6);
          managed->deleter(managed);
          return status;
        });
      }
      check("private_data", [&](ht_error** e) {
        void* data = nullptr;
        const auto status = ht_tensor_private_data(shared.get(), &data, nullptr, e);
        expect("private", status != HT_OK || static_cast<const float*>(data)[5] == 6);
        return status;
      });
    }
  });
  EXPECT_EQ(failures, std::vector<std::string>());
}

}  // namespace
}  // namespace ht::c_threads_test
