#include "c/convert.hpp"

#include <htensor/convert/diff.hpp>
#include <htensor/convert/edit_metadata.hpp>
#include <limits>
#include <utility>

#include "c/boundary/handles.hpp"
#include "c/metadata.hpp"

namespace ht::c {
namespace {

using Path = std::filesystem::path;

const char* c_path(const std::optional<Path>& path, Memory& memory) {
  return path ? memory.c_text(path->native()) : nullptr;
}

Result<void> add_renames(const ht_convert_options& read, ConvertOptions& convert) {
  HT_TRY(require(read.renames != nullptr || read.rename_count == 0, "renames"));
  for (std::size_t i = 0; i < read.rename_count; ++i) {
    HT_TRY(require(read.renames[i].from != nullptr, "from"));
    HT_TRY(require(read.renames[i].to != nullptr, "to"));
    convert.renames.push_back({read.renames[i].from, read.renames[i].to});
  }
  return {};
}

Result<void> add_types(const ht_convert_options& read, ConvertOptions& convert) {
  HT_TRY(require(read.types != nullptr || read.type_count == 0, "types"));
  for (std::size_t i = 0; i < read.type_count; ++i) {
    HT_TRY(require(read.types[i].pattern != nullptr, "pattern"));
    const auto type = HT_TRY(known_type(read.types[i].type, "type"));
    convert.types.push_back({read.types[i].pattern, std::string(type.name)});
  }
  if (read.dequantize == HT_TYPE_UNKNOWN) return {};
  convert.dequantize = HT_TRY(known_type(read.dequantize, "dequantize")).name;
  return {};
}

// Checks the plan. In a dry run, losses that are not allowed are not an error.
Result<CheckedPlan> checked_plan(const ConversionPlan& plan, const Model& model,
                                 const Conversion& conversion) {
  auto apply = conversion.apply;
  if (conversion.dry_run) apply.lossy = true;
  return check_plan(plan, model, apply);
}

// Checks the MLIR module before any file is written.
Result<void> check_module(const ConversionPlan& plan, const Model& model, const Conversion& conversion) {
  if (conversion.module.empty()) return {};
  HT_TRY(check_mlir(plan, conversion.mlir));
  std::vector<std::filesystem::path> files = model.files();
  for (const auto& file : plan.files) files.push_back(file.path);
  return check_mlir_target(conversion.module, files, {.if_exists = conversion.apply.if_exists});
}

// Writes the MLIR module that refers to the new files.
Result<void> write_module(const ConversionPlan& plan, const Conversion& conversion) {
  if (conversion.module.empty()) return {};
  const auto written = HT_TRY(Model::open(plan.model_path()));
  return write_mlir(conversion.module, written, conversion.mlir,
                    {.if_exists = conversion.apply.if_exists, .stop = conversion.apply.work.stop});
}

const ht_loss* c_loss(const Loss& loss, const ApplyOptions& apply, Memory& memory) {
  auto* const c = memory.array<ht_loss>(1);
  *c = {.kind = static_cast<ht_loss_kind>(loss.kind),
        .is_allowed = is_allowed(loss, apply) ? 1 : 0,
        .is_tensor = loss.is_tensor ? 1 : 0,
        .name = memory.text(loss.name),
        .why = memory.c_text(loss.why),
        .hint = memory.c_text(loss.hint),
        .change = memory.c_text(loss.change)};
  return c;
}

const ht_difference* c_difference(const Differences::Tensor& tensor, Memory& memory) {
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  auto* const c = memory.array<ht_difference>(1);
  *c = {.name = memory.text(tensor.name),
        .why = static_cast<ht_difference_kind>(tensor.why),
        .first_byte = tensor.first_byte.value_or(UINT64_MAX),
        .max_abs = tensor.max_abs.value_or(unknown),
        .rms = tensor.rms.value_or(unknown),
        .cosine = tensor.cosine.value_or(unknown)};
  return c;
}

// Edits, and the stored values that they refer to.
struct Edits {
  std::vector<MetadataEdit> edits;
  std::vector<std::vector<std::byte>> values;
};

Result<Edits> metadata_edits(const ht_metadata_edit* edits, std::size_t count) {
  HT_TRY(require(edits != nullptr || count == 0, "edits"));
  Edits read;
  for (std::size_t i = 0; i < count; ++i) {
    HT_TRY(require(edits[i].key.data != nullptr, "key"));
    MetadataEdit edit{.key = std::string(text_of(edits[i].key))};
    if (edits[i].value != nullptr) {
      read.values.push_back(HT_TRY(stored_form(*edits[i].value)));
      edit.stored_value.emplace(static_cast<MetaType>(edits[i].value->type), read.values.back());
    } else if (edits[i].text != nullptr) {
      edit.value = edits[i].text;
    }
    read.edits.push_back(std::move(edit));
  }
  return read;
}

}  // namespace

Result<Conversion> conversion(const ht_convert_options* given, Work& work) {
  const auto read = HT_TRY(read_struct(given, "options"));
  Conversion result;
  ConvertOptions& convert = result.convert;
  convert.format = text_or_empty(read.format);
  convert.filter = HT_TRY(name_filter(read.filter));
  HT_TRY(add_renames(read, convert));
  HT_TRY(add_types(read, convert));
  convert.rounding = HT_TRY(rounding(read.rounding, read.saturate, read.seed));
  convert.alignment = read.alignment;
  convert.canonical = read.canonical != 0;
  // IREE reads row-major little-endian data only.
  convert.normalize_layout = read.normalize_layout != 0 || read.emit_mlir != nullptr;
  convert.share_blocks = read.share_blocks != 0;
  convert.describe_types = read.plain == 0;
  convert.metadata = read.skip_metadata == 0;
  convert.empty_metadata = read.empty_metadata != 0;
  convert.shard_bytes = read.shard_bytes;
  ApplyOptions& apply = result.apply;
  apply.if_exists = read.force != 0 ? IfExists::replace : IfExists::fail;
  apply.round = read.round != 0;
  apply.drop_metadata = read.drop_metadata != 0;
  apply.raw_bytes = read.raw_bytes != 0;
  apply.lossy = read.lossy != 0;
  apply.seal = read.seal != 0;
  apply.work = HT_TRY(work.start(read.work));
  result.module = text_or_empty(read.emit_mlir);
  result.mlir.scope = text_or_empty(read.scope);
  result.mlir.inline_below = read.inline_below;
  result.dry_run = read.dry_run != 0;
  return result;
}

void set_converted(const ConversionPlan& plan, const ApplyOptions& apply, const ConversionReport& converted,
                   const ht_conversion_report** out) {
  if (out == nullptr) return;
  ResultOf<ht_conversion_report> result;
  Memory& memory = result.memory();
  const auto text = [&](const Path& path) { return memory.c_text(path.native()); };
  result->path = text(plan.model_path());
  result->files = memory.array_of(plan.files, [&](const PlannedFile& file) { return text(file.path); });
  result->file_bytes = memory.array_of(plan.files, [](const PlannedFile& file) { return file.bytes; });
  result->file_count = plan.files.size();
  result->bytes = plan.bytes();
  result->reflink_bytes = converted.copied_by.reflink;
  result->direct_bytes = converted.copied_by.direct;
  result->copy_file_range_bytes = converted.copied_by.copy_file_range;
  result->read_write_bytes = converted.copied_by.read_write;
  result->removed = memory.array_of(converted.removed, text);
  result->removed_count = converted.removed.size();
  result->seal = c_path(converted.seal, memory);
  result->stale_seal = c_path(converted.stale_seal, memory);
  result->losses =
      memory.array_of(plan.losses, [&](const Loss& loss) { return c_loss(loss, apply, memory); });
  result->loss_count = plan.losses.size();
  result->warnings = memory.array_of(plan.warnings, [&](const Error& error) { return memory.error(error); });
  result->warning_count = plan.warnings.size();
  *out = std::move(result).release();
}

}  // namespace ht::c

using ht::Result;
using ht::c::call;
using ht::c::require;

ht_status ht_model_convert(const ht_model* model, const char* target, const ht_convert_options* options,
                           const ht_conversion_report** converted, ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(model != nullptr, "model"));
    HT_TRY(require(target != nullptr, "target"));
    ht::c::Work work;
    const auto parsed = HT_TRY(ht::c::conversion(options, work));
    const auto plan = HT_TRY(ht::plan_conversion(model->model, target, parsed.convert));
    auto checked = HT_TRY(ht::c::checked_plan(plan, model->model, parsed));
    HT_TRY(ht::c::check_module(plan, model->model, parsed));
    ht::ConversionReport done;
    if (parsed.dry_run) {
      done.removed = checked.removed();
    } else {
      done = HT_TRY(std::move(checked).apply(parsed.apply.work));
      HT_TRY(ht::c::write_module(plan, parsed));
    }
    ht::c::set_converted(plan, parsed.apply, done, converted);
    return {};
  });
}

ht_status ht_diff(const ht_model* a, const ht_model* b, const ht_diff_options* options,
                  const ht_differences** differences, ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(a != nullptr, "a"));
    HT_TRY(require(b != nullptr, "b"));
    HT_TRY(require(differences != nullptr, "differences"));
    const auto read = HT_TRY(ht::c::read_struct(options, "options"));
    ht::c::Work work;
    ht::DiffOptions diff_options;
    if (read.compare_values != 0) diff_options.tolerance = read.tolerance;
    diff_options.work = HT_TRY(work.start(read.work));
    const auto found = HT_TRY(ht::diff(a->model, b->model, diff_options));
    ht::c::ResultOf<ht_differences> result;
    auto& memory = result.memory();
    const auto names = [&](const std::vector<std::string>& list, const ht_string*& into, std::size_t& count) {
      into = memory.array_of(list, [&](const std::string& name) { return memory.text(name); });
      count = list.size();
    };
    result->same = found.is_same() ? 1 : 0;
    result->same_tensors = found.has_same_tensors() ? 1 : 0;
    names(found.only_a, result->only_a, result->only_a_count);
    names(found.only_b, result->only_b, result->only_b_count);
    names(found.metadata.only_a, result->metadata_only_a, result->metadata_only_a_count);
    names(found.metadata.only_b, result->metadata_only_b, result->metadata_only_b_count);
    names(found.metadata.differ, result->metadata_differ, result->metadata_differ_count);
    result->differ = memory.array_of(found.differ, [&](const ht::Differences::Tensor& tensor) {
      return ht::c::c_difference(tensor, memory);
    });
    result->differ_count = found.differ.size();
    *differences = std::move(result).release();
    return {};
  });
}

ht_status ht_edit_metadata(const char* path, const ht_metadata_edit* edits, size_t edit_count,
                           const ht_edit_options* options, const ht_edit_report** edited, ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(path != nullptr, "path"));
    const auto parsed = HT_TRY(ht::c::metadata_edits(edits, edit_count));
    const auto read = HT_TRY(ht::c::read_struct(options, "options"));
    ht::c::Work work;
    ht::EditOptions edit_options;
    edit_options.grow = read.no_grow == 0;
    edit_options.max_header_bytes = read.max_header_bytes;
    edit_options.work = HT_TRY(work.start(read.work));
    const auto done = HT_TRY(ht::edit_metadata(path, parsed.edits, edit_options));
    if (edited == nullptr) return {};
    ht::c::ResultOf<ht_edit_report> result;
    result->changed = done.changed ? 1 : 0;
    result->moved_by = done.moved_by;
    result->seal = ht::c::c_path(done.seal, result.memory());
    *edited = std::move(result).release();
    return {};
  });
}
