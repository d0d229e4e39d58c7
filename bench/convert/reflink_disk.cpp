#include "bench/convert/reflink_disk.hpp"

#include <cstdio>
#include <fstream>

#include "bench/harness/child.hpp"

namespace ht::bench {

std::unique_ptr<ReflinkDisk> ReflinkDisk::mount(const std::filesystem::path& folder, std::uint64_t bytes) {
  const auto image = folder / "sharing.img";
  const auto at = folder / "sharing";
  std::ofstream(image).close();
  std::filesystem::resize_file(image, bytes);
  std::filesystem::create_directory(at);
  std::string why;
  for (const auto* const make : {"mkfs.xfs", "mkfs.btrfs"}) {
    auto result = run_child({make, "-q", image.string()});
    if (result.wait_status == 0) result = run_child({"mount", "-o", "loop", image.string(), at.string()});
    if (result.wait_status == 0) return std::make_unique<ReflinkDisk>(at);
    why = result.captured;
  }
  std::printf("left out: shared blocks, as no disk that supports them can be mounted: %s\n", why.c_str());
  return nullptr;
}

ReflinkDisk::~ReflinkDisk() { static_cast<void>(run_child({"umount", at_.string()})); }

}  // namespace ht::bench
