// load: loads all of a model and reports how fast, by which strategy and why.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <htensor/load/load.hpp>
#include <memory>
#include <optional>

#include "cli/cli.hpp"
#include "cli/options.hpp"
#include "cli/progress.hpp"
#include "cli/text.hpp"

namespace ht::cli {
namespace {

struct Options {
  std::string path;
  NameFilter filter;
  std::string strategy = "automatic";
  std::uint64_t budget = 0;
  std::uint64_t max_header = 0;
  bool drop_after = false;
  bool verify = false;
};

struct Report {
  Loaded loaded;
  double seconds = 0;
  std::optional<double> gb_per_s;         // nullopt: nothing was read
  std::optional<std::uint64_t> peak_rss;  // nullopt: the system does not report it
  std::optional<bool> verified;           // nullopt: without --verify
};

// Bytes that were read from the file or copied from its pages; `mapped` leaves pages that are cached in
// place.
std::uint64_t read_bytes(const Loaded& loaded) {
  if (loaded.choice.strategy != io::StrategyKind::mapped) return loaded.bytes;
  return loaded.bytes - std::min(loaded.bytes, loaded.cached_bytes.value_or(0));
}

io::StrategyKind strategy_named(std::string_view name) {
  for (const auto strategy : {io::StrategyKind::mapped, io::StrategyKind::read, io::StrategyKind::staged}) {
    if (io::to_string(strategy) == name) return strategy;
  }
  return io::StrategyKind::automatic;
}

Result<Report> load(const Model& model, const Options& options, const Common& common) {
  WorkWithBar work(common);
  const LoadOptions how{.strategy = strategy_named(options.strategy),
                        .glob = options.filter,
                        .budget_bytes = options.budget,
                        .drop_after = options.drop_after,
                        .verify = options.verify,
                        .work = work.options()};
  // Streamed bytes are counted and not used.
  const auto leave = [](const TensorPiece&) -> Result<void> { return {}; };
  Report report;
  report.loaded =
      HT_TRY(how.strategy == io::StrategyKind::staged ? ht::stream(model, leave, how) : ht::load(model, how));
  report.seconds = std::chrono::duration<double>(report.loaded.elapsed).count();
  if (const auto bytes = read_bytes(report.loaded); bytes != 0 && report.seconds > 0)
    report.gb_per_s = static_cast<double>(bytes) / report.seconds / 1e9;
  if (options.verify) report.verified = report.loaded.verified_bytes >= report.loaded.bytes;
  if (const auto peak = io::system_port().peak_memory()) report.peak_rss = *peak;
  return report;
}

// An Error of loading that says that the model does not fit or does not match its seal: exit status 1.
bool is_answer(ErrorCode code, bool verify) {
  if (code == ErrorCode::budget_too_small) return true;
  return verify && (code == ErrorCode::not_sealed || code == ErrorCode::bad_seal ||
                    code == ErrorCode::checksum_mismatch);
}

template <class T>
std::string number_or_null(const std::optional<T>& number) {
  return number ? fmt::to_string(*number) : "null";
}

std::string json_text(const Report& report) {
  const auto& [loaded, seconds, gb_per_s, peak_rss, verified] = report;
  return fmt::format(
      R"({{"strategy":"{}","reason":{},"code":"{}","wanted_bytes":{},"bytes":{},"cached_bytes":{},"streamed_bytes":{},"direct_bytes":{},"seconds":{},"gb_per_s":{},"peak_rss":{},"verified":{},"verified_bytes":{}}})"
      "\n",
      to_string(loaded.choice.strategy), json_string(loaded.choice.reason), loaded.choice.code,
      loaded.wanted_bytes, loaded.bytes, number_or_null(loaded.cached_bytes), loaded.streamed_bytes,
      loaded.direct_bytes, seconds, number_or_null(gb_per_s), number_or_null(peak_rss),
      number_or_null(verified), loaded.verified_bytes);
}

std::string people_text(const Report& report, bool quiet) {
  const auto& loaded = report.loaded;
  std::string out = fmt::format("{} {} by {} in {:.3f} s", size_text(loaded.bytes),
                                loaded.streamed_bytes != 0 ? "streamed" : "loaded",
                                to_string(loaded.choice.strategy), report.seconds);
  if (report.gb_per_s) {
    out += fmt::format(": {:.2f} GB/s\n", *report.gb_per_s);
  } else {
    out += loaded.bytes != 0 ? ": already in the page cache\n" : "\n";
  }
  if (quiet) return out;
  out += fmt::format("{} [{}]\ndirect I/O {}", loaded.choice.reason, loaded.choice.code,
                     size_text(loaded.direct_bytes));
  if (report.verified) out += fmt::format(", verified {}", size_text(loaded.verified_bytes));
  if (report.peak_rss) out += fmt::format(", peak memory {}", size_text(*report.peak_rss));
  return out += '\n';
}

}  // namespace

Action register_load(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  add_path(verb, options->path);
  add_choice(verb, "--strategy", options->strategy, {"automatic", "mapped", "read", "staged"},
             "Loading strategy; default: automatic");
  add_size(verb, "--budget", options->budget, "Memory limit; default: 7/8 of the available memory");
  add_flag(verb, "--drop-after", options->drop_after, "Drop the files from the page cache afterwards");
  add_flag(verb, "--verify", options->verify, "Check each byte against the seal while it is loaded");
  add_filter(verb, options->filter);
  add_max_header(verb, options->max_header);
  return [options](const Common& common) -> Result<Exit> {
    const auto model = HT_TRY(Model::open(options->path, {.max_header_bytes = options->max_header}));
    const auto loaded = load(model, *options, common);
    if (!loaded) {
      if (is_answer(loaded.error().code(), options->verify)) return answer_no(loaded.error(), common);
      return fail(loaded.error());
    }
    const Report& report = *loaded;
    print(common.json || common.jsonl ? json_text(report) : people_text(report, common.quiet));
    return Exit::good;
  };
}

}  // namespace ht::cli
