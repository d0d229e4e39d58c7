// The rules of slice::Core on the host and on devices of a user.
#include "compute/core_device_test.hpp"

#include "compute/test_devices.hpp"

namespace ht::core_device_test {
namespace {

struct DeviceNames {
  template <class Dev>
  static std::string GetName(int /*number*/) {
    return std::string(Dev::name);
  }
};

using Devices = ::testing::Types<Host, user::Arena, user::InvertingDevice, user::Accelerator>;
INSTANTIATE_TYPED_TEST_SUITE_P(Users, CoreOfDevice, Devices, DeviceNames);

}  // namespace
}  // namespace ht::core_device_test
