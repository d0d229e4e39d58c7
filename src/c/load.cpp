#include <htensor/load/load.hpp>

#include <chrono>
#include <string>
#include <utility>

#include "c/boundary/boundary.hpp"
#include "c/boundary/handles.hpp"
#include "c/boundary/options.hpp"

namespace ht::c {
namespace {

Result<LoadOptions> load_options(const ht_load_options* given, Work& work) {
  const auto read = HT_TRY(read_struct(given, "options"));
  HT_TRY(check_choice(read.strategy, HT_STRATEGY_EXTERNAL, "strategy"));
  LoadOptions options;
  options.strategy = static_cast<io::Strategy::Kind>(read.strategy);
  options.filter = HT_TRY(name_filter(read.filter));
  options.budget_bytes = read.budget_bytes;
  if (read.chunks != 0) options.chunks = read.chunks;
  if (read.chunk_bytes != 0) options.chunk_bytes = read.chunk_bytes;
  options.verify = read.verify != 0;
  options.drop_after = read.drop_after != 0;
  options.work = HT_TRY(work.start(read.work));
  return options;
}

void set_loaded(const LoadReport& loaded, const ht_load_report** out) {
  if (out == nullptr) return;
  ResultOf<ht_load_report> result;
  result->strategy = static_cast<ht_strategy>(loaded.choice.strategy);
  result->code = result.memory().c_text(loaded.choice.code);
  result->reason = result.memory().c_text(loaded.choice.reason);
  result->requested_bytes = loaded.requested_bytes;
  result->bytes = loaded.bytes;
  result->resident_bytes = loaded.resident_bytes;
  result->cached_bytes = loaded.cached_bytes.value_or(UINT64_MAX);
  result->streamed_bytes = loaded.streamed_bytes;
  result->direct_bytes = loaded.direct_bytes;
  result->verified_bytes = loaded.verified_bytes;
  result->peak_memory_bytes = loaded.peak_memory_bytes.value_or(UINT64_MAX);
  result->seconds = std::chrono::duration<double>(loaded.elapsed).count();
  *out = std::move(result).release();
}

}  // namespace
}  // namespace ht::c

using ht::ErrorCode;
using ht::fail;
using ht::Result;
using ht::c::call;
using ht::c::require;

ht_status ht_model_load(const ht_model* model, const ht_load_options* options, const ht_load_report** loaded,
                        ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(model != nullptr, "model"));
    ht::c::Work work;
    const auto load_options = HT_TRY(ht::c::load_options(options, work));
    ht::c::set_loaded(HT_TRY(ht::load(model->model, load_options)), loaded);
    return {};
  });
}

ht_status ht_model_stream(const ht_model* model,
                          int (*consume)(void* context, size_t index, uint64_t offset, const void* data,
                                         size_t bytes),
                          void* context, const ht_load_options* options, const ht_load_report** loaded,
                          ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(model != nullptr, "model"));
    HT_TRY(require(consume != nullptr, "consume"));
    ht::c::Work work;
    const auto load_options = HT_TRY(ht::c::load_options(options, work));
    const ht::PieceConsumer pass = [&](const ht::TensorPiece& piece) -> Result<void> {
      if (consume(context, piece.index, piece.offset, piece.bytes.data(), piece.bytes.size()) == 0) return {};
      return fail(ErrorCode::cancelled, "consumer_continues_the_stream", "stopped by the consumer");
    };
    ht::c::set_loaded(HT_TRY(ht::stream(model->model, pass, load_options)), loaded);
    return {};
  });
}

ht_status ht_model_load_into(const ht_model* model, void* (*place)(void* context, const ht_tensor_info* info),
                             void* context, const ht_load_options* options, const ht_load_report** loaded,
                             ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(model != nullptr, "model"));
    HT_TRY(require(place != nullptr, "place"));
    ht::c::Work work;
    const auto load_options = HT_TRY(ht::c::load_options(options, work));
    const ht::PlaceTensor choose = [&](const ht::AnyTensor& tensor) {
      const auto index = model->model.find(tensor.name()).value_or(0);
      const auto info = ht::c::describe_entry(model->model, index);
      auto* const memory = static_cast<std::byte*>(place(context, &info));
      return ht::MutableBytes(memory, memory == nullptr ? 0 : static_cast<std::size_t>(info.byte_size));
    };
    ht::c::set_loaded(HT_TRY(ht::load_into(model->model, choose, load_options)), loaded);
    return {};
  });
}

ht_status ht_model_prefetch(const ht_model* model, const ht_filter* filter, const ht_work* work,
                            uint64_t* bytes, ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(model != nullptr, "model"));
    const auto names = HT_TRY(ht::c::name_filter(filter));
    ht::c::Work running;
    const auto work_options = HT_TRY(running.start(work));
    const auto done = HT_TRY(ht::prefetch(model->model, names, work_options));
    if (bytes != nullptr) *bytes = done;
    return {};
  });
}

ht_status ht_model_evict(const ht_model* model, const ht_filter* filter, uint64_t* bytes, ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(model != nullptr, "model"));
    const auto names = HT_TRY(ht::c::name_filter(filter));
    const auto done = HT_TRY(ht::evict(model->model, names));
    if (bytes != nullptr) *bytes = done;
    return {};
  });
}

ht_status ht_model_residency(const ht_model* model, size_t first, size_t count, ht_residency* residency,
                             ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(model != nullptr, "model"));
    HT_TRY(require(residency != nullptr || count == 0, "residency"));
    const std::size_t size = model->model.size();
    if (first > size || count > size - first) {
      return fail(ErrorCode::out_of_bounds, "tensors_are_within_the_model",
                  "the model has " + std::to_string(size) + " tensors, and " + std::to_string(count) +
                      " tensors from index " + std::to_string(first) + " on were requested");
    }
    const auto found = HT_TRY(ht::residency(model->model, first, count));
    for (std::size_t i = 0; i < found.size(); ++i) {
      residency[i] = {.residence = static_cast<ht_residence>(found[i].residence),
                      .bytes = found[i].bytes,
                      .cached_bytes = found[i].cached_bytes.value_or(UINT64_MAX),
                      .resident_bytes = found[i].resident_bytes};
    }
    return {};
  });
}
