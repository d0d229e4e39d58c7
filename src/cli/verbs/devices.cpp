#include <fmt/format.h>

#include <vector>

#include "cli/cli.hpp"
#include "cli/print/output.hpp"
#include "cli/print/table.hpp"
#include "cli/print/text.hpp"

namespace ht::cli {
namespace {

std::string json_of(const DeviceDescription& device) {
  return fmt::format(R"({{"name":{},"hardware":{},"memory":{},"dtypes":{},"slices":{}}})",
                     json_string(device.name), json_or_null(device.hardware),
                     device.memory == 0 ? "null" : fmt::to_string(device.memory),
                     json_list(device.dtypes, json_string), json_list(device.slices, json_string));
}

std::string joined(const std::vector<std::string_view>& words) {
  std::string out;
  for (const auto word : words) {
    if (!out.empty()) out += ' ';
    out += word;
  }
  return out;
}

}  // namespace

Action register_devices(CLI::App& /*verb*/) {
  return [](const Common& common) -> Result<Exit> {
    const auto all = HT_TRY(devices());
    if (common.jsonl) {
      for (const auto& device : all) print(json_of(device) + "\n");
      return Exit::good;
    }
    if (common.json) {
      print(fmt::format("{{\"devices\":{}}}\n", json_list(all, json_of)));
      return Exit::good;
    }
    std::vector<std::vector<std::string>> lines{
        {"device", "memory", "dtype count", "operation groups", "hardware"}};
    for (const auto& device : all) {
      lines.push_back({device.name, device.memory == 0 ? "" : size_text(device.memory),
                       fmt::to_string(device.dtypes.size()), joined(device.slices),
                       printable(device.hardware)});
    }
    print(table(lines, {1, 2}));
    return Exit::good;
  };
}

}  // namespace ht::cli
