#include "cli/options.hpp"
#include "base/nearest_name.hpp"
#include "cli/print/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <type_traits>
#include <utility>

namespace ht::cli {

namespace {

constexpr const char* path_description = "A file of any format, a shard index, or a folder";
constexpr std::string_view expected_size = "a size below 16E, such as 4K, 16M, 2.5G";

// The error for a value that is not in the list; empty if it is.
std::string problem_of(const std::string& given, const std::vector<std::string>& one_of) {
  if (std::ranges::find(one_of, given) != one_of.end()) return {};
  NearestName nearest(given);
  for (const auto& value : one_of) nearest.consider(value);
  const auto suggestion = nearest.found() ? fmt::format("; did you mean '{}'?", *nearest.found()) : "";
  return fmt::format("'{}' is not one of {}{}", given, fmt::join(one_of, ", "), suggestion);
}

struct Usage {
  std::string name;
  std::string type;  // the value's name in the help; for an argument the whole text
};

Usage parse_usage(const std::string& usage) {
  if (!usage.starts_with('-')) return {usage.substr(0, usage.find_first_of(". ")), usage};
  const auto space = usage.find(' ');
  return {usage.substr(0, space), usage.substr(space + 1)};
}

// An option whose text is converted by `parse`; nullopt from `parse` is an error that names `expected`.
template <class T, class Parse>
void add_parsed(CLI::App& verb, const std::string& usage, T& value, const std::string& description,
                std::string_view expected, const Parse& parse) {
  const auto option = parse_usage(usage);
  const auto read = [name = option.name, &value, expected, parse](const std::string& text) {
    auto parsed = parse(text);
    if (!parsed) throw CLI::ValidationError(name, fmt::format("'{}' is not {}", text, expected));
    if constexpr (std::is_same_v<T, decltype(parsed)>) {
      value = parsed;
    } else {
      value = *parsed;
    }
  };
  verb.add_option_function<std::string>(option.name, read, description)->type_name(option.type);
}

// Parses a number that must be the whole text.
template <class T>
std::optional<T> parse_number(const std::string& text) {
  T number{};
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && after == end ? std::optional(number) : std::nullopt;
}

// One value per option, so that the next word is an argument again, and [ab] is not read as a list.
void allow_repeating(CLI::Option& added) {
  added.expected(1)->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

}  // namespace

void add_text(CLI::App& verb, const std::string& usage, std::string& text, const std::string& description,
              Presence presence) {
  const auto [name, type] = parse_usage(usage);
  verb.add_option(name, text, description)->type_name(type)->required(presence == Presence::required);
}

void add_text(CLI::App& verb, const std::string& usage, std::optional<std::string>& text,
              const std::string& description) {
  const auto [name, type] = parse_usage(usage);
  const auto set = [&text](const std::string& given) { text = given; };
  verb.add_option_function<std::string>(name, set, description)->type_name(type);
}

void add_choice(CLI::App& verb, const std::string& name, std::string& word,
                const std::vector<std::string>& words, const std::string& description, Presence presence) {
  verb.add_option(name, word, description)
      ->type_name(fmt::format("{}", fmt::join(words, "|")))
      ->required(presence == Presence::required)
      ->check([words](const std::string& given) { return problem_of(given, words); });
}

void add_choice_flag(CLI::App& verb, const std::string& name, std::string& word,
                     const std::vector<std::string>& words, const std::string& description) {
  // A flag instead of an option, so that it never consumes the next argument. CLI11 passes "true" if the flag
  // has no word.
  const auto read = [words](std::string& given) {
    if (given == "true") given = words.front();
    return problem_of(given, words);
  };
  verb.add_flag(name, word, description)->transform(CLI::Validator(read, ""));
}

void add_texts(CLI::App& verb, const std::string& usage, std::vector<std::string>& texts,
               const std::string& description) {
  const auto [name, type] = parse_usage(usage);
  allow_repeating(*verb.add_option(name, texts, description)->type_name(type));
}

void add_arguments(CLI::App& verb, const std::string& usage, std::vector<std::string>& texts,
                   const std::string& description, Presence presence) {
  // With extra arguments, the default for an unlimited vector, CLI11 splits texts of the form [a,b].
  constexpr int any_number = CLI::detail::expected_max_vector_size;
  const auto [name, type] = parse_usage(usage);
  verb.add_option(name, texts, description)
      ->required(presence == Presence::required)
      ->type_name(type)
      ->expected(any_number, any_number)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void add_flag(CLI::App& verb, const std::string& name, bool& flag, const std::string& description) {
  verb.add_flag(name, flag, description);
}

void add_number(CLI::App& verb, const std::string& name, std::uint64_t& number,
                const std::string& description) {
  add_parsed(verb, name + " N", number, description, "a whole number below 2^64",
             parse_number<std::uint64_t>);
}

void add_real(CLI::App& verb, const std::string& name, std::optional<double>& number,
              const std::string& description) {
  const auto parse = [](const std::string& text) {
    const auto parsed = parse_number<double>(text);
    return parsed && std::isfinite(*parsed) && *parsed >= 0 ? parsed : std::nullopt;
  };
  add_parsed(verb, name + " X", number, description, "a number of at least 0, such as 1e-3", parse);
}

void add_size(CLI::App& verb, const std::string& usage, std::uint64_t& bytes,
              const std::string& description) {
  add_parsed(verb, usage, bytes, description, expected_size, parse_size);
}

void add_size(CLI::App& verb, const std::string& usage, std::optional<std::uint64_t>& bytes,
              const std::string& description) {
  add_parsed(verb, usage, bytes, description, expected_size, parse_size);
}

void add_check(CLI::App& verb, std::function<std::string()> find_problem) {
  verb.callback([find_problem = std::move(find_problem)] {
    if (const auto problem = find_problem(); !problem.empty()) throw CLI::ValidationError(problem);
  });
}

void add_path(CLI::App& verb, std::string& path, const std::string& name) {
  add_text(verb, name, path, path_description, Presence::required);
}

void add_paths(CLI::App& verb, std::vector<std::string>& paths) {
  add_arguments(verb, "PATH...", paths, path_description, Presence::required);
}

void add_filter(CLI::App& verb, NameFilter& filter) {
  struct Patterns {
    std::vector<std::string> include;
    std::vector<std::string> exclude;
  };
  auto patterns = std::make_shared<Patterns>();
  const auto add = [&](const std::string& name, std::vector<std::string> Patterns::* list,
                       const std::string& description) {
    auto* added = verb.add_option_function<std::vector<std::string>>(
        name,
        [name, list, patterns, &filter](const std::vector<std::string>& given) {
          patterns.get()->*list = given;
          filter = NameFilter(patterns->include, patterns->exclude);
          if (const auto checked = NameFilter(given).check(); !checked)
            throw CLI::ValidationError(name, std::string(checked.error().message()));
        },
        description);
    allow_repeating(*added->type_name("GLOB"));
  };
  add("--filter", &Patterns::include,
      "Select tensors whose names match GLOB, a pattern of *, ?, [a-z], {a,b}; may be repeated");
  add("--exclude", &Patterns::exclude, "Exclude tensors whose names match GLOB; may be repeated");
}

}  // namespace ht::cli
