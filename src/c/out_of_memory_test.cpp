// Calls each function while its n-th allocation fails, for all n. The call returns HT_OUT_OF_MEMORY and leaks
// nothing, and the function works afterwards. A separate program, because it replaces operator new.
#include <cstdlib>
#include <functional>
#include <map>

#include "c/c_test.hpp"
#include "c/dlpack.hpp"
#include "format/gguf/gguf_test_file.hpp"
#include "format/safetensors/test_file.hpp"
#include "testing/allocations.hpp"

namespace ht::c_out_of_memory_test {
namespace {

using testing::dense;
using testing::Handle;
using testing::sized;

class COutOfMemory : public testing::CApi {
 protected:
  // Repeats the call with 0, 1, 2, … allowed allocations until it succeeds.
  void run_with_failing_allocations(const char* name, const std::function<ht_status(ht_error**)>& call) {
    for (int allowed = 0; allowed < 5000; ++allowed) {
      ht_error* error = nullptr;
      ht_status status = HT_OK;
      {
        const testing::AllocationLimit limit(allowed);
        status = call(&error);
      }
      if (status == HT_OK) return;
      ASSERT_EQ(status, HT_OUT_OF_MEMORY) << name << ", " << allowed << ": " << ht_error_text(error);
      ASSERT_EQ(ht_error_code(error), HT_OUT_OF_MEMORY) << name;
      ASSERT_STRNE(ht_error_text(error), "") << name;
      ht_error_free(error);
    }
    FAIL() << name << " never succeeds";
  }
};

TEST_F(COutOfMemory, every_function_returns_out_of_memory) {
  auto file = testing::all_values(std::endian::little);
  testing::write_file(folder_ / "a_name_that_is_too_long_to_fit_into_a_short_string.gguf", file.bytes());
  const std::string gguf = path("a_name_that_is_too_long_to_fit_into_a_short_string.gguf");
  const auto model = small_model();
  const auto tensor = get(model, "w");
  const std::string file_path = path("m.safetensors");
  const char* const paths[] = {gguf.c_str(), file_path.c_str()};
  const auto bytes = testing::read_file(file_path);

  ht_model* opened = nullptr;
  const auto close = [&](ht_status status) {
    if (status == HT_OK) ht_model_free(opened);
    return status;
  };
  run_with_failing_allocations(
      "open", [&](ht_error** e) { return close(ht_model_open(gguf.c_str(), nullptr, &opened, e)); });
  run_with_failing_allocations(
      "merged", [&](ht_error** e) { return close(ht_model_open_merged(paths, 2, nullptr, &opened, e)); });
  int released = 0;
  int calls = 0;
  run_with_failing_allocations("bytes", [&](ht_error** e) {
    ++calls;
    return close(ht_model_open_bytes(
        bytes.data(), bytes.size(), [](void* count) { ++*static_cast<int*>(count); }, &released, nullptr,
        &opened, e));
  });
  EXPECT_EQ(released, calls);

  for (std::size_t i = 0; i < 15; ++i) {
    run_with_failing_allocations("metadata", [&](ht_error** e) {
      const ht_metadata_item* item = nullptr;
      const auto values = Handle<ht_model>([&] {
        ht_model* fresh = nullptr;
        return ht_model_open(gguf.c_str(), nullptr, &fresh, e) == HT_OK ? fresh : nullptr;
      }());
      return values == nullptr ? HT_OUT_OF_MEMORY : ht_model_metadata_at(values.get(), i, &item, e);
    });
  }
  ht_tensor* got = nullptr;
  const auto drop = [&](ht_status status) {
    if (status == HT_OK) ht_tensor_free(got);
    return status;
  };
  run_with_failing_allocations(
      "get", [&](ht_error** e) { return drop(ht_model_get(model.get(), "w", 0, &got, e)); });
  run_with_failing_allocations("at",
                               [&](ht_error** e) { return drop(ht_model_at(model.get(), 1, &got, e)); });
  run_with_failing_allocations(
      "rows", [&](ht_error** e) { return drop(ht_tensor_rows(tensor.get(), 1, 2, &got, e)); });
  const void* data = nullptr;
  run_with_failing_allocations("data",
                               [&](ht_error** e) { return ht_tensor_data(tensor.get(), &data, nullptr, e); });
  std::int64_t strides[2] = {};
  run_with_failing_allocations("strides",
                               [&](ht_error** e) { return ht_tensor_strides(tensor.get(), strides, 2, e); });
  float values[6] = {};
  run_with_failing_allocations(
      "copy_to", [&](ht_error** e) { return ht_tensor_copy_to(tensor.get(), 0, values, 24, e); });
  const ht_slice slices[] = {{0, 2, 1}, {2, -1, -1}};
  run_with_failing_allocations(
      "read", [&](ht_error** e) { return ht_tensor_read_f32(tensor.get(), slices, 2, values, 6, e); });
  double value = 0;
  const std::int64_t index[] = {1, 1};
  run_with_failing_allocations(
      "value", [&](ht_error** e) { return ht_tensor_value(tensor.get(), index, 2, &value, e); });
  auto statistics = sized<ht_statistics>();
  run_with_failing_allocations("statistics", [&](ht_error** e) {
    return ht_tensor_statistics(tensor.get(), nullptr, &statistics, e);
  });
  run_with_failing_allocations("dlpack", [&](ht_error** e) {
    DLManagedTensorVersioned* managed = nullptr;
    const auto status = ht_tensor_to_dlpack_versioned(tensor.get(), HT_ACCESS_COPY, &managed, e);
    if (status == HT_OK) managed->deleter(managed);
    return status;
  });
  run_with_failing_allocations("load", [&](ht_error** e) {
    const ht_loaded* loaded = nullptr;
    const auto status = ht_model_load(model.get(), nullptr, &loaded, e);
    ht_result_free(loaded);
    return status;
  });
  run_with_failing_allocations("stream", [&](ht_error** e) {
    return ht_model_stream(
        model.get(), [](void*, std::size_t, std::uint64_t, const void*, std::size_t) { return 0; }, nullptr,
        nullptr, nullptr, e);
  });
  run_with_failing_allocations("load_into", [&](ht_error** e) {
    return ht_model_load_into(
        model.get(),
        [](void* context, const ht_tensor_info* info) -> void* {
          return info->index == 0 ? context : nullptr;
        },
        values, nullptr, nullptr, e);
  });
  const char* const pattern = "w";
  auto filter = sized<ht_filter>();
  filter.include = &pattern;
  filter.include_count = 1;
  const Handle<ht_cancel> cancel(ht_cancel_create());
  auto work = sized<ht_work>();
  work.progress = [](void*, const ht_progress*) { return 0; };
  work.cancel = cancel.get();
  run_with_failing_allocations(
      "prefetch", [&](ht_error** e) { return ht_model_prefetch(model.get(), &filter, &work, nullptr, e); });
  run_with_failing_allocations(
      "evict", [&](ht_error** e) { return ht_model_evict(model.get(), &filter, nullptr, e); });
  ht_residency where[2] = {};
  run_with_failing_allocations("residency",
                               [&](ht_error** e) { return ht_model_residency(model.get(), 0, 2, where, e); });

  run_with_failing_allocations("seal", [&](ht_error** e) {
    ht_seal* seal = nullptr;
    const auto status = ht_model_seal(model.get(), nullptr, &seal, e);
    ht_seal_free(seal);
    return status;
  });
  run_with_failing_allocations("seal_read", [&](ht_error** e) {
    ht_seal* seal = nullptr;
    const auto status = ht_seal_read(file_path.c_str(), &seal, e);
    ht_seal_free(seal);
    return status;
  });
  run_with_failing_allocations("verify", [&](ht_error** e) {
    const ht_verification* found = nullptr;
    const auto status = ht_verify(file_path.c_str(), nullptr, &found, e);
    ht_result_free(found);
    return status;
  });
  run_with_failing_allocations("model_verify",
                               [&](ht_error** e) { return ht_model_verify(model.get(), nullptr, e); });
  run_with_failing_allocations("tensor_verify",
                               [&](ht_error** e) { return ht_tensor_verify(tensor.get(), e); });
  auto per_tensor = sized<ht_hash_options>();
  per_tensor.per_tensor = 1;
  run_with_failing_allocations("hash", [&](ht_error** e) {
    const ht_hashes* hashes = nullptr;
    const auto status = ht_model_hash(model.get(), &per_tensor, &hashes, e);
    ht_result_free(hashes);
    return status;
  });
  run_with_failing_allocations("validate", [&](ht_error** e) {
    const ht_diagnosis* diagnosis = nullptr;
    const auto status = ht_validate(file_path.c_str(), nullptr, &diagnosis, e);
    ht_result_free(diagnosis);
    return status;
  });

  auto force = sized<ht_convert_options>();
  force.force = 1;
  const std::string target = path("another_name_that_is_too_long_for_a_short_string.gguf");
  run_with_failing_allocations("convert", [&](ht_error** e) {
    const ht_converted* converted = nullptr;
    const auto status = ht_model_convert(model.get(), target.c_str(), &force, &converted, e);
    ht_result_free(converted);
    return status;
  });
  run_with_failing_allocations("diff", [&](ht_error** e) {
    const ht_differences* found = nullptr;
    const auto status = ht_diff(model.get(), model.get(), nullptr, &found, e);
    ht_result_free(found);
    return status;
  });
  const ht_metadata_edit edit{{"key", 0}, nullptr, "a value that is too long for a short string"};
  run_with_failing_allocations("edit", [&](ht_error** e) {
    const ht_edited* edited = nullptr;
    const auto status = ht_edit_metadata(gguf.c_str(), &edit, 1, nullptr, &edited, e);
    ht_result_free(edited);
    return status;
  });
  const std::int64_t columns[] = {1, 2};
  auto strided = dense("strided", HT_F32, two_by_three_, floats_);
  strided.strides = columns;
  auto of_model = sized<ht_tensor_to_save>();
  of_model.name = {"of_model", 0};
  of_model.tensor = tensor.get();
  const ht_tensor_to_save tensors[] = {strided, of_model};
  const ht_metadata_item item{{"key", 0}, {HT_VALUE_U32, HT_VALUE_U8, 0, {7}}};
  auto options = sized<ht_save_options>();
  options.convert = &force;
  options.metadata = &item;
  options.metadata_count = 1;
  run_with_failing_allocations("save", [&](ht_error** e) {
    const ht_converted* converted = nullptr;
    const auto status = ht_save(target.c_str(), tensors, 2, &options, &converted, e);
    ht_result_free(converted);
    return status;
  });
  std::vector<std::byte> memory(1 << 20);
  auto in_memory = sized<ht_convert_options>();
  in_memory.format = "gguf";
  options.convert = &in_memory;
  run_with_failing_allocations("save_to_memory", [&](ht_error** e) {
    return ht_save_to_memory(
        tensors, 2, &options, [](void* context, std::size_t) -> void* { return context; }, memory.data(), e);
  });
  const testing::AllocationLimit none(0);
  EXPECT_EQ(ht_cancel_create(), nullptr);
}

TEST_F(COutOfMemory, describe_does_not_allocate_for_60000_tensors) {
  std::string json = "{";
  for (int i = 0; i < 60'000; ++i) {
    json += (i == 0 ? "\"t" : ",\"t") + std::to_string(i) +
            R"(":{"dtype":"U8","shape":[1,1],"data_offsets":[)" + std::to_string(i) + "," +
            std::to_string(i + 1) + "]}";
  }
  testing::write_file(folder_ / "many.safetensors", testing::safetensors_file(json + "}", 60'000));
  const auto model = open("many.safetensors");
  ASSERT_EQ(ht_model_count(model.get()), 60'000U);
  auto info = sized<ht_tensor_info>();
  std::size_t bad = 0;
  const auto before = testing::allocation_count();
  for (std::size_t i = 0; i < 60'000; ++i) {
    std::size_t found = 0;
    if (ht_model_describe(model.get(), i, &info, nullptr) != HT_OK || info.index != i || info.rank != 2 ||
        ht_model_find(model.get(), info.name.data, 0, &found) != 1 || found != i) {
      ++bad;
    }
  }
  EXPECT_EQ(testing::allocation_count(), before);
  EXPECT_EQ(bad, 0U);
}

}  // namespace
}  // namespace ht::c_out_of_memory_test
