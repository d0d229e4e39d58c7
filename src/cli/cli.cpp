#include "cli/cli.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "cli/text.hpp"

namespace ht::cli {
namespace {

struct Verb {
  std::string_view name;
  std::string_view line;
  std::string_view example;
  Register add;
};

// One line a verb.
constexpr std::array verbs{
    Verb{"ls", "the tensors of a file: name, dtype, shape, bytes, offset", "htensor ls model.ht --sort size",
         register_ls},
    Verb{"show", "the values of a tensor, or of a part of it",
         "htensor show model.ht model --slice 0:4,:", register_show},
    Verb{"synth", "makes a model to try and measure with, of any size",
         "htensor synth big.ht --preset matrix --size 1T --sparse", register_synth},
    Verb{"version", "the version, the build, what of this machine is used", "htensor version --json",
         register_version},
};

volatile std::sig_atomic_t stop_asked = 0;

extern "C" void ask_to_stop(int /*signal*/) { stop_asked = 1; }

void catch_interrupts() {
  struct sigaction action{};
  action.sa_handler = ask_to_stop;
  // A second one ends the program at once, should the first not be heard.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

void complain(std::string_view line, std::string_view hint) {
  fmt::print(stderr, "htensor: {}\n", printable(line));
  if (!hint.empty()) fmt::print(stderr, "  hint: {}\n", printable(hint));
}

int report(const Error& error, bool json) {
  if (json) {
    print(json_error(error) + "\n");
  } else {
    complain(to_string(error), error.hint());
  }
  return static_cast<int>(error.code() == ErrorCode::cancelled ? Exit::interrupted : Exit::could_not);
}

// Before the options are parsed, they tell how a mistake in them is to be told.
bool wants_json(std::span<const char* const> arguments) {
  return std::ranges::any_of(arguments, [](std::string_view a) { return a == "--json" || a == "--jsonl"; });
}

int bad_usage(const CLI::ParseError& error, const CLI::App& app, bool json) {
  const auto chosen = app.get_subcommands();
  const std::string hint =
      chosen.empty() ? "htensor --help" : fmt::format("htensor {} --help", chosen.front()->get_name());
  if (json) {
    print(fmt::format(
        R"({{"error":{{"code":"usage","rule":"usage","path":null,"tensor":null,"offset":null,"message":{},"hint":{}}}}})"
        "\n",
        json_string(error.what()), json_string(hint)));
  } else {
    complain(fmt::format("{} [usage]", error.what()), hint);
  }
  return static_cast<int>(Exit::could_not);
}

void print_verbs() {
  print("htensor: model weights, opened at once\n\n");
  for (const auto& verb : verbs) print(fmt::format("  {:<9} {}\n", verb.name, verb.line));
  print("\n`htensor VERB --help` tells more.\n");
}

// What was printed has to have arrived; a full disk behind a redirection is a failure.
int finish(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  complain("standard output could not be written [write_failed]", "");
  return static_cast<int>(Exit::could_not);
}

void add_common(CLI::App& app, Common& common) {
  app.add_flag("--json", common.json, "One JSON document on stdout and nothing else there");
  app.add_flag("--jsonl", common.jsonl, "Lists as JSON, one object a line");
  app.add_flag("-q,--quiet", common.quiet, "Nothing but errors, and what was asked for");
  const std::map<std::string, ProgressBar> bars{
      {"auto", ProgressBar::automatic}, {"always", ProgressBar::always}, {"never", ProgressBar::never}};
  app.add_option("--progress", common.progress, "A progress bar on stderr: auto, always or never")
      ->transform(CLI::CheckedTransformer(bars).description(""))
      ->type_name("WHEN");
}

}  // namespace

bool interrupted() noexcept { return stop_asked != 0; }

Error interruption() { return Error(ErrorCode::cancelled, "nobody_asked_to_stop", "was interrupted"); }

void print(std::string_view text) {
  if (text.empty()) return;  // it may have no address, which fwrite does not take
  // Errors stick to the stream and are looked at once, at the end.
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stdout));
}

int run(int argc, const char* const* argv) {
  CLI::App app("Model weights: opened at once, typed, proven intact.", "htensor");
  app.require_subcommand(0, 1);
  app.fallthrough();
  Common common;
  add_common(app, common);
  std::map<const CLI::App*, Action> actions;
  for (const auto& verb : verbs) {
    auto* sub = app.add_subcommand(std::string(verb.name), std::string(verb.line));
    sub->fallthrough();
    sub->footer(fmt::format("Example:\n  {}", verb.example));
    actions.emplace(sub, verb.add(*sub));
  }

  const bool json = wants_json(std::span(argv, static_cast<std::size_t>(argc)));
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {
    return finish(app.exit(request));  // --help
  } catch (const CLI::ParseError& error) {
    return finish(bad_usage(error, app, json));
  }
  const auto chosen = app.get_subcommands();
  if (chosen.empty()) {
    print_verbs();
    return finish(static_cast<int>(Exit::good));
  }
  catch_interrupts();
  auto outcome = actions.at(chosen.front())(common);
  if (!outcome) return finish(report(outcome.error(), json));
  return finish(static_cast<int>(*outcome));
}

}  // namespace ht::cli
