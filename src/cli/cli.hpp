// The program's frame: the interface between it and the verbs.
//
// A verb adds its options to a CLI::App and returns an Action, which the frame calls once they are parsed.
// Verbs print by `print` and return an Error where they fail; the frame frames, reports and counts.
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

/// The exit status; the larger of two is the worse.
enum class Exit : int { good = 0, answer_is_no = 1, could_not = 2, interrupted = 130 };

enum class ProgressBar : std::uint8_t { automatic, always, never };

/// The options that every verb has and, for verbs that open models, the largest header to read.
struct Common {
  bool json = false;
  bool jsonl = false;
  bool quiet = false;
  ProgressBar progress = ProgressBar::automatic;
  std::uint64_t max_header = 0;

  [[nodiscard]] bool is_json() const noexcept { return json || jsonl; }
};

/// Does the verb's work once its options are parsed. An Error becomes a message and an exit status.
using Action = std::function<Result<Exit>(const Common&)>;

/// Adds the verb's options. The Action owns the variables that they are read into.
using Register = Action (*)(CLI::App& app);

Action register_convert(CLI::App& verb);
Action register_devices(CLI::App& verb);
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

/// Runs the program and returns its exit status.
int run(int argc, const char* const* argv);

/// Whether a block of output starts with its path where there are several. Without it, the verb's own lines
/// name the path.
enum class Heading : std::uint8_t { path, none };

/// Whether a folder that holds several models is an error, or stands for all of them.
enum class Folders : std::uint8_t { one_model, every_model };

/// An Action for one of the paths that the user gives.
using PathAction = std::function<Result<Exit>(const std::string& path, const Common&)>;

/// Declares PATH… and returns an Action that calls `action` for each path. For one path the output is that of
/// `action`. For several, it is a block for each; with --json one document
/// {"results":[…]}, each element being the object that `action` prints, or its error, behind "path" (unless
/// it has that key before any object within it); with --jsonl the lines of all, each behind "path". An error
/// in one path does not keep the others from being looked at, an interruption does; the exit status is the
/// worst.
[[nodiscard]] Action for_each_path(CLI::App& verb, PathAction action, Heading heading = Heading::path,
                                   Folders folders = Folders::one_model);

/// Whether the user asked to stop. Long work polls it and fails with `interruption`.
[[nodiscard]] bool interrupted() noexcept;
/// The message is "stopped: " and how far the work has got.
[[nodiscard]] Error interruption(std::string_view progress = "output is incomplete");

/// Writes to stdout; all output does so here. A failure is reported once, at the end. With --json a verb
/// prints one object and a newline, in as many pieces as it likes, the first of which is longer than its
/// brace.
void print(std::string_view text);
/// Writes to stderr; a failure is ignored.
void print_error(std::string_view text);
/// Whether the last line on stdout is not complete and stdout is a terminal.
[[nodiscard]] bool is_line_open() noexcept;
/// Warns of a seal that names a replaced file and was not renewed, because it is of other files too.
void warn_of_stale_seal(const std::optional<std::filesystem::path>& seal, const Common& common);

/// Writes the error in one line, and its hint in another, to stderr.
void complain(const Error& error);
/// Reports an error that answers the question of the verb: by `complain`, or as JSON if that is asked for.
[[nodiscard]] Exit answer_no(const Error& error, const Common& common);

}  // namespace ht::cli
