// Memory layouts of DLPack 1.1 and of the older unversioned form, in which libraries exchange tensors. They
// equal the structs of dlpack.h, so that the library can be built without dlpack.h.
#pragma once

#include <cstdint>

namespace ht::c {

struct DlTensor {
  void* data;
  std::int32_t device_type;
  std::int32_t device_id;
  std::int32_t ndim;
  struct DType {
    std::uint8_t code;
    std::uint8_t bits;
    std::uint16_t lanes;
  } dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};
static_assert(sizeof(DlTensor) == 48);

inline constexpr std::uint32_t dlpack_major = 1;
inline constexpr std::uint32_t dlpack_minor = 1;

/// Bits of `DLManagedTensorVersioned::flags`.
inline constexpr std::uint64_t dlpack_read_only = 1;
inline constexpr std::uint64_t dlpack_is_copied = 2;
inline constexpr std::uint64_t dlpack_is_padded =
    4;  // elements of fewer than 8 bits are padded to one byte each

/// Values of `device_type` whose memory the CPU can read: kDLCPU, kDLCUDAHost, kDLROCMHost.
inline constexpr std::int32_t dlpack_cpu = 1;
inline constexpr std::int32_t dlpack_cuda_host = 3;
inline constexpr std::int32_t dlpack_rocm_host = 11;

}  // namespace ht::c

struct DLManagedTensor {
  ht::c::DlTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

struct DLManagedTensorVersioned {
  std::uint32_t major;
  std::uint32_t minor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  std::uint64_t flags;
  ht::c::DlTensor dl_tensor;
};
static_assert(sizeof(DLManagedTensor) == 64 && sizeof(DLManagedTensorVersioned) == 80);
