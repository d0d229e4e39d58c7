#include "model/files/diagnose.hpp"

#include <algorithm>
#include <array>
#include <htensor/base/bytes.hpp>
#include <htensor/dtype/relations.hpp>
#include <htensor/format/format.hpp>
#include <optional>
#include <tuple>

#include "base/format_text.hpp"
#include "model/files/model_files.hpp"

namespace ht::inline v1 {
namespace {

std::string tensor_count_text(std::size_t count, std::string_view singular_verb,
                              std::string_view plural_verb) {
  return count == 1 ? format_text("1 tensor {}", singular_verb)
                    : format_text("{} tensors {}", count, plural_verb);
}

std::uint64_t end_of_data(const Entry& entry) {
  return checked::add(entry.offset, entry.bytes).value_or(UINT64_MAX);
}

// Returns the alignment of an element in bytes; a complex number has the alignment of its parts.
std::uint64_t element_alignment(const Entry& entry) {
  const auto dtype = find_dtype(entry.dtype);
  if (!dtype || dtype->bits < 16) return 1;
  return static_cast<std::uint64_t>(entry.dtype == C64::tag ? 4 : dtype->bits / 8);
}

bool has_control_character(std::string_view name) {
  return std::ranges::any_of(name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

using Warnings = std::vector<Error>;
using Files = std::span<const FileSize>;

// Returns the path of the entry's file; empty if `files` does not contain the file.
std::string path_of(const Entry& entry, Files files) {
  return entry.file < files.size() ? files[entry.file].path.string() : std::string();
}

// A property of a single entry that causes a warning.
struct EntryCheck {
  bool (*finds)(const Entry& entry);
  ErrorCode code;
  std::string_view rule;
  std::string_view singular_verb;
  std::string_view plural_verb;
  std::string_view property;  // follows the verb
  std::string_view hint;
};

constexpr std::array entry_checks{
    EntryCheck{[](const Entry& entry) {
                 return !entry.is_splat() && entry.bytes > 0 && entry.offset % element_alignment(entry) != 0;
               },
               ErrorCode::misaligned, "data_is_aligned_for_its_dtype", "is", "are",
               "misaligned for the element's size",
               "align them with `htensor convert --canonical`; misaligned tensors are copied on access"},
    EntryCheck{[](const Entry& entry) { return entry.name.empty() || has_control_character(entry.name); },
               ErrorCode::bad_name, "names_can_be_printed", "has", "have",
               "an empty name or one with control characters",
               "rename them with `htensor convert --rename A=B`: other programs may refuse such names"},
    EntryCheck{
        [](const Entry& entry) { return entry.byte_order == ByteOrder::big; },
        ErrorCode::unsupported_encoding, "data_is_little_endian", "is", "are", "big endian",
        "byte-swap it with `htensor convert --normalize-layout`: most programs do not read big endian"},
    EntryCheck{[](const Entry& entry) { return !entry.is_typed(); }, ErrorCode::bad_dtype,
               "entries_have_dtype_and_shape", "has", "have", "neither dtype nor shape",
               "convert the original model again with `htensor convert MODEL FILE.irpa`, which writes both"},
};

void check_entries(Warnings& warnings, const Catalog& catalog, Files files) {
  for (const auto& check : entry_checks) {
    std::size_t count = 0;
    std::optional<Entry> first;
    for (const Entry& entry : catalog) {
      if (check.finds(entry) && count++ == 0) first = entry;
    }
    if (!first) continue;
    auto message = format_text("{} {}; the first is '{}'",
                               tensor_count_text(count, check.singular_verb, check.plural_verb),
                               check.property, first->name);
    const bool is_misaligned = check.code == ErrorCode::misaligned;
    if (is_misaligned) message += format_text(" at byte {}", first->offset);
    auto warning = Error(check.code, check.rule, std::move(message))
                       .at_path(path_of(*first, files))
                       .at_tensor(first->name)
                       .with_hint(check.hint);
    warnings.push_back(is_misaligned ? std::move(warning).at_offset(first->offset) : std::move(warning));
  }
}

void check_overlaps(Warnings& warnings, const Catalog& catalog, Files files) {
  std::vector<Entry> entries;
  for (const Entry& entry : catalog) {
    if (!entry.is_splat() && entry.bytes > 0) entries.push_back(entry);
  }
  std::ranges::sort(entries, {},
                    [](const Entry& entry) { return std::tuple(entry.file, entry.offset, entry.name); });
  std::size_t count = 0;
  std::optional<std::pair<Entry, Entry>> first;
  // An entry overlaps an earlier one if it begins before the furthest end so far.
  const Entry* furthest = nullptr;
  for (const auto& entry : entries) {
    if (furthest != nullptr && furthest->file == entry.file && entry.offset < end_of_data(*furthest)) {
      if (count++ == 0) first.emplace(*furthest, entry);
    }
    if (furthest == nullptr || furthest->file != entry.file || end_of_data(entry) > end_of_data(*furthest))
      furthest = &entry;
  }
  if (!first) return;
  warnings.push_back(
      Error(ErrorCode::overlap, "entries_do_not_overlap",
            format_text("{} bytes with another; the first is '{}' with '{}' at byte {}",
                        tensor_count_text(count, "shares", "share"), first->second.name, first->first.name,
                        first->second.offset))
          .at_path(path_of(first->second, files))
          .at_tensor(first->second.name)
          .at_offset(first->second.offset)
          .with_hint("ignore this if the tensors are tied on purpose; a write to one changes the other"));
}

std::vector<std::uint64_t> data_ends(const Catalog& catalog, std::size_t files) {
  std::vector<std::uint64_t> ends(files, 0);
  for (const Entry& entry : catalog) {
    if (!entry.is_splat() && entry.file < files)
      ends[entry.file] = std::max(ends[entry.file], end_of_data(entry));
  }
  return ends;
}

void check_trailing(Warnings& warnings, const Catalog& catalog, Files files,
                    std::span<const Format> formats) {
  const auto* const format = find_format(catalog.format(), formats);
  if (format == nullptr || format->file_end == nullptr) return;
  const auto ends = data_ends(catalog, files.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto bytes = files[i].bytes;
    if (ends[i] == 0 || !bytes || *bytes <= format->file_end(catalog, ends[i])) continue;
    warnings.push_back(
        Error(ErrorCode::trailing_bytes, "files_end_with_their_data",
              format_text("{} bytes follow the end of the last tensor at byte {}", *bytes - ends[i], ends[i]))
            .at_path(files[i].path.native())
            .at_offset(ends[i])
            .with_hint("remove them with `htensor convert` to a new file: no tensor uses them"));
  }
}

}  // namespace

std::vector<Error> warnings_of(const Catalog& catalog, std::span<const FileSize> files,
                               std::span<const Format> formats) {
  Warnings warnings;
  check_entries(warnings, catalog, files);
  check_overlaps(warnings, catalog, files);
  check_trailing(warnings, catalog, files, formats);
  for (auto& warning : reader_warnings(catalog.format(), catalog, formats))
    warnings.push_back(std::move(warning));
  return warnings;
}

std::vector<Error> missing_data(const Catalog& catalog, std::span<const FileSize> files) {
  constexpr std::size_t max_names = 3;
  const auto ends = data_ends(catalog, files.size());
  std::vector<Error> errors;
  for (std::uint32_t file = 0; file < files.size(); ++file) {
    if (!files[file].bytes || ends[file] <= *files[file].bytes) continue;
    const std::uint64_t bytes = *files[file].bytes;
    std::size_t whole = 0;
    std::vector<Entry> damaged;
    for (const Entry& entry : catalog) {
      if (entry.file != file || entry.is_splat()) continue;
      if (end_of_data(entry) <= bytes) {
        ++whole;
      } else {
        damaged.push_back(entry);
      }
    }
    std::string names;
    for (const auto& entry : std::span(damaged).first(std::min(damaged.size(), max_names)))
      names += format_text("{}'{}'", names.empty() ? "" : ", ", entry.name);
    errors.push_back(
        Error(ErrorCode::truncated, "files_are_complete",
              format_text(
                  "{} of {} bytes are missing at the end: {} of {} tensors are complete, {} cut: {}{}",
                  ends[file] - bytes, ends[file], whole, whole + damaged.size(),
                  damaged.size() == 1 ? "1 is" : format_text("{} are", damaged.size()), names,
                  damaged.size() > max_names ? format_text(" and {} more", damaged.size() - max_names) : ""))
            .at_path(files[file].path.native())
            .at_tensor(damaged[0].name)
            .at_offset(bytes)
            .with_hint("resume or repeat the download; `htensor ls --headers-only` lists all tensors"));
  }
  return errors;
}

namespace {

// Returns whether the path could not be examined. `diagnose` then fails and returns no diagnosis.
bool is_not_examined(const Error& error, const std::filesystem::path& path) {
  constexpr std::array always{ErrorCode::out_of_memory, ErrorCode::cancelled, ErrorCode::internal,
                              ErrorCode::unsupported_platform};
  constexpr std::array of_the_path{ErrorCode::open_failed, ErrorCode::not_regular_file,
                                   ErrorCode::read_failed};
  if (std::ranges::find(always, error.code()) != always.end()) return true;
  return std::ranges::find(of_the_path, error.code()) != of_the_path.end() &&
         (error.path().empty() || error.path() == path.native());
}

// Lists the missing files and opens the others, which may have problems of their own.
void check_shards(Model::Diagnosis& diagnosis, const Error& error, const std::filesystem::path& model,
                  OpenOptions open_options, const SetView& view) {
  open_options.allow_incomplete = false;
  diagnosis.problems.push_back(error);
  for (const auto& path :
       files_of_model(model, open_options).value_or(std::vector<std::filesystem::path>())) {
    if (!port_of(open_options).stat(view.current_path(path))) {
      diagnosis.missing_files.push_back(path);
      continue;
    }
    const auto opened = Model::open(path, open_options);
    // A part of a split model reports the missing parts as well.
    if (!opened && opened.error().code() != ErrorCode::missing_shard)
      diagnosis.problems.push_back(opened.error());
  }
}

// Guesses the format from the file name. The result is empty after `bad_magic`, because no format matched the
// file, and after `not_found`, because the folder does not have exactly one model.
std::string likely_format(const Error& error, const std::filesystem::path& path,
                          std::span<const Format> formats) {
  if (error.code() == ErrorCode::bad_magic || error.code() == ErrorCode::not_found) return {};
  const std::filesystem::path file = error.path().empty() ? path : std::filesystem::path(error.path());
  const auto* const format = format_of_extension(file.extension().string(), formats);
  return format == nullptr ? std::string() : std::string(format->name);
}

// Examines a file that could not be opened.
void check_unreadable(Model::Diagnosis& diagnosis, const Error& error, const std::filesystem::path& path,
                      OpenOptions open_options, const SetView& view) {
  diagnosis.format = likely_format(error, path, open_options.formats);
  if (error.code() == ErrorCode::missing_shard)
    return check_shards(diagnosis, error, path, open_options, view);
  if (error.code() != ErrorCode::truncated) return;
  open_options.allow_incomplete = true;
  if (auto headers = Model::open(path, open_options)) diagnosis.model.emplace(*headers);
}

void check_catalog(Model::Diagnosis& diagnosis, const OpenOptions& open_options, const SetView& view) {
  const Catalog& catalog = diagnosis.model->catalog();
  diagnosis.format = catalog.format();
  std::vector<FileSize> files;
  for (const auto& path : diagnosis.model->files()) {
    const auto stat = port_of(open_options).stat(view.current_path(path));
    files.push_back({path, stat ? std::optional(stat->bytes) : std::nullopt});
  }
  for (auto& error : missing_data(catalog, files)) diagnosis.problems.push_back(std::move(error));
  diagnosis.warnings = warnings_of(catalog, files, open_options.formats);
}

}  // namespace

Result<Model::Diagnosis> diagnose(const std::filesystem::path& path, const OpenOptions& options) {
  return without_bad_alloc([&]() -> Result<Model::Diagnosis> {
    auto open_options = options;
    open_options.catalog_only = true;
    Model::Diagnosis diagnosis;
    const auto opened = Model::open(path, open_options);
    diagnosis.is_readable = opened.has_value();
    // Ignores a failure to read the journal: if a file exists only under a temporary name, `Model::open` has
    // returned that failure.
    const auto view = SetView::of_path(path, port_of(open_options)).value_or(SetView());
    if (opened) {
      diagnosis.model.emplace(*opened);
    } else {
      if (is_not_examined(opened.error(), path)) return fail(opened.error());
      check_unreadable(diagnosis, opened.error(), path, open_options, view);
    }
    if (diagnosis.model) check_catalog(diagnosis, open_options, view);
    if (!opened && diagnosis.problems.empty()) diagnosis.problems.push_back(opened.error());
    // A problem of the whole model gets the path from the user.
    for (auto* const errors : {&diagnosis.problems, &diagnosis.warnings}) {
      for (auto& error : *errors) {
        if (error.path().empty()) error = Error(std::move(error).at_path(path.native()));
      }
    }
    return diagnosis;
  });
}

}  // namespace ht::inline v1
