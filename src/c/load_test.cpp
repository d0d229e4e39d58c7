#include <unistd.h>

#include <latch>
#include <thread>

#include "c/c_test.hpp"

namespace ht::c_load_test {
namespace {

using testing::Handle;
using testing::sized;

class CLoad : public testing::CApi {
 protected:
  Handle<const ht_load_report> load(const Handle<ht_model>& model, const ht_load_options& options) {
    const ht_load_report* loaded = nullptr;
    EXPECT_EQ(ht_model_load(model.get(), &options, &loaded, failed_.out()), HT_OK) << failed_;
    return Handle<const ht_load_report>(loaded);
  }
};

TEST_F(CLoad, read_moves_tensors_into_memory_and_evict_drops_them) {
  const auto model = small_model();
  auto options = sized<ht_load_options>();
  options.strategy = HT_STRATEGY_READ;
  const auto loaded = load(model, options);
  EXPECT_EQ(loaded->strategy, HT_STRATEGY_READ);
  EXPECT_EQ(loaded->bytes, 40U);
  EXPECT_EQ(loaded->requested_bytes, 40U);
  EXPECT_STRNE(loaded->code, "");
  EXPECT_STRNE(loaded->reason, "");
  ht_residency where[2] = {};
  ASSERT_EQ(ht_model_residency(model.get(), 0, 2, where, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(where[0].residence, HT_RESIDENCE_RESIDENT);
  EXPECT_EQ(where[0].resident_bytes, 24U);
  const auto in_use = get(model, "w");
  EXPECT_EQ(ht_model_evict(model.get(), nullptr, nullptr, failed_.out()), HT_IN_USE);
  ASSERT_EQ(ht_model_residency(model.get(), 1, 1, where, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(where[0].residence, HT_RESIDENCE_EVICTED);
  EXPECT_EQ(where[0].bytes, 16U);
}

TEST_F(CLoad, filter_selects_tensors) {
  const auto model = small_model();
  const char* const include[] = {"[a-w]"};
  const char* const exclude[] = {"n"};
  auto filter = sized<ht_filter>();
  filter.include = include;
  filter.include_count = 1;
  filter.exclude = exclude;
  filter.exclude_count = 1;
  auto options = sized<ht_load_options>();
  options.filter = &filter;
  EXPECT_EQ(load(model, options)->bytes, 24U);
  std::uint64_t bytes = 0;
  ASSERT_EQ(ht_model_prefetch(model.get(), &filter, nullptr, &bytes, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(bytes, 24U);
  const char* const none[] = {"nothing"};
  filter.include = none;
  EXPECT_EQ(ht_model_prefetch(model.get(), &filter, nullptr, &bytes, failed_.out()), HT_NOT_FOUND);
  const char* const malformed[] = {"[a"};
  filter.include = malformed;
  EXPECT_EQ(ht_model_prefetch(model.get(), &filter, nullptr, &bytes, failed_.out()), HT_BAD_STATE);
  filter.include = nullptr;
  EXPECT_EQ(ht_model_prefetch(model.get(), &filter, nullptr, &bytes, failed_.out()), HT_BAD_STATE);
}

TEST_F(CLoad, budget_limits_the_load) {
  const auto model = small_model();
  auto options = sized<ht_load_options>();
  options.strategy = HT_STRATEGY_READ;
  options.budget_bytes = 8;
  EXPECT_EQ(ht_model_load(model.get(), &options, nullptr, failed_.out()), HT_BUDGET_TOO_SMALL);
  options.strategy = HT_STRATEGY_STAGED;
  EXPECT_EQ(ht_model_load(model.get(), &options, nullptr, failed_.out()), HT_UNSUPPORTED_STRATEGY);
}

TEST_F(CLoad, verify_needs_a_seal) {
  const auto model = small_model();
  auto options = sized<ht_load_options>();
  options.verify = 1;
  EXPECT_EQ(ht_model_load(model.get(), &options, nullptr, failed_.out()), HT_NOT_SEALED);
  ASSERT_EQ(ht_model_seal(model.get(), nullptr, nullptr, failed_.out()), HT_OK) << failed_;
  EXPECT_GE(load(model, options)->verified_bytes, 40U);
}

TEST_F(CLoad, progress_is_reported_on_the_thread_of_the_call) {
  const auto model = small_model();
  struct Seen {
    std::thread::id thread = std::this_thread::get_id();
    int calls = 0;
    ht_progress last{};
  } seen;
  auto work = sized<ht_work>();
  work.context = &seen;
  work.progress = [](void* context, const ht_progress* progress) {
    auto& all = *static_cast<Seen*>(context);
    EXPECT_EQ(all.thread, std::this_thread::get_id());
    ++all.calls;
    all.last = *progress;
    return 0;
  };
  auto options = sized<ht_load_options>();
  options.work = &work;
  load(model, options);
  EXPECT_GT(seen.calls, 0);
  EXPECT_EQ(seen.last.size, sizeof(ht_progress));
  EXPECT_EQ(seen.last.done_bytes, 40U);
  EXPECT_EQ(seen.last.total_bytes, 40U);
}

TEST_F(CLoad, progress_of_a_verified_load_is_reported_on_the_thread_of_the_call) {
  const std::vector<std::int64_t> dims{8 << 20};
  const std::vector<std::uint8_t> data(8 << 20);
  save("large.safetensors", {testing::dense("t", HT_U8, dims, data)});
  const auto model = open("large.safetensors");
  ASSERT_EQ(ht_model_seal(model.get(), nullptr, nullptr, failed_.out()), HT_OK) << failed_;
  auto caller = std::this_thread::get_id();
  auto work = sized<ht_work>();
  work.context = &caller;
  work.progress = [](void* context, const ht_progress*) {
    EXPECT_EQ(*static_cast<std::thread::id*>(context), std::this_thread::get_id());
    return 0;
  };
  auto options = sized<ht_load_options>();
  options.strategy = HT_STRATEGY_MAPPED;
  options.verify = 1;
  options.work = &work;
  for (const bool cold : {false, true}) {
    if (cold) {
      ::sync();  // dirty pages cannot leave the page cache
      ASSERT_EQ(ht_model_evict(model.get(), nullptr, nullptr, failed_.out()), HT_OK) << failed_;
    }
    EXPECT_EQ(load(model, options)->verified_bytes, 8U << 20);
  }
}

TEST_F(CLoad, progress_cancels_a_verification_and_a_copy_of_one_tensor) {
  const std::vector<std::int64_t> dims{64 << 20};
  const std::vector<std::uint8_t> data(64 << 20);
  save("large.safetensors", {testing::dense("t", HT_U8, dims, data)});
  const auto model = open("large.safetensors");
  ASSERT_EQ(ht_model_seal(model.get(), nullptr, nullptr, failed_.out()), HT_OK) << failed_;
  const auto tensor = get(model, "t");
  auto work = sized<ht_work>();
  EXPECT_EQ(ht_tensor_verify_with_work(tensor.get(), &work, failed_.out()), HT_OK) << failed_;
  work.progress = [](void*, const ht_progress*) { return 1; };
  EXPECT_EQ(ht_tensor_verify_with_work(tensor.get(), &work, failed_.out()), HT_CANCELLED);
  DLManagedTensor* managed = nullptr;
  EXPECT_EQ(ht_tensor_copy_to_dlpack(tensor.get(), &work, &managed, failed_.out()), HT_CANCELLED);
  DLManagedTensorVersioned* versioned = nullptr;
  EXPECT_EQ(ht_tensor_copy_to_dlpack_versioned(tensor.get(), &work, &versioned, failed_.out()), HT_CANCELLED);
  EXPECT_EQ(managed, nullptr);
  EXPECT_EQ(versioned, nullptr);
}

TEST_F(CLoad, progress_cancels_a_conversion_and_leaves_no_file) {
  const std::vector<std::int64_t> dims{8 << 20};
  const std::vector<std::uint8_t> data(8 << 20);
  save("large.safetensors", {testing::dense("t", HT_U8, dims, data)});
  const auto model = open("large.safetensors");
  auto work = sized<ht_work>();
  work.progress = [](void*, const ht_progress*) { return 1; };
  auto cast = sized<ht_convert_options>();
  const ht_type_rule rule{"t", HT_F32};
  cast.types = &rule;
  cast.type_count = 1;
  cast.work = &work;
  EXPECT_EQ(ht_model_convert(model.get(), path("out.gguf").c_str(), &cast, nullptr, failed_.out()),
            HT_CANCELLED);
  EXPECT_FALSE(std::filesystem::exists(path("out.gguf")));
}

TEST_F(CLoad, cancel_request_ends_all_later_calls) {
  const auto model = small_model();
  const Handle<ht_cancel> cancel(ht_cancel_create());
  auto work = sized<ht_work>();
  work.cancel = cancel.get();
  auto options = sized<ht_load_options>();
  options.strategy = HT_STRATEGY_READ;
  options.work = &work;
  load(model, options);
  ht_cancel_request(cancel.get());
  const auto other = open("m.safetensors");
  EXPECT_EQ(ht_model_load(other.get(), &options, nullptr, failed_.out()), HT_CANCELLED);
  work.progress = [](void*, const ht_progress*) { return 0; };
  EXPECT_EQ(ht_model_load(other.get(), &options, nullptr, failed_.out()), HT_CANCELLED);
}

TEST_F(CLoad, cancel_request_ends_all_current_calls) {
  const std::vector<std::int64_t> dims{16 << 20};
  const std::vector<std::uint8_t> data(16 << 20);
  save("large.safetensors", {testing::dense("t", HT_U8, dims, data)});
  const auto model = open("large.safetensors");
  const Handle<ht_cancel> cancel(ht_cancel_create());
  // Each call is in its first callback when the request is made, with most bytes still to pass.
  struct Calls {
    std::latch in_progress{2};
    std::latch requested{1};
  } calls;
  const auto consume = [](void* context, std::size_t, std::uint64_t offset, const void*, std::size_t) {
    if (offset != 0) return 0;
    static_cast<Calls*>(context)->in_progress.count_down();
    static_cast<Calls*>(context)->requested.wait();
    return 0;
  };
  ht_status statuses[2] = {};
  const auto stream = [&](ht_strategy strategy, auto progress, ht_status& status) {
    auto work = sized<ht_work>();
    work.cancel = cancel.get();
    work.progress = progress;
    auto options = sized<ht_load_options>();
    options.strategy = strategy;
    options.chunk_bytes = 1 << 20;
    options.work = &work;
    status = ht_model_stream(model.get(), consume, &calls, &options, nullptr, nullptr);
  };
  const auto progress = [](void*, const ht_progress*) { return 0; };
  std::thread mapped([&] { stream(HT_STRATEGY_MAPPED, progress, statuses[0]); });
  std::thread staged([&] { stream(HT_STRATEGY_STAGED, nullptr, statuses[1]); });
  calls.in_progress.wait();
  ht_cancel_request(cancel.get());
  calls.requested.count_down();
  mapped.join();
  staged.join();
  EXPECT_EQ(statuses[0], HT_CANCELLED);
  EXPECT_EQ(statuses[1], HT_CANCELLED);
}

TEST_F(CLoad, cancel_may_be_requested_on_another_thread_while_a_callback_runs) {
  const auto model = small_model();
  const Handle<ht_cancel> cancel(ht_cancel_create());
  auto work = sized<ht_work>();
  work.cancel = cancel.get();
  work.context = cancel.get();
  work.progress = [](void* context, const ht_progress*) {
    std::thread([&] { ht_cancel_request(static_cast<ht_cancel*>(context)); }).join();
    return 0;
  };
  auto options = sized<ht_load_options>();
  options.work = &work;
  const auto status = ht_model_load(model.get(), &options, nullptr, failed_.out());
  EXPECT_TRUE(status == HT_OK || status == HT_CANCELLED) << failed_;
  EXPECT_EQ(ht_model_load(model.get(), &options, nullptr, failed_.out()), HT_CANCELLED);
}

TEST_F(CLoad, stream_passes_every_byte) {
  const auto model = small_model();
  struct Seen {
    std::vector<std::byte> bytes[2];
  } seen;
  const auto consume = [](void* context, std::size_t index, std::uint64_t offset, const void* data,
                          std::size_t bytes) {
    auto& into = static_cast<Seen*>(context)->bytes[index];
    EXPECT_EQ(offset, into.size());
    const auto* const from = static_cast<const std::byte*>(data);
    into.insert(into.end(), from, from + bytes);
    return 0;
  };
  const ht_load_report* loaded = nullptr;
  ASSERT_EQ(ht_model_stream(model.get(), consume, &seen, nullptr, &loaded, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(loaded->bytes, 40U);
  ht_result_free(loaded);
  EXPECT_EQ(std::memcmp(seen.bytes[0].data(), floats_.data(), 24), 0);
  EXPECT_EQ(std::memcmp(seen.bytes[1].data(), longs_.data(), 16), 0);
}

TEST_F(CLoad, consumer_continues_the_stream) {
  const auto model = small_model();
  const auto stop = [](void*, std::size_t, std::uint64_t, const void*, std::size_t) { return 1; };
  EXPECT_EQ(ht_model_stream(model.get(), stop, nullptr, nullptr, nullptr, failed_.out()), HT_CANCELLED);
  EXPECT_EQ(failed_.rule(), "consumer_continues_the_stream");
}

TEST_F(CLoad, load_into_fills_the_memory_of_the_caller) {
  const auto model = small_model();
  std::int64_t numbers[2] = {};
  const auto place = [](void* context, const ht_tensor_info* info) -> void* {
    EXPECT_EQ(info->byte_size, info->index == 0 ? 24U : 16U);
    return std::string_view(info->name.data) == "n" ? context : nullptr;
  };
  const ht_load_report* loaded = nullptr;
  ASSERT_EQ(ht_model_load_into(model.get(), place, numbers, nullptr, &loaded, failed_.out()), HT_OK)
      << failed_;
  const Handle<const ht_load_report> owner(loaded);
  EXPECT_EQ(loaded->bytes, 16U);
  EXPECT_EQ(numbers[1], longs_[1]);
  const auto overlap = [](void* context, const ht_tensor_info*) -> void* { return context; };
  std::byte memory[64];
  EXPECT_EQ(ht_model_load_into(model.get(), overlap, memory, nullptr, nullptr, failed_.out()), HT_OVERLAP);
  const char* const none[] = {"none"};
  auto filter = sized<ht_filter>();
  filter.include = none;
  filter.include_count = 1;
  auto options = sized<ht_load_options>();
  options.filter = &filter;
  EXPECT_EQ(ht_model_load_into(model.get(), place, numbers, &options, nullptr, failed_.out()), HT_NOT_FOUND);
}

TEST_F(CLoad, tensors_are_within_the_model) {
  const auto model = small_model();
  ht_residency where[3] = {};
  EXPECT_EQ(ht_model_residency(model.get(), 1, 2, where, failed_.out()), HT_OUT_OF_BOUNDS);
  EXPECT_EQ(failed_.rule(), "tensors_are_within_the_model");
  EXPECT_EQ(ht_model_residency(model.get(), 3, SIZE_MAX, where, failed_.out()), HT_OUT_OF_BOUNDS);
  EXPECT_EQ(ht_model_residency(model.get(), 2, 0, nullptr, failed_.out()), HT_OK);
}

}  // namespace
}  // namespace ht::c_load_test
