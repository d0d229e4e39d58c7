// plan: how much memory a model needs by each strategy, from its headers alone, and whether it fits.
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
  /// All tensors: in the process's own memory with `read`, in the page cache with `mapped`.
  std::uint64_t all = 0;
  /// The ring, whose size does not depend on the model's.
  std::uint64_t staged = 0;
  std::uint64_t largest = 0;
  std::uint64_t budget = 0;
  bool budget_was_given = false;

  [[nodiscard]] bool fits() const noexcept { return all <= budget; }
};

Result<Plan> plan_of(const Options& options) {
  const auto model = HT_TRY(Model::open(options.path, {.headers_only = true,  // missing data counts, too
                                                       .catalog_only = true,
                                                       .max_header_bytes = options.max_header}));
  Plan plan{.budget_was_given = options.budget != 0};
  const auto rows = Rows::of(model, options.filter);
  if (!rows) return fail(Error(rows.error()).at_path(options.path));
  HT_TRY(rows->for_each([&](const Row& row) {
    if (row.entry.is_splat()) return;
    plan.all = saturating_add(plan.all, row.entry.bytes);
    plan.largest = std::max(plan.largest, row.entry.bytes);
  }));
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
  std::string out =
      table({{"strategy", "memory", ""},
             {"mapped", size_text(plan.all), "in the page cache, as pages are touched"},
             {"read", size_text(plan.all), "in the process"},
             {"staged", size_text(plan.staged), "in the process, during one pass over the data"}},
            {1});
  append_text(out, "\n{} {} ({}); largest tensor: {}\n", plan.fits() ? "fits into" : "does not fit into",
              byte_count_text(plan.budget), plan.budget_was_given ? "--budget" : "available memory",
              byte_count_text(plan.largest));
  return out;
}

}  // namespace

Action register_plan(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  add_path(verb, options->path);
  add_size(verb, "--budget", options->budget, "Memory limit; default: the available memory");
  add_filter(verb, options->filter);
  add_max_header(verb, options->max_header);
  return [options](const Common& common) -> Result<Exit> {
    const auto plan = HT_TRY(plan_of(*options));
    print(common.json || common.jsonl ? json_text(plan) : people_text(plan));
    return plan.fits() ? Exit::good : Exit::answer_is_no;
  };
}

}  // namespace ht::cli
