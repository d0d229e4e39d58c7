// Calls each function with a limit of n allocations, for n = 0, 1, 2, …, until it succeeds. Allocations
// beyond the limit fail; the call then returns HT_OUT_OF_MEMORY and leaks nothing. A separate program,
// because it replaces operator new.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>

#include "c/boundary/boundary.hpp"
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
  // Files are in memory if possible: thousands of conversions would wait for fsync.
  static void SetUpTestSuite() {
    if (::access("/dev/shm", W_OK) == 0) ::setenv("TMPDIR", "/dev/shm", 1);
  }

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

  // The same with a limit for all threads together. Returns the number of allocations that failed on threads
  // of the library. Skips some limits above 64, because a call may allocate often and writes files.
  static std::size_t run_with_failures_on_all_threads(const char* name,
                                                      const std::function<ht_status(ht_error**)>& call) {
    std::size_t failures = 0;
    for (int allowed = 0; allowed < 50'000; allowed += 1 + allowed / 64) {
      ht_error* error = nullptr;
      ht_status status = HT_OK;
      {
        const testing::AllocationLimit limit(allowed, testing::AllocationLimit::Threads::all);
        status = call(&error);
        failures += limit.failures_of_other_threads();
      }
      if (status == HT_OK) return failures;
      EXPECT_EQ(status, HT_OUT_OF_MEMORY) << name << ", " << allowed << ": " << ht_error_text(error);
      EXPECT_EQ(ht_error_code(error), status) << name;
      ht_error_free(error);
      if (HasFailure()) return failures;
    }
    ADD_FAILURE() << name << " never succeeds";
    return failures;
  }

  Handle<ht_model> try_open(const std::string& path, ht_error** error) {
    ht_model* model = nullptr;
    return Handle<ht_model>(ht_model_open(path.c_str(), nullptr, &model, error) == HT_OK ? model : nullptr);
  }

  // Two tensors of 4 MiB in 512 rows: "a" and "b", F32.
  std::string large_model() {
    const std::vector<std::int64_t> dims{512, 2048};
    std::vector<float> values(512 * 2048);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000);
    save("large.safetensors", {dense("a", HT_F32, dims, values), dense("b", HT_F32, dims, values)});
    return path("large.safetensors");
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
  ht_tensor* result = nullptr;
  const auto drop = [&](ht_status status) {
    if (status == HT_OK) ht_tensor_free(result);
    return status;
  };
  run_with_failing_allocations(
      "get", [&](ht_error** e) { return drop(ht_model_get(model.get(), "w", 0, &result, e)); });
  run_with_failing_allocations("at",
                               [&](ht_error** e) { return drop(ht_model_at(model.get(), 1, &result, e)); });
  run_with_failing_allocations(
      "rows", [&](ht_error** e) { return drop(ht_tensor_rows(tensor.get(), 1, 2, &result, e)); });
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
    const ht_load_report* loaded = nullptr;
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
    const ht_conversion_report* converted = nullptr;
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
    const ht_edit_report* edited = nullptr;
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
    const ht_conversion_report* converted = nullptr;
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

TEST_F(COutOfMemory, exception_is_reported_without_memory_for_its_text) {
  const std::runtime_error exception("a text that is too long to fit into a short string");
  for (int allowed = 0; allowed < 4; ++allowed) {
    ht_error* error = nullptr;
    ht_status status = HT_OK;
    {
      const testing::AllocationLimit limit(allowed);
      status = c::call(&error, [&]() -> Result<void> { throw exception; });
    }
    EXPECT_EQ(status, HT_INTERNAL);
    EXPECT_EQ(ht_error_code(error), HT_INTERNAL);
    EXPECT_STRNE(ht_error_text(error), "");
    ht_error_free(error);
  }
}

// Each call uses a new model, because a model keeps its mappings and metadata after the first call.
TEST_F(COutOfMemory, first_use_of_a_model_returns_out_of_memory) {
  testing::write_file(folder_ / "all.gguf", testing::all_values(std::endian::little).bytes());
  static_cast<void>(small_model());
  const std::string gguf = path("all.gguf");
  const std::string file = path("m.safetensors");
  run_with_failing_allocations("open_fd", [&](ht_error** e) {
    const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    ht_model* model = nullptr;
    const auto status = ht_model_open_fd(fd, nullptr, &model, e);
    ::close(fd);
    if (status == HT_OK) ht_model_free(model);
    return status;
  });
  const auto keys = open("all.gguf");
  for (std::size_t i = 0; i < ht_model_metadata_count(keys.get()); ++i) {
    const ht_metadata_item* known = nullptr;
    ASSERT_EQ(ht_model_metadata_at(keys.get(), i, &known, failed_.out()), HT_OK) << failed_;
    run_with_failing_allocations("metadata_get", [&](ht_error** e) {
      const auto model = try_open(gguf, e);
      const ht_metadata_item* item = nullptr;
      return model == nullptr
                 ? HT_OUT_OF_MEMORY
                 : ht_model_metadata_get(model.get(), known->key.data, known->key.size, &item, e);
    });
  }
  const auto on_tensor = [&](const char* name, const std::function<ht_status(ht_tensor*, ht_error**)>& call) {
    run_with_failing_allocations(name, [&](ht_error** e) {
      const auto model = try_open(file, e);
      ht_tensor* tensor = nullptr;
      if (model == nullptr || ht_model_get(model.get(), "w", 0, &tensor, e) != HT_OK) return HT_OUT_OF_MEMORY;
      const Handle<ht_tensor> owner(tensor);
      return call(tensor, e);
    });
  };
  on_tensor("private_data", [](ht_tensor* tensor, ht_error** e) {
    void* data = nullptr;
    return ht_tensor_private_data(tensor, &data, nullptr, e);
  });
  on_tensor("read", [](ht_tensor* tensor, ht_error** e) {
    const ht_slice slices[] = {{1, 2, 1}, {0, 3, 2}};
    auto options = sized<ht_read_options>();
    options.type = HT_BF16;
    options.rounding = HT_ROUND_STOCHASTIC;
    options.saturate = 1;
    std::uint16_t values[2] = {};
    return ht_tensor_read(tensor, slices, 2, &options, values, sizeof(values), e);
  });
  for (const auto access : {HT_ACCESS_READ_ONLY, HT_ACCESS_PRIVATE}) {
    on_tensor("to_dlpack", [&](ht_tensor* tensor, ht_error** e) {
      DLManagedTensor* managed = nullptr;
      const auto status = ht_tensor_to_dlpack(tensor, access, &managed, e);
      if (status == HT_OK) managed->deleter(managed);
      return status;
    });
    on_tensor("to_dlpack_versioned", [&](ht_tensor* tensor, ht_error** e) {
      DLManagedTensorVersioned* managed = nullptr;
      const auto status = ht_tensor_to_dlpack_versioned(tensor, access, &managed, e);
      if (status == HT_OK) managed->deleter(managed);
      return status;
    });
  }
  auto read = sized<ht_load_options>();
  read.strategy = HT_STRATEGY_READ;
  run_with_failing_allocations("load", [&](ht_error** e) {
    const auto model = try_open(file, e);
    const ht_load_report* loaded = nullptr;
    const auto status = model == nullptr ? HT_OUT_OF_MEMORY : ht_model_load(model.get(), &read, &loaded, e);
    ht_result_free(loaded);
    return status;
  });
}

TEST_F(COutOfMemory, from_dlpack_returns_out_of_memory) {
  const auto tensor = get(small_model(), "w");
  DLManagedTensor* unversioned = nullptr;
  DLManagedTensorVersioned* versioned = nullptr;
  ASSERT_EQ(ht_tensor_to_dlpack(tensor.get(), HT_ACCESS_COPY, &unversioned, failed_.out()), HT_OK) << failed_;
  ASSERT_EQ(ht_tensor_to_dlpack_versioned(tensor.get(), HT_ACCESS_COPY, &versioned, failed_.out()), HT_OK)
      << failed_;
  auto described = sized<ht_tensor_to_save>();
  run_with_failing_allocations("from_dlpack",
                               [&](ht_error** e) { return ht_from_dlpack(unversioned, &described, e); });
  run_with_failing_allocations("from_dlpack_versioned", [&](ht_error** e) {
    return ht_from_dlpack_versioned(versioned, &described, e);
  });
  // For a version that ht_from_dlpack_versioned refuses, the allocation of the error fails, too.
  versioned->major = 9;
  for (int allowed = 0; allowed < 20; ++allowed) {
    ht_error* error = nullptr;
    ht_status status = HT_OK;
    {
      const testing::AllocationLimit limit(allowed);
      status = ht_from_dlpack_versioned(versioned, &described, &error);
    }
    EXPECT_TRUE(status == HT_OUT_OF_MEMORY || status == HT_BAD_VERSION) << ht_error_text(error);
    EXPECT_EQ(ht_error_code(error), status);
    ht_error_free(error);
  }
  versioned->major = 1;
  unversioned->deleter(unversioned);
  versioned->deleter(versioned);
}

TEST_F(COutOfMemory, conversions_with_seal_shards_and_quantization_return_out_of_memory) {
  const std::vector<std::int64_t> dims{2, 32};
  const std::vector<float> values(64, 0.5F);
  save("source.safetensors", {dense("v", HT_F32, dims, values), dense("w", HT_F32, dims, values)});
  const auto model = open("source.safetensors");
  const auto convert = [&](const char* name, const std::string& target, const ht_convert_options& options) {
    run_with_failing_allocations(name, [&](ht_error** e) {
      const ht_conversion_report* converted = nullptr;
      const auto status = ht_model_convert(model.get(), target.c_str(), &options, &converted, e);
      ht_result_free(converted);
      return status;
    });
  };
  auto options = sized<ht_convert_options>();
  options.force = 1;
  options.seal = 1;
  convert("sealed", path("sealed.irpa"), options);
  options.shard_bytes = 256;
  convert("sharded", path("sharded.safetensors"), options);
  const ht_type_rule rule{"w", HT_Q8_0};
  options = sized<ht_convert_options>();
  options.force = 1;
  options.types = &rule;
  options.type_count = 1;
  options.round = 1;
  convert("quantized", path("quantized.gguf"), options);
  EXPECT_TRUE(std::filesystem::exists(path("sealed.irpa.htseal")));
  EXPECT_EQ(describe(get(open("quantized.gguf"), "w")).type, HT_Q8_0);
  for (const auto& entry : std::filesystem::directory_iterator(path(""))) {
    EXPECT_EQ(entry.path().filename().string().find(".part"), std::string::npos) << entry.path();
  }
}

// With a progress callback, the threads of the library do the work while the calling thread waits.
TEST_F(COutOfMemory, failures_on_threads_of_the_library_return_out_of_memory) {
  const std::string file = large_model();
  const auto model = open("large.safetensors");
  const auto tensor = get(model, "a");
  auto work = sized<ht_work>();
  work.progress = [](void*, const ht_progress*) { return 0; };
  std::map<std::string, std::size_t> failures;
  const auto run = [&](const char* name, const std::function<ht_status(ht_error**)>& call) {
    failures[name] = run_with_failures_on_all_threads(name, call);
  };
  auto statistics = sized<ht_statistics>();
  run("statistics", [&](ht_error** e) { return ht_tensor_statistics(tensor.get(), &work, &statistics, e); });
  auto read = sized<ht_read_options>();
  read.type = HT_F16;
  read.rounding = HT_ROUND_NEAREST_EVEN;
  read.work = &work;
  std::vector<std::uint16_t> values(512 * 2048);
  run("read", [&](ht_error** e) {
    return ht_tensor_read(tensor.get(), nullptr, 0, &read, values.data(), values.size() * 2, e);
  });
  auto hash = sized<ht_hash_options>();
  hash.per_tensor = 1;
  hash.work = &work;
  run("hash", [&](ht_error** e) {
    const ht_hashes* hashes = nullptr;
    const auto status = ht_model_hash(model.get(), &hash, &hashes, e);
    ht_result_free(hashes);
    return status;
  });
  auto seal = sized<ht_hash_options>();
  seal.work = &work;
  run("seal", [&](ht_error** e) { return ht_model_seal(model.get(), &seal, nullptr, e); });
  auto verify = sized<ht_verify_options>();
  verify.work = &work;
  run("verify", [&](ht_error** e) {
    const ht_verification* found = nullptr;
    const auto status = ht_verify(file.c_str(), &verify, &found, e);
    if (status == HT_OK) {
      EXPECT_TRUE(found->ok);
    }
    ht_result_free(found);
    return status;
  });
  auto load = sized<ht_load_options>();
  load.work = &work;
  load.verify = 1;
  for (const auto strategy : {HT_STRATEGY_MAPPED, HT_STRATEGY_READ}) {
    load.strategy = strategy;
    run(strategy == HT_STRATEGY_MAPPED ? "load_mapped" : "load_read", [&](ht_error** e) {
      const auto fresh = try_open(file, e);
      return fresh == nullptr ? HT_OUT_OF_MEMORY : ht_model_load(fresh.get(), &load, nullptr, e);
    });
  }
  load.strategy = HT_STRATEGY_EXTERNAL;
  std::vector<float> memory(2 * 512 * 2048);
  run("load_into", [&](ht_error** e) {
    return ht_model_load_into(
        model.get(),
        [](void* context, const ht_tensor_info* info) -> void* {
          return static_cast<float*>(context) + info->index * 512 * 2048;
        },
        memory.data(), &load, nullptr, e);
  });
  auto diff = sized<ht_diff_options>();
  diff.compare_values = 1;
  diff.work = &work;
  const auto other = open("large.safetensors");
  run("diff", [&](ht_error** e) {
    const ht_differences* found = nullptr;
    const auto status = ht_diff(model.get(), other.get(), &diff, &found, e);
    ht_result_free(found);
    return status;
  });
  const ht_type_rule rule{"*", HT_Q8_0};
  auto options = sized<ht_convert_options>();
  options.force = 1;
  options.seal = 1;
  options.types = &rule;
  options.type_count = 1;
  options.round = 1;
  options.work = &work;
  const std::string target = path("quantized.gguf");
  run("convert",
      [&](ht_error** e) { return ht_model_convert(model.get(), target.c_str(), &options, nullptr, e); });
  std::size_t all = 0;
  for (const auto& [name, count] : failures) {
    RecordProperty(name, static_cast<int>(count));
    all += count;
  }
  EXPECT_GT(all, 0U) << "no thread of the library allocated";
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
