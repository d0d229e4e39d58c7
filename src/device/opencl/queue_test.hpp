// Blocks the default queue of a device, so that only calls on another queue end.
#pragma once

#include <dlfcn.h>

#include <chrono>
#include <future>
#include <stdexcept>
#include <string>

#include "device/opencl/runtime.hpp"
#include "tensor/test_tools.hpp"

namespace ht::tests {

/// Blocks the default queue of a device until `release`.
class BlockedQueue {
 public:
  explicit BlockedQueue(opencl::Device& device) {
    const auto create_event = function<decltype(&clCreateUserEvent)>("clCreateUserEvent");
    const auto enqueue_barrier =
        function<decltype(&clEnqueueBarrierWithWaitList)>("clEnqueueBarrierWithWaitList");
    cl_int status = CL_SUCCESS;
    event_ = create_event(must(device.context()), &status);
    must(opencl::check(status, "create an event"));
    must(opencl::check(enqueue_barrier(must(device.queue()), 1, &event_, nullptr), "enqueue a barrier"));
  }
  BlockedQueue(const BlockedQueue&) = delete;
  BlockedQueue& operator=(const BlockedQueue&) = delete;
  ~BlockedQueue() { release(); }

  void release() {
    if (event_ == nullptr) return;
    function<decltype(&clSetUserEventStatus)>("clSetUserEventStatus")(event_, CL_COMPLETE);
    function<decltype(&clReleaseEvent)>("clReleaseEvent")(event_);
    event_ = nullptr;
  }

 private:
  template <class Function>
  static Function function(const char* name) {
    // The library is loaded already, as a device exists.
    static void* const library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    auto* const found = library == nullptr ? nullptr : dlsym(library, name);
    if (found == nullptr) throw std::runtime_error(std::string("no function ") + name);
    return reinterpret_cast<Function>(found);
  }

  cl_event event_ = nullptr;
};

/// Whether `run` ends although commands of the default queue do not run. If it does not end in time, the
/// queue is released, so that `run` ends in any case.
template <class Dev, class Run>
bool ends_while_the_default_queue_is_blocked(const Run& run,
                                             std::chrono::milliseconds time = std::chrono::seconds(10)) {
  BlockedQueue blocked(*must(opencl::find_device(Dev::target)));
  auto done = std::async(std::launch::async, run);
  const bool is_in_time = done.wait_for(time) == std::future_status::ready;
  blocked.release();
  done.get();
  return is_in_time;
}

}  // namespace ht::tests
