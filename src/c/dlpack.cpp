#include "c/dlpack.hpp"

#include <array>
#include <htensor/tensor/shape.hpp>
#include <htensor/tensor/storage.hpp>
#include <string>
#include <utility>
#include <vector>

#include "c/boundary/boundary.hpp"
#include "c/boundary/handles.hpp"
#include "c/boundary/options.hpp"

namespace ht::c {
namespace {

struct DlPackRow {
  ht_type type;
  std::uint8_t code;
  std::uint8_t bits;
  bool needs_version;  // unversioned DLPack lacks the type
};

constexpr std::array dlpack_types{DlPackRow{HT_BOOL, 6, 8, false},    DlPackRow{HT_I8, 0, 8, false},
                                  DlPackRow{HT_I16, 0, 16, false},    DlPackRow{HT_I32, 0, 32, false},
                                  DlPackRow{HT_I64, 0, 64, false},    DlPackRow{HT_U8, 1, 8, false},
                                  DlPackRow{HT_U16, 1, 16, false},    DlPackRow{HT_U32, 1, 32, false},
                                  DlPackRow{HT_U64, 1, 64, false},    DlPackRow{HT_F16, 2, 16, false},
                                  DlPackRow{HT_F32, 2, 32, false},    DlPackRow{HT_F64, 2, 64, false},
                                  DlPackRow{HT_BF16, 4, 16, false},   DlPackRow{HT_C64, 5, 64, false},
                                  DlPackRow{HT_I4, 0, 4, true},       DlPackRow{HT_U4, 1, 4, true},
                                  DlPackRow{HT_F8_E4M3, 10, 8, true}, DlPackRow{HT_F8_E4M3FNUZ, 11, 8, true},
                                  DlPackRow{HT_F8_E5M2, 12, 8, true}, DlPackRow{HT_F8_E5M2FNUZ, 13, 8, true},
                                  DlPackRow{HT_F8_E8M0, 14, 8, true}, DlPackRow{HT_F6_E2M3, 15, 6, true},
                                  DlPackRow{HT_F6_E3M2, 16, 6, true}, DlPackRow{HT_F4, 17, 4, true}};

// An exported tensor. The DLPack consumer owns it and frees it with `managed.deleter`.
template <class Managed>
struct Exported {
  Managed managed{};
  Storage storage;
  std::vector<std::int64_t> dims;
  std::vector<std::int64_t> strides;
};

Result<DlPackRow> dlpack_row(const AnyTensor& tensor, bool has_version) {
  const auto type = tensor.type();
  std::string_view hint = type.is_block_encoded() ? "decode the blocks with ht_tensor_read"
                                                  : "copy the stored bytes with ht_tensor_copy_to";
  std::string_view form = "DLPack";
  for (const auto& row : dlpack_types) {
    if (!type.is_dense() || row.type != c_type(type.dtype, type.encoding)) continue;
    if (has_version || !row.needs_version) return row;
    form = "unversioned DLPack";
    hint = "use ht_tensor_to_dlpack_versioned or ht_tensor_read";
  }
  return fail(Error(ErrorCode::unsupported_encoding, "dlpack_has_the_type",
                    "tensor '" + std::string(tensor.name()) + "': " + std::string(form) +
                        " has no type for " + (type.is_known() ? std::string(type.name) : "unknown elements"))
                  .at_tensor(tensor.name())
                  .with_hint(hint));
}

Result<Storage> storage_in_place(const AnyTensor& tensor, ht_access access, int bits) {
  if (bits > 8 && tensor.byte_order() == ByteOrder::big) {
    return fail(Error(ErrorCode::unsupported_encoding, "dlpack_elements_are_in_native_byte_order",
                      "tensor '" + std::string(tensor.name()) + "' is big-endian and cannot be used in place")
                    .at_tensor(tensor.name())
                    .with_hint("pass HT_ACCESS_COPY"));
  }
  auto storage = HT_TRY(access == HT_ACCESS_PRIVATE ? tensor.private_storage() : tensor.storage());
  // A complex number has the alignment of its parts.
  const auto alignment = static_cast<std::uintptr_t>(bits > 32 && tensor.type().name == "C64" ? 4 : bits / 8);
  if (bits > 8 && reinterpret_cast<std::uintptr_t>(storage.bytes().data()) % alignment != 0) {
    return fail(Error(ErrorCode::misaligned, "dlpack_elements_are_aligned",
                      "tensor '" + std::string(tensor.name()) + "' is not aligned to " +
                          std::to_string(alignment) + " bytes and cannot be used in place")
                    .at_tensor(tensor.name())
                    .with_hint("pass HT_ACCESS_COPY"));
  }
  return storage;
}

// Copies the elements to new memory, row-major and in native byte order.
Result<Storage> storage_of_copy(const AnyTensor& tensor, const ht_work* work) {
  auto copy = HT_TRY(Storage::owned(tensor.byte_size()));
  const auto into = HT_TRY(copy.writable_bytes());
  Work running;
  AnyTensor::ReadOptions options;
  options.work = HT_TRY(running.start(work));
  HT_TRY(tensor.read(into, {}, options));
  return copy;
}

template <class Managed>
Result<std::unique_ptr<Exported<Managed>>> exported(const AnyTensor& tensor, ht_access access,
                                                    const ht_work* work) {
  constexpr bool has_version = std::is_same_v<Managed, DLManagedTensorVersioned>;
  HT_TRY(check_choice(access, HT_ACCESS_COPY, "access"));
  const auto row = HT_TRY(dlpack_row(tensor, has_version));
  auto result = std::make_unique<Exported<Managed>>();
  result->dims.assign(tensor.dims().begin(), tensor.dims().end());
  if (access == HT_ACCESS_COPY) {
    result->storage = HT_TRY(storage_of_copy(tensor, work));
    result->strides.resize(result->dims.size());
    layout::fill_row_major_strides(result->dims, result->strides);
  } else {
    result->storage = HT_TRY(storage_in_place(tensor, access, row.bits));
    result->strides = HT_TRY(tensor.strides());
  }
  const Bytes bytes = result->storage.bytes();
  DlTensor& dl = result->managed.dl_tensor;
  dl.data = bytes.empty() ? nullptr : const_cast<std::byte*>(bytes.data());
  dl.device_type = dlpack_cpu;
  dl.ndim = static_cast<std::int32_t>(result->dims.size());
  dl.dtype = {row.code, row.bits, 1};
  dl.shape = result->dims.data();
  dl.strides = result->strides.data();
  result->managed.manager_ctx = result.get();
  result->managed.deleter = [](Managed* self) { delete static_cast<Exported<Managed>*>(self->manager_ctx); };
  if constexpr (has_version) {
    result->managed.major = dlpack_major;
    result->managed.minor = dlpack_minor;
    if (access == HT_ACCESS_READ_ONLY) result->managed.flags = dlpack_read_only;
    if (access == HT_ACCESS_COPY) result->managed.flags = dlpack_is_copied;
  }
  return result;
}

template <class Managed>
ht_status export_tensor(const ht_tensor* tensor, ht_access access, const ht_work* work, Managed** managed,
                        ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(tensor != nullptr, "tensor"));
    HT_TRY(require(managed != nullptr, "managed"));
    *managed = &HT_TRY(exported<Managed>(tensor->tensor, access, work)).release()->managed;
    return {};
  });
}

Result<ht_type> type_of_dlpack(const DlTensor::DType& dtype) {
  for (const auto& row : dlpack_types) {
    if (row.code == dtype.code && row.bits == dtype.bits && dtype.lanes == 1) return row.type;
  }
  return fail(Error(ErrorCode::bad_dtype, "dlpack_type_is_known",
                    "the library has no dtype for DLPack's code " + std::to_string(dtype.code) + " with " +
                        std::to_string(dtype.bits) + " bits and " + std::to_string(dtype.lanes) + " lanes"));
}

Result<void> import_tensor(const DlTensor& dl, std::uint64_t flags, ht_tensor_to_save* tensor) {
  if (dl.device_type != dlpack_cpu && dl.device_type != dlpack_cuda_host &&
      dl.device_type != dlpack_rocm_host) {
    return fail(Error(ErrorCode::device_unavailable, "dlpack_memory_is_on_the_cpu",
                      "the tensor is on a device of DLPack's type " + std::to_string(dl.device_type))
                    .with_hint("copy the tensor to the CPU first"));
  }
  auto filled = HT_TRY(read_struct(tensor, "tensor"));
  filled.type = HT_TRY(type_of_dlpack(dl.dtype));
  if (dl.dtype.bits < 8 && (flags & dlpack_is_padded) != 0) {
    return fail(Error(ErrorCode::unsupported_encoding, "dlpack_elements_are_packed",
                      "elements of " + std::to_string(dl.dtype.bits) + " bits are padded to one byte each")
                    .with_hint("pack the elements first"));
  }
  if (dl.ndim < 0 || (dl.ndim > 0 && dl.shape == nullptr))
    return fail(ErrorCode::bad_shape, "dlpack_tensor_has_a_shape",
                "DLPack tensor has " + std::to_string(dl.ndim) + " dimensions" +
                    (dl.ndim > 0 ? " but its shape is NULL" : ""));
  filled.rank = static_cast<std::uint32_t>(dl.ndim);
  filled.dims = dl.shape;
  filled.strides = dl.strides;
  filled.bytes =
      static_cast<std::size_t>(HT_TRY(placement::dense_bytes({dl.shape, filled.rank}, dl.dtype.bits)));
  filled.data = dl.data == nullptr ? nullptr : static_cast<const std::byte*>(dl.data) + dl.byte_offset;
  write_struct(tensor, filled);
  return {};
}

}  // namespace
}  // namespace ht::c

using ht::Error;
using ht::ErrorCode;
using ht::fail;
using ht::Result;
using ht::c::call;
using ht::c::require;

ht_status ht_tensor_to_dlpack(const ht_tensor* tensor, ht_access access, struct DLManagedTensor** managed,
                              ht_error** error) {
  return ht::c::export_tensor(tensor, access, nullptr, managed, error);
}

ht_status ht_tensor_to_dlpack_versioned(const ht_tensor* tensor, ht_access access,
                                        struct DLManagedTensorVersioned** managed, ht_error** error) {
  return ht::c::export_tensor(tensor, access, nullptr, managed, error);
}

ht_status ht_tensor_copy_to_dlpack(const ht_tensor* tensor, const ht_work* work,
                                   struct DLManagedTensor** managed, ht_error** error) {
  return ht::c::export_tensor(tensor, HT_ACCESS_COPY, work, managed, error);
}

ht_status ht_tensor_copy_to_dlpack_versioned(const ht_tensor* tensor, const ht_work* work,
                                             struct DLManagedTensorVersioned** managed, ht_error** error) {
  return ht::c::export_tensor(tensor, HT_ACCESS_COPY, work, managed, error);
}

ht_status ht_from_dlpack(const struct DLManagedTensor* managed, ht_tensor_to_save* tensor, ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(managed != nullptr, "managed"));
    HT_TRY(ht::c::check_output(tensor, "tensor"));
    return ht::c::import_tensor(managed->dl_tensor, 0, tensor);
  });
}

ht_status ht_from_dlpack_versioned(const struct DLManagedTensorVersioned* managed, ht_tensor_to_save* tensor,
                                   ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(managed != nullptr, "managed"));
    HT_TRY(ht::c::check_output(tensor, "tensor"));
    if (managed->major != ht::c::dlpack_major) {
      return fail(Error(ErrorCode::bad_version, "dlpack_version_is_1",
                        "DLPack version " + std::to_string(managed->major) + "." +
                            std::to_string(managed->minor) +
                            " is not supported; supported versions are 1.x"));
    }
    return ht::c::import_tensor(managed->dl_tensor, managed->flags, tensor);
  });
}
