#include "cli/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <memory>
#include <utility>

#include "cli/text.hpp"

namespace ht::cli {

void add_text(CLI::App& verb, std::string& text, const TextOption& option) {
  auto* added = verb.add_option(option.name, text, option.description)
                    ->required(option.required)
                    ->type_name(option.type);
  if (!option.one_of.empty()) added->check(CLI::IsMember(option.one_of));
}

void add_text(CLI::App& verb, std::optional<std::string>& text, const TextOption& option) {
  auto* added = verb.add_option_function<std::string>(
                        option.name, [&text](const std::string& given) { text = given; }, option.description)
                    ->required(option.required)
                    ->type_name(option.type);
  if (!option.one_of.empty()) added->check(CLI::IsMember(option.one_of));
}

void add_texts(CLI::App& verb, std::vector<std::string>& texts, const TextOption& option) {
  // One value a time: what follows is an argument again.
  verb.add_option(option.name, texts, option.description)
      ->type_name(option.type)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
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
              throw CLI::ValidationError(name, fmt::format("'{}' is no whole number below 2^64", text));
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
              throw CLI::ValidationError(name,
                                         fmt::format("'{}' is no number from 0 on, such as 1e-3", text));
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
              throw CLI::ValidationError(name, fmt::format("'{}' is no size such as 4K, 16M, 2.5G", text));
            bytes = *parsed;
          },
          description)
      ->type_name("SIZE");
}

void add_check(CLI::App& verb, const std::string& name, std::function<std::string()> whats_wrong) {
  verb.callback([name, whats_wrong = std::move(whats_wrong)] {
    if (const auto text = whats_wrong(); !text.empty()) throw CLI::ValidationError(name, text);
  });
}

void add_path(CLI::App& verb, std::string& path, const std::string& name) {
  add_text(verb, path,
           {.name = name,
            .type = "PATH",
            .description = "A file of any format, a shard index, or a folder",
            .required = true});
}

void add_filter(CLI::App& verb, NameFilter& filter) {
  struct Patterns {
    std::vector<std::string> include;
    std::vector<std::string> exclude;
  };
  auto patterns = std::make_shared<Patterns>();
  const auto add = [&](const std::string& name, std::vector<std::string> Patterns::* list,
                       const std::string& description) {
    verb.add_option_function<std::vector<std::string>>(
            name,
            [name, list, patterns, &filter](const std::vector<std::string>& given) {
              patterns.get()->*list = given;
              filter = NameFilter(patterns->include, patterns->exclude);
              if (const auto checked = NameFilter(given).check(); !checked)
                throw CLI::ValidationError(name, std::string(checked.error().message()));
            },
            description)
        ->type_name("GLOB")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  };
  add("--filter", &Patterns::include,
      "Only tensors whose names match *, ?, [a-z], {a,b}; repeat it for more tensors");
  add("--exclude", &Patterns::exclude, "Leave out tensors whose names match; repeat it for more patterns");
}

void add_max_header(CLI::App& verb, std::uint64_t& bytes) {
  add_size(verb, "--max-header", bytes,
           "The most that is read of a header; the format's own limit unless given");
}

}  // namespace ht::cli
