// How verbs declare their options, so that each kind is read in one way. The variable that an option is read
// into has to outlive the parsing.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/cli.hpp"

namespace ht::cli {

/// An option that takes text or, without dashes before its name, an argument.
struct TextOption {
  std::string name;
  std::string type;  // the value's name in the help, all of an argument there; unused where values are listed
  std::string description;
  bool required = false;
  std::vector<std::string> one_of = {};  // the accepted values; empty: any
};
void add_text(CLI::App& verb, std::string& text, const TextOption& option);

/// The same, distinguishing an empty text from an option that is not given.
void add_text(CLI::App& verb, std::optional<std::string>& text, const TextOption& option);

/// An option that may be repeated.
void add_texts(CLI::App& verb, std::vector<std::string>& texts, const TextOption& option);

/// All remaining arguments.
void add_arguments(CLI::App& verb, std::vector<std::string>& texts, const TextOption& option);

void add_flag(CLI::App& verb, const std::string& name, bool& flag, const std::string& description);

/// A whole number below 2^64.
void add_number(CLI::App& verb, const std::string& name, std::uint64_t& number,
                const std::string& description);

/// A finite number of at least 0.
void add_real(CLI::App& verb, const std::string& name, std::optional<double>& number,
              const std::string& description);

/// A SIZE such as 4K or 2.5G.
void add_size(CLI::App& verb, const std::string& name, std::uint64_t& bytes, const std::string& description);

/// Checks the options against each other once all are read. The function returns the problem, or an empty
/// text. A verb has one check.
void add_check(CLI::App& verb, std::function<std::string()> find_problem);

/// PATH: a model.
void add_path(CLI::App& verb, std::string& path, const std::string& name = "PATH");
/// PATH…: one or more. Verbs use `for_each_path`, which calls this.
void add_paths(CLI::App& verb, std::vector<std::string>& paths);

/// --filter and --exclude: the tensors to work on.
void add_filter(CLI::App& verb, NameFilter& filter);

/// --max-header: the largest header that is read.
void add_max_header(CLI::App& verb, std::uint64_t& bytes);

}  // namespace ht::cli
