// residency, prefetch and evict: what of a model is in memory, brought there, taken away.
#include <fmt/format.h>

#include <htensor/base/json_text.hpp>
#include <memory>

#include "cli/cli.hpp"
#include "cli/options.hpp"
#include "cli/progress.hpp"
#include "cli/rows.hpp"
#include "cli/table.hpp"
#include "cli/text.hpp"

namespace ht::cli {
namespace {

struct Options {
  std::string path;
  NameFilter filter;
  std::uint64_t max_header = 0;
};

struct Line {
  std::string_view name;
  TensorResidency residency;
};

std::uint64_t sum_of(const std::vector<Line>& lines, std::uint64_t TensorResidency::* member) {
  std::uint64_t sum = 0;
  for (const auto& line : lines) sum = saturating_add(sum, line.residency.*member);
  return sum;
}

void append_json(std::string& out, const Line& line) {
  out += R"({"name":)";
  append_json_string(out, line.name);
  append_text(out, R"(,"bytes":{},"cached_bytes":{}}})", line.residency.bytes, line.residency.cached_bytes);
}

std::string json_text(const std::vector<Line>& lines) {
  std::string out = R"({"tensors":[)";
  for (const auto& line : lines) {
    if (&line != &lines.front()) out += ',';
    append_json(out, line);
  }
  return out += fmt::format("],\"cached_bytes\":{}}}\n", sum_of(lines, &TensorResidency::cached_bytes));
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.0f}%", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string people_text(const std::vector<Line>& lines, bool quiet) {
  std::vector<std::vector<std::string>> cells{{"name", "bytes", "cached", ""}};
  for (const auto& [name, residency] : lines) {
    cells.push_back({printable(name), size_text(residency.bytes), size_text(residency.cached_bytes),
                     percent(residency.cached_bytes, residency.bytes)});
  }
  std::string out = table(cells, {1, 2, 3});
  if (quiet) return out;
  const auto all = sum_of(lines, &TensorResidency::bytes);
  const auto cached = sum_of(lines, &TensorResidency::cached_bytes);
  return out += fmt::format("\n{} of {} in the page cache ({})\n", size_text(cached), size_text(all),
                            percent(cached, all));
}

Result<void> print_residency(const Model& model, const Options& options, const Common& common) {
  const auto all = HT_TRY(model.residency());
  std::vector<Line> lines;
  for (const auto& row : HT_TRY(rows_of(model, options.filter))) {
    lines.push_back({row.entry.name, all[row.position]});
  }
  if (common.jsonl) {
    std::string out;
    for (const auto& line : lines) {
      append_json(out, line);
      out += '\n';
    }
    print(out);
  } else {
    print(common.json ? json_text(lines) : people_text(lines, common.quiet));
  }
  return {};
}

Result<void> prefetch(const Model& model, const NameFilter& filter, const Common& common) {
  WorkWithBar work(common);
  HT_TRY(model.prefetch(filter, work.options()));
  return {};
}

enum class Deed : std::uint8_t { look, fetch, drop };

Action register_verb(CLI::App& verb, Deed deed) {
  auto options = std::make_shared<Options>();
  add_path(verb, options->path);
  add_filter(verb, options->filter);
  add_max_header(verb, options->max_header);
  return [options, deed](const Common& common) -> Result<Exit> {
    const auto model = HT_TRY(Model::open(options->path, {.max_header_bytes = options->max_header}));
    if (deed == Deed::fetch) HT_TRY(prefetch(model, options->filter, common));
    if (deed == Deed::drop) HT_TRY(model.evict(options->filter));
    HT_TRY(print_residency(model, *options, common));
    return Exit::good;
  };
}

}  // namespace

Action register_residency(CLI::App& verb) { return register_verb(verb, Deed::look); }
Action register_prefetch(CLI::App& verb) { return register_verb(verb, Deed::fetch); }
Action register_evict(CLI::App& verb) { return register_verb(verb, Deed::drop); }

}  // namespace ht::cli
