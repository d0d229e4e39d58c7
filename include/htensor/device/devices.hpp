// The devices of this machine, for programs that choose one at run time or show them.
#pragma once

#include <cstdint>
#include <htensor/base/result.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ht::inline v1 {

struct DeviceDescription {
  /// How the device is spelled in C++: "Host", "OpenCl<Cpu>", "OpenCl<Gpu, 1>".
  std::string name;
  /// The name that the driver reports; empty for the host.
  std::string hardware;
  /// Bytes of memory; 0 if unknown.
  std::uint64_t memory = 0;
  /// The dtypes of the library that the device stores.
  std::vector<std::string_view> dtypes;
  /// The slices of operations that the device has: "core", "linear", "nn", "conv".
  std::vector<std::string_view> slices;
};

/// Lists the host first, then the OpenCL devices of this machine. Loads the OpenCL library; if it is not
/// installed, the list has only the host. A device that serves two streams is listed once for each.
[[nodiscard]] Result<std::vector<DeviceDescription>> devices();

}  // namespace ht::inline v1
