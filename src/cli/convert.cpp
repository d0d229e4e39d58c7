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
  std::vector<std::string> paths;  // sources, then the target
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
  bool normalize_layout = false;
  bool plain = false;
  bool seal = false;
  bool drop_metadata = false;
  bool raw_bytes = false;
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
                        fmt::format("--rename '{}' is not of the form A=B", printable(text)))
                      .with_hint("for example, --rename 'model.*=*' removes the prefix 'model.'"));
    }
    renames.push_back({text.substr(0, equals), text.substr(equals + 1)});
  }
  return renames;
}

Result<ConvertOptions> convert_options(const Options& options) {
  auto renames = HT_TRY(renames_of(options.renames));
  return ConvertOptions{.format = options.format,
                        .glob = options.filter,
                        .renames = std::move(renames),
                        .alignment = options.alignment,
                        .canonical = options.canonical,
                        // IREE reads no other order.
                        .normalize_layout = options.normalize_layout || !options.module.empty(),
                        .share_blocks = options.layout == "shared",
                        .tensor_notes = !options.plain,
                        .shard_bytes = options.shard_bytes};
}

// Refuses a module that cannot be written before anything is written.
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
                      "is a file of the model and cannot also be the MLIR module")
                    .at_path(options.module)
                    .with_hint("choose another FILE for --emit-mlir"));
  }
  const auto folder = module.has_parent_path() ? module.parent_path() : std::filesystem::path(".");
  const bool is_writable = std::filesystem::is_directory(folder, none) && access(folder.c_str(), W_OK) == 0;
  const auto there = std::filesystem::status(module, none);
  if (!is_writable || (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there))) {
    return fail(
        Error(ErrorCode::write_failed, "module_can_be_written",
              is_writable ? "exists and is not a regular file" : "its folder is missing or not writable")
            .at_path(options.module)
            .with_hint("choose another FILE for --emit-mlir"));
  }
  if (!options.force && std::filesystem::exists(there)) {
    return fail(Error(ErrorCode::already_exists, "module_is_not_there_yet", "already exists")
                    .at_path(options.module)
                    .with_hint("choose another FILE for --emit-mlir, or replace it and DST with --force"));
  }
  return {};
}

void print_warnings(const std::vector<Error>& warnings, const Common& common) {
  if (common.quiet) return;
  for (const auto& warning : warnings) {
    print_error(
        fmt::format("warning: {}\n  hint: {}\n", printable(to_string(warning)), printable(warning.hint())));
  }
}

Result<Exit> convert_model(const Options& options, const Common& common) {
  const std::vector<std::filesystem::path> sources(options.paths.begin(), options.paths.end() - 1);
  const auto model = HT_TRY(Model::open_merged(sources, {.max_header_bytes = options.max_header}));
  const auto wanted = HT_TRY(convert_options(options));
  if (wanted.format.empty()) HT_TRY(format_for(options.paths.back()));
  auto planned = plan_conversion(model, options.paths.back(), wanted);
  // A pattern that matches no tensor is an error in the sources.
  if (!planned && planned.error().code() == ErrorCode::not_found)
    return fail(std::move(planned).error().at_path(options.paths.front()));
  const auto plan = HT_TRY(planned);
  const bool json = common.json || common.jsonl;
  const ApplyOptions how{.if_exists = options.force ? io::IfExists::replace : io::IfExists::fail,
                         .drop_metadata = options.drop_metadata,
                         .raw_bytes = options.raw_bytes,
                         .lossy = options.lossy,
                         .seal = options.seal};
  auto checked = check_plan(plan, model, how);
  std::optional<Error> loss;
  if (!checked && checked.error().code() == ErrorCode::would_lose && options.dry_run) {
    // A dry run shows the plan in spite of its losses, unless something else is wrong with it.
    loss = checked.error();
    auto allowing = how;
    allowing.lossy = true;
    checked = check_plan(plan, model, allowing);
  }
  if (!checked) return fail(std::move(checked).error());
  HT_TRY(check_module(options, plan, model));
  if (options.dry_run) {
    print(json ? plan_json(plan, model, checked->removed()) : plan_text(plan, model, checked->removed()));
    print_warnings(plan.warnings, common);
    if (loss && !json) complain(*loss);
    return loss ? Exit::answer_is_no : Exit::good;
  }
  WorkWithBar work(common);
  const auto converted = HT_TRY((*std::move(checked)).apply(work.options()));
  if (!options.module.empty()) {
    const auto made = HT_TRY(Model::open(plan.model_path(), {.max_header_bytes = options.max_header}));
    HT_TRY(write_mlir(
        options.module, made,
        {.scope = options.scope, .inline_below = options.inline_all ? UINT64_MAX : options.inline_below},
        {.if_exists = how.if_exists, .stop = work.options().stop}));
  }
  if (json) {
    print(converted_json(converted, plan));
  } else if (!common.quiet) {
    print(converted_text(converted));
    print_error(losses_text(plan.losses));
  }
  print_warnings(plan.warnings, common);
  warn_of_stale_seal(converted.stale_seal, common);
  return Exit::good;
}

}  // namespace

Action register_convert(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  add_arguments(verb, "SRC... DST", options->paths,
                "Files of any format, shard indexes or folders; merged into DST", Presence::required);
  add_check(verb, [options] { return options->paths.size() < 2 ? "DST is required" : ""; });
  std::vector<std::string> formats;
  for (const auto name : format_names()) formats.emplace_back(name);
  add_choice(verb, "--to", options->format, formats, "Format of DST; default: by DST's extension");
  add_filter(verb, options->filter);
  add_texts(verb, "--rename A=B", options->renames, "Rename tensors; * in A and B stands for the same text");
  add_size(verb, "--align", options->alignment, "Align data to multiples of this power of two");
  add_flag(verb, "--canonical", options->canonical,
           "Order tensors as the format's reference writer does instead of as in SRC");
  add_flag(verb, "--usual-order", options->normalize_layout,
           "Write all tensors row-major and little-endian, even if DST's format can store SRC's order");
  add_choice(verb, "--layout", options->layout, {"iree", "shared"},
             "iree: place data as IREE does; shared: align data so that the file system can share blocks "
             "with SRC");
  add_flag(verb, "--plain", options->plain,
           "Write an IRPA without dtypes, shapes and metadata, as IREE's writer does");
  add_size(verb, "--shard-size", options->shard_bytes, "Split the model into files of about this size");
  add_flag(verb, "--seal", options->seal, "Also write DST's seal, computed while the bytes are copied");
  add_flag(verb, "--drop-metadata", options->drop_metadata, "Drop metadata that DST's format cannot store");
  add_flag(verb, "--raw-bytes", options->raw_bytes,
           "Store tensors as raw bytes if DST's format lacks their dtype, encoding or shape");
  add_flag(verb, "--lossy", options->lossy, "Allow every loss: --drop-metadata and --raw-bytes");
  add_text(verb, "--emit-mlir FILE", options->module,
           "Also write an MLIR module for IREE that declares DST's tensors as globals");
  add_text(verb, "--scope NAME", options->scope,
           "Parameter scope of DST in the module, as in iree-run-module --parameters=NAME=DST");
  add_size(verb, "--inline-below", options->inline_below,
           "Store tensors smaller than this in the module itself; default: 0");
  add_flag(verb, "--inline-all", options->inline_all, "Store all tensors in the module itself");
  add_flag(verb, "--dry-run", options->dry_run, "Print the plan and write nothing");
  add_flag(verb, "--force", options->force, "Replace DST if it exists");
  add_max_header(verb, options->max_header);
  return [options](const Common& common) { return convert_model(*options, common); };
}

}  // namespace ht::cli
