// The OpenCL devices in the numbering of streams; available with and without OpenCL in the build.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ht::inline v1::opencl {

struct Listed {
  bool is_gpu = false;
  std::string hardware;
  std::uint64_t memory = 0;
};

/// Lists the devices of the Gpu stream and of the Cpu stream, each by index. Empty without an OpenCL library.
[[nodiscard]] std::vector<Listed> list_devices();

}  // namespace ht::inline v1::opencl
