#include <htensor/device/transfer.hpp>

#include "base/format_text.hpp"
#include "device/opencl/listing.hpp"

namespace ht::inline v1 {
namespace {

template <class Dev, class... Ds>
std::vector<std::string_view> stored_by(DTypeList<Ds...> /*all*/) {
  std::vector<std::string_view> names;
  ((Compatible<Dev, Ds> ? names.push_back(Ds::name) : void()), ...);
  return names;
}

template <class Dev>
DeviceDescription describe_device() {
  DeviceDescription described;
  described.name = Dev::name;
  described.dtypes = stored_by<Dev>(AllDTypes{});
  if (HasSlice<Dev, slice::Core>) described.slices.push_back("core");
  if (HasSlice<Dev, slice::Linear>) described.slices.push_back("linear");
  if (HasSlice<Dev, slice::Nn>) described.slices.push_back("nn");
  if (HasSlice<Dev, slice::Conv>) described.slices.push_back("conv");
  return described;
}

template <class Kind>
void add_devices_of(std::vector<DeviceDescription>& all, const std::vector<opencl::ListedDevice>& listed) {
  int index = 0;
  for (const auto& each : listed) {
    if (each.is_gpu != Kind::is_gpu) continue;
    // `OpenCl<Kind, Index>` has indexes below `max_devices` only: further devices have no type.
    if (index == detail::opencl::max_devices) break;
    auto described = describe_device<OpenCl<Kind>>();
    if (index != 0) described.name = format_text("OpenCl<{}, {}>", Kind::kind_name, index);
    described.hardware = each.hardware;
    described.memory = each.memory;
    all.push_back(std::move(described));
    ++index;
  }
}

}  // namespace

Result<std::vector<DeviceDescription>> devices() {
  return without_bad_alloc([]() -> Result<std::vector<DeviceDescription>> {
    std::vector<DeviceDescription> all{describe_device<Host>()};
    const auto listed = opencl::list_devices();
    add_devices_of<Gpu>(all, listed);
    add_devices_of<Cpu>(all, listed);
    return all;
  });
}

}  // namespace ht::inline v1
