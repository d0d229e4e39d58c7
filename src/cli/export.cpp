#include <fmt/format.h>

#include <htensor/base/utf8.hpp>
#include <memory>

#include "cli/cli.hpp"
#include "cli/options.hpp"
#include "cli/progress.hpp"
#include "cli/text.hpp"

namespace ht::cli {
namespace {

struct Options {
  std::string path;
  std::string name;
  std::string target;
  std::uint64_t max_header = 0;
  bool force = false;
  bool lossy = false;
};

Result<Exit> export_tensor(const Options& options, const Common& common) {
  const auto model = HT_TRY(Model::open(options.path, {.max_header_bytes = options.max_header}));
  // Says which names are near where there is none like this.
  if (const auto found = model.raw(options.name); !found && found.error().code() == ErrorCode::not_found) {
    return fail(found.error());
  }
  WorkWithBar work(common);
  // The model's metadata is not the tensor's.
  const auto written =
      HT_TRY(convert(model, options.target, {.glob = escape_glob(options.name), .metadata = false},
                     {.if_exists = options.force ? io::IfExists::replace : io::IfExists::fail,
                      .lossy = options.lossy,
                      .work = work.options()}));
  if (common.json || common.jsonl) {
    print(fmt::format(R"({{"written":{}}})"
                      "\n",
                      json_string(options.target)));
  } else if (!common.quiet) {
    print(fmt::format("{}: {}\n", printable(options.target), size_text(written.bytes)));
  }
  tell_of_stale_seal(written.stale_seal, common);
  return Exit::good;
}

}  // namespace

Action register_export(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  add_path(verb, options->path);
  add_text(verb, options->name,
           {.name = "name", .type = "NAME", .description = "The tensor", .required = true});
  add_text(verb, options->target,
           {.name = "-o,--output",
            .type = "FILE",
            .description = "The file to make: .npy or .ht, or any other format's extension",
            .required = true});
  add_flag(verb, "--lossy", options->lossy, "Its mere bytes, where FILE has no place for its type");
  add_flag(verb, "--force", options->force, "Replaces FILE if it is there");
  add_max_header(verb, options->max_header);
  return [options](const Common& common) { return export_tensor(*options, common); };
}

}  // namespace ht::cli
