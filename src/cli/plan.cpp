// plan: what a model takes in memory, from its headers alone, and whether it fits.
#include "cli/plan.hpp"

#include <fmt/format.h>

#include <memory>

#include "cli/cli.hpp"
#include "cli/options.hpp"
#include "cli/rows.hpp"
#include "cli/table.hpp"
#include "cli/text.hpp"

namespace ht::cli {
namespace {

struct Options {
  std::string path;
  NameFilter filter;
  std::uint64_t budget = 0;
  std::uint64_t max_header = 0;
};

struct Plan {
  /// All of it in memory: of one's own with `read`, of the page cache with `mapped`.
  std::uint64_t all = 0;
  /// The ring, however large the model is.
  std::uint64_t staged = 0;
  std::uint64_t largest = 0;
  std::uint64_t budget = 0;
  bool budget_was_given = false;

  [[nodiscard]] bool fits() const noexcept { return all <= budget; }
};

Result<Plan> plan_of(const Options& options) {
  const auto model =
      HT_TRY(Model::open(options.path, {.headers_only = true,  // what is not there yet counts, too
                                        .catalog_only = true,
                                        .max_header_bytes = options.max_header}));
  Plan plan{.budget_was_given = options.budget != 0};
  const auto rows = rows_of(model, options.filter);
  if (!rows) return fail(Error(rows.error()).at_path(options.path));
  for (const auto& row : *rows) {
    if (row.entry.is_splat()) continue;
    plan.all = saturating_add(plan.all, row.entry.bytes);
    plan.largest = std::max(plan.largest, row.entry.bytes);
  }
  const LoadOptions load;
  plan.staged = std::min(plan.all, load.chunks * load.chunk_bytes);
  plan.budget = HT_TRY(memory_budget(options.budget, io::system_port()));
  return plan;
}

std::string json_text(const Plan& plan) {
  return fmt::format(
      R"({{"fits":{},"bytes":{{"mapped":{},"read":{},"staged":{}}},"largest_tensor":{},"budget":{}}})"
      "\n",
      plan.fits(), plan.all, plan.all, plan.staged, plan.largest, plan.budget);
}

std::string people_text(const Plan& plan) {
  std::string out = table({{"strategy", "memory", ""},
                           {"mapped", size_text(plan.all), "of the page cache, as far as it is touched"},
                           {"read", size_text(plan.all), "of its own"},
                           {"staged", size_text(plan.staged), "at a time, for one pass"}},
                          {1});
  return out +=
         fmt::format("\n{} {} {}; the largest tensor has {}\n",
                     plan.fits() ? "fits into" : "does not fit into", size_text(plan.budget),
                     plan.budget_was_given ? "as asked for" : "that are available", size_text(plan.largest));
}

}  // namespace

Result<std::uint64_t> memory_budget(std::uint64_t asked, io::Port& port) {
  if (asked != 0) return asked;
  const auto available = port.available_memory();
  if (available) return *available;
  return fail(Error(ErrorCode::unsupported_platform, "available_memory_is_known",
                    "the system does not tell how much memory there is")
                  .because(available.error())
                  .with_hint("say how much it may take: --budget 8G"));
}

Action register_plan(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  add_path(verb, options->path);
  add_size(verb, "--budget", options->budget, "The memory that it may take; else what is available");
  add_filter(verb, options->filter);
  add_max_header(verb, options->max_header);
  return [options](const Common& common) -> Result<Exit> {
    const auto plan = HT_TRY(plan_of(*options));
    print(common.json || common.jsonl ? json_text(plan) : people_text(plan));
    return plan.fits() ? Exit::good : Exit::answer_is_no;
  };
}

}  // namespace ht::cli
