#include "device/opencl/memory.hpp"

#include <algorithm>
#include <htensor/base/bytes.hpp>
#include <htensor/device/transfer.hpp>
#include <memory>
#include <string>

#include "base/format_text.hpp"

namespace ht::inline v1 {

struct OpenClQueue::Queue {
  opencl::Device& device;
  cl_command_queue handle;

  Queue(opencl::Device& of, cl_command_queue queue) noexcept : device(of), handle(queue) {}
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  ~Queue() {
    if (handle != nullptr) device.library().release_queue(handle);
  }
};

OpenClQueue::OpenClQueue(std::shared_ptr<const Queue> queue) noexcept : queue_(std::move(queue)) {}

Result<OpenClQueue> OpenClQueue::create(const detail::opencl::Target& target) {
  return without_bad_alloc([&]() -> Result<OpenClQueue> {
    auto* const device = HT_TRY(opencl::find_device(target));
    // Allocated before the queue exists, so that a failed allocation leaves no queue behind.
    auto queue = std::make_shared<Queue>(*device, nullptr);
    queue->handle = HT_TRY(device->make_queue());
    return OpenClQueue(std::move(queue));
  });
}

namespace opencl {
namespace {

// A named deleter, by which `memory_of` identifies Storage that this file created.
struct DeleteMemory {
  void operator()(const void* memory) const noexcept { delete static_cast<const Memory*>(memory); }
};

// Every buffer starts at a multiple of this.
constexpr std::uint64_t buffer_alignment = 64;

Result<Storage> to_storage(std::unique_ptr<Memory> memory, std::string_view name, bool writable) {
  const auto bytes = memory->bytes;
  std::shared_ptr<const void> owner(static_cast<const void*>(memory.release()), DeleteMemory{});
  return Storage::on_device(std::move(owner),
                            {.device = std::string(name), .bytes = bytes, .writable = writable});
}

Result<void> make_buffers(Memory& memory, cl_mem_flags flags, std::byte* host) {
  cl_context context = HT_TRY(memory.device.context());
  const Library& cl = memory.device.library();
  // A failed allocation after a buffer was created would leave the buffer behind.
  memory.buffers.reserve(
      static_cast<std::size_t>((memory.bytes + memory.buffer_bytes - 1) / memory.buffer_bytes));
  for (std::uint64_t from = 0; from < memory.bytes; from += memory.buffer_bytes) {
    const auto size = static_cast<std::size_t>(std::min(memory.buffer_bytes, memory.bytes - from));
    cl_int status = CL_SUCCESS;
    cl_mem buffer = cl.create_buffer(context, flags, size, host == nullptr ? nullptr : host + from, &status);
    HT_TRY(check(status, format_text("allocate {} bytes", memory.bytes)));
    memory.buffers.push_back(buffer);
  }
  return {};
}

}  // namespace

Memory::Memory(Device& of, std::uint64_t size, std::uint64_t largest_buffer) noexcept
    : device(of),
      bytes(size),
      buffer_bytes(std::max(largest_buffer / buffer_alignment * buffer_alignment, buffer_alignment)) {}

Memory::~Memory() {
  for (cl_mem buffer : buffers) device.library().release_memory(buffer);
}

std::uint64_t Memory::size_of(std::size_t buffer) const noexcept {
  return std::min(buffer_bytes, bytes - buffer * buffer_bytes);
}

Result<Storage> allocate_memory(Device& device, std::string_view name, std::uint64_t bytes,
                                std::uint64_t largest_buffer, cl_command_queue queue) {
  return without_bad_alloc([&]() -> Result<Storage> {
    // Drivers may accept an allocation that exceeds the memory and fail at first access.
    if (bytes > device.facts().memory) {
      return fail(
          Error(ErrorCode::out_of_memory, "device_has_memory",
                format_text("out of memory: {} bytes, but {} has {}", bytes, name, device.facts().memory))
              .with_hint("use smaller tensors, or release some"));
    }
    auto memory = std::make_unique<Memory>(device, bytes, largest_buffer);
    HT_TRY(make_buffers(*memory, CL_MEM_READ_WRITE, nullptr));
    const Library& cl = device.library();
    for (std::size_t i = 0; i < memory->buffers.size(); ++i) {
      constexpr cl_uchar zero = 0;
      cl_event done = nullptr;
      HT_TRY(check(cl.fill_buffer(queue, memory->buffers[i], &zero, sizeof(zero), 0,
                                  static_cast<std::size_t>(memory->size_of(i)), 0, nullptr, &done),
                   "fill a buffer"));
      HT_TRY(finish(cl, done, "fill a buffer"));
    }
    return to_storage(std::move(memory), name, true);
  });
}

Result<Storage> share_memory(Device& device, std::string_view name, const Storage& owner, Bytes bytes,
                             std::uint64_t largest_buffer) {
  return without_bad_alloc([&]() -> Result<Storage> {
    auto memory = std::make_unique<Memory>(device, bytes.size(), largest_buffer);
    memory->shared = bytes;
    memory->owner = owner;
    // Kernels only read this memory, but the OpenCL function takes a non-const pointer.
    auto* const host = const_cast<std::byte*>(bytes.data());
    // A driver may reject host memory, for example read-only pages; the caller then copies.
    if (!make_buffers(*memory, CL_MEM_READ_ONLY | CL_MEM_USE_HOST_PTR, host)) return Storage();
    return to_storage(std::move(memory), name, false);
  });
}

Result<const Memory*> memory_of(const Storage& storage, const Device& device) {
  const auto owner = storage.owner();
  const auto* const memory =
      std::get_deleter<DeleteMemory>(owner) == nullptr ? nullptr : static_cast<const Memory*>(owner.get());
  if (memory != nullptr && &memory->device == &device) return memory;
  return fail(Error(ErrorCode::bad_state, "storage_is_on_the_device",
                    format_text("storage is not memory of the OpenCL device '{}'", device.facts().name))
                  .with_hint("copy the tensor with to_device"));
}

Result<cl_command_queue> queue_of(Device& device, const ComputeOptions& options) {
  if (options.queue == nullptr) return device.queue();
  const auto& named = options.queue->queue();
  if (&named.device == &device) return named.handle;
  return fail(Error(ErrorCode::bad_state, "queue_belongs_to_the_device",
                    format_text("queue belongs to device '{}' but the call is on '{}'",
                                named.device.facts().name, device.facts().name))
                  .with_hint("create a queue with OpenClQueue::create for the device"));
}

Result<void> finish(const Library& cl, cl_event event, std::string_view action) {
  const auto status = cl.wait(1, &event);
  cl.release_event(event);
  return check(status, action);
}

}  // namespace opencl

namespace detail::opencl {
namespace {

using ht::opencl::Memory;

Result<void> check_range(const Memory& memory, std::uint64_t offset, std::uint64_t bytes) {
  if (checked::range_fits(offset, bytes, memory.bytes)) return {};
  return fail(Error(ErrorCode::out_of_bounds, "copy_is_inside_the_device_memory",
                    format_text("{} bytes at byte {} are outside the device memory of {} bytes", bytes,
                                offset, memory.bytes))
                  .with_hint("copy a range inside the tensor"));
}

// Calls copy(buffer, offset in the buffer, position in the copy, bytes) for each buffer of a range.
template <class Copy>
Result<void> for_each_buffer(const Memory& memory, std::uint64_t offset, std::uint64_t bytes,
                             const Copy& copy) {
  for (std::uint64_t done = 0; done < bytes;) {
    const auto place = (offset + done) % memory.buffer_bytes;
    const auto buffer = memory.buffers[static_cast<std::size_t>((offset + done) / memory.buffer_bytes)];
    const auto part = std::min(bytes - done, memory.buffer_bytes - place);
    HT_TRY(copy(buffer, static_cast<std::size_t>(place), static_cast<std::size_t>(done),
                static_cast<std::size_t>(part)));
    done += part;
  }
  return {};
}

}  // namespace

Result<Storage> allocate(const Target& target, std::uint64_t bytes, const ComputeOptions& options) {
  auto* const device = HT_TRY(ht::opencl::find_device(target));
  cl_command_queue queue = HT_TRY(queue_of(*device, options));
  return allocate_memory(*device, target.name, bytes, device->facts().largest_buffer, queue);
}

Result<Storage> share(const Target& target, const Storage& owner, Bytes bytes) {
  auto* const device = HT_TRY(ht::opencl::find_device(target));
  if (!device->facts().shares_memory) return Storage();
  return share_memory(*device, target.name, owner, bytes, device->facts().largest_buffer);
}

Result<void> copy_to_device(const Target& target, Bytes from, const Storage& to, std::uint64_t offset,
                            const ComputeOptions& options) {
  auto* const device = HT_TRY(ht::opencl::find_device(target));
  const auto* const memory = HT_TRY(memory_of(to, *device));
  HT_TRY(check_range(*memory, offset, from.size()));
  if (!memory->shared.empty()) HT_TRY(to.writable_bytes());
  const auto& cl = device->library();
  cl_command_queue queue = HT_TRY(queue_of(*device, options));
  return for_each_buffer(*memory, offset, from.size(),
                         [&](cl_mem buffer, std::size_t place, std::size_t position, std::size_t bytes) {
                           return ht::opencl::check(
                               cl.write_buffer(queue, buffer, CL_TRUE, place, bytes, from.data() + position,
                                               0, nullptr, nullptr),
                               "copy to the device");
                         });
}

Result<void> copy_to_host(const Target& target, const Storage& from, std::uint64_t offset, MutableBytes into,
                          const ComputeOptions& options) {
  auto* const device = HT_TRY(ht::opencl::find_device(target));
  const auto* const memory = HT_TRY(memory_of(from, *device));
  HT_TRY(check_range(*memory, offset, into.size()));
  const auto& cl = device->library();
  cl_command_queue queue = HT_TRY(queue_of(*device, options));
  return guarded(memory->shared, [&] {
    return for_each_buffer(*memory, offset, into.size(),
                           [&](cl_mem buffer, std::size_t place, std::size_t position, std::size_t bytes) {
                             return ht::opencl::check(
                                 cl.read_buffer(queue, buffer, CL_TRUE, place, bytes, into.data() + position,
                                                0, nullptr, nullptr),
                                 "copy to the host");
                           });
  });
}

}  // namespace detail::opencl
}  // namespace ht::inline v1
