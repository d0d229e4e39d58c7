#include "bench/turns/options.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "bench/turns/must.hpp"

namespace ht::bench {
namespace {

// Printed after the program's name.
constexpr const char* usage =
    "[--smoke] [--size 4G] [--repeats N] [--cells TEXT]... [--folder DIR] [--json FILE]: ";

template <class T>
std::string_view parse_number(std::string_view text, T& number) {
  const auto [after, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  must(error == std::errc{} && number > 0, usage + std::string(text) + " is not a number above 0");
  return text.substr(static_cast<std::size_t>(after - text.data()));
}

// Accepts 4G, 256M, or bytes.
std::uint64_t parse_size(std::string_view text) {
  std::uint64_t number = 0;
  const auto unit = parse_number(text, number);
  constexpr std::string_view units = "KMGT";
  must(unit.size() <= 1 && units.find(unit) != units.npos, usage + std::string(text) + " is not a size");
  const auto shift = unit.empty() ? 0 : 10 * (units.find(unit) + 1);
  must(number <= UINT64_MAX >> shift, usage + std::string(text) + " is too large");
  return number << shift;
}

int parse_repeats(std::string_view text) {
  int number = 0;
  must(parse_number(text, number).empty(), usage + std::string(text) + " is not a number");
  return number;
}

}  // namespace

bool Options::selects(std::string_view cell) const {
  return cells.empty() ||
         std::ranges::any_of(cells, [&](const auto& part) { return cell.find(part) != cell.npos; });
}

Options parse_options(int argc, char** argv, Options options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--smoke") {
      options.smoke = true;
      options.bytes = std::uint64_t{32} << 20;
      options.repeats = 1;
      continue;
    }
    must(i + 1 < argc, usage + std::string(word) + " is not known, or lacks its value");
    const char* const value = argv[++i];
    if (word == "--size") {
      options.bytes = parse_size(value);
    } else if (word == "--repeats") {
      options.repeats = parse_repeats(value);
    } else if (word == "--cells") {
      options.cells.emplace_back(value);
    } else if (word == "--folder") {
      options.folder = value;
    } else if (word == "--json") {
      options.json = value;
    } else {
      must(false, usage + std::string(word) + " is not known");
    }
  }
  return options;
}

}  // namespace ht::bench
