#include "device/opencl/runtime.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/format_text.hpp"
#include "base/workers.hpp"
#include "device/opencl/listing.hpp"

namespace ht::inline v1::opencl {
namespace {

template <class T>
T number(const Library& cl, cl_device_id device, cl_device_info property) {
  T value{};
  // Returns 0 for a property that the device does not support.
  if (cl.device_info(device, property, sizeof(value), &value, nullptr) != CL_SUCCESS) return T{};
  return value;
}

std::string text(const Library& cl, cl_device_id device, cl_device_info property) {
  std::size_t size = 0;
  if (cl.device_info(device, property, 0, nullptr, &size) != CL_SUCCESS || size == 0) return {};
  std::string value(size, '\0');
  if (cl.device_info(device, property, size, value.data(), nullptr) != CL_SUCCESS) return {};
  // A driver may omit the zero byte at the end.
  value.resize(std::min(value.find('\0'), value.size()));
  return value;
}

Facts facts_of(const Library& cl, cl_device_id device) {
  const auto type = number<cl_device_type>(cl, device, CL_DEVICE_TYPE);
  const auto single = number<cl_device_fp_config>(cl, device, CL_DEVICE_SINGLE_FP_CONFIG);
  return {.name = text(cl, device, CL_DEVICE_NAME),
          .is_gpu = (type & CL_DEVICE_TYPE_GPU) != 0,
          .is_cpu = (type & CL_DEVICE_TYPE_CPU) != 0,
          .memory = number<cl_ulong>(cl, device, CL_DEVICE_GLOBAL_MEM_SIZE),
          .largest_buffer = number<cl_ulong>(cl, device, CL_DEVICE_MAX_MEM_ALLOC_SIZE),
          .shares_memory = number<cl_bool>(cl, device, CL_DEVICE_HOST_UNIFIED_MEMORY) != 0,
          .divides_exactly = (single & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0,
          .has_doubles = number<cl_device_fp_config>(cl, device, CL_DEVICE_DOUBLE_FP_CONFIG) != 0};
}

struct Machine {
  std::vector<std::unique_ptr<Device>> devices;
  bool gpu_is_any = false;
};

Result<Machine> list_machine() {
  const auto& loaded = library();
  if (!loaded) return fail(loaded.error());
  const Library& cl = *loaded;
  Machine machine;
  const char* const setting = std::getenv("HT_OPENCL_GPU");
  machine.gpu_is_any = setting != nullptr && std::string_view(setting) == "any";
  cl_uint platform_count = 0;
  // A loader without drivers returns an error, which means zero devices.
  if (cl.get_platforms(0, nullptr, &platform_count) != CL_SUCCESS) platform_count = 0;
  std::vector<cl_platform_id> platforms(platform_count);
  if (platform_count != 0)
    HT_TRY(check(cl.get_platforms(platform_count, platforms.data(), nullptr), "list platforms"));
  for (cl_platform_id platform : platforms) {
    cl_uint count = 0;
    if (cl.get_devices(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS) continue;
    std::vector<cl_device_id> ids(count);
    if (cl.get_devices(platform, CL_DEVICE_TYPE_ALL, count, ids.data(), nullptr) != CL_SUCCESS) continue;
    for (cl_device_id id : ids) machine.devices.push_back(std::make_unique<Device>(cl, id, facts_of(cl, id)));
  }
  return machine;
}

// Never destroyed, because driver threads may outlive static objects.
const Result<Machine>& machine() {
  // Threads of the driver inherit the signal mask of this thread. They may read mapped pages, so SIGBUS must
  // be unblocked while they start.
  static const auto* const listed = [] {
    const UnblockedSigbus unblocked;
    return new Result<Machine>(list_machine());
  }();
  return *listed;
}

std::string first_line(std::string_view log) {
  // An empty log normally arrives as one zero byte.
  const auto begin = log.find_first_not_of(std::string_view(" \n\r\t\0", 5));
  if (begin == std::string_view::npos) return "the build log is empty";
  log.remove_prefix(begin);
  return std::string(log.substr(0, log.find_first_of(std::string_view("\n\r\0", 3))));
}

}  // namespace

Result<void> check_dtype(const Facts& facts, DTypeTag dtype) {
  if (dtype != F64::tag || facts.has_doubles) return {};
  return fail(
      Error(ErrorCode::device_unavailable, "device_has_double_precision",
            format_text("device '{}' cannot calculate with F64: it has no double precision", facts.name))
          .with_hint("use F32, or another device"));
}

Result<cl_context> Device::locked_context() {
  if (context_ != nullptr) return context_;
  const UnblockedSigbus unblocked;
  cl_int status = CL_SUCCESS;
  cl_context new_context = library_.create_context(nullptr, 1, &id_, nullptr, nullptr, &status);
  HT_TRY(check(status, "create a context"));
  context_ = new_context;
  return context_;
}

Result<cl_context> Device::context() {
  const std::scoped_lock lock(mutex_);
  return locked_context();
}

Result<cl_command_queue> Device::make_queue() {
  cl_context in = HT_TRY(context());
  const UnblockedSigbus unblocked;
  cl_int status = CL_SUCCESS;
  cl_command_queue new_queue = library_.create_queue(in, id_, 0, &status);
  HT_TRY(check(status, "create a queue"));
  return new_queue;
}

Result<cl_command_queue> Device::queue() {
  {
    const std::scoped_lock lock(mutex_);
    if (queue_ != nullptr) return queue_;
  }
  cl_command_queue new_queue = HT_TRY(make_queue());
  const std::scoped_lock lock(mutex_);
  if (queue_ == nullptr) {
    queue_ = new_queue;
  } else {
    library_.release_queue(new_queue);
  }
  return queue_;
}

Result<cl_program> Device::program(const std::string& text) {
  const std::scoped_lock lock(mutex_);
  if (const auto known = programs_.find(text); known != programs_.end()) return known->second;
  cl_context in = HT_TRY(locked_context());
  // Allocated before the program exists, so that a failed allocation leaves no program behind.
  std::map<std::string, cl_program> entry;
  cl_program& new_program = entry[text];
  cl_int status = CL_SUCCESS;
  const char* source = text.c_str();
  new_program = library_.create_program(in, 1, &source, nullptr, &status);
  HT_TRY(check(status, "create a program"));
  // -w suppresses warnings, which some drivers print.
  const char* const options = facts_.divides_exactly ? "-w -cl-fp32-correctly-rounded-divide-sqrt" : "-w";
  status = library_.build_program(new_program, 1, &id_, options, nullptr, nullptr);
  if (status != CL_SUCCESS) {
    std::size_t size = 0;
    library_.build_info(new_program, id_, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size);
    std::string log(size, '\0');
    library_.build_info(new_program, id_, CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr);
    library_.release_program(new_program);
    return fail(Error(ErrorCode::device_unavailable, "kernels_build_on_the_device",
                      format_text("device '{}': a kernel does not build: {}", facts_.name, first_line(log)))
                    .with_hint("update the driver of the device, or use another device"));
  }
  programs_.merge(entry);
  return programs_.at(text);
}

Result<std::span<const std::unique_ptr<Device>>> all_devices() {
  return without_bad_alloc([]() -> Result<std::span<const std::unique_ptr<Device>>> {
    const auto& listed = machine();
    if (!listed) return fail(listed.error());
    return std::span<const std::unique_ptr<Device>>(listed->devices);
  });
}

bool can_gpu_be_any_device() { return machine() && machine()->gpu_is_any; }

std::vector<std::size_t> devices_of_kind(std::span<const Facts> devices, bool is_gpu, bool gpu_is_any) {
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (is_gpu ? devices[i].is_gpu || gpu_is_any : devices[i].is_cpu) positions.push_back(i);
  }
  return positions;
}

std::vector<ListedDevice> list_devices() {
  std::vector<ListedDevice> listed;
  const auto devices = all_devices();
  if (!devices) return listed;
  std::vector<Facts> facts;
  for (const auto& device : *devices) facts.push_back(device->facts());
  for (const bool is_gpu : {true, false}) {
    for (const auto position : devices_of_kind(facts, is_gpu, can_gpu_be_any_device()))
      listed.push_back({is_gpu, facts[position].name, facts[position].memory});
  }
  return listed;
}

Result<Device*> find_device(const detail::opencl::Target& target) {
  return without_bad_alloc([&]() -> Result<Device*> {
    const auto devices = HT_TRY(all_devices());
    std::vector<Facts> facts;
    for (const auto& device : devices) facts.push_back(device->facts());
    const auto positions = devices_of_kind(facts, target.is_gpu, can_gpu_be_any_device());
    const auto index = static_cast<std::size_t>(target.index);
    if (index < positions.size()) return devices[positions[index]].get();
    return fail(Error(ErrorCode::device_unavailable, "device_index_exists",
                      format_text("{}: this machine has {} OpenCL devices of the kind {}", target.name,
                                  positions.size(), target.is_gpu ? "GPU" : "CPU"))
                    .with_hint(!positions.empty() ? "use a smaller index of the device"
                               : target.is_gpu
                                   ? "install the driver of the GPU, or set HT_OPENCL_GPU=any to use any "
                                     "OpenCL device"
                                   : "install an OpenCL runtime for the CPU: pocl-opencl-icd"));
  });
}

}  // namespace ht::inline v1::opencl
