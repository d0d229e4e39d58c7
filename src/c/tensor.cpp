#include <htensor/tensor/shape.hpp>
#include <htensor/values/statistics.hpp>
#include <mutex>
#include <string>
#include <utility>

#include "c/boundary/boundary.hpp"
#include "c/boundary/handles.hpp"
#include "c/boundary/options.hpp"

namespace ht::c {
namespace {

Result<void> check_rank(const ht_tensor& tensor, std::size_t rank) {
  const std::size_t own = tensor.tensor.dims().size();
  if (rank == own) return {};
  return fail(Error(ErrorCode::shape_mismatch, "argument_has_the_rank_of_the_tensor",
                    "tensor '" + std::string(tensor.tensor.name()) + "' has " + std::to_string(own) +
                        " dimensions but the argument has " + std::to_string(rank))
                  .at_tensor(tensor.tensor.name()));
}

ht_tensor_info describe_tensor(const ht_tensor& tensor) noexcept {
  ht_tensor_info info = describe_entry(tensor.model, tensor.index);
  info.dims = tensor.tensor.dims().data();
  info.byte_size = tensor.tensor.byte_size();
  info.offset = tensor.tensor.offset();
  return info;
}

Result<void> read_elements(const ht_tensor& tensor, const ht_slice* slices, std::size_t slice_count,
                           const AnyTensor::ReadOptions& options, void* out, std::size_t bytes) {
  HT_TRY(require(out != nullptr || bytes == 0, "out"));
  const MutableBytes into(static_cast<std::byte*>(out), bytes);
  if (slices == nullptr) return tensor.tensor.read(into, {}, options);
  HT_TRY(check_rank(tensor, slice_count));
  std::vector<AnyTensor::Slice> selected;
  selected.reserve(slice_count);
  for (const auto& slice : std::span(slices, slice_count))
    selected.push_back({slice.start, slice.stop, slice.step == 0 ? 1 : slice.step});
  return tensor.tensor.read(into, selected, options);
}

// Reads the selected elements as values of the floating-point dtype D.
template <class D>
ht_status read_values(const ht_tensor* tensor, const ht_slice* slices, std::size_t slice_count,
                      typename D::Element* out, std::size_t count, ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(tensor != nullptr, "tensor"));
    AnyTensor::ReadOptions options{.dtype = D::tag};
    const DTypeTag stored = tensor->tensor.type().dtype;
    if (D::tag == F64::tag && (stored == I64::tag || stored == U64::tag)) options.rounding = Rounding{};
    const auto bytes = checked::multiply(count, sizeof(typename D::Element));
    return read_elements(*tensor, slices, slice_count, options, out, bytes.value_or(SIZE_MAX));
  });
}

}  // namespace
}  // namespace ht::c

using ht::Error;
using ht::ErrorCode;
using ht::fail;
using ht::Result;
using ht::c::call;
using ht::c::require;

ht_status ht_tensor_rows(const ht_tensor* tensor, int64_t begin, int64_t end, ht_tensor** rows,
                         ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(tensor != nullptr, "tensor"));
    HT_TRY(require(rows != nullptr, "rows"));
    auto slice = HT_TRY(tensor->tensor.slice(begin, end));
    *rows = new ht_tensor{tensor->model, std::move(slice), tensor->index};
    return {};
  });
}

void ht_tensor_free(ht_tensor* tensor) { delete tensor; }

ht_status ht_tensor_describe(const ht_tensor* tensor, ht_tensor_info* info, ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(tensor != nullptr, "tensor"));
    HT_TRY(ht::c::check_output(info, "info"));
    ht::c::write_struct(info, ht::c::describe_tensor(*tensor));
    return {};
  });
}

ht_status ht_tensor_strides(const ht_tensor* tensor, int64_t* strides, size_t rank, ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(tensor != nullptr, "tensor"));
    HT_TRY(require(strides != nullptr || rank == 0, "strides"));
    if (!tensor->tensor.type().is_dense()) {
      return fail(
          Error(ErrorCode::unsupported_encoding, "tensor_with_strides_is_dense",
                "tensor '" + std::string(tensor->tensor.name()) + "' has no strides, as it is not dense")
              .at_tensor(tensor->tensor.name()));
    }
    HT_TRY(ht::c::check_rank(*tensor, rank));
    const auto own = HT_TRY(tensor->tensor.strides());
    std::ranges::copy(own, strides);
    return {};
  });
}

ht_status ht_tensor_data(const ht_tensor* tensor, const void** data, size_t* bytes, ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(tensor != nullptr, "tensor"));
    HT_TRY(require(data != nullptr, "data"));
    const ht::Bytes stored = HT_TRY(tensor->tensor.bytes());
    *data = stored.data();
    if (bytes != nullptr) *bytes = stored.size();
    return {};
  });
}

ht_status ht_tensor_private_data(const ht_tensor* tensor, void** data, size_t* bytes, ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(tensor != nullptr, "tensor"));
    HT_TRY(require(data != nullptr, "data"));
    const auto storage = HT_TRY(tensor->tensor.private_storage());
    const auto pages = HT_TRY(storage.writable_bytes());
    const std::lock_guard lock(tensor->mutex);
    tensor->private_pages = storage;
    *data = pages.data();
    if (bytes != nullptr) *bytes = pages.size();
    return {};
  });
}

ht_status ht_tensor_copy_to(const ht_tensor* tensor, uint64_t begin, void* out, size_t bytes,
                            ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(tensor != nullptr, "tensor"));
    HT_TRY(require(out != nullptr || bytes == 0, "out"));
    return tensor->tensor.copy_to(ht::MutableBytes(static_cast<std::byte*>(out), bytes), begin);
  });
}

ht_status ht_tensor_read(const ht_tensor* tensor, const ht_slice* slices, size_t slice_count,
                         const ht_read_options* options, void* out, size_t bytes, ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(tensor != nullptr, "tensor"));
    const auto read = HT_TRY(ht::c::read_struct(options, "options"));
    ht::AnyTensor::ReadOptions read_options;
    const auto stored = tensor->tensor.type();
    if (read.type != HT_TYPE_UNKNOWN && read.type != ht::c::c_type(stored.dtype, stored.encoding))
      read_options.dtype = HT_TRY(ht::c::known_dtype(read.type, "type"));
    const auto rounding = HT_TRY(ht::c::rounding(read.rounding, read.saturate, read.seed));
    if (read.rounding != HT_ROUND_NONE) read_options.rounding = rounding;
    read_options.unpack = read.unpack != 0;
    ht::c::Work work;
    read_options.work = HT_TRY(work.start(read.work));
    return ht::c::read_elements(*tensor, slices, slice_count, read_options, out, bytes);
  });
}

ht_status ht_tensor_read_f32(const ht_tensor* tensor, const ht_slice* slices, size_t slice_count, float* out,
                             size_t count, ht_error** error) {
  return ht::c::read_values<ht::F32>(tensor, slices, slice_count, out, count, error);
}

ht_status ht_tensor_read_f64(const ht_tensor* tensor, const ht_slice* slices, size_t slice_count, double* out,
                             size_t count, ht_error** error) {
  return ht::c::read_values<ht::F64>(tensor, slices, slice_count, out, count, error);
}

ht_status ht_tensor_value(const ht_tensor* tensor, const int64_t* index, size_t rank, double* value,
                          ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(tensor != nullptr, "tensor"));
    HT_TRY(require(index != nullptr || rank == 0, "index"));
    HT_TRY(require(value != nullptr, "value"));
    HT_TRY(ht::c::check_rank(*tensor, rank));
    const auto dims = tensor->tensor.dims();
    HT_TRY(ht::layout::check_index({index, rank}, dims));
    std::int64_t position = 0;
    for (std::size_t i = 0; i < rank; ++i) position = position * dims[i] + index[i];
    double read = 0;
    HT_TRY(tensor->tensor.read_values({&read, 1}, position));
    *value = read;
    return {};
  });
}

ht_status ht_tensor_statistics(const ht_tensor* tensor, const ht_work* work, ht_statistics* statistics,
                               ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(tensor != nullptr, "tensor"));
    HT_TRY(ht::c::check_output(statistics, "statistics"));
    ht::c::Work running;
    const auto work_options = HT_TRY(running.start(work));
    const auto found = HT_TRY(ht::statistics(tensor->tensor, work_options));
    ht::c::write_struct(statistics, {.size = sizeof(ht_statistics),
                                     .count = found.count,
                                     .zeros = found.zeros,
                                     .subnormals = found.subnormals,
                                     .nans = found.nans,
                                     .infinities = found.infinities,
                                     .min = found.min,
                                     .max = found.max,
                                     .argmin = found.argmin,
                                     .argmax = found.argmax,
                                     .sum = found.sum,
                                     .mean = found.mean(),
                                     .standard_deviation = found.standard_deviation(),
                                     .norm = found.norm()});
    return {};
  });
}
