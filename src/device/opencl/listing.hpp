// The OpenCL devices in the order of `OpenCl<Kind, Index>`; available with and without OpenCL in the build.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ht::inline v1::opencl {

struct ListedDevice {
  bool is_gpu = false;
  std::string hardware;
  std::uint64_t memory = 0;
};

/// Lists the GPUs, then the CPU devices, each in the order of their indexes. Empty without an OpenCL library.
[[nodiscard]] std::vector<ListedDevice> list_devices();

}  // namespace ht::inline v1::opencl
