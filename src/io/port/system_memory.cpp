#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <sstream>

#include "io/port/port.hpp"
#include "io/port/system_memory.hpp"

namespace ht::inline v1::io {
namespace {

std::optional<std::uint64_t> leading_number(std::string_view text) noexcept {
  const auto begin = std::min(text.find_first_not_of(" \t"), text.size());
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data() + begin, text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  return number;
}

// Removes the first line and returns it.
std::string_view take_line(std::string_view& text) noexcept {
  const auto line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

// Reads a whole text file of /proc or /sys until its end: the size that `stat` reports is not that of the
// text.
std::optional<std::string> text_of(const std::filesystem::path& path) {
  const std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

// The names that one version of control groups uses. `folder` is below the root folder of all groups.
struct CgroupVersion {
  std::string_view folder;
  std::string_view controller;
  std::string_view limit;
  std::string_view used;
  std::string_view cache;
};
constexpr std::array cgroup_versions{
    CgroupVersion{"", "", "memory.max", "memory.current", "file"},
    CgroupVersion{"memory", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache"},
};

std::optional<std::uint64_t> available_in(const std::string& folder, const CgroupVersion& names) {
  const auto text_in = [&](std::string_view name) { return text_of(folder + "/" + std::string(name)); };
  const auto limit = text_in(names.limit);
  const auto used = text_in(names.used);
  if (!limit || !used) return std::nullopt;
  const auto stat = text_in("memory.stat").value_or("");
  return available_below_limit(*limit, *used, number_after(stat, names.cache).value_or(0));
}

}  // namespace

std::optional<std::uint64_t> number_after(std::string_view text, std::string_view word) noexcept {
  while (!text.empty()) {
    const auto line = take_line(text);
    const auto rest = line.substr(std::min(word.size(), line.size()));
    if (line.starts_with(word) && (rest.starts_with(' ') || rest.starts_with('\t')))
      return leading_number(rest);
  }
  return std::nullopt;
}

std::optional<std::string_view> control_group(std::string_view cgroups,
                                              std::string_view controller) noexcept {
  while (!cgroups.empty()) {
    const auto line = take_line(cgroups);
    const auto first = line.find(':');
    const auto second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second != std::string_view::npos && line.substr(first + 1, second - first - 1) == controller) {
      return line.substr(second + 1);
    }
  }
  return std::nullopt;
}

std::optional<std::uint64_t> available_below_limit(std::string_view limit, std::string_view used,
                                                   std::uint64_t in_page_cache) noexcept {
  const auto limit_bytes = leading_number(limit);  // nullopt for "max"
  const auto total_used = leading_number(used);
  if (!limit_bytes || !total_used) return std::nullopt;
  const std::uint64_t used_bytes = *total_used - std::min(*total_used, in_page_cache);
  return *limit_bytes - std::min(*limit_bytes, used_bytes);
}

std::optional<std::uint64_t> available_in_groups(std::string_view cgroups,
                                                 const std::filesystem::path& folder) {
  std::optional<std::uint64_t> available;
  for (const auto& names : cgroup_versions) {
    const auto name = control_group(cgroups, names.controller);
    if (!name) continue;
    // A group's limit also applies to the groups below it. In a container the root folder is a group, too.
    // Paths are strings here: with libstdc++ 12, appending to a path that ends with a slash is not safe if
    // memory runs out.
    const std::string root = folder.native() + "/" + std::string(names.folder);
    for (std::string_view group = *name;; group = group.substr(0, group.rfind('/'))) {
      const auto in_group = available_in(root + std::string(group), names);
      if (in_group) available = std::min(*in_group, available.value_or(*in_group));
      if (group.find('/') == std::string_view::npos) break;
    }
  }
  return available;
}

IoResult<std::uint64_t> available_memory() {
  const auto meminfo = text_of("/proc/meminfo").value_or("");
  const auto kib = number_after(meminfo, "MemAvailable:");
  if (!kib) return tl::unexpected(std::make_error_code(std::errc::function_not_supported));
  const std::uint64_t available = *kib * 1024;
  const auto cgroups = text_of("/proc/self/cgroup").value_or("");
  return std::min(available, available_in_groups(cgroups, "/sys/fs/cgroup").value_or(available));
}

IoResult<std::uint64_t> peak_memory() {
  // getrusage is not used: its value is inherited across exec, so it may be that of a larger process.
  const auto kib = number_after(text_of("/proc/self/status").value_or(""), "VmHWM:");
  if (!kib) return tl::unexpected(std::make_error_code(std::errc::function_not_supported));
  return *kib * 1024;
}

}  // namespace ht::inline v1::io
