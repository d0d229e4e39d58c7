#include <fmt/format.h>

#include <htensor/model/model.hpp>
#include <vector>

#include "cli/cli.hpp"
#include "cli/options.hpp"
#include "cli/print/rows.hpp"
#include "cli/print/text.hpp"

namespace ht::cli {
namespace {

struct Problem {
  const Error* error = nullptr;
  std::string_view severity;
};

// Errors, then warnings.
std::vector<Problem> problems_of(const Model::Diagnosis& findings) {
  std::vector<Problem> problems;
  problems.reserve(findings.problems.size() + findings.warnings.size());
  for (const auto& error : findings.problems) problems.push_back({&error, "error"});
  for (const auto& warning : findings.warnings) problems.push_back({&warning, "warning"});
  return problems;
}

std::uint64_t bytes_of_tensors(const Catalog& catalog) {
  std::uint64_t total = 0;
  for (const Entry& entry : catalog) total = saturating_add(total, entry.bytes);
  return total;
}

std::string json_problem(const Problem& problem) {
  return fmt::format(R"({{"severity":"{}",{}}})", problem.severity, json_members(*problem.error));
}

std::string json_name(const std::filesystem::path& path) { return json_path(path.filename()); }

std::string json_findings(const Model::Diagnosis& findings, const std::string& path) {
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
      json_string(path), json_or_null(findings.format), findings.is_readable, json_list(files, json_path),
      json_list(findings.missing_files, json_name), tensors, bytes,
      json_list(problems_of(findings), json_problem));
}

std::string counted(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string first_line(const Model::Diagnosis& findings) {
  if (findings.model) {
    const Catalog& catalog = findings.model->catalog();
    return fmt::format("{}, {}, {}, {}\n", catalog.format(), counted(catalog.size(), "tensor"),
                       byte_count_text(bytes_of_tensors(catalog)),
                       counted(findings.model->files().size(), "file"));
  }
  if (findings.format.empty()) return "not a readable model\n";
  return fmt::format("{}, not readable\n", findings.format);
}

std::string findings_text(const Model::Diagnosis& findings, bool quiet) {
  std::string out = quiet ? std::string() : first_line(findings);
  const auto problems = problems_of(findings);
  for (const auto& [error, severity] : problems) {
    out += fmt::format("{}: {}\n", severity, printable(to_string(*error)));
    if (!error->hint().empty()) out += fmt::format("  hint: {}\n", printable(error->hint()));
  }
  if (problems.empty() && !quiet) out += "no problems found\n";
  return out;
}

Result<Exit> diagnose_path(const std::string& path, const Common& common) {
  const auto findings = HT_TRY(diagnose(path, {.max_header_bytes = common.max_header}));
  const auto problems = problems_of(findings);
  if (common.jsonl) {
    for (const auto& problem : problems) print(json_problem(problem) + "\n");
  } else {
    print(common.json ? json_findings(findings, path) : findings_text(findings, common.quiet));
  }
  return problems.empty() ? Exit::good : Exit::negative_answer;
}

}  // namespace

Action register_doctor(CLI::App& verb) { return for_each_path(verb, diagnose_path); }

}  // namespace ht::cli
