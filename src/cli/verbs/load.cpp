// load: loads all of a model and reports the rate, the strategy and the reason for choosing it.
//
// plan: the memory that each strategy needs, computed from the headers only, and whether the model fits into
// the budget.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <htensor/load/load.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "cli/cli.hpp"
#include "cli/options.hpp"
#include "cli/print/progress.hpp"
#include "cli/print/rows.hpp"
#include "cli/print/table.hpp"
#include "cli/print/text.hpp"

namespace ht::cli {
namespace {

struct LoadArguments {
  std::string path;
  std::string strategy = "automatic";
  LoadOptions load;
};

struct Report {
  LoadReport loaded;
  double seconds = 0;
  std::optional<double> gb_per_s;         // nullopt: nothing was read
  std::optional<std::uint64_t> peak_rss;  // nullopt: the system does not report it
  std::optional<bool> verified;           // nullopt: without --verify
};

// Bytes read from the file or copied from the page cache. `mapped` does not copy cached pages.
std::uint64_t transferred_bytes(const LoadReport& loaded) {
  if (loaded.choice.strategy != io::Strategy::Kind::mapped) return loaded.bytes;
  return loaded.bytes - std::min(loaded.bytes, loaded.cached_bytes.value_or(0));
}

io::Strategy::Kind strategy_named(std::string_view name) {
  for (const auto strategy :
       {io::Strategy::Kind::mapped, io::Strategy::Kind::read, io::Strategy::Kind::staged}) {
    if (io::to_string(strategy) == name) return strategy;
  }
  return io::Strategy::Kind::automatic;
}

Result<Report> load_model(const Model& model, const LoadOptions& options) {
  // Streamed bytes are counted and discarded.
  const auto discard = [](const TensorPiece&) -> Result<void> { return {}; };
  Report report;
  report.loaded = HT_TRY(options.strategy == io::Strategy::Kind::staged ? ht::stream(model, discard, options)
                                                                        : ht::load(model, options));
  report.seconds = std::chrono::duration<double>(report.loaded.elapsed).count();
  if (const auto bytes = transferred_bytes(report.loaded); bytes != 0 && report.seconds > 0)
    report.gb_per_s = static_cast<double>(bytes) / report.seconds / 1e9;
  if (options.verify) report.verified = report.loaded.verified_bytes >= report.loaded.bytes;
  report.peak_rss = report.loaded.peak_memory_bytes;
  return report;
}

// Whether an error of the load is a result with exit status 1: the model does not fit or, with --verify, has
// no readable seal or does not match it.
bool is_negative_answer(const Error& error, bool verify) {
  const ErrorCode code = error.code();
  if (code == ErrorCode::budget_too_small) return true;
  // Sizes that differ from the seal have other codes than a checksum mismatch.
  return verify && (code == ErrorCode::not_sealed || code == ErrorCode::bad_seal ||
                    code == ErrorCode::checksum_mismatch || error.rule() == "files_are_intact");
}

std::string json_text(const Report& report) {
  const auto& [loaded, seconds, gb_per_s, peak_rss, verified] = report;
  return fmt::format(
      R"({{"strategy":"{}","reason":{},"code":"{}","requested_bytes":{},"bytes":{},"cached_bytes":{},"streamed_bytes":{},"direct_bytes":{},"seconds":{},"gb_per_s":{},"peak_rss":{},"verified":{},"verified_bytes":{}}})"
      "\n",
      to_string(loaded.choice.strategy), json_string(loaded.choice.reason), loaded.choice.code,
      loaded.requested_bytes, loaded.bytes, json_or_null(loaded.cached_bytes), loaded.streamed_bytes,
      loaded.direct_bytes, seconds, json_or_null(gb_per_s), json_or_null(peak_rss), json_or_null(verified),
      loaded.verified_bytes);
}

std::string human_text(const Report& report, bool quiet) {
  const auto& loaded = report.loaded;
  std::string out = fmt::format("{} {} with strategy {} in {:.3f} s", byte_count_text(loaded.bytes),
                                loaded.streamed_bytes != 0 ? "streamed" : "loaded",
                                to_string(loaded.choice.strategy), report.seconds);
  if (report.gb_per_s) {
    out += fmt::format(": {:.2f} GB/s\n", *report.gb_per_s);
  } else {
    out += loaded.bytes != 0 ? ": already in the page cache\n" : "\n";
  }
  if (quiet) return out;
  out += fmt::format("{} [{}]\ndirect I/O {}", loaded.choice.reason, loaded.choice.code,
                     byte_count_text(loaded.direct_bytes));
  if (report.verified) out += fmt::format(", verified {}", byte_count_text(loaded.verified_bytes));
  if (report.peak_rss) out += fmt::format(", peak memory {}", size_text(*report.peak_rss));
  return out += '\n';
}

struct MemoryPlan {
  /// All tensors: in the process's own memory with `read`, in the page cache with `mapped`.
  std::uint64_t all = 0;
  /// The ring of `staged`, at most as large as all tensors.
  std::uint64_t staged = 0;
  std::uint64_t largest = 0;
  std::uint64_t budget = 0;
  bool has_budget = false;

  [[nodiscard]] bool fits() const noexcept { return all <= budget; }
};

Result<MemoryPlan> plan_memory(const LoadArguments& options, const Common& common) {
  const auto model = HT_TRY(Model::open(options.path, {.allow_incomplete = true,  // data may be missing
                                                       .catalog_only = true,
                                                       .max_header_bytes = common.max_header}));
  const LoadOptions& load_options = options.load;
  MemoryPlan plan{.has_budget = load_options.budget_bytes != 0};
  auto rows = Rows::of(model, load_options.filter);
  if (!rows) return fail(std::move(rows).error().at_path(options.path));
  // Tensors may share bytes, which a load counts once.
  rows->sort("offset");
  std::uint32_t file = 0;
  std::uint64_t counted_end = 0;  // end of the bytes of the current file that were counted
  HT_TRY(rows->for_each([&](const Row& row) {
    const Entry& entry = row.entry;
    if (entry.is_splat()) return;
    if (std::exchange(file, entry.file) != entry.file) counted_end = 0;
    const std::uint64_t end = saturating_add(entry.offset, entry.bytes);
    const std::uint64_t begin = std::clamp(counted_end, entry.offset, end);
    plan.all = saturating_add(plan.all, end - begin);
    counted_end = std::max(counted_end, end);
    plan.largest = std::max(plan.largest, entry.bytes);
  }));
  plan.staged = std::min(plan.all, load_options.chunks * load_options.chunk_bytes);
  if (plan.has_budget) {
    plan.budget = load_options.budget_bytes;
  } else {
    auto available = ht::available_memory();
    if (!available)
      return fail(std::move(available).error().with_hint("set the limit, for example --budget 8G"));
    // The default of LoadOptions::budget_bytes.
    plan.budget = *available / 8 * 7;
  }
  return plan;
}

std::string json_text(const MemoryPlan& plan) {
  return fmt::format(
      R"({{"fits":{},"bytes":{{"mapped":{},"read":{},"staged":{}}},"largest_tensor":{},"budget":{}}})"
      "\n",
      plan.fits(), plan.all, plan.all, plan.staged, plan.largest, plan.budget);
}

std::string human_text(const MemoryPlan& plan) {
  std::string out =
      table({{"strategy", "memory", ""},
             {"mapped", size_text(plan.all), "in the page cache, as pages are touched"},
             {"read", size_text(plan.all), "in the process"},
             {"staged", size_text(plan.staged), "in the process, during one pass over the data"}},
            {1});
  append_text(out, "\n{} {} ({}); largest tensor: {}\n", plan.fits() ? "fits into" : "does not fit into",
              byte_count_text(plan.budget), plan.has_budget ? "--budget" : "7/8 of the available memory",
              byte_count_text(plan.largest));
  return out;
}

}  // namespace

Action register_load(CLI::App& verb) {
  auto options = std::make_shared<LoadArguments>();
  auto& load = options->load;
  add_path(verb, options->path);
  add_choice(verb, "--strategy", options->strategy, {"automatic", "mapped", "read", "staged"},
             "mapped: map the files and bring their pages into the page cache; read: copy the tensors into "
             "memory of the process; staged: read all bytes once through small buffers and keep none; "
             "automatic (default): one of these, by budget, page cache and file system");
  add_size(verb, "--budget SIZE", load.budget_bytes, "Memory limit; default: 7/8 of the available memory");
  add_flag(verb, "--drop-after", load.drop_after, "Drop the files from the page cache afterwards");
  add_flag(verb, "--verify", load.verify, "Check each byte against the seal while it is loaded");
  add_filter(verb, load.filter);
  return [options](const Common& common) -> Result<Exit> {
    const auto model = HT_TRY(Model::open(options->path, {.max_header_bytes = common.max_header}));
    WorkWithBar work(common);
    LoadOptions load_options = options->load;
    load_options.strategy = strategy_named(options->strategy);
    load_options.work = work.options();
    const auto loaded = load_model(model, load_options);
    if (!loaded && is_negative_answer(loaded.error(), load_options.verify))
      return report_negative_answer(loaded.error(), common);
    const auto report = HT_TRY(loaded);
    print(common.is_json() ? json_text(report) : human_text(report, common.quiet));
    return Exit::good;
  };
}

Action register_plan(CLI::App& verb) {
  auto options = std::make_shared<LoadArguments>();
  add_path(verb, options->path);
  add_size(verb, "--budget SIZE", options->load.budget_bytes,
           "Memory limit; default: 7/8 of the available memory");
  add_filter(verb, options->load.filter);
  return [options](const Common& common) -> Result<Exit> {
    const auto plan = HT_TRY(plan_memory(*options, common));
    print(common.is_json() ? json_text(plan) : human_text(plan));
    return plan.fits() ? Exit::good : Exit::negative_answer;
  };
}

}  // namespace ht::cli
