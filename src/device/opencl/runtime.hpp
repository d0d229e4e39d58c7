// The OpenCL devices of this machine, with their contexts, default queues and programs. All of them are
// global state and live until the process ends.
#pragma once

#include <cstdint>
#include <htensor/dtype/device.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/opencl/library.hpp"

namespace ht::inline v1::opencl {

struct Facts {
  std::string name;
  bool is_gpu = false;
  bool is_cpu = false;
  std::uint64_t memory = 0;
  std::uint64_t largest_buffer = 0;
  /// True if the device reads host memory in place.
  bool shares_memory = false;
  bool divides_exactly = false;
  bool has_doubles = false;
};

/// Returns `device_unavailable` for F64 on a device without double precision.
[[nodiscard]] Result<void> check_dtype(const Facts& facts, DTypeTag dtype);

/// One device. Everything except its facts is created at first use. Thread-safe.
class Device {
 public:
  Device(const Library& library, cl_device_id id, Facts facts) noexcept
      : library_(library), id_(id), facts_(std::move(facts)) {}

  [[nodiscard]] const Library& library() const noexcept { return library_; }
  [[nodiscard]] cl_device_id id() const noexcept { return id_; }
  [[nodiscard]] const Facts& facts() const noexcept { return facts_; }
  [[nodiscard]] Result<cl_context> context();
  /// The default queue, for calls without a queue of their own.
  [[nodiscard]] Result<cl_command_queue> queue();
  /// Creates a queue; the caller releases it.
  [[nodiscard]] Result<cl_command_queue> make_queue();
  /// Returns the built program, which is cached. If it does not build, returns `device_unavailable` with the
  /// first line of the build log.
  [[nodiscard]] Result<cl_program> program(const std::string& text);

 private:
  [[nodiscard]] Result<cl_context> locked_context();

  const Library& library_;
  cl_device_id id_;
  Facts facts_;
  std::mutex mutex_;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  std::map<std::string, cl_program> programs_;
};

/// All devices of all platforms, in the order in which the OpenCL library lists them.
[[nodiscard]] Result<std::span<const std::unique_ptr<Device>>> all_devices();

/// True if the environment variable HT_OPENCL_GPU is "any": `Gpu` then uses devices of every type.
[[nodiscard]] bool can_gpu_be_any_device();

/// The positions of the devices of a kind.
[[nodiscard]] std::vector<std::size_t> devices_of_kind(std::span<const Facts> devices, bool is_gpu,
                                                       bool gpu_is_any);

/// The device of a type `OpenCl<Kind, Index>`. `device_unavailable` if the machine does not have it.
[[nodiscard]] Result<Device*> find_device(const detail::opencl::Target& target);

}  // namespace ht::inline v1::opencl
