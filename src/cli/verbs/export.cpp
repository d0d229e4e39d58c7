#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <htensor/base/fault.hpp>
#include <memory>
#include <span>
#include <vector>

#include "cli/cli.hpp"
#include "cli/options.hpp"
#include "cli/print/progress.hpp"
#include "cli/print/text.hpp"

namespace ht::cli {
namespace {

using Path = std::filesystem::path;

struct ExportArguments {
  std::string path;
  std::vector<std::string> names;
  std::string target;
  std::string format;
  ApplyOptions apply;
  bool force = false;

  [[nodiscard]] bool is_to_stdout() const { return target == "-"; }
  /// Whether each tensor is written to its own file in the folder `target`.
  [[nodiscard]] bool is_to_folder() const {
    std::error_code failed;
    return target.ends_with('/') || std::filesystem::is_directory(target, failed);
  }
  /// Whether only the stored bytes are written, without a header.
  [[nodiscard]] bool is_raw() const {
    return is_to_stdout() || format == "bin" ||
           (format.empty() && !is_to_folder() && Path(target).extension() == ".bin");
  }

  [[nodiscard]] std::string usage_error() const {
    if (is_to_stdout() && !format.empty() && format != "bin")
      return "-o - writes the stored bytes: leave out --to";
    if (is_to_stdout() && names.size() > 1) return "-o - takes one NAME";
    if (names.size() > 1 && !is_to_folder()) return "several NAMEs need a folder: -o DIR/";
    return {};
  }
};

// A unique file name for a tensor, which stays within the folder for any tensor name: bytes that are unsafe
// in file names are written as %XX.
std::string file_name_of(std::string_view tensor) {
  if (tensor.empty()) return "%";
  std::string name;
  for (const char c : tensor) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_unsafe =
        byte < 0x20 || byte == 0x7F || c == '/' || c == '\\' || c == '%' || (c == '.' && name.empty());
    if (is_unsafe) {
      append_text(name, "%{:02X}", byte);
    } else {
      name += c;
    }
  }
  return name;
}

// Plans a file of the tensor's stored bytes only.
ConversionPlan plan_raw(const Model& model, const Entry& entry, const Path& target) {
  PlannedFile::Part part{
      .offset = 0, .bytes = entry.bytes, .from = PartOrigin::Stored{entry.file, entry.offset}};
  if (entry.is_splat()) {
    PartOrigin::Repeated repeated{.pattern = {},
                                  .pattern_bytes = static_cast<std::uint8_t>(entry.splat.size())};
    std::ranges::copy(entry.splat, repeated.pattern.begin());
    part.from = repeated;
  }
  PlannedFile file{.path = target, .bytes = entry.bytes, .header = {}, .parts = {}, .relayouts = {}};
  if (entry.bytes != 0) file.parts.push_back(part);
  ConversionPlan plan;
  plan.format = "bin";
  plan.target = target;
  plan.files.push_back(std::move(file));
  plan.tensors = 1;
  plan.sources = identities_of(model);
  return plan;
}

// Each tensor once, in the order of the arguments.
Result<std::vector<std::size_t>> tensors_of(const Model& model, const ExportArguments& options) {
  std::vector<std::size_t> indices;
  for (const auto& name : options.names) {
    const auto found = model.find(name);
    if (!found) return fail(model[name].error());
    if (std::ranges::find(indices, *found) == indices.end()) indices.push_back(*found);
  }
  return indices;
}

// The formats of --to and of FILE's extension.
std::vector<std::string> target_formats() {
  std::vector<std::string> formats{"bin"};
  for (const auto name : format_names()) formats.emplace_back(name);
  return formats;
}

Result<std::vector<ConversionPlan>> plans_of(const Model& model, const ExportArguments& options) {
  std::vector<ConversionPlan> plans;
  for (const std::size_t index : HT_TRY(tensors_of(model, options))) {
    const Entry entry = model.catalog()[index];
    Path target = options.target;
    if (options.is_to_folder()) {
      const std::string_view format = options.format.empty() ? "npy" : std::string_view(options.format);
      target /= fmt::format("{}.{}", file_name_of(entry.name), format);
    }
    if (options.is_raw()) {
      plans.push_back(plan_raw(model, entry, target));
      continue;
    }
    // The model's metadata does not belong to the tensor, and single-tensor formats cannot store block
    // encodings.
    auto plan = plan_conversion(model, target,
                                {.format = options.format,
                                 .filter = escape_glob(entry.name),
                                 .metadata = false,
                                 .dequantize = "F32"});
    if (!plan && plan.error().rule() == "extension_names_a_format") {
      return fail(std::move(plan).error().with_hint(
          fmt::format("name the format with --to, or use the extension of one of {}",
                      fmt::join(target_formats(), ", "))));
    }
    plans.push_back(HT_TRY(std::move(plan)));
  }
  return plans;
}

// Writes the stored bytes of a tensor to standard output.
Result<Exit> print_bytes(const Model& model, const ExportArguments& options) {
  const auto tensor = HT_TRY(model.at(HT_TRY(tensors_of(model, options)).front()));
  std::vector<std::byte> buffer;
  std::vector<std::byte> piece;
  constexpr std::uint64_t piece_bytes = 65536;
  for (std::uint64_t done = 0; done < tensor.byte_size() && std::ferror(stdout) == 0; done += piece.size()) {
    if (is_interrupted()) return fail(interruption());
    piece.resize(static_cast<std::size_t>(std::min(piece_bytes, tensor.byte_size() - done)));
    if (tensor.is_splat()) {
      HT_TRY(tensor.copy_to(piece, done));
    } else {
      const Bytes part = HT_TRY(tensor.view(done, piece.size(), buffer));
      HT_TRY(guarded(part, [&] { std::ranges::copy(part, piece.begin()); }));
    }
    print({reinterpret_cast<const char*>(piece.data()), piece.size()});
  }
  return Exit::good;
}

// A folder for the exported files. If it is new and still empty in the end, for example because no file can
// be written, it is removed again.
class TargetFolder {
 public:
  TargetFolder() = default;
  TargetFolder(const TargetFolder&) = delete;
  TargetFolder& operator=(const TargetFolder&) = delete;
  ~TargetFolder() {
    std::error_code not_empty;
    if (!created_.empty()) std::filesystem::remove(created_, not_empty);
  }

  Result<void> create(const Path& folder) {
    std::error_code failed;
    if (std::filesystem::create_directory(folder, failed)) created_ = folder;
    if (!failed) return {};
    return fail(Error(ErrorCode::write_failed, "export_folder_can_be_created",
                      fmt::format("cannot create the folder: {}", failed.message()))
                    .at_path(folder.native())
                    .with_cause(failed)
                    .with_hint("choose another folder for -o"));
  }

 private:
  Path created_;
};

Result<Exit> export_tensors(const ExportArguments& options, const Common& common) {
  const bool json = common.is_json();
  if (options.is_to_stdout() && json) {
    return fail(Error(ErrorCode::bad_state, "standard_output_has_one_use",
                      "-o - and --json both write to standard output")
                    .with_hint("leave out --json, or write to a file: -o FILE.bin"));
  }
  const auto model = HT_TRY(Model::open(options.path, {.max_header_bytes = common.max_header}));
  if (options.is_to_stdout()) return print_bytes(model, options);
  ApplyOptions apply_options = options.apply;
  if (options.force) apply_options.if_exists = IfExists::replace;
  const auto plans = HT_TRY(plans_of(model, options));
  // All plans are checked before the first write. The checks need the folder.
  TargetFolder folder;
  if (options.is_to_folder()) HT_TRY(folder.create(Path(options.target + "/").parent_path()));
  std::vector<CheckedPlan> checked;
  checked.reserve(plans.size());
  for (const auto& plan : plans) checked.push_back(HT_TRY(check_plan(plan, model, apply_options)));
  std::vector<Path> paths;
  std::vector<Error> warnings;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    WorkWithBar work(common);
    const auto written = HT_TRY(std::move(checked[i]).apply(work.options()));
    const auto& path = plans[i].files.front().path;
    if (!common.quiet && !json)
      print(fmt::format("{}: {}\n", printable(path.string()), byte_count_text(written.bytes)));
    paths.push_back(path);
    const bool is_known = written.stale_seal && std::ranges::find(warnings, written.stale_seal->native(),
                                                                  &Error::path) != warnings.end();
    if (!written.stale_seal || is_known) continue;
    warnings.push_back(stale_seal_warning(*written.stale_seal));
    print_warnings(std::span(warnings).last(1), common);
  }
  if (json)
    print(fmt::format("{{\"written\":{},\"warnings\":{}}}\n", json_paths(paths), json_errors(warnings)));
  return Exit::good;
}

}  // namespace

Action register_export(CLI::App& verb) {
  auto options = std::make_shared<ExportArguments>();
  add_path(verb, options->path);
  add_arguments(verb, "NAME...", options->names, "Names of the tensors", Presence::required);
  add_text(verb, "-o,--output FILE|DIR/|-", options->target,
           "FILE: the extension names the format; DIR/: one file per tensor; -: standard output. FILE.bin "
           "and - contain only the stored bytes",
           Presence::required);
  add_choice(verb, "--to", options->format, target_formats(),
             "Format of the files; default: by FILE's extension, npy in a folder");
  add_flag(verb, "--raw-bytes", options->apply.raw_bytes,
           "Store tensors as raw bytes if the format lacks their dtype, encoding or shape");
  add_flag(verb, "--lossy", options->apply.lossy, "Allow every loss; the same as --raw-bytes");
  add_flag(verb, "--force", options->force, "Replace existing files");
  add_check(verb, [options] { return options->usage_error(); });
  return [options](const Common& common) { return export_tensors(*options, common); };
}

}  // namespace ht::cli
