// The interface between the program's entry point and its verbs.
//
// A verb adds its options to a CLI::App and returns an Action, which is called after parsing. Verbs print
// with `print` and return an Error on failure. The caller adds headings, reports errors and sets the exit
// status.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <htensor/htensor.hpp>
#include <span>
#include <string>
#include <string_view>

// CLI11 is large. Only cli.cpp and options.cpp include it; verbs use options.hpp.
namespace CLI {
class App;
}

namespace ht::cli {

/// The exit status; the larger of two is the worse. `negative_answer`: the work was done and found damage, a
/// difference, a problem, or a model that does not fit.
enum class Exit : int { good = 0, negative_answer = 1, failure = 2, interrupted = 130 };

enum class ProgressBar : std::uint8_t { automatic, always, never };

/// Options common to all verbs, and the maximum header size for verbs that open models.
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

/// Whether each block of output starts with its path if there are several paths. With `none`, the verb's own
/// lines name the path.
enum class Heading : std::uint8_t { path, none };

/// Whether a folder that holds several models is an error, or stands for all of them.
enum class Folders : std::uint8_t { one_model, every_model };

/// An Action for one of the paths that the user gives.
using PathAction = std::function<Result<Exit>(const std::string& path, const Common&)>;

/// Declares PATH… and returns an Action that calls `action` for each path. The exit status is the worst of
/// all. An error in one path does not stop the others; an interruption does.
///
/// For one path, the output is that of `action`. For several paths:
/// - as text, one block per path
/// - with --json, one document {"results":[…]} with the object of each path: its result or its error
/// - with --jsonl, the lines of all paths
/// Each of these objects and lines gets "path" as its first key. If `action` prints that key itself, it must
/// do so before any nested object.
[[nodiscard]] Action for_each_path(CLI::App& verb, PathAction action, Heading heading = Heading::path,
                                   Folders folders = Folders::one_model);

/// Whether the user requested a stop. Long work polls it and fails with `interruption`.
[[nodiscard]] bool is_interrupted() noexcept;
/// Returns a `cancelled` error whose message is "stopped: " and the progress of the work.
[[nodiscard]] Error interruption(std::string_view progress = "output is incomplete");

/// Writes to stdout; all output goes through this function. A failure is reported once, at exit. With --json
/// a verb prints one object and a newline, in any number of pieces. The first piece must not be only the
/// opening brace.
void print(std::string_view text);
/// Writes to stderr; a failure is ignored.
void print_error(std::string_view text);
/// Whether stdout is a terminal and its last line has no newline yet.
[[nodiscard]] bool is_line_open() noexcept;
/// Returns the warning that a seal is out of date: a file that it covers was replaced, and the seal was not
/// renewed because it also covers other files.
[[nodiscard]] Error stale_seal_warning(const std::filesystem::path& seal);
/// Writes the warnings and their hints to stderr, unless --quiet is given. They are also `warnings[]` in
/// JSON.
void print_warnings(std::span<const Error> warnings, const Common& common);

/// Writes the error and its hint to stderr, one line each.
void print_diagnostic(const Error& error);
/// Reports an error that is a result of the verb, such as a checksum mismatch, on stderr or as JSON if
/// requested. Returns Exit::negative_answer.
[[nodiscard]] Exit report_negative_answer(const Error& error, const Common& common);

}  // namespace ht::cli
