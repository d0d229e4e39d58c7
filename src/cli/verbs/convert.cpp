#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/utf8.hpp"
#include "cli/cli.hpp"
#include "cli/options.hpp"
#include "cli/print/progress.hpp"
#include "cli/print/table.hpp"
#include "cli/print/text.hpp"

namespace ht::cli {
namespace {

using Path = std::filesystem::path;

struct ConvertArguments {
  std::vector<std::string> paths;  // sources, then the target
  ConvertOptions convert;
  ApplyOptions apply;
  MlirOptions mlir;
  std::vector<std::string> renames;
  std::vector<std::string> casts;
  std::vector<std::string> quantizes;
  std::string layout = "iree";
  std::string module;
  bool inline_all = false;
  bool plain = false;
  bool dry_run = false;
  bool force = false;

  [[nodiscard]] std::string usage_error() const {
    if (paths.size() < 2) return "DST is required";
    if (!module.empty()) return {};
    if (!mlir.scope.empty()) return "--scope needs --emit-mlir";
    if (mlir.inline_below != 0) return "--inline-below needs --emit-mlir";
    if (inline_all) return "--inline-all needs --emit-mlir";
    return {};
  }
};

Result<std::vector<ConvertOptions::Rename>> renames_of(const std::vector<std::string>& texts) {
  std::vector<ConvertOptions::Rename> renames;
  renames.reserve(texts.size());
  for (const auto& text : texts) {
    const auto equals = text.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return fail(
          Error(ErrorCode::bad_name, "rename_has_two_names",
                fmt::format("--rename '{}' is not of the form A=B", printable(text)))
              .with_hint("write A=B, for example --rename 'model.*=*' to remove the prefix 'model.'"));
    }
    renames.push_back({text.substr(0, equals), text.substr(equals + 1)});
  }
  return renames;
}

// Adds the GLOB=TYPE rules of --cast or --quantize. The last = separates GLOB and TYPE.
Result<void> add_type_rules(std::vector<ConvertOptions::TypeRule>& rules,
                            const std::vector<std::string>& texts, std::string_view option) {
  for (const auto& text : texts) {
    const auto equals = text.rfind('=');
    const bool is_rule = equals != 0 && equals != std::string::npos && equals + 1 < text.size();
    const std::string type = is_rule ? text.substr(equals + 1) : "";
    const bool is_type = option == "--cast" ? find_dtype(type).has_value() : find_encoding(type).has_value();
    if (!is_rule || !is_type) {
      return fail(
          Error(ErrorCode::bad_dtype, "type_rule_names_a_type",
                is_rule ? fmt::format("{} '{}': '{}' is not a {}", option, printable(text), printable(type),
                                      option == "--cast" ? "dtype" : "block encoding")
                        : fmt::format("{} '{}' is not of the form GLOB=TYPE", option, printable(text)))
              .with_hint(option == "--cast" ? "name a dtype, for example --cast '*=BF16' --round"
                                            : "name a block encoding, for example --quantize '*=Q8_0'"));
    }
    rules.push_back({text.substr(0, equals), type});
  }
  return {};
}

// Derives the library's options from the arguments.
Result<void> complete(ConvertArguments& options) {
  auto& convert = options.convert;
  convert.renames = HT_TRY(renames_of(options.renames));
  HT_TRY(add_type_rules(convert.types, options.quantizes, "--quantize"));
  HT_TRY(add_type_rules(convert.types, options.casts, "--cast"));
  // IREE reads row-major little-endian data only.
  if (!options.module.empty()) convert.normalize_layout = true;
  convert.share_blocks = options.layout == "shared";
  convert.describe_types = !options.plain;
  if (options.inline_all) options.mlir.inline_below = UINT64_MAX;
  if (options.force) options.apply.if_exists = IfExists::replace;
  return {};
}

// Checks the module before the first write.
Result<void> check_module(const ConvertArguments& options, const ConversionPlan& plan, const Model& source,
                          const Common& common) {
  if (options.module.empty()) return {};
  HT_TRY(check_mlir(plan, options.mlir, {.max_header_bytes = common.max_header}));
  auto files = source.files();
  for (const auto& file : plan.files) files.push_back(file.path);
  return check_mlir_target(options.module, files, {.if_exists = options.apply.if_exists});
}

// The origin of the bytes of a part: a file of the source, a pattern or memory.
struct OriginText {
  std::string kind;
  std::string file;
  std::string offset;
};

OriginText origin_text(const PlannedFile::Part& part, const Model& source) {
  if (const auto* const stored = std::get_if<PartOrigin::Stored>(&part.from)) {
    return {"file", source.files()[stored->file].string(), std::to_string(stored->offset)};
  }
  if (const auto* const reordered = std::get_if<PartOrigin::Reordered>(&part.from)) {
    return {"reordered", source.files()[reordered->file].string(), std::to_string(reordered->offset)};
  }
  if (const auto* const converted = std::get_if<PartOrigin::Converted>(&part.from)) {
    return {"converted", source.files()[converted->file].string(), std::to_string(converted->offset)};
  }
  return {std::holds_alternative<PartOrigin::Repeated>(part.from) ? "splat" : "memory", "", ""};
}

void append_removed(std::string& out, std::string_view verb, const std::vector<Path>& paths) {
  if (paths.empty()) return;
  std::vector<std::string> names;
  names.reserve(paths.size());
  for (const auto& path : paths) names.push_back(printable(path.string()));
  append_text(out, "{} {} file{} of the old model: {}\n", verb, names.size(), names.size() == 1 ? "" : "s",
              name_list(names));
}

std::string_view kind_text(Loss::Kind kind) {
  switch (kind) {
    case Loss::Kind::metadata: return "metadata";
    case Loss::Kind::rounding: return "rounding";
    case Loss::Kind::raw_bytes: break;
  }
  return "raw_bytes";
}

std::string json_losses(const ConversionPlan& plan) {
  const auto json_loss = [](const Loss& loss) {
    return fmt::format(R"({{"name":{},"kind":"{}","tensor":{},"why":{}}})", json_string(loss.name),
                       kind_text(loss.kind), loss.is_tensor, json_string(loss.why));
  };
  return json_list(plan.losses, json_loss);
}

std::string loss_text(const Loss& loss) {
  const std::string name = printable(loss.name);
  if (loss.kind == Loss::Kind::raw_bytes) return fmt::format("kept as raw bytes: '{}' {}", name, loss.change);
  if (loss.kind == Loss::Kind::rounding) return fmt::format("rounded: '{}' {}", name, loss.change);
  if (loss.is_tensor) return fmt::format("metadata dropped: the metadata of tensor '{}'", name);
  return fmt::format("metadata dropped: '{}'", name);
}

// A line for each of the first ten losses, "kept as raw bytes: 'x' F8_E4M3 [8] → I8 [8]", and one with the
// number of further losses.
std::string losses_text(std::span<const Loss> losses) {
  constexpr std::size_t max_lines = 10;
  std::string out;
  for (const auto& loss : losses.first(std::min(losses.size(), max_lines)))
    append_text(out, "{}\n", loss_text(loss));
  if (losses.size() > max_lines)
    append_text(out, "… and {} more; list them with --json\n", losses.size() - max_lines);
  return out;
}

// The plan: all ranges of all files with the origins of their bytes, then the losses. `plan_json` also has
// the warnings. `removed` are the files that would be removed.
std::string plan_text(const ConversionPlan& plan, const Model& source, const std::vector<Path>& removed) {
  std::string out;
  for (const auto& file : plan.files) {
    append_text(out, "{}: {}, {}\n", printable(file.path.string()), plan.format, byte_count_text(file.bytes));
    std::vector<std::vector<std::string>> lines{{"", "offset", "bytes", "from", "at"}};
    lines.push_back({"", "0", std::to_string(file.header.size()), "header", ""});
    for (const auto& part : file.parts) {
      const auto from = origin_text(part, source);
      std::string where = from.file.empty() ? from.kind : printable(from.file);
      if (from.kind == "reordered" || from.kind == "converted") append_text(where, " ({})", from.kind);
      lines.push_back(
          {"", std::to_string(part.offset), std::to_string(part.bytes), std::move(where), from.offset});
    }
    out += table(lines, {1, 2, 4});
  }
  append_removed(out, "would remove", removed);
  for (const auto& loss : plan.losses) append_text(out, "{}\n", loss_text(loss));
  return out;
}

std::string plan_json(const ConversionPlan& plan, const Model& source, const std::vector<Path>& removed) {
  const auto json_part = [&](const PlannedFile::Part& part) {
    const auto [kind, path, offset] = origin_text(part, source);
    return fmt::format(R"({{"offset":{},"bytes":{},"from":"{}","file":{},"file_offset":{}}})", part.offset,
                       part.bytes, kind, json_or_null(path), offset.empty() ? "null" : offset);
  };
  const auto json_file = [&](const PlannedFile& file) {
    return fmt::format(R"({{"path":{},"bytes":{},"header_bytes":{},"parts":{}}})", json_path(file.path),
                       file.bytes, file.header.size(), json_list(file.parts, json_part));
  };
  return fmt::format(
      R"({{"format":"{}","bytes":{},"tensors":{},"files":{},"removed":{},"losses":{},"warnings":{}}})"
      "\n",
      plan.format, plan.bytes(), plan.tensors, json_list(plan.files, json_file),
      json_list(removed, json_path), json_losses(plan), json_errors(plan.warnings));
}

// The files written and the copy methods used; in JSON also losses and warnings.
std::string converted_text(const ConversionReport& converted) {
  std::string out;
  for (const auto& path : converted.written) append_text(out, "{}\n", printable(path.string()));
  const auto& by = converted.copied_by;
  append_text(out, "{} written", byte_count_text(converted.bytes));
  const std::pair<std::uint64_t, std::string_view> methods[] = {
      {by.reflink, "shared with the source"},
      {by.direct, "copied by direct I/O"},
      {by.copy_file_range, "copied by copy_file_range"},
      {by.read_write, "copied by read and write"}};
  for (const auto& [bytes, method] : methods) {
    if (bytes != 0) append_text(out, ", {} {}", byte_count_text(bytes), method);
  }
  out += '\n';
  append_removed(out, "removed", converted.removed);
  if (converted.seal) append_text(out, "seal: {}\n", printable(converted.seal->string()));
  return out;
}

std::string converted_json(const ConversionReport& converted, const ConversionPlan& plan,
                           std::span<const Error> warnings) {
  const auto& [written, bytes, by, removed, seal, stale_seal] = converted;
  return fmt::format(
      R"({{"written":{},"bytes":{},"copied_by":{{"reflink":{},"direct":{},"copy_file_range":{},"read_write":{}}},"seal":{},"removed":{},"losses":{},"warnings":{}}})"
      "\n",
      json_paths(written), bytes, by.reflink, by.direct, by.copy_file_range, by.read_write,
      seal ? json_path(*seal) : "null", json_list(removed, json_path), json_losses(plan),
      json_errors(warnings));
}

Result<Exit> convert_model(ConvertArguments& options, const Common& common) {
  const std::vector<Path> sources(options.paths.begin(), options.paths.end() - 1);
  const auto model = HT_TRY(Model::open_merged(sources, {.max_header_bytes = common.max_header}));
  HT_TRY(complete(options));
  const ApplyOptions& apply_options = options.apply;
  if (options.convert.format.empty()) HT_TRY(format_for(options.paths.back()));
  auto planned = plan_conversion(model, options.paths.back(), options.convert);
  // If a pattern matches no tensor, the error gets the path of the first source.
  if (!planned && planned.error().code() == ErrorCode::not_found)
    return fail(std::move(planned).error().at_path(options.paths.front()));
  const auto plan = HT_TRY(planned);
  const bool json = common.is_json();
  auto checked = check_plan(plan, model, apply_options);
  std::optional<Error> loss;
  if (!checked && checked.error().code() == ErrorCode::would_lose && options.dry_run) {
    // A dry run shows the plan despite its losses, unless another check fails.
    loss = checked.error();
    auto allowing = apply_options;
    allowing.lossy = true;
    checked = check_plan(plan, model, allowing);
  }
  if (!checked) return fail(std::move(checked).error());
  HT_TRY(check_module(options, plan, model, common));
  if (options.dry_run) {
    print(json ? plan_json(plan, model, checked->removed()) : plan_text(plan, model, checked->removed()));
    print_warnings(plan.warnings, common);
    if (loss && !json) print_diagnostic(*loss);
    return loss ? Exit::negative_answer : Exit::good;
  }
  WorkWithBar work(common);
  const auto converted = HT_TRY((*std::move(checked)).apply(work.options()));
  if (!options.module.empty()) {
    const auto converted_model =
        HT_TRY(Model::open(plan.model_path(), {.max_header_bytes = common.max_header}));
    HT_TRY(write_mlir(options.module, converted_model, options.mlir,
                      {.if_exists = apply_options.if_exists, .stop = work.options().stop}));
  }
  auto warnings = plan.warnings;
  if (converted.stale_seal) warnings.push_back(stale_seal_warning(*converted.stale_seal));
  if (json) {
    print(converted_json(converted, plan, warnings));
  } else if (!common.quiet) {
    print(converted_text(converted));
    print_error(losses_text(plan.losses));
  }
  print_warnings(warnings, common);
  return Exit::good;
}

}  // namespace

Action register_convert(CLI::App& verb) {
  auto options = std::make_shared<ConvertArguments>();
  add_arguments(verb, "SRC... DST", options->paths,
                "Files of any format, shard indexes or folders; merged into DST", Presence::required);
  add_check(verb, [options] { return options->usage_error(); });
  std::vector<std::string> formats;
  for (const auto name : format_names()) formats.emplace_back(name);
  add_choice(verb, "--to", options->convert.format, formats, "Format of DST; default: by DST's extension");
  add_filter(verb, options->convert.filter);
  add_texts(verb, "--rename A=B", options->renames, "Rename tensors; * in A and B stands for the same text");
  add_texts(
      verb, "--cast GLOB=DTYPE", options->casts,
      "Change the dtype of tensors. A GLOB with wildcards does not select integers and booleans if DTYPE "
      "is floating-point; an exact name in --cast or --quantize has priority");
  add_flag(verb, "--round", options->apply.round, "Allow --cast to round values that DTYPE does not hold");
  add_choice_flag(
      verb, "--dequantize", options->convert.dequantize, {"F32", "F16", "BF16"},
      "Decode block encodings to F32, or to F16 or BF16 with --dequantize=F16 or --dequantize=BF16");
  add_texts(verb, "--quantize GLOB=ENCODING", options->quantizes,
            "Encode floating-point tensors as blocks. A GLOB with wildcards does not select norms, biases, "
            "splats, 1-D tensors and tensors whose rows are not whole blocks");
  add_size(verb, "--align N", options->convert.alignment, "Align data to multiples of this power of two");
  add_flag(verb, "--canonical", options->convert.canonical,
           "Order tensors as the format's reference writer does instead of as in SRC");
  add_flag(verb, "--normalize-layout", options->convert.normalize_layout,
           "Write all tensors row-major and little-endian, even if DST's format can store SRC's order");
  add_choice(verb, "--layout", options->layout, {"iree", "shared"},
             "iree: place data as IREE does; shared: align data so that the file system can share blocks "
             "with SRC");
  add_flag(verb, "--plain", options->plain,
           "Write an IRPA without dtypes, shapes and metadata, as IREE's writer does");
  add_size(verb, "--shard-size SIZE", options->convert.shard_bytes,
           "Split the model into files of about this size");
  add_flag(verb, "--seal", options->apply.seal, "Also write DST's seal, computed while the bytes are copied");
  add_flag(verb, "--drop-metadata", options->apply.drop_metadata,
           "Drop metadata that DST's format cannot store");
  add_flag(verb, "--raw-bytes", options->apply.raw_bytes,
           "Store tensors as raw bytes if DST's format lacks their dtype, encoding or shape");
  add_flag(verb, "--lossy", options->apply.lossy,
           "Allow every loss: --drop-metadata, --raw-bytes and --round");
  add_text(verb, "--emit-mlir FILE", options->module,
           "Also write an MLIR module for IREE that declares DST's tensors as globals");
  add_text(verb, "--scope NAME", options->mlir.scope,
           "Parameter scope of DST in the module, as in iree-run-module --parameters=NAME=DST");
  add_size(verb, "--inline-below BYTES", options->mlir.inline_below,
           "Store tensors smaller than this in the module itself; default: 0");
  add_flag(verb, "--inline-all", options->inline_all, "Store all tensors in the module itself");
  add_flag(verb, "--dry-run", options->dry_run, "Print the plan and write nothing");
  add_flag(verb, "--force", options->force, "Replace DST if it exists");
  return [options](const Common& common) { return convert_model(*options, common); };
}

}  // namespace ht::cli
