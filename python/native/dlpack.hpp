// Memory layouts of DLPack 0.6 and 1.1, from which the destructor of a capsule reads the deleter.
#pragma once

#include <cstdint>

struct DLTensorLayout {
  void* data;
  int32_t device_type;
  int32_t device_id;
  int32_t ndim;
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};

struct DLManagedTensor {
  static constexpr const char* capsule_name = "dltensor";
  DLTensorLayout dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

struct DLManagedTensorVersioned {
  static constexpr const char* capsule_name = "dltensor_versioned";
  uint32_t major;
  uint32_t minor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  uint64_t flags;
  DLTensorLayout dl_tensor;
};
