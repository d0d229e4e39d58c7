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
    // The kernel that uses CPU features beyond the baseline.
    const auto kernel = crc64nvme_kernel();
    const bool baseline = kernel == "table";
    const bool has_sha256 = Hasher::make(HashAlgorithm::sha256).has_value();
    if (common.json || common.jsonl) {
      print(fmt::format(R"({{"version":{},"build":{},"compiler":{},"cpu":[{}],"parts":[{}]}})"
                        "\n",
                        json_string(library_version), json_string(build), json_string(__VERSION__),
                        baseline ? "" : json_string(kernel), has_sha256 ? json_string("openssl") : ""));
    } else {
      print(fmt::format("htensor {} ({} build, compiler {})\n", library_version, build, __VERSION__));
      print(fmt::format("cpu features in use: {}\noptional parts: {}\n",
                        baseline ? "only the baseline" : kernel, has_sha256 ? "openssl (sha256)" : "none"));
    }
    return Exit::good;
  };
}

}  // namespace ht::cli
