#include "bench/harness/options.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "bench/harness/must.hpp"

namespace ht::bench {
namespace {

template <class T>
std::string_view parse_number(std::string_view text, T& number) {
  const auto [after, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  must(error == std::errc{} && number > 0, std::string(text) + " is not a number above 0");
  return text.substr(static_cast<std::size_t>(after - text.data()));
}

// Accepts 4G, 256M, or bytes.
std::uint64_t parse_size(std::string_view text) {
  std::uint64_t number = 0;
  const auto unit = parse_number(text, number);
  constexpr std::string_view units = "KMGT";
  must(unit.size() <= 1 && units.find(unit) != units.npos, std::string(text) + " is not a size");
  const auto shift = unit.empty() ? 0 : 10 * (units.find(unit) + 1);
  must(number <= UINT64_MAX >> shift, std::string(text) + " is too large");
  return number << shift;
}

int parse_repeats(std::string_view text) {
  int number = 0;
  must(parse_number(text, number).empty(), std::string(text) + " is not a number");
  return number;
}

void parse_words(int argc, char** argv, bool has_size, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--smoke") {
      options.smoke = true;
      if (has_size) options.bytes = std::uint64_t{32} << 20;
      options.repeats = 1;
      continue;
    }
    must(i + 1 < argc, std::string(word) + " is not known, or lacks its value");
    const char* const value = argv[++i];
    if (word == "--size" && has_size) {
      options.bytes = parse_size(value);
    } else if (word == "--repeats") {
      options.repeats = parse_repeats(value);
    } else if (word == "--cells") {
      options.cells.emplace_back(value);
    } else if (word == "--folder" && options.writes_files) {
      options.folder = value;
    } else if (word == "--json") {
      options.json = value;
    } else {
      must(false, std::string(word) + " is not known");
    }
  }
}

}  // namespace

bool Options::selects(std::string_view cell) const {
  return cells.empty() ||
         std::ranges::any_of(cells, [&](const auto& part) { return cell.find(part) != cell.npos; });
}

Options parse_options(int argc, char** argv, Options options) {
  const bool has_size = options.bytes > 0;
  try {
    parse_words(argc, argv, has_size, options);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(
        std::string("[--smoke] ") + (has_size ? "[--size 4G] " : "") + "[--repeats N] [--cells TEXT]... " +
        (options.writes_files ? "[--folder DIR] " : "") + "[--json FILE]: " + error.what());
  }
  if (options.writes_files && options.folder.empty()) options.folder = std::filesystem::temp_directory_path();
  return options;
}

}  // namespace ht::bench
