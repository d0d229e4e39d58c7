// Functions that declare the options of verbs, so that each kind is parsed in one way. The variable of an
// option must outlive the parsing.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/cli.hpp"

namespace ht::cli {

/// Whether the user may leave an argument or option out.
enum class Presence : std::uint8_t { optional, required };

/// An option that takes text, or an argument if `usage` has no leading dash. `usage` is shown in the help:
/// the name and value of an option, such as "--slice SLICE", or an argument, such as "PATH...", whose name is
/// the text before the first dot or space.
void add_text(CLI::App& verb, const std::string& usage, std::string& text, const std::string& description,
              Presence presence = Presence::optional);

/// The same; nullopt if the option is not given.
void add_text(CLI::App& verb, const std::string& usage, std::optional<std::string>& text,
              const std::string& description);

/// An option or argument that takes one of these words, which the help lists.
void add_choice(CLI::App& verb, const std::string& name, std::string& word,
                const std::vector<std::string>& words, const std::string& description,
                Presence presence = Presence::optional);

/// An option that may be repeated.
void add_texts(CLI::App& verb, const std::string& usage, std::vector<std::string>& texts,
               const std::string& description);

/// All remaining arguments.
void add_arguments(CLI::App& verb, const std::string& usage, std::vector<std::string>& texts,
                   const std::string& description, Presence presence = Presence::optional);

/// A flag with an optional word, as in --dequantize or --dequantize=F16; the first word is the default.
void add_choice_flag(CLI::App& verb, const std::string& name, std::string& word,
                     const std::vector<std::string>& words, const std::string& description);

void add_flag(CLI::App& verb, const std::string& name, bool& flag, const std::string& description);

/// A whole number below 2^64.
void add_number(CLI::App& verb, const std::string& name, std::uint64_t& number,
                const std::string& description);

/// A finite number of at least 0.
void add_real(CLI::App& verb, const std::string& name, std::optional<double>& number,
              const std::string& description);

/// A size such as 4K or 2.5G. `usage` is the name of the option and of its value, such as "--budget SIZE".
void add_size(CLI::App& verb, const std::string& usage, std::uint64_t& bytes, const std::string& description);

/// The same; nullopt if the option is not given.
void add_size(CLI::App& verb, const std::string& usage, std::optional<std::uint64_t>& bytes,
              const std::string& description);

/// Checks the options against each other after parsing. The function returns the problem, or an empty text. A
/// verb has one check.
void add_check(CLI::App& verb, std::function<std::string()> find_problem);

/// PATH: a model.
void add_path(CLI::App& verb, std::string& path, const std::string& name = "PATH");
/// PATH…: one or more. Verbs use `for_each_path`, which calls this.
void add_paths(CLI::App& verb, std::vector<std::string>& paths);

/// --filter and --exclude: the tensors to work on.
void add_filter(CLI::App& verb, NameFilter& filter);

}  // namespace ht::cli
