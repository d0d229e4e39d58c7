// The OpenCL devices as streams count them, with and without OpenCL in the build.
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

/// The devices of the Gpu stream and those of the Cpu stream, each in the order of its indices. Empty where
/// there is no OpenCL library.
[[nodiscard]] std::vector<Listed> list_devices();

}  // namespace ht::inline v1::opencl
