// Options that several verbs have, read in one way.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>

namespace ht::cli {

/// The PATH that verbs look at.
void add_path(CLI::App& verb, std::string& path);

/// A SIZE such as 4K or 2.5G. What it is read into has to live as long as the verb.
void add_size(CLI::App& verb, const std::string& name, std::uint64_t& bytes, const std::string& description);

/// --max-header: the most that is read of a header.
void add_max_header(CLI::App& verb, std::uint64_t& bytes);

}  // namespace ht::cli
