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
  /// What its driver calls it; empty for the host.
  std::string hardware;
  /// Bytes of memory; 0 where it is not known.
  std::uint64_t memory = 0;
  /// The dtypes of the library that it stores.
  std::vector<std::string_view> dtypes;
  /// The slices of operations that it has: "core", "linear", "nn", "conv".
  std::vector<std::string_view> slices;
};

/// The host first, then the OpenCL devices that this machine has. Loads the OpenCL library where it is
/// installed; a machine without it has the host alone. A device that serves two streams is listed for each.
[[nodiscard]] Result<std::vector<DeviceDescription>> devices();

}  // namespace ht::inline v1
