// The rules of slice::Core on OpenCL devices.
#include "compute/core_device_test.hpp"
#include "device/opencl/opencl_test.hpp"

namespace ht::core_device_test {
namespace {

struct DeviceNames {
  template <class Dev>
  static std::string GetName(int /*number*/) {
    return Dev::target.is_gpu ? "Gpu" : "Cpu";
  }
};

using Devices = ::testing::Types<OpenCl<Cpu>, OpenCl<Gpu>>;
INSTANTIATE_TYPED_TEST_SUITE_P(OpenCl, CoreOfDevice, Devices, DeviceNames);

}  // namespace
}  // namespace ht::core_device_test
