// The functions of libOpenCL. The library is loaded at first use and not linked.
#pragma once

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <htensor/base/result.hpp>
#include <string_view>

namespace ht::inline v1::opencl {

struct Library {
  decltype(&clGetPlatformIDs) get_platforms = nullptr;
  decltype(&clGetDeviceIDs) get_devices = nullptr;
  decltype(&clGetDeviceInfo) device_info = nullptr;
  decltype(&clCreateContext) create_context = nullptr;
  decltype(&clCreateCommandQueue) create_queue = nullptr;
  decltype(&clReleaseCommandQueue) release_queue = nullptr;
  decltype(&clCreateBuffer) create_buffer = nullptr;
  decltype(&clReleaseMemObject) release_memory = nullptr;
  decltype(&clEnqueueReadBuffer) read_buffer = nullptr;
  decltype(&clEnqueueWriteBuffer) write_buffer = nullptr;
  decltype(&clEnqueueFillBuffer) fill_buffer = nullptr;
  decltype(&clCreateProgramWithSource) create_program = nullptr;
  decltype(&clBuildProgram) build_program = nullptr;
  decltype(&clGetProgramBuildInfo) build_info = nullptr;
  decltype(&clReleaseProgram) release_program = nullptr;
  decltype(&clCreateKernel) create_kernel = nullptr;
  decltype(&clReleaseKernel) release_kernel = nullptr;
  decltype(&clSetKernelArg) set_argument = nullptr;
  decltype(&clEnqueueNDRangeKernel) run_kernel = nullptr;
  decltype(&clWaitForEvents) wait = nullptr;
  decltype(&clReleaseEvent) release_event = nullptr;
};

/// Loads the named library. `device_unavailable` if it or one of its functions is missing.
[[nodiscard]] Result<Library> load_library(const char* name);

/// The system's libOpenCL, loaded by the first call and never unloaded.
[[nodiscard]] const Result<Library>& library() noexcept;

/// Returns `out_of_memory` for a status that reports a lack of memory, else `device_unavailable`. `action`
/// describes the call.
[[nodiscard]] Error call_error(cl_int status, std::string_view action, SourceLine where = SourceLine::here());

/// Fails unless the status is CL_SUCCESS.
[[nodiscard]] inline Result<void> check(cl_int status, std::string_view action,
                                        SourceLine where = SourceLine::here()) {
  if (status == CL_SUCCESS) return {};
  return fail(call_error(status, action, where));
}

}  // namespace ht::inline v1::opencl
