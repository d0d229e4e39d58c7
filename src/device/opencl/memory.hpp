// Memory of an OpenCL device: one range of bytes in as many buffers as the allocation limit requires.
#pragma once

#include <cstdint>
#include <htensor/tensor/storage.hpp>
#include <vector>

#include "device/opencl/runtime.hpp"

namespace ht::inline v1::opencl {

struct Memory {
  Device& device;
  std::uint64_t bytes = 0;
  /// Size of every buffer except the last, a multiple of every element size.
  std::uint64_t buffer_bytes = 0;
  std::vector<cl_mem> buffers;
  /// Host memory that the buffers use in place, and the handle that keeps it alive.
  Bytes shared;
  Storage owner;

  Memory(Device& of, std::uint64_t size, std::uint64_t largest_buffer) noexcept;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  [[nodiscard]] std::uint64_t size_of(std::size_t buffer) const noexcept;
};

/// Allocates memory and fills it with zeros through the queue. Buffers are at most `largest_buffer` bytes.
[[nodiscard]] Result<Storage> allocate_memory(Device& device, std::string_view name, std::uint64_t bytes,
                                              std::uint64_t largest_buffer, cl_command_queue queue);
/// Creates read-only buffers over host memory.
[[nodiscard]] Result<Storage> share_memory(Device& device, std::string_view name, const Storage& owner,
                                           Bytes bytes, std::uint64_t largest_buffer);

/// The device memory of a Storage. `bad_state` if it is not memory of this device.
[[nodiscard]] Result<const Memory*> memory_of(const Storage& storage, const Device& device);

/// The queue in the options, or the device's default queue. `bad_state` for a queue of another device.
[[nodiscard]] Result<cl_command_queue> queue_of(Device& device, const ComputeOptions& options);

/// Waits for the command and releases its event.
[[nodiscard]] Result<void> finish(const Library& cl, cl_event event, std::string_view action);

}  // namespace ht::inline v1::opencl
