#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <htensor/format/encode.hpp>
#include <memory>
#include <optional>
#include <vector>

#include "cli/cli.hpp"
#include "cli/doctor_checks.hpp"
#include "cli/options.hpp"
#include "cli/rows.hpp"
#include "cli/text.hpp"

namespace ht::cli {
namespace {

struct Options {
  std::string path;
  std::uint64_t max_header = 0;
};

struct Problem {
  Error error;
  bool only_warning = false;
};

// The diagnosis of one path.
struct Findings {
  std::optional<std::string> format;
  std::optional<Model> model;  // its catalog at least
  bool readable = false;
  std::vector<std::string> missing;  // names of files that do not exist
  std::vector<Problem> problems;
};

// Whether the path could not be examined at all: a failure of the doctor instead of a finding.
bool could_not_look(const Error& error, const std::filesystem::path& path) {
  constexpr std::array always{ErrorCode::out_of_memory, ErrorCode::cancelled, ErrorCode::internal,
                              ErrorCode::unsupported_platform};
  constexpr std::array of_the_path{ErrorCode::open_failed, ErrorCode::not_regular_file,
                                   ErrorCode::read_failed};
  if (std::ranges::find(always, error.code()) != always.end()) return true;
  return std::ranges::find(of_the_path, error.code()) != of_the_path.end() &&
         (error.path().empty() || error.path() == path.native());
}

std::vector<FileFacts> facts_of(const Model& model) {
  std::vector<FileFacts> files;
  for (const auto& path : model.files()) {
    std::error_code failed;
    const auto bytes = std::filesystem::file_size(path, failed);
    // The size of a file that was removed meanwhile is unknown, so no problem with it is reported.
    files.push_back({path, failed ? UINT64_MAX : static_cast<std::uint64_t>(bytes)});
  }
  return files;
}

void add_all(Findings& findings, std::vector<Error> errors, bool only_warnings) {
  for (auto& error : errors) findings.problems.push_back({std::move(error), only_warnings});
}

// Lists the missing files and opens the others, which may have problems of their own.
void look_at_shards(Findings& findings, const Error& error, const Options& options, OpenOptions how) {
  how.headers_only = false;
  std::vector<Error> of_others;
  for (const auto& path : files_of_model(options.path, how).value_or(std::vector<std::filesystem::path>())) {
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) {
      findings.missing.push_back(printable(path.filename().string()));
      continue;
    }
    const auto opened = Model::open(path, how);
    // A part of a split model asks for the missing ones as well.
    if (!opened && opened.error().code() != ErrorCode::missing_shard) of_others.push_back(opened.error());
  }
  findings.problems.push_back({error});
  add_all(findings, std::move(of_others), false);
}

// By the file's name; an error other than these comes from the parser of that format.
std::optional<std::string> likely_format(const Error& error, const std::filesystem::path& path) {
  if (error.code() == ErrorCode::bad_magic || error.code() == ErrorCode::not_found) return std::nullopt;
  const std::filesystem::path of = error.path().empty() ? path : std::filesystem::path(error.path());
  if (const auto* const format = format_of_extension(of.extension().string()))
    return std::string(format->name);
  return std::nullopt;
}

// Examines a file that could not be opened.
void look_further(Findings& findings, const Error& error, const Options& options, OpenOptions how) {
  findings.format = likely_format(error, options.path);
  if (error.code() == ErrorCode::missing_shard) return look_at_shards(findings, error, options, how);
  if (error.code() == ErrorCode::truncated) {
    how.headers_only = true;
    if (auto headers = Model::open(options.path, how)) findings.model = *std::move(headers);
  }
}

void look_at_catalog(Findings& findings) {
  const Catalog& catalog = findings.model->catalog();
  findings.format = catalog.format();
  const auto files = facts_of(*findings.model);
  add_all(findings, missing_data(catalog, files), false);
  add_all(findings, warnings_of(catalog, files), true);
}

Result<Findings> examine(const Options& options) {
  const OpenOptions how{.catalog_only = true, .max_header_bytes = options.max_header};
  Findings findings;
  const auto opened = Model::open(options.path, how);
  findings.readable = opened.has_value();
  if (opened) {
    findings.model = *opened;
  } else {
    if (could_not_look(opened.error(), options.path)) return fail(opened.error());
    look_further(findings, opened.error(), options, how);
  }
  if (findings.model) look_at_catalog(findings);
  const bool has_error =
      std::ranges::any_of(findings.problems, [](const Problem& p) { return !p.only_warning; });
  if (!opened && !has_error) findings.problems.insert(findings.problems.begin(), {opened.error()});
  // A problem of the model as a whole.
  for (auto& problem : findings.problems) {
    if (problem.error.path().empty()) problem.error = Error(std::move(problem.error).at_path(options.path));
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

std::string json_findings(const Findings& findings, const Options& options) {
  std::vector<std::filesystem::path> files;
  std::string tensors = "null";
  std::string bytes = "null";
  if (findings.model) {
    files = findings.model->files();
    tensors = std::to_string(findings.model->catalog().size());
    bytes = std::to_string(bytes_of_tensors(findings.model->catalog()));
  }
  const auto joined = [](const auto& parts, auto as_json) {
    std::string out;
    for (const auto& part : parts) out += (out.empty() ? "" : ",") + as_json(part);
    return out;
  };
  return fmt::format(
      R"({{"path":{},"format":{},"readable":{},"files":[{}],"missing_files":[{}],"tensors":{},"bytes":{},"problems":[{}]}})"
      "\n",
      json_string(options.path), findings.format ? json_string(*findings.format) : "null", findings.readable,
      joined(files, [](const auto& path) { return json_string(path.string()); }),
      joined(findings.missing, json_string), tensors, bytes, joined(findings.problems, json_problem));
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
  if (findings.format) return fmt::format("{}, not readable\n", *findings.format);
  return "not a readable model\n";
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

Result<Exit> diagnose(const Options& options, const Common& common) {
  const auto findings = HT_TRY(examine(options));
  if (common.jsonl) {
    for (const auto& problem : findings.problems) print(json_problem(problem) + "\n");
  } else {
    print(common.json ? json_findings(findings, options) : page(findings, common.quiet));
  }
  return findings.problems.empty() ? Exit::good : Exit::answer_is_no;
}

}  // namespace

Action register_doctor(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  add_max_header(verb, options->max_header);
  return for_each_path(verb, options->path,
                       [options](const Common& common) { return diagnose(*options, common); });
}

}  // namespace ht::cli
