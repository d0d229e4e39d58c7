#include "cli/cli.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <csignal>
#include <exception>
#include <map>
#include <new>
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
    Verb{"ls", "the tensors of a file: name, dtype, shape, bytes, offset",
         "htensor ls model.safetensors --sort size", register_ls},
    Verb{"show", "the values of a tensor, or of a part of it",
         "htensor show model.safetensors model.norm.weight --slice 0:4", register_show},
    Verb{"seal", "writes down what every byte adds up to, beside the model", "htensor seal model.safetensors",
         register_seal},
    Verb{"verify", "whether every byte is as it was sealed, and which tensors are bad",
         "htensor verify model.safetensors", register_verify},
    Verb{"hash", "the digests of a model and its tensors", "htensor hash model.safetensors --per-tensor",
         register_hash},
    Verb{"convert", "another format, whole or not at all", "htensor convert model.gguf model.irpa --seal",
         register_convert},
    Verb{"export", "one tensor to a file of its own",
         "htensor export model.safetensors model.norm.weight -o norm.npy", register_export},
    Verb{"diff", "what differs between two models, across formats",
         "htensor diff model.safetensors model.gguf --tolerance 1e-3", register_diff},
    Verb{"meta", "the metadata of a model, or an edit of it that leaves the data where it is",
         "htensor meta model.gguf set general.name 'My model'", register_meta},
    Verb{"load", "loads a model and says how fast, by which strategy and why",
         "htensor load model.safetensors --strategy read", register_load},
    Verb{"residency", "what of each tensor is in memory", "htensor residency model.safetensors",
         register_residency},
    Verb{"prefetch", "brings tensors into memory",
         "htensor prefetch model.safetensors --filter 'model.layers.0.*'", register_prefetch},
    Verb{"evict", "takes tensors out of memory", "htensor evict model.safetensors", register_evict},
    Verb{"plan", "what a model takes in memory, and whether it fits",
         "htensor plan model.safetensors --budget 16G", register_plan},
    Verb{"doctor", "what a file is, what is wrong with it, what to do", "htensor doctor model.safetensors",
         register_doctor},
    Verb{"synth", "makes a model to try and measure with, of any size",
         "htensor synth model.safetensors --preset llama-1b --size 100M", register_synth},
    Verb{"version", "the version, the build, what of this machine is used", "htensor version --json",
         register_version},
};

volatile std::sig_atomic_t stop_asked = 0;
bool anything_printed = false;

extern "C" void ask_to_stop(int /*signal*/) { stop_asked = 1; }

void catch_interrupts() {
  // No restart of what they interrupt, and no end by a second one: whatever waits comes back, asks
  // whether to stop, and cleans up.
  struct sigaction action{};
  action.sa_handler = ask_to_stop;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before{};
    sigaction(signal, nullptr, &before);
    // Whoever started the program with it ignored, as nohup does, wants it ignored.
    if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
}

void complain(std::string_view line, std::string_view hint) {
  std::string text = fmt::format("htensor: {}\n", printable(line));
  if (!hint.empty()) text += fmt::format("  hint: {}\n", printable(hint));
  print_error(text);
}

int report(const Error& error, bool json) {
  // Within a document there is no place for another, as when the user interrupts one.
  if (json && !anything_printed) {
    print(json_error(error) + "\n");
  } else {
    complain(to_string(error), error.hint());
  }
  return static_cast<int>(error.code() == ErrorCode::cancelled ? Exit::interrupted : Exit::could_not);
}

std::string_view as_view(const char* argument) { return argument; }

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

void print_verbs(bool json) {
  if (json) {
    std::string names;
    for (const auto& verb : verbs)
      names += fmt::format("{}{}", names.empty() ? "" : ",", json_string(verb.name));
    return print(fmt::format("{{\"verbs\":[{}]}}\n", names));
  }
  print("htensor: model weights, opened at once\n\n");
  for (const auto& verb : verbs) print(fmt::format("  {:<9} {}\n", verb.name, verb.line));
  print("\n`htensor VERB --help` tells more.\n");
}

// What was printed has to have arrived; a full disk behind a redirection is a failure.
int finish(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  if (interrupted()) return static_cast<int>(Exit::interrupted);
  complain("standard output could not be written [write_failed]", "");
  return static_cast<int>(Exit::could_not);
}

void add_common(CLI::App& app, Common& common) {
  app.add_flag("--json", common.json, "One JSON document on stdout and nothing else there");
  app.add_flag("--jsonl", common.jsonl, "Lists as JSON, one object a line");
  app.add_flag("-q,--quiet", common.quiet, "Nothing but errors, and what was asked for");
  app.add_option_function<std::string>(
         "--progress",
         [&common](const std::string& when) {
           common.progress = when == "always"  ? ProgressBar::always
                             : when == "never" ? ProgressBar::never
                                               : ProgressBar::automatic;
         },
         "A progress bar on stderr: auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->type_name("WHEN");
}

}  // namespace

bool interrupted() noexcept { return stop_asked != 0; }

void complain(const Error& error) { complain(to_string(error), error.hint()); }

Exit answer_no(const Error& error, const Common& common) {
  static_cast<void>(report(error, common.json || common.jsonl));
  return Exit::answer_is_no;
}

Error interruption() { return Error(ErrorCode::cancelled, "nobody_asked_to_stop", "was interrupted"); }

void print(std::string_view text) {
  if (text.empty()) return;  // it may have no address, which fwrite does not take
  anything_printed = true;
  // Errors stick to the stream and are looked at once, at the end.
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stdout));
}

void print_error(std::string_view text) {
  // Who closed stderr does not want to hear of it.
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
}

void tell_of_stale_seal(const std::optional<std::filesystem::path>& seal, const Common& common) {
  if (!seal || common.quiet) return;
  const auto folder = seal->has_parent_path() ? seal->parent_path() : std::filesystem::path(".");
  print_error(fmt::format(
      "  hint: {0} lists the file before it was replaced; renew it with `htensor seal --force {1}`\n",
      printable(seal->string()), printable(folder.string())));
}

namespace {

int run_verb(int argc, const char* const* argv) {
  CLI::App app("Model weights: opened at once, typed, proven intact.", "htensor");
  app.require_subcommand(0, 1);
  app.fallthrough();
  app.set_version_flag("--version", "htensor " + std::string(library_version));
  Common common;
  add_common(app, common);
  const std::span arguments(argv, static_cast<std::size_t>(argc));
  std::map<const CLI::App*, Action> actions;
  for (const auto& verb : verbs) {
    auto* sub = app.add_subcommand(std::string(verb.name), std::string(verb.line));
    // Options cost more to register than a small file to list, so those of other verbs are not.
    if (std::ranges::find(arguments, verb.name, as_view) == arguments.end()) continue;
    sub->fallthrough();
    sub->footer(fmt::format("Example:\n  {}", verb.example));
    actions.emplace(sub, verb.add(*sub));
  }

  const bool json = wants_json(arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {
    return finish(app.exit(request));  // --help
  } catch (const CLI::ParseError& error) {
    return finish(bad_usage(error, app, json));
  }
  const auto chosen = app.get_subcommands();
  if (chosen.empty()) {
    print_verbs(json);
    return finish(static_cast<int>(Exit::good));
  }
  catch_interrupts();
  auto outcome = actions.at(chosen.front())(common);
  if (!outcome) return finish(report(outcome.error(), json));
  return finish(static_cast<int>(*outcome));
}

}  // namespace

int run(int argc, const char* const* argv) {
  const bool json = wants_json(std::span(argv, static_cast<std::size_t>(argc)));
  try {
    return run_verb(argc, argv);
  } catch (const std::bad_alloc&) {
    return report(Error(ErrorCode::out_of_memory), json);
  } catch (const std::exception& unexpected) {
    return report(Error(ErrorCode::internal, to_string(ErrorCode::internal), unexpected.what()), json);
  }
}

}  // namespace ht::cli
