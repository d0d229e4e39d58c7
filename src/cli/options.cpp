#include "cli/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <htensor/base/nearest.hpp>
#include <memory>
#include <utility>

#include "cli/text.hpp"

namespace ht::cli {

namespace {

constexpr const char* path_description = "A file of any format, a shard index, or a folder";

// The problem with a value that is not one of the accepted ones; empty where it is.
std::string problem_of(const std::string& given, const std::vector<std::string>& one_of) {
  if (std::ranges::find(one_of, given) != one_of.end()) return {};
  NearestName nearest(given);
  for (const auto& value : one_of) nearest.consider(value);
  const auto suggestion = nearest.found() ? fmt::format("; did you mean '{}'?", *nearest.found()) : "";
  return fmt::format("'{}' is not one of {}{}", given, fmt::join(one_of, ", "), suggestion);
}

void describe(CLI::Option& added, const TextOption& option) {
  added.required(option.required);
  if (option.one_of.empty()) {
    added.type_name(option.type);
    return;
  }
  added.type_name(fmt::format("{}", fmt::join(option.one_of, "|")));
  added.check([one_of = option.one_of](const std::string& given) { return problem_of(given, one_of); });
}

// One value at a time, so that the word after it is an argument again, and [ab] is not read as a list.
void allow_repeating(CLI::Option& added) {
  added.expected(1)->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

}  // namespace

void add_text(CLI::App& verb, std::string& text, const TextOption& option) {
  describe(*verb.add_option(option.name, text, option.description), option);
}

void add_text(CLI::App& verb, std::optional<std::string>& text, const TextOption& option) {
  const auto set = [&text](const std::string& given) { text = given; };
  describe(*verb.add_option_function<std::string>(option.name, set, option.description), option);
}

void add_texts(CLI::App& verb, std::vector<std::string>& texts, const TextOption& option) {
  auto& added = *verb.add_option(option.name, texts, option.description);
  describe(added, option);
  allow_repeating(added);
}

void add_arguments(CLI::App& verb, std::vector<std::string>& texts, const TextOption& option) {
  // Extra arguments, which an unlimited vector takes otherwise, would be split where they look like [a,b].
  constexpr int any_number = CLI::detail::expected_max_vector_size;
  verb.add_option(option.name, texts, option.description)
      ->required(option.required)
      ->type_name(option.type)
      ->expected(any_number, any_number)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void add_flag(CLI::App& verb, const std::string& name, bool& flag, const std::string& description) {
  verb.add_flag(name, flag, description);
}

void add_number(CLI::App& verb, const std::string& name, std::uint64_t& number,
                const std::string& description) {
  verb.add_option_function<std::string>(
          name,
          [name, &number](const std::string& text) {
            const char* const end = text.c_str() + text.size();
            const auto [after, error] = std::from_chars(text.c_str(), end, number);
            if (error != std::errc{} || after != end)
              throw CLI::ValidationError(name, fmt::format("'{}' is not a whole number below 2^64", text));
          },
          description)
      ->type_name("N");
}

void add_real(CLI::App& verb, const std::string& name, std::optional<double>& number,
              const std::string& description) {
  verb.add_option_function<std::string>(
          name,
          [name, &number](const std::string& text) {
            double parsed = 0;
            const char* const end = text.c_str() + text.size();
            const auto [after, error] = std::from_chars(text.c_str(), end, parsed);
            if (error != std::errc{} || after != end || !std::isfinite(parsed) || parsed < 0)
              throw CLI::ValidationError(
                  name, fmt::format("'{}' is not a number of at least 0, such as 1e-3", text));
            number = parsed;
          },
          description)
      ->type_name("X");
}

void add_size(CLI::App& verb, const std::string& name, std::uint64_t& bytes, const std::string& description) {
  verb.add_option_function<std::string>(
          name,
          [name, &bytes](const std::string& text) {
            const auto parsed = parse_size(text);
            if (!parsed)
              throw CLI::ValidationError(name, fmt::format("'{}' is not a size such as 4K, 16M, 2.5G", text));
            bytes = *parsed;
          },
          description)
      ->type_name("SIZE");
}

void add_check(CLI::App& verb, std::function<std::string()> find_problem) {
  verb.callback([find_problem = std::move(find_problem)] {
    if (const auto problem = find_problem(); !problem.empty()) throw CLI::ValidationError(problem);
  });
}

void add_path(CLI::App& verb, std::string& path, const std::string& name) {
  add_text(verb, path, {.name = name, .type = name, .description = path_description, .required = true});
}

void add_paths(CLI::App& verb, std::vector<std::string>& paths) {
  add_arguments(verb, paths,
                {.name = "PATH", .type = "PATH...", .description = path_description, .required = true});
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
  add("--filter", &Patterns::include, "Select tensors whose names match *, ?, [a-z], {a,b}; may be repeated");
  add("--exclude", &Patterns::exclude, "Exclude tensors whose names match; may be repeated");
}

void add_max_header(CLI::App& verb, std::uint64_t& bytes) {
  add_size(verb, "--max-header", bytes, "Largest header to read; default: the format's limit");
}

}  // namespace ht::cli
