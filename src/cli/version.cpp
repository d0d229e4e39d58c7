#include <fmt/format.h>

#include "cli/cli.hpp"
#include "cli/text.hpp"

namespace ht::cli {
namespace {

#ifdef NDEBUG
constexpr std::string_view build = "release";
#else
constexpr std::string_view build = "debug";
#endif

}  // namespace

Action register_version(CLI::App& /*verb*/) {
  return [](const Common& common) -> Result<Exit> {
    if (common.json || common.jsonl) {
      // No kernel of this version asks for a CPU feature, and no part is optional.
      print(fmt::format(R"({{"version":{},"build":{},"compiler":{},"cpu":[],"parts":[]}})"
                        "\n",
                        json_string(library_version), json_string(build), json_string(__VERSION__)));
    } else {
      print(fmt::format("htensor {} ({} build, compiler {})\n", library_version, build, __VERSION__));
      print("cpu features in use: none beyond the baseline\noptional parts: none\n");
    }
    return Exit::good;
  };
}

}  // namespace ht::cli
