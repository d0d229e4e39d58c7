#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "cli/cli.hpp"
#include "cli/conversion_text.hpp"
#include "cli/options.hpp"
#include "cli/progress.hpp"
#include "cli/text.hpp"

namespace ht::cli {
namespace {

struct Options {
  std::string source;
  std::string target;
  std::string format;
  NameFilter filter;
  std::vector<std::string> renames;
  std::uint64_t alignment = 0;
  std::string layout = "iree";
  std::uint64_t shard_bytes = 0;
  std::uint64_t max_header = 0;
  std::string module;
  std::string scope;
  std::uint64_t inline_below = 0;
  bool inline_all = false;
  bool canonical = false;
  bool usual_order = false;
  bool plain = false;
  bool seal = false;
  bool lossy = false;
  bool dry_run = false;
  bool force = false;
};

Result<std::vector<Rename>> renames_of(const std::vector<std::string>& texts) {
  std::vector<Rename> renames;
  renames.reserve(texts.size());
  for (const auto& text : texts) {
    const auto equals = text.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return fail(Error(ErrorCode::bad_name, "rename_has_two_names",
                        fmt::format("'{}' is not of the form A=B", printable(text)))
                      .with_hint("--rename 'model.*=*' takes 'model.' off the beginning of names"));
    }
    renames.push_back({text.substr(0, equals), text.substr(equals + 1)});
  }
  return renames;
}

Result<ConvertOptions> what_is_wanted(const Options& options) {
  auto renames = HT_TRY(renames_of(options.renames));
  return ConvertOptions{.format = options.format,
                        .glob = options.filter,
                        .renames = std::move(renames),
                        .alignment = options.alignment,
                        .canonical = options.canonical,
                        // IREE knows no other.
                        .usual_order = options.usual_order || !options.module.empty(),
                        .share_blocks = options.layout == "shared",
                        .tensor_notes = !options.plain,
                        .shard_bytes = options.shard_bytes};
}

// Told before anything is written: the module is a file beside the model's own.
Result<void> check_module(const Options& options, const ConversionPlan& plan, const Model& source) {
  const std::filesystem::path module = options.module;
  if (module.empty()) return {};
  std::error_code none;
  const auto is_module = [&](const std::filesystem::path& file) {
    return file.lexically_normal() == module.lexically_normal() ||
           std::filesystem::equivalent(file, module, none);
  };
  const bool is_taken = std::ranges::any_of(source.files(), is_module) ||
                        std::ranges::any_of(plan.files, is_module, &PlannedFile::path);
  if (is_taken) {
    return fail(Error(ErrorCode::already_exists, "module_is_a_file_of_its_own",
                      "is the model's, and cannot be the module's too")
                    .at_path(options.module)
                    .with_hint("choose another name for the module"));
  }
  const auto folder = module.has_parent_path() ? module.parent_path() : std::filesystem::path(".");
  const bool is_writable = std::filesystem::is_directory(folder, none) && access(folder.c_str(), W_OK) == 0;
  const auto there = std::filesystem::status(module, none);
  if (!is_writable || (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there))) {
    return fail(
        Error(ErrorCode::write_failed, "module_can_be_written",
              is_writable ? "is there and no regular file" : "is in no folder that can be written into")
            .at_path(options.module)
            .with_hint("choose another name for the module"));
  }
  if (!options.force && std::filesystem::exists(there)) {
    return fail(
        Error(ErrorCode::already_exists, "module_is_not_there_yet", "is there already")
            .at_path(options.module)
            .with_hint("choose another name for the module, or say that both may be replaced (--force)"));
  }
  return {};
}

Result<Exit> convert_model(const Options& options, const Common& common) {
  const auto model = HT_TRY(Model::open(options.source, {.max_header_bytes = options.max_header}));
  const auto wanted = HT_TRY(what_is_wanted(options));
  const auto plan = HT_TRY(plan_conversion(model.catalog(), options.target, wanted));
  const bool json = common.json || common.jsonl;
  const auto if_exists = options.force ? io::IfExists::replace : io::IfExists::fail;
  // What would be lost is in the plan.
  HT_TRY(can_apply(plan, model, {.if_exists = if_exists, .lossy = true, .seal = options.seal}));
  HT_TRY(check_module(options, plan, model));
  if (options.dry_run) {
    print(json ? plan_json(plan, model) : plan_text(plan, model));
    return plan.losses.empty() || options.lossy ? Exit::good : Exit::answer_is_no;
  }
  WorkWithBar work(common);
  const auto converted = HT_TRY(
      apply(plan, model,
            {.if_exists = if_exists, .lossy = options.lossy, .seal = options.seal, .work = work.options()}));
  if (!options.module.empty()) {
    const auto made = HT_TRY(Model::open(plan.model_path(), {.max_header_bytes = options.max_header}));
    HT_TRY(write_mlir(
        options.module, made,
        {.scope = options.scope, .inline_below = options.inline_all ? UINT64_MAX : options.inline_below},
        {.if_exists = if_exists, .stop = work.options().stop}));
  }
  if (json) {
    print(converted_json(converted));
  } else if (!common.quiet) {
    print(converted_text(converted));
    for (const auto& loss : plan.losses) print_error(fmt::format("lost: {}\n", printable(loss.why)));
  }
  tell_of_stale_seal(converted.stale_seal, common);
  return Exit::good;
}

}  // namespace

Action register_convert(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  add_text(verb, options->source,
           {.name = "source",
            .type = "SRC",
            .description = "A file of any format, a shard index, or a folder",
            .required = true});
  add_text(verb, options->target,
           {.name = "target", .type = "DST", .description = "The file to make", .required = true});
  std::vector<std::string> formats;
  for (const auto name : format_names()) formats.emplace_back(name);
  add_text(verb, options->format,
           {.name = "--to",
            .type = "FORMAT",
            .description = "Its format; that of DST's extension unless given",
            .one_of = formats});
  add_filter(verb, options->filter);
  add_texts(verb, options->renames,
            {.name = "--rename",
             .type = "A=B",
             .description = "Another name for a tensor; one * stands for the same text in both"});
  add_size(verb, "--align", options->alignment, "Data begins at multiples of this power of two");
  add_flag(verb, "--canonical", options->canonical,
           "The order of the format's own writer, whatever SRC's is");
  add_flag(verb, "--usual-order", options->usual_order,
           "Row-major and little-endian, even where DST could keep another order");
  add_text(verb, options->layout,
           {.name = "--layout",
            .type = "LAYOUT",
            .description = "iree: as IREE writes it; shared: so that blocks can be shared with SRC",
            .one_of = {"iree", "shared"}});
  add_flag(verb, "--plain", options->plain, "An IRPA without what IREE's own writer does not put there");
  add_size(verb, "--shard-size", options->shard_bytes, "Cuts the model into files of about this size");
  add_flag(verb, "--seal", options->seal, "Seals what was written, from the bytes that pass by");
  add_flag(verb, "--lossy", options->lossy, "Leaves out what DST has no place for");
  add_text(verb, options->module,
           {.name = "--emit-mlir",
            .type = "FILE",
            .description = "Also declares DST's tensors as globals of an MLIR module, for IREE"});
  add_text(verb, options->scope,
           {.name = "--scope",
            .type = "NAME",
            .description = "What IREE is told to call DST: --parameters=NAME=DST"});
  add_size(verb, "--inline-below", options->inline_below,
           "Tensors of fewer bytes go into the module; none unless given");
  add_flag(verb, "--inline-all", options->inline_all, "All tensors go into the module");
  add_flag(verb, "--dry-run", options->dry_run, "Shows the plan and writes nothing");
  add_flag(verb, "--force", options->force, "Replaces DST if it is there");
  add_max_header(verb, options->max_header);
  return [options](const Common& common) { return convert_model(*options, common); };
}

}  // namespace ht::cli
