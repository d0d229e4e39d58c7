#include "device/opencl/library.hpp"

#include <dlfcn.h>

#include "base/format_text.hpp"

namespace ht::inline v1::opencl {

Result<Library> load_library(const char* name) {
  // Never closed, because drivers keep threads that run its code.
  void* const handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  Library found;
  const auto find = [&](const char* symbol, auto& function) {
    if (handle == nullptr) return false;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, symbol));
    return function != nullptr;
  };
  const bool complete =
      find("clGetPlatformIDs", found.get_platforms) && find("clGetDeviceIDs", found.get_devices) &&
      find("clGetDeviceInfo", found.device_info) && find("clCreateContext", found.create_context) &&
      find("clCreateCommandQueue", found.create_queue) &&
      find("clReleaseCommandQueue", found.release_queue) && find("clCreateBuffer", found.create_buffer) &&
      find("clReleaseMemObject", found.release_memory) && find("clEnqueueReadBuffer", found.read_buffer) &&
      find("clEnqueueWriteBuffer", found.write_buffer) && find("clEnqueueFillBuffer", found.fill_buffer) &&
      find("clCreateProgramWithSource", found.create_program) &&
      find("clBuildProgram", found.build_program) && find("clGetProgramBuildInfo", found.build_info) &&
      find("clReleaseProgram", found.release_program) && find("clCreateKernel", found.create_kernel) &&
      find("clReleaseKernel", found.release_kernel) && find("clSetKernelArg", found.set_argument) &&
      find("clEnqueueNDRangeKernel", found.run_kernel) && find("clWaitForEvents", found.wait) &&
      find("clReleaseEvent", found.release_event);
  if (complete) return found;
  return fail(Error(ErrorCode::device_unavailable, "opencl_library_is_installed",
                    format_text("{} cannot be loaded or lacks a function of OpenCL 1.2", name))
                  .with_hint("install an OpenCL runtime, for instance the package pocl-opencl-icd"));
}

const Result<Library>& library() noexcept {
  static const Result<Library> loaded = load_library("libOpenCL.so.1");
  return loaded;
}

Error call_error(cl_int status, std::string_view action, SourceLine where) {
  const bool is_out_of_memory = status == CL_MEM_OBJECT_ALLOCATION_FAILURE || status == CL_OUT_OF_RESOURCES ||
                                status == CL_OUT_OF_HOST_MEMORY || status == CL_INVALID_BUFFER_SIZE;
  if (is_out_of_memory) {
    return Error(ErrorCode::out_of_memory, "device_has_memory",
                 format_text("out of memory on the OpenCL device: cannot {} (status {})", action, status),
                 where)
        .with_hint("use smaller tensors, or release some");
  }
  return Error(ErrorCode::device_unavailable, "opencl_call_succeeds",
               format_text("OpenCL cannot {} (status {})", action, status), where)
      .with_hint("check the device with clinfo");
}

}  // namespace ht::inline v1::opencl
