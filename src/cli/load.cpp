// load: all of a model brought to where it can be used, how fast, by which strategy and why.
#include <fmt/format.h>

#include <chrono>
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
  double gb_per_s = 0;
  std::optional<std::uint64_t> peak_rss;  // nothing where the system does not tell
  std::optional<bool> verified;           // nothing where nobody asked
};

io::Strategy strategy_named(std::string_view name) {
  for (const auto strategy : {io::Strategy::mapped, io::Strategy::read, io::Strategy::staged}) {
    if (io::to_string(strategy) == name) return strategy;
  }
  return io::Strategy::automatic;
}

Result<Report> load(const Options& options, const Common& common) {
  const auto model = HT_TRY(Model::open(options.path, {.max_header_bytes = options.max_header}));
  WorkWithBar work(common);
  const LoadOptions how{.strategy = strategy_named(options.strategy),
                        .glob = options.filter,
                        .budget_bytes = options.budget,
                        .drop_after = options.drop_after,
                        .verify = options.verify,
                        .work = work.options()};
  // What is staged is for somebody to take, and here nobody wants it.
  const auto leave = [](const TensorPiece&) -> Result<void> { return {}; };
  Report report;
  report.loaded = HT_TRY(how.strategy == io::Strategy::staged ? model.stream(leave, how) : model.load(how));
  report.seconds = std::chrono::duration<double>(report.loaded.elapsed).count();
  if (report.seconds > 0) report.gb_per_s = static_cast<double>(report.loaded.bytes) / report.seconds / 1e9;
  // Tensors that were checked in memory, and those that others loaded meanwhile, are not among these.
  if (options.verify) report.verified = report.loaded.verified_bytes >= report.loaded.bytes;
  if (const auto peak = io::system_port().peak_memory()) report.peak_rss = *peak;
  return report;
}

// The model was looked at, and is not what was sealed, or nobody knows whether it is.
bool is_answer(const Error& error) {
  return error.code() == ErrorCode::not_sealed || error.code() == ErrorCode::bad_seal ||
         error.rule() == "bytes_are_as_sealed" || error.rule() == "loaded_bytes_are_as_sealed" ||
         error.rule() == "payload_is_as_its_header_says";
}

std::string json_text(const Report& report) {
  const auto& [loaded, seconds, gb_per_s, peak_rss, verified] = report;
  return fmt::format(
      R"({{"strategy":"{}","reason":{},"code":"{}","bytes":{},"direct_bytes":{},"seconds":{},"gb_per_s":{},"peak_rss":{},"verified":{},"verified_bytes":{}}})"
      "\n",
      to_string(loaded.choice.strategy), json_string(loaded.choice.reason), loaded.choice.code, loaded.bytes,
      loaded.direct_bytes, seconds, gb_per_s, peak_rss ? fmt::to_string(*peak_rss) : "null",
      verified ? fmt::to_string(*verified) : "null", loaded.verified_bytes);
}

std::string people_text(const Report& report, bool quiet) {
  const auto& loaded = report.loaded;
  std::string out = fmt::format("{} by {} in {:.3f} s: {:.2f} GB/s\n", size_text(loaded.bytes),
                                to_string(loaded.choice.strategy), report.seconds, report.gb_per_s);
  if (quiet) return out;
  out += fmt::format("{} [{}]\n{} of it went past the page cache", loaded.choice.reason, loaded.choice.code,
                     size_text(loaded.direct_bytes));
  if (report.verified) out += fmt::format("; {} of it as it was sealed", size_text(loaded.verified_bytes));
  if (report.peak_rss) out += fmt::format("; {} of memory at most", size_text(*report.peak_rss));
  return out += '\n';
}

}  // namespace

Action register_load(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  add_path(verb, options->path);
  add_text(verb, options->strategy,
           {.name = "--strategy",
            .type = "NAME",
            .description = "automatic, mapped, read or staged",
            .one_of = {"automatic", "mapped", "read", "staged"}});
  add_size(verb, "--budget", options->budget, "The memory that it may take; else most of what is available");
  add_flag(verb, "--drop-after", options->drop_after, "Leave nothing of it in the page cache");
  add_flag(verb, "--verify", options->verify, "Hold each byte against the seal as it comes in");
  add_filter(verb, options->filter);
  add_max_header(verb, options->max_header);
  return [options](const Common& common) -> Result<Exit> {
    const auto loaded = load(*options, common);
    if (!loaded) {
      if (options->verify && is_answer(loaded.error())) return answer_no(loaded.error(), common);
      return fail(loaded.error());
    }
    const Report& report = *loaded;
    print(common.json || common.jsonl ? json_text(report) : people_text(report, common.quiet));
    return Exit::good;
  };
}

}  // namespace ht::cli
