// The program's frame: what every verb is given, and how each is registered.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <htensor/htensor.hpp>
#include <string>
#include <string_view>

// CLI11 is large, and its header is for cli.cpp and options.cpp alone: verbs use what options.hpp has.
namespace CLI {
class App;
}

namespace ht::cli {

/// As CLI.md has them.
enum class Exit : int { good = 0, answer_is_no = 1, could_not = 2, interrupted = 130 };

enum class ProgressBar : std::uint8_t { automatic, always, never };

/// What the options that every verb has were set to.
struct Common {
  bool json = false;
  bool jsonl = false;
  bool quiet = false;
  ProgressBar progress = ProgressBar::automatic;
};

/// What a verb does once its options are parsed. An Error becomes a message and an exit status.
using Action = std::function<Result<Exit>(const Common&)>;

/// Adds the verb to the program. The Action may refer to what the function keeps alive in itself.
using Register = Action (*)(CLI::App& app);

Action register_convert(CLI::App& verb);
Action register_diff(CLI::App& verb);
Action register_doctor(CLI::App& verb);
Action register_evict(CLI::App& verb);
Action register_export(CLI::App& verb);
Action register_hash(CLI::App& verb);
Action register_load(CLI::App& verb);
Action register_ls(CLI::App& verb);
Action register_meta(CLI::App& verb);
Action register_plan(CLI::App& verb);
Action register_prefetch(CLI::App& verb);
Action register_residency(CLI::App& verb);
Action register_seal(CLI::App& verb);
Action register_show(CLI::App& verb);
Action register_synth(CLI::App& verb);
Action register_verify(CLI::App& verb);
Action register_version(CLI::App& verb);

/// Runs the program with its arguments.
int run(int argc, const char* const* argv);

/// Whether the user has asked to stop. Long work looks at it and fails with `cancelled`.
[[nodiscard]] bool interrupted() noexcept;
[[nodiscard]] Error interruption();

/// Everything that goes to stdout goes through here; a failure to write is the program's.
void print(std::string_view text);
/// To stderr, as far as there is one.
void print_error(std::string_view text);
/// Warns of a seal that names a replaced file and was not renewed, because it is of other files too.
void tell_of_stale_seal(const std::optional<std::filesystem::path>& seal, const Common& common);

/// One line that a person can act on, and a hint, to stderr.
void complain(const Error& error);
/// The same, or JSON where that is wanted, for an Error that is an answer.
[[nodiscard]] Exit answer_no(const Error& error, const Common& common);

}  // namespace ht::cli
