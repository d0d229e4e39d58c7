#include "cli/cli.hpp"
#include "base/nearest_name.hpp"
#include "cli/options.hpp"
#include "cli/print/output.hpp"
#include "cli/print/text.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <exception>
#include <memory>
#include <new>
#include <ranges>
#include <span>
#include <utility>
#include <vector>

namespace ht::cli {
namespace {

struct Verb {
  std::string_view name;
  std::string_view summary;
  std::string_view example;  // works after: htensor synth model.safetensors --preset llama-1b --size 100M
  Register add;
  bool opens_models = true;
};

Action register_version(CLI::App& /*verb*/) {
  return [](const Common& common) -> Result<Exit> {
#ifdef NDEBUG
    constexpr std::string_view build = "release";
#else
    constexpr std::string_view build = "debug";
#endif
    const std::string_view features = cpu_features();  // separated by spaces
    const bool has_sha256 = Hasher::make(HashAlgorithm::sha256).has_value();
    if (common.is_json()) {
      std::string cpu;
      for (const auto feature : std::views::split(features, ' '))
        cpu += (cpu.empty() ? "" : ",") + json_string(std::string_view(feature.begin(), feature.end()));
      print(fmt::format(R"({{"version":{},"build":{},"compiler":{},"cpu":[{}],"parts":[{}]}})"
                        "\n",
                        json_string(library_version), json_string(build), json_string(__VERSION__), cpu,
                        has_sha256 ? json_string("openssl") : ""));
    } else {
      print(fmt::format("htensor {} ({} build, compiler {})\n", library_version, build, __VERSION__));
      print(fmt::format("cpu features in use: {}\noptional parts: {}\n",
                        features.empty() ? "only the baseline" : features,
                        has_sha256 ? "openssl (sha256)" : "none"));
    }
    return Exit::good;
  };
}

constexpr std::array verbs{
    Verb{"ls", "list the tensors: name, dtype, shape, bytes, offset",
         "htensor ls model.safetensors --sort size", register_ls},
    Verb{"show", "print the values of a tensor or of a slice",
         "htensor show model.safetensors model.norm.weight --slice 0:4", register_show},
    Verb{"seal", "write the checksums of all bytes to a file beside the model",
         "htensor seal model.safetensors", register_seal},
    Verb{"verify", "check all bytes against the seal and name the damaged tensors",
         "htensor seal model.safetensors\n"
         "htensor verify model.safetensors",
         register_verify},
    Verb{"hash", "print the digests of a model and of its tensors",
         "htensor hash model.safetensors --per-tensor", register_hash},
    Verb{"convert", "write a model in another format", "htensor convert model.safetensors model.irpa --seal",
         register_convert},
    Verb{"export", "write tensors to separate files",
         "htensor export model.safetensors model.norm.weight -o norm.ht", register_export},
    Verb{"diff", "compare two models, also across formats",
         "htensor convert model.safetensors model.irpa\n"
         "htensor diff model.safetensors model.irpa --tolerance 1e-3",
         register_diff},
    Verb{"meta", "read or edit the metadata of a model",
         "htensor meta model.safetensors set title 'My model'", register_meta},
    Verb{"load", "load a model, report the rate, the strategy and why it was chosen",
         "htensor load model.safetensors --strategy read", register_load},
    Verb{"residency", "show how much of each tensor is in the page cache",
         "htensor residency model.safetensors", register_residency},
    Verb{"prefetch", "read tensors into the page cache",
         "htensor prefetch model.safetensors --filter 'model.layers.{0,1}.*'", register_prefetch},
    Verb{"evict", "drop tensors from the page cache", "htensor evict model.safetensors", register_evict},
    Verb{"plan", "show the memory for each loading strategy, and whether the model fits",
         "htensor plan model.safetensors --budget 16G", register_plan},
    Verb{"doctor", "identify a file, report its problems and how to fix them",
         "htensor doctor model.safetensors", register_doctor},
    Verb{"synth", "write a synthetic model of any size for tests and benchmarks",
         "htensor synth model.gguf --preset llama-1b-q4_k_m --size 100M", register_synth, false},
    Verb{"devices", "list the devices of this machine with their dtypes and operations",
         "htensor devices --json", register_devices, false},
    Verb{"version", "print the version, the build and the CPU features in use", "htensor version --json",
         register_version, false},
};

// Written by the signal handler and read by all threads.
std::atomic<bool> stop_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void request_stop(int /*signal*/) { stop_requested = true; }

void catch_interrupts() {
  // No SA_RESTART: a blocking system call returns EINTR. The handler does not end the process; the work polls
  // `is_interrupted` and cleans up.
  struct sigaction action{};
  action.sa_handler = request_stop;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before{};
    sigaction(signal, nullptr, &before);
    // A signal that was ignored at startup, for example by nohup, stays ignored.
    if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
}

Exit report_bad_usage(std::string_view message, std::string_view hint, bool json) {
  if (json) {
    print(fmt::format(
        R"({{"error":{{"code":"usage","rule":"usage","path":null,"tensor":null,"offset":null,"message":{},"hint":{}}}}})"
        "\n",
        json_string(message), json_string(hint)));
  } else {
    print_diagnostic(fmt::format("{} [usage]", message), hint);
  }
  return Exit::failure;
}

// A hint that names the most similar candidate, or `otherwise` if no candidate is similar.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates,
                         std::string_view otherwise) {
  NearestName nearest(name);
  for (const auto& candidate : candidates) nearest.consider(candidate);
  return nearest.found() ? fmt::format("did you mean '{}'?", *nearest.found()) : std::string(otherwise);
}

std::string hint_for_option(const CLI::App& app, const std::string& given, std::string_view otherwise) {
  std::vector<std::string> names;
  for (const auto* option : app.get_options()) {
    for (const auto& long_name : option->get_lnames()) names.push_back("--" + long_name);
  }
  return did_you_mean(given.substr(0, given.find('=')), names, otherwise);
}

// Replaces CLI11's messages for a wrong number of values.
std::string usage_text(const CLI::ParseError& error) {
  std::string text = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) == nullptr) return text;
  const auto name = text.substr(0, text.find(':'));
  if (text.ends_with(" missing")) return fmt::format("{}: a value is missing", name);
  if (text.find("At Most") != std::string::npos) return fmt::format("{}: may be given only once", name);
  return text;
}

Exit report_bad_usage(const CLI::ParseError& error, const CLI::App& app, bool json) {
  const std::string help_hint = fmt::format("see `{} --help`", app.get_name());
  auto extra = app.remaining();
  // All words after "--" are arguments.
  const auto options_end = std::ranges::find(extra, "--");
  // An unknown option is reported first: its misspelling may be the reason that a required one is missing.
  const auto option =
      std::find_if(extra.begin(), options_end, [](const auto& word) { return word.starts_with('-'); });
  if (option != options_end) {
    return report_bad_usage(fmt::format("unknown option '{}'", *option),
                            hint_for_option(app, *option, help_hint), json);
  }
  if (options_end != extra.end()) extra.erase(options_end);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !extra.empty()) {
    return report_bad_usage(fmt::format("unexpected argument '{}'", extra.front()), help_hint, json);
  }
  return report_bad_usage(usage_text(error), help_hint, json);
}

Exit report_unknown_verb(std::string_view name, bool json) {
  std::vector<std::string> names;
  names.reserve(std::size(verbs));
  for (const auto& verb : verbs) names.emplace_back(verb.name);
  return report_bad_usage(fmt::format("unknown verb '{}'", name),
                          did_you_mean(name, names, "list the verbs with `htensor`"), json);
}

std::string verb_lines() {
  std::string out;
  for (const auto& verb : verbs) out += fmt::format("  {:<9} {}\n", verb.name, verb.summary);
  return out += "\nSee `htensor VERB --help` for the options and an example of VERB.\n";
}

// "Example:" and its commands, each on a line.
std::string example_text(std::string_view commands) {
  std::string out = "Example:";
  for (const auto line : std::views::split(commands, '\n'))
    out += fmt::format("\n  {}", std::string_view(line.begin(), line.end()));
  return out;
}

void print_verbs(bool json) {
  if (!json) return print("htensor: a program for model weights\n\n" + verb_lines());
  const auto names = json_list(verbs, [](const Verb& verb) { return json_string(verb.name); });
  print(fmt::format("{{\"verbs\":{}}}\n", names));
}

// Shows each argument by its usage text, such as `PATH...` or `KEY [VALUE]...`, which options.cpp stores as
// CLI11's type name.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { label("Positionals", "Arguments"); }
  [[nodiscard]] std::string make_option_usage(const CLI::Option* option) const override {
    const auto name = option->get_type_name();
    return option->get_required() ? name : fmt::format("[{}]", name);
  }
  [[nodiscard]] std::string make_option_name(const CLI::Option* option, bool is_argument) const override {
    return is_argument ? option->get_type_name() : Formatter::make_option_name(option, is_argument);
  }
  [[nodiscard]] std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_positional() ? "" : Formatter::make_option_opts(option);
  }
};

// Flushes stdout: a full disk behind a redirection is an error.
int finish(Exit status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return static_cast<int>(status);
  if (is_interrupted()) return static_cast<int>(Exit::interrupted);
  print_diagnostic("cannot write to standard output [write_failed]", "");
  return static_cast<int>(Exit::failure);
}

void add_common(CLI::App& app, Common& common, std::string& progress) {
  add_flag(app, "--json", common.json, "Print one JSON document to stdout and nothing else");
  add_flag(app, "--jsonl", common.jsonl, "Print one JSON object per line");
  add_flag(app, "-q,--quiet", common.quiet, "Print only results and errors");
  add_choice(app, "--progress", progress, {"always", "auto", "never"},
             "When to show a progress bar on stderr; auto: if stderr is a terminal");
  for (const auto* name : {"--json", "--jsonl", "--quiet", "--progress"}) {
    app.get_option(name)->group("Global options");
  }
}

// Returns the position of the verb: the first word that is neither an option nor the value of `--progress` or
// `--max-header`. All other options whose value is a separate word must follow the verb, because this
// function does not know that they have a value.
std::size_t find_verb(std::span<const char* const> arguments) {
  std::size_t at = 0;
  while (at < arguments.size() && *arguments[at] == '-') {
    const std::string_view option = arguments[at];
    at += option == "--progress" || option == "--max-header" ? 2 : 1;
  }
  return std::min(at, arguments.size());
}

// Parses all arguments except the one at `verb_at`.
void parse(CLI::App& app, std::span<const char* const> arguments, std::size_t verb_at) {
  std::vector<std::string> words;  // in reverse order, as CLI11 expects
  for (std::size_t i = arguments.size(); i > 0; --i) {
    if (i - 1 != verb_at) words.emplace_back(arguments[i - 1]);
  }
  app.parse(std::move(words));
}

// `verb` is null if the arguments name no verb: for --help, --version or the list of verbs.
Exit run_verb(const Verb* verb, std::span<const char* const> arguments, std::size_t verb_at, bool json) {
  // Only options of this verb are added: adding all costs more than listing a small file.
  CLI::App app(verb != nullptr ? std::string(verb->summary) : "A program for model weights",
               verb != nullptr ? fmt::format("htensor {}", verb->name) : "htensor");
  Common common;
  std::string progress = "auto";
  Action action;
  if (verb != nullptr) {
    action = verb->add(app);
    if (verb->opens_models)
      add_size(app, "--max-header SIZE", common.max_header,
               "Largest header to read; default: the format's limit");
    app.footer(example_text(verb->example));
  } else {
    app.set_version_flag("--version", fmt::format("htensor {}", library_version));
    app.footer("Verbs:\n" + verb_lines());
  }
  add_common(app, common, progress);
  try {
    parse(app, arguments, verb_at);
  } catch (const CLI::CallForHelp&) {
    app.formatter(std::make_shared<HelpFormatter>());
    print(app.help());
    return Exit::good;
  } catch (const CLI::CallForVersion& version) {
    print(fmt::format("{}\n", version.what()));
    return Exit::good;
  } catch (const CLI::ParseError& error) {
    return report_bad_usage(error, app, json);
  }
  if (verb == nullptr) {
    print_verbs(json);
    return Exit::good;
  }
  common.progress = progress == "always"  ? ProgressBar::always
                    : progress == "never" ? ProgressBar::never
                                          : ProgressBar::automatic;
  catch_interrupts();
  const auto outcome = action(common);
  return outcome ? *outcome : report(outcome.error(), json);
}

}  // namespace

bool is_interrupted() noexcept { return stop_requested; }

Error interruption(std::string_view progress) {
  return Error(ErrorCode::cancelled, "work_is_completed", fmt::format("stopped: {}", progress));
}

int run(int argc, const char* const* argv) {
  const auto arguments = std::span(argv, static_cast<std::size_t>(argc)).subspan(argc > 0 ? 1 : 0);
  // `json` is computed before the options are parsed, because an error in the options may have to be reported
  // as JSON. Words after "--" are arguments, not options.
  const auto options_end = std::ranges::find(arguments, std::string_view("--"));
  const bool json = std::any_of(arguments.begin(), options_end,
                                [](std::string_view word) { return word == "--json" || word == "--jsonl"; });
  try {
    const std::size_t at = find_verb(arguments);
    if (at == arguments.size()) return finish(run_verb(nullptr, arguments, at, json));
    const auto* const verb = std::ranges::find(verbs, std::string_view(arguments[at]), &Verb::name);
    if (verb == verbs.end()) return finish(report_unknown_verb(arguments[at], json));
    return finish(run_verb(verb, arguments, at, json));
  } catch (const std::bad_alloc&) {
    return finish(report(Error(ErrorCode::out_of_memory), json));
  } catch (const std::exception& unexpected) {
    return finish(
        report(Error(ErrorCode::internal, to_string(ErrorCode::internal), unexpected.what()), json));
  }
}

}  // namespace ht::cli
