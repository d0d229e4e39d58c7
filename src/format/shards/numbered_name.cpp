#include "format/shards/numbered_name.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ht::inline v1 {
namespace {

constexpr std::size_t digits = 5;

std::optional<std::uint32_t> five_digits(std::string_view text) {
  if (text.size() != digits || !std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  std::uint32_t number = 0;
  for (const char c : text) number = number * 10 + static_cast<std::uint32_t>(c - '0');
  return number;
}

}  // namespace

std::string NumberedName::of(std::uint32_t other) const {
  return fmt::format("{}-{:05}-of-{:05}{}", stem, other, count, extension);
}

std::vector<std::string> NumberedName::all() const {
  std::vector<std::string> names;
  names.reserve(count);
  for (std::uint32_t i = 1; i <= count; ++i) names.push_back(of(i));
  return names;
}

std::optional<NumberedName> parse_numbered_name(std::string_view file_name) {
  const auto dot = file_name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const auto name = file_name.substr(0, dot);
  constexpr std::string_view between = "-of-";
  constexpr std::size_t tail = 1 + digits + between.size() + digits;
  if (name.size() <= tail) return std::nullopt;
  const auto numbers = name.substr(name.size() - tail);
  const auto number = five_digits(numbers.substr(1, digits));
  const auto count = five_digits(numbers.substr(tail - digits));
  if (numbers[0] != '-' || numbers.substr(1 + digits, between.size()) != between || !number || !count)
    return std::nullopt;
  if (*number == 0 || *number > *count) return std::nullopt;
  return NumberedName{std::string(name.substr(0, name.size() - tail)), *number, *count,
                      std::string(file_name.substr(dot))};
}

}  // namespace ht::inline v1
