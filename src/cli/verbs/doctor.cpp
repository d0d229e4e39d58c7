#include "cli/verbs/doctor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <htensor/format/format.hpp>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "cli/cli.hpp"
#include "cli/options.hpp"
#include "cli/print/rows.hpp"
#include "cli/print/text.hpp"

namespace ht::cli {
namespace {

std::string tensors(std::size_t count, std::string_view one, std::string_view many) {
  return count == 1 ? fmt::format("1 tensor {}", one) : fmt::format("{} tensors {}", count, many);
}

std::uint64_t end_of(const Entry& entry) { return saturating_add(entry.offset, entry.bytes); }

// In bytes; a complex number has the alignment of its parts.
std::uint64_t alignment_of(const Entry& entry) {
  const auto dtype = find_dtype(entry.dtype);
  if (!dtype || dtype->bits < 16) return 1;
  return static_cast<std::uint64_t>(entry.dtype == C64::tag ? 4 : dtype->bits / 8);
}

bool has_control_character(std::string_view name) {
  return std::ranges::any_of(name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

using Warnings = std::vector<Error>;
using Files = std::span<const FileFacts>;

// Empty if the entry's file is not in `files`.
std::string path_of(const Entry& entry, Files files) {
  return entry.file < files.size() ? files[entry.file].path.string() : std::string();
}

// A property of a single entry that causes a warning.
struct EntryCheck {
  bool (*finds)(const Entry& entry);
  ErrorCode code;
  std::string_view rule;
  std::string_view one;   // the verb after "1 tensor"
  std::string_view many;  // the verb after "2 tensors"
  std::string_view what;
  std::string_view hint;
};

constexpr std::array entry_checks{
    EntryCheck{[](const Entry& entry) {
                 return !entry.is_splat() && entry.bytes > 0 && entry.offset % alignment_of(entry) != 0;
               },
               ErrorCode::misaligned, "data_is_aligned_for_its_dtype", "is", "are",
               "misaligned for the element's size",
               "align them with `htensor convert --canonical`; misaligned tensors are copied on access"},
    EntryCheck{[](const Entry& entry) { return entry.name.empty() || has_control_character(entry.name); },
               ErrorCode::bad_name, "names_can_be_printed", "has", "have",
               "an empty name or one with control characters",
               "rename them with `htensor convert --rename A=B`: other programs may refuse such names"},
    EntryCheck{[](const Entry& entry) { return entry.byte_order == ByteOrder::big; },
               ErrorCode::unsupported_encoding, "data_is_little_endian", "is", "are", "big endian",
               "byte-swap it with `htensor convert --usual-order`: most programs do not read big endian"},
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
    const bool is_unprintable = check.code == ErrorCode::bad_name;
    auto message = fmt::format("{} {}; the first is '{}'", tensors(count, check.one, check.many), check.what,
                               is_unprintable ? printable(first->name) : std::string(first->name));
    const bool is_misplaced = check.code == ErrorCode::misaligned;
    if (is_misplaced) message += fmt::format(" at byte {}", first->offset);
    auto warning = Error(check.code, check.rule, std::move(message))
                       .at_path(path_of(*first, files))
                       .at_tensor(first->name)
                       .with_hint(check.hint);
    warnings.push_back(is_misplaced ? std::move(warning).at_offset(first->offset) : std::move(warning));
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
    if (furthest != nullptr && furthest->file == entry.file && entry.offset < end_of(*furthest)) {
      if (count++ == 0) first.emplace(*furthest, entry);
    }
    if (furthest == nullptr || furthest->file != entry.file || end_of(entry) > end_of(*furthest))
      furthest = &entry;
  }
  if (!first) return;
  warnings.push_back(
      Error(ErrorCode::overlap, "entries_do_not_overlap",
            fmt::format("{} bytes with another; the first is '{}' with '{}' at byte {}",
                        tensors(count, "shares", "share"), first->second.name, first->first.name,
                        first->second.offset))
          .at_path(path_of(first->second, files))
          .at_tensor(first->second.name)
          .at_offset(first->second.offset)
          .with_hint("ignore this if the tensors are tied on purpose; a write to one changes the other"));
}

std::vector<std::uint64_t> data_ends(const Catalog& catalog, std::size_t files) {
  std::vector<std::uint64_t> ends(files, 0);
  for (const Entry& entry : catalog) {
    if (!entry.is_splat() && entry.file < files) ends[entry.file] = std::max(ends[entry.file], end_of(entry));
  }
  return ends;
}

void check_trailing(Warnings& warnings, const Catalog& catalog, Files files) {
  const auto* const format = find_format(catalog.format());
  if (format == nullptr || format->file_end == nullptr) return;
  const auto ends = data_ends(catalog, files.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (ends[i] == 0 || files[i].bytes <= format->file_end(catalog, ends[i])) continue;
    warnings.push_back(
        Error(ErrorCode::trailing_bytes, "files_end_with_their_data",
              fmt::format("{} bytes follow the end of the last tensor at byte {}", files[i].bytes - ends[i],
                          ends[i]))
            .at_path(files[i].path.native())
            .at_offset(ends[i])
            .with_hint("remove them with `htensor convert` to a new file: no tensor uses them"));
  }
}

}  // namespace

std::vector<Error> warnings_of(const Catalog& catalog, std::span<const FileFacts> files) {
  Warnings warnings;
  check_entries(warnings, catalog, files);
  check_overlaps(warnings, catalog, files);
  check_trailing(warnings, catalog, files);
  for (auto& warning : reader_warnings(catalog.format(), catalog)) warnings.push_back(std::move(warning));
  return warnings;
}

std::vector<Error> missing_data(const Catalog& catalog, std::span<const FileFacts> files) {
  constexpr std::size_t max_names = 3;
  const auto ends = data_ends(catalog, files.size());
  std::vector<Error> errors;
  for (std::uint32_t file = 0; file < files.size(); ++file) {
    const std::uint64_t bytes = files[file].bytes;
    if (ends[file] <= bytes) continue;
    std::size_t whole = 0;
    std::vector<Entry> damaged;
    for (const Entry& entry : catalog) {
      if (entry.file != file || entry.is_splat()) continue;
      if (end_of(entry) <= bytes) {
        ++whole;
      } else {
        damaged.push_back(entry);
      }
    }
    std::string names;
    for (const auto& entry : std::span(damaged).first(std::min(damaged.size(), max_names)))
      names += fmt::format("{}'{}'", names.empty() ? "" : ", ", entry.name);
    errors.push_back(
        Error(ErrorCode::truncated, "files_are_complete",
              fmt::format(
                  "{} of {} bytes are missing at the end: {} of {} tensors are complete, {} cut: {}{}",
                  ends[file] - bytes, ends[file], whole, whole + damaged.size(),
                  damaged.size() == 1 ? "1 is" : fmt::format("{} are", damaged.size()), names,
                  damaged.size() > max_names ? fmt::format(" and {} more", damaged.size() - max_names) : ""))
            .at_path(files[file].path.native())
            .at_tensor(damaged[0].name)
            .at_offset(bytes)
            .with_hint("resume or repeat the download; `htensor ls --headers-only` lists all tensors"));
  }
  return errors;
}

namespace {

struct Problem {
  Error error;
  bool only_warning = false;
};

// The diagnosis of one path.
struct Findings {
  std::string format;          // empty if unknown
  std::optional<Model> model;  // has at least the catalog
  bool readable = false;
  std::vector<std::string> missing;  // names of files that do not exist
  std::vector<Problem> problems;

  void add(std::vector<Error> errors, bool only_warnings) {
    for (auto& error : errors) problems.push_back({std::move(error), only_warnings});
  }
};

// Whether the path could not be examined: an error of the command instead of a finding.
bool is_command_error(const Error& error, const std::filesystem::path& path) {
  constexpr std::array always{ErrorCode::out_of_memory, ErrorCode::cancelled, ErrorCode::internal,
                              ErrorCode::unsupported_platform};
  constexpr std::array of_the_path{ErrorCode::open_failed, ErrorCode::not_regular_file,
                                   ErrorCode::read_failed};
  if (std::ranges::find(always, error.code()) != always.end()) return true;
  return std::ranges::find(of_the_path, error.code()) != of_the_path.end() &&
         (error.path().empty() || error.path() == path.native());
}

// Lists the missing files and opens the others, which may have problems of their own.
void check_shards(Findings& findings, const Error& error, const std::string& whole, OpenOptions how) {
  how.allow_incomplete = false;
  std::vector<Error> other_errors;
  for (const auto& path : files_of_model(whole, how).value_or(std::vector<std::filesystem::path>())) {
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) {
      findings.missing.push_back(printable(path.filename().string()));
      continue;
    }
    const auto opened = Model::open(path, how);
    // A part of a split model reports the missing parts as well.
    if (!opened && opened.error().code() != ErrorCode::missing_shard) other_errors.push_back(opened.error());
  }
  findings.problems.push_back({error});
  findings.add(std::move(other_errors), false);
}

// Guesses the format from the file name. Errors other than these two come from the parser of that format.
std::string likely_format(const Error& error, const std::filesystem::path& path) {
  if (error.code() == ErrorCode::bad_magic || error.code() == ErrorCode::not_found) return {};
  const std::filesystem::path of = error.path().empty() ? path : std::filesystem::path(error.path());
  const auto* const format = format_of_extension(of.extension().string());
  return format == nullptr ? std::string() : std::string(format->name);
}

// Examines a file that could not be opened.
void check_unreadable(Findings& findings, const Error& error, const std::string& path, OpenOptions how) {
  findings.format = likely_format(error, path);
  if (error.code() == ErrorCode::missing_shard) return check_shards(findings, error, path, how);
  if (error.code() == ErrorCode::truncated) {
    how.allow_incomplete = true;
    if (auto headers = Model::open(path, how)) findings.model = *std::move(headers);
  }
}

void check_catalog(Findings& findings) {
  const Catalog& catalog = findings.model->catalog();
  findings.format = catalog.format();
  std::vector<FileFacts> files;
  for (const auto& path : findings.model->files()) {
    std::error_code failed;
    const auto bytes = std::filesystem::file_size(path, failed);
    // The size of a file that was removed meanwhile is unknown, so no problem with it is reported.
    files.push_back({path, failed ? UINT64_MAX : static_cast<std::uint64_t>(bytes)});
  }
  findings.add(missing_data(catalog, files), false);
  findings.add(warnings_of(catalog, files), true);
}

Result<Findings> examine(const std::string& path, const Common& common) {
  const OpenOptions how{.catalog_only = true, .max_header_bytes = common.max_header};
  Findings findings;
  const auto opened = Model::open(path, how);
  findings.readable = opened.has_value();
  if (opened) {
    findings.model = *opened;
  } else {
    if (is_command_error(opened.error(), path)) return fail(opened.error());
    check_unreadable(findings, opened.error(), path, how);
  }
  if (findings.model) check_catalog(findings);
  const bool has_error = !std::ranges::all_of(findings.problems, &Problem::only_warning);
  if (!opened && !has_error) findings.problems.insert(findings.problems.begin(), {opened.error()});
  // A problem of the model as a whole.
  for (auto& problem : findings.problems) {
    if (problem.error.path().empty()) problem.error = Error(std::move(problem.error).at_path(path));
  }
  return findings;
}

std::uint64_t bytes_of_tensors(const Catalog& catalog) {
  std::uint64_t total = 0;
  for (const Entry& entry : catalog) total = saturating_add(total, entry.bytes);
  return total;
}

std::string json_problem(const Problem& problem) {
  return fmt::format(R"({{"severity":"{}",{}}})", problem.only_warning ? "warning" : "error",
                     json_members(problem.error));
}

std::string json_findings(const Findings& findings, const std::string& path) {
  std::vector<std::filesystem::path> files;
  std::string tensors = "null";
  std::string bytes = "null";
  if (findings.model) {
    files = findings.model->files();
    tensors = std::to_string(findings.model->catalog().size());
    bytes = std::to_string(bytes_of_tensors(findings.model->catalog()));
  }
  return fmt::format(
      R"({{"path":{},"format":{},"readable":{},"files":{},"missing_files":{},"tensors":{},"bytes":{},"problems":{}}})"
      "\n",
      json_string(path), json_or_null(findings.format), findings.readable, json_list(files, json_path),
      json_list(findings.missing, json_string), tensors, bytes, json_list(findings.problems, json_problem));
}

std::string counted(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string first_line(const Findings& findings) {
  if (findings.model) {
    const Catalog& catalog = findings.model->catalog();
    return fmt::format("{}, {}, {}, {}\n", catalog.format(), counted(catalog.size(), "tensor"),
                       size_text(bytes_of_tensors(catalog)), counted(findings.model->files().size(), "file"));
  }
  if (findings.format.empty()) return "not a readable model\n";
  return fmt::format("{}, not readable\n", findings.format);
}

std::string page(const Findings& findings, bool quiet) {
  std::string out = quiet ? std::string() : first_line(findings);
  for (const auto& problem : findings.problems) {
    out += fmt::format("{}: {}\n", problem.only_warning ? "warning" : "error",
                       printable(to_string(problem.error)));
    if (!problem.error.hint().empty()) out += fmt::format("  hint: {}\n", printable(problem.error.hint()));
  }
  if (findings.problems.empty() && !quiet) out += "no problems found\n";
  return out;
}

Result<Exit> diagnose(const std::string& path, const Common& common) {
  const auto findings = HT_TRY(examine(path, common));
  if (common.jsonl) {
    for (const auto& problem : findings.problems) print(json_problem(problem) + "\n");
  } else {
    print(common.json ? json_findings(findings, path) : page(findings, common.quiet));
  }
  return findings.problems.empty() ? Exit::good : Exit::negative;
}

}  // namespace

Action register_doctor(CLI::App& verb) { return for_each_path(verb, diagnose); }

}  // namespace ht::cli
