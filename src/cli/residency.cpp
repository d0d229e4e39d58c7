// The verbs residency, prefetch and evict: they report and change which tensors are in the page cache.
#include <fmt/format.h>

#include <htensor/base/json_text.hpp>
#include <memory>
#include <optional>

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
  Entry entry;
  TensorResidency residency;
};

struct Totals {
  std::uint64_t stored_bytes = 0;
  std::uint64_t splat_bytes = 0;
  std::optional<std::uint64_t> cached_bytes = 0;
};

// One tensor whose share is unknown makes the sum unknown.
Totals totals_of(const std::vector<Line>& lines) {
  Totals totals;
  for (const auto& [entry, residency] : lines) {
    auto& bytes = entry.is_splat() ? totals.splat_bytes : totals.stored_bytes;
    bytes = saturating_add(bytes, residency.bytes);
    if (!residency.cached_bytes) totals.cached_bytes = std::nullopt;
    if (totals.cached_bytes)
      *totals.cached_bytes = saturating_add(*totals.cached_bytes, *residency.cached_bytes);
  }
  return totals;
}

std::string number_or_null(std::optional<std::uint64_t> number) {
  return number ? std::to_string(*number) : "null";
}

void append_json(std::string& out, const Line& line) {
  out += R"({"name":)";
  append_json_string(out, line.entry.name);
  append_text(out, R"(,"bytes":{},"cached_bytes":{}}})", line.residency.bytes,
              number_or_null(line.residency.cached_bytes));
}

std::string json_text(const std::vector<Line>& lines) {
  std::string out = R"({"tensors":[)";
  for (const auto& line : lines) {
    if (&line != &lines.front()) out += ',';
    append_json(out, line);
  }
  return out += fmt::format("],\"cached_bytes\":{}}}\n", number_or_null(totals_of(lines).cached_bytes));
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.0f}%", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string summary(const Totals& totals) {
  std::string out =
      totals.cached_bytes
          ? fmt::format("{} of {} in the page cache ({})", size_text(*totals.cached_bytes),
                        size_text(totals.stored_bytes), percent(*totals.cached_bytes, totals.stored_bytes))
          : fmt::format(
                "{}; how much of it is in the page cache is unknown: the kernel reports it only to users "
                "that own the file or may write to it",
                size_text(totals.stored_bytes));
  if (totals.splat_bytes != 0)
    out += fmt::format("; {} in splats, which are not stored", size_text(totals.splat_bytes));
  return out;
}

std::string people_text(const std::vector<Line>& lines, bool quiet) {
  std::vector<std::vector<std::string>> cells{{"name", "bytes", "cached", ""}};
  for (const auto& [entry, residency] : lines) {
    const auto cached = residency.cached_bytes;
    const bool has_share = cached && !entry.is_splat();
    cells.push_back({printable(entry.name), size_text(residency.bytes),
                     cached ? size_text(*cached) : "unknown",
                     has_share ? percent(*cached, residency.bytes) : "-"});
  }
  std::string out = table(cells, {1, 2, 3});
  if (quiet) return out;
  return out += fmt::format("\n{}\n", summary(totals_of(lines)));
}

Result<void> print_residency(const Model& model, const Options& options, const Common& common) {
  const auto all = HT_TRY(model.residency());
  std::vector<Line> lines;
  const auto rows = HT_TRY(Rows::of(model, options.filter));
  HT_TRY(rows.for_each([&](const Row& row) { lines.push_back({row.entry, all[row.position]}); }));
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
  add_filter(verb, options->filter);
  add_max_header(verb, options->max_header);
  return for_each_path(verb, options->path, [options, deed](const Common& common) -> Result<Exit> {
    const auto model = HT_TRY(Model::open(options->path, {.max_header_bytes = options->max_header}));
    if (deed == Deed::fetch) HT_TRY(prefetch(model, options->filter, common));
    if (deed == Deed::drop) HT_TRY(model.evict(options->filter));
    HT_TRY(print_residency(model, *options, common));
    return Exit::good;
  });
}

}  // namespace

Action register_residency(CLI::App& verb) { return register_verb(verb, Deed::look); }
Action register_prefetch(CLI::App& verb) { return register_verb(verb, Deed::fetch); }
Action register_evict(CLI::App& verb) { return register_verb(verb, Deed::drop); }

}  // namespace ht::cli
