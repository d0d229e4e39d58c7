#include <fmt/format.h>

#include <algorithm>
#include <htensor/base/bytes.hpp>
#include <htensor/format/format.hpp>
#include <memory>
#include <optional>
#include <vector>

#include "base/utf8.hpp"
#include "cli/cli.hpp"
#include "cli/options.hpp"
#include "cli/print/text.hpp"
#include "cli/synth/synth.hpp"

namespace ht::cli {
namespace {

struct SynthArguments {
  std::string path;
  std::string preset;
  std::string dtype;
  std::optional<std::uint64_t> bytes;
  std::uint64_t seed = 0;
  bool sparse = false;
  bool config = false;
  bool force = false;
};

Result<Catalog> catalog_of(const Plan& plan, const Format& format) {
  CatalogBuilder builder(format.name);
  // Formats without typed metadata, such as safetensors, cannot store it. It is synthetic, so it may be
  // missing there.
  if (format.metadata == Format::MetadataTypes::all) builder.metadata() = plan.metadata;
  HT_TRY(builder.reserve(plan.tensors.size()));
  for (const auto& tensor : plan.tensors) {
    HT_TRY(builder.add({.name = tensor.name,
                        .dtype = tensor.type.dtype,
                        .encoding = tensor.type.encoding,
                        .dims = tensor.dims,
                        .bytes = tensor.type.bytes_for(tensor.elements())}));
  }
  return std::move(builder).build();
}

// The catalog has the tensors in the order of the plan.
std::vector<TensorPlace> places_of(const Plan& plan, const EncodedFile& file) {
  std::vector<TensorPlace> places;
  places.reserve(plan.tensors.size());
  for (std::size_t i = 0; i < plan.tensors.size(); ++i) {
    const auto& tensor = plan.tensors[i];
    if (file.offsets[i]) places.push_back({*file.offsets[i], tensor.elements(), tensor.type, tensor.values});
  }
  // The file order may differ from the catalog order. No tensor is empty, so all offsets differ.
  std::ranges::sort(places, {}, &TensorPlace::offset);
  return places;
}

std::filesystem::path config_path(const SynthArguments& options) {
  return std::filesystem::path(options.path).replace_filename("config.json");
}

// Runs before the weights are written, so that they are not left without their config.json.
Result<void> check_no_config(const SynthArguments& options) {
  const auto path = config_path(options);
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown)) return {};
  return fail(Error(ErrorCode::already_exists, "config_path_is_free", "file already exists")
                  .at_path(path.string())
                  .with_hint("choose another folder for OUT, or replace both files with --force"));
}

// Writes the hyper-parameters to config.json beside the weights, where Transformers expects them.
Result<void> write_config(const SynthArguments& options, const Plan& plan,
                          const WriteOptions& write_options) {
  EncodedFile file;
  const auto text = bytes_of(plan.config);
  file.header.assign(text.begin(), text.end());
  file.file_bytes = text.size();
  const auto nothing = []() -> Result<std::optional<DataPiece>> { return std::nullopt; };
  return write(config_path(options), file, nothing, write_options);
}

Result<void> write_model(const SynthArguments& options, const Plan& plan, const Catalog& catalog,
                         const Common& common) {
  const auto file = HT_TRY(encode(catalog.format(), catalog).map_error([&](Error error) {
    return std::move(error).at_path(options.path);
  }));
  WorkWithBar work(common);
  const WriteOptions write_options{.if_exists = options.force ? IfExists::replace : IfExists::fail};
  if (options.config && !options.force) HT_TRY(check_no_config(options));
  HT_TRY(write(options.path, file, synth_data(places_of(plan, file), options.seed, options.sparse, work),
               write_options));
  if (!options.config) return {};
  return write_config(options, plan, write_options);
}

std::string summary(const SynthArguments& options, const Plan& plan, std::uint64_t bytes) {
  std::vector<std::string_view> types;
  for (const auto& tensor : plan.tensors) {
    if (std::ranges::find(types, tensor.type.name) == types.end()) types.push_back(tensor.type.name);
  }
  const auto& first = plan.tensors.front();
  const std::string contents =
      plan.tensors.size() == 1 ? fmt::format("{} {}", first.type.name, shape_text(first.dims))
                               : fmt::format("{} tensors of {}", plan.tensors.size(), fmt::join(types, ", "));
  return fmt::format("{}: {}, {}{}\n", printable(options.path), contents, size_text(bytes),
                     options.sparse ? ", sparse" : "");
}

Result<Exit> synthesize(const SynthArguments& options, const Common& common) {
  const auto* const format = HT_TRY(format_for(options.path));
  const auto plan = HT_TRY(plan_of(options.preset, options.dtype, options.bytes,
                                   to_utf8(std::filesystem::path(options.path).stem().string()),
                                   format->metadata == Format::MetadataTypes::all));
  const auto catalog = HT_TRY(catalog_of(plan, *format));
  HT_TRY(write_model(options, plan, catalog, common));
  std::uint64_t bytes = 0;
  for (const Entry& entry : catalog) bytes += entry.bytes;
  if (common.is_json()) {
    print(fmt::format(R"({{"written":{},"tensors":{},"bytes":{}}})"
                      "\n",
                      json_string(options.path), catalog.size(), bytes));
  } else if (!common.quiet) {
    print(summary(options, plan, bytes));
  }
  return Exit::good;
}

}  // namespace

Action register_synth(CLI::App& verb) {
  auto options = std::make_shared<SynthArguments>();
  add_text(verb, "OUT", options->path, "File to write; the extension names the format", Presence::required);
  add_choice(verb, "--preset", options->preset, preset_names(), "Model to write; matrix is a single tensor",
             Presence::required);
  add_text(
      verb, "--dtype DTYPE", options->dtype,
      "A dtype of safetensors: F32, BF16, F8_E4M3, …; default: F32 for matrix and llama-tiny, else BF16; "
      "llama-tiny in GGUF or IRPA also takes Q8_0 and Q4_K_M; quantized presets have fixed types");
  add_size(verb, "--size SIZE", options->bytes,
           "Approximate size; default: 1M for matrix, else the size of the real model");
  add_number(verb, "--seed", options->seed, "Seed of the values; default: 0");
  add_flag(verb, "--sparse", options->sparse,
           "Write only the first 1024 and the last 1024 elements of the file; the rest is a hole of zeros");
  add_flag(verb, "--config", options->config,
           "Also write config.json beside OUT: the dimensions of the model, for Transformers");
  add_flag(verb, "--force", options->force, "Replace OUT, and config.json with --config, if they exist");
  add_check(verb, [options]() -> std::string {
    if (options->config && !has_config(options->preset))
      return fmt::format("--config: {} has no config.json", options->preset);
    if (options->config && options->bytes)
      return "--config: only a model of the real size has a config.json; leave out --size";
    if (options->bytes && has_fixed_size(options->preset))
      return fmt::format("--size: {} has a fixed size", options->preset);
    if (options->dtype.empty() || !has_fixed_types(options->preset)) return {};
    return fmt::format("--dtype: {} has fixed types", options->preset);
  });
  return [options](const Common& common) { return synthesize(*options, common); };
}

}  // namespace ht::cli
