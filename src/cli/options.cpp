#include "cli/options.hpp"

#include <fmt/format.h>

#include "cli/text.hpp"

namespace ht::cli {

void add_path(CLI::App& verb, std::string& path) {
  verb.add_option("path", path, "A file of any format, a shard index, or a folder")
      ->required()
      ->type_name("PATH");
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

void add_max_header(CLI::App& verb, std::uint64_t& bytes) {
  add_size(verb, "--max-header", bytes,
           "The most that is read of a header; the format's own limit unless given");
}

}  // namespace ht::cli
