// For builds without OpenCL's headers. `list_devices` returns an empty list; every other call fails with an
// error that says that OpenCL is missing.
#include <htensor/device/transfer.hpp>

#include "device/opencl/listing.hpp"

namespace ht::inline v1 {

struct OpenClQueue::Queue {};

namespace {

tl::unexpected<Error> not_built(SourceLine where = SourceLine::here()) {
  return fail(Error(ErrorCode::device_unavailable, "build_has_opencl",
                    "this build of htensor has no OpenCL: the OpenCL headers were missing", where)
                  .with_hint("install opencl-headers and build htensor again"));
}

}  // namespace

Result<OpenClQueue> OpenClQueue::create(const detail::opencl::Target& /*target*/) { return not_built(); }

namespace opencl {

std::vector<ListedDevice> list_devices() { return {}; }

}  // namespace opencl

namespace detail::opencl {

Result<Storage> allocate(const Target& /*target*/, std::uint64_t /*bytes*/,
                         const ComputeOptions& /*options*/) {
  return not_built();
}
Result<Storage> share(const Target& /*target*/, const Storage& /*owner*/, Bytes /*bytes*/) {
  return not_built();
}
Result<void> copy_to_device(const Target& /*target*/, Bytes /*from*/, const Storage& /*to*/,
                            std::uint64_t /*offset*/, const ComputeOptions& /*options*/) {
  return not_built();
}
Result<void> copy_to_host(const Target& /*target*/, const Storage& /*from*/, std::uint64_t /*offset*/,
                          MutableBytes /*into*/, const ComputeOptions& /*options*/) {
  return not_built();
}
Result<void> run(const Target& /*target*/, const Operation& /*operation*/, const View& /*out*/,
                 std::span<const View> /*inputs*/, const ComputeOptions& /*options*/) {
  return not_built();
}

}  // namespace detail::opencl
}  // namespace ht::inline v1
