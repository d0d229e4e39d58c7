// How verbs declare their options, so that each kind is read in one way. What an option is read into has
// to live as long as the verb.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/cli.hpp"

namespace ht::cli {

/// An option that takes text, or, without dashes before its name, an argument.
struct TextOption {
  std::string name;
  std::string type;  // as the help calls it
  std::string description;
  bool required = false;
  std::vector<std::string> one_of = {};  // nothing else is taken, unless it is empty
};
void add_text(CLI::App& verb, std::string& text, const TextOption& option);

/// The same where an empty text is not the same as none.
void add_text(CLI::App& verb, std::optional<std::string>& text, const TextOption& option);

/// One that may be given several times.
void add_texts(CLI::App& verb, std::vector<std::string>& texts, const TextOption& option);

/// All arguments that follow those before it.
void add_arguments(CLI::App& verb, std::vector<std::string>& texts, const TextOption& option);

void add_flag(CLI::App& verb, const std::string& name, bool& flag, const std::string& description);

/// A whole number below 2^64.
void add_number(CLI::App& verb, const std::string& name, std::uint64_t& number,
                const std::string& description);

/// A finite number, not below 0.
void add_real(CLI::App& verb, const std::string& name, std::optional<double>& number,
              const std::string& description);

/// A SIZE such as 4K or 2.5G.
void add_size(CLI::App& verb, const std::string& name, std::uint64_t& bytes, const std::string& description);

/// What is wrong with an option beside the others, or nothing: asked once all are read. A verb has one.
void add_check(CLI::App& verb, const std::string& name, std::function<std::string()> whats_wrong);

/// The PATH that verbs look at.
void add_path(CLI::App& verb, std::string& path, const std::string& name = "path");

/// --filter and --exclude: the tensors to work on.
void add_filter(CLI::App& verb, NameFilter& filter);

/// --max-header: the most that is read of a header.
void add_max_header(CLI::App& verb, std::uint64_t& bytes);

}  // namespace ht::cli
