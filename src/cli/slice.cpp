#include "cli/slice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <ranges>

#include "cli/text.hpp"

namespace ht::cli {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (const auto part : std::views::split(text, at))
    parts.push_back(trimmed(std::string_view(part.begin(), part.end())));
  return parts;
}

tl::unexpected<Error> no_slice(std::string_view part) {
  return fail(Error(ErrorCode::bad_shape, "slice_is_well_formed", fmt::format("'{}' is not a slice", part))
                  .with_hint("write begin:end:step or an index for each dimension, as in 0:4,:,-1"));
}

// A number, or nothing where the text is empty.
Result<std::optional<std::int64_t>> number(std::string_view text, std::string_view part) {
  if (text.empty()) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return no_slice(part);
  return value;
}

// Counted from the end where it is negative. Neither sum can overflow: the signs differ.
std::int64_t from_front(std::int64_t value, std::int64_t extent) {
  return value < 0 ? value + extent : value;
}

Result<Axis> one_index(std::string_view part, std::int64_t extent) {
  const auto index = HT_TRY(number(part, part));
  if (!index) return no_slice(part);
  const std::int64_t begin = from_front(*index, extent);
  if (begin < 0 || begin >= extent) {
    return fail(Error(ErrorCode::out_of_bounds, "slice_index_is_inside",
                      fmt::format("index {} is outside a dimension of size {}", *index, extent))
                    .with_hint("count indices from 0, and negative ones from the end"));
  }
  return Axis{.begin = begin, .count = 1, .dropped = true};
}

Result<Axis> range(std::string_view part, std::int64_t extent) {
  const auto fields = split(part, ':');
  if (fields.size() > 3) return no_slice(part);
  const auto begin = HT_TRY(number(fields[0], part));
  const auto end = HT_TRY(number(fields[1], part));
  const auto step = HT_TRY(number(fields.size() == 3 ? fields[2] : "", part)).value_or(1);
  if (step == 0 || step == std::numeric_limits<std::int64_t>::min()) return no_slice(part);
  // Downwards, the range runs from the last element to before the first.
  const std::int64_t low = step > 0 ? 0 : -1;
  const std::int64_t high = step > 0 ? extent : extent - 1;
  const auto cut = [&](std::optional<std::int64_t> value, std::int64_t otherwise) {
    return value ? std::clamp(from_front(*value, extent), low, high) : otherwise;
  };
  const std::int64_t first = cut(begin, step > 0 ? low : high);
  const std::int64_t last = cut(end, step > 0 ? high : low);
  const std::int64_t distance = step > 0 ? last - first : first - last;
  const std::int64_t stride = step > 0 ? step : -step;
  const std::int64_t count = distance <= 0 ? 0 : (distance - 1) / stride + 1;
  return Axis{.begin = first, .count = count, .step = step};
}

}  // namespace

Result<std::vector<Axis>> parse_slice(std::string_view text, std::span<const std::int64_t> dims) {
  std::vector<Axis> axes;
  if (!trimmed(text).empty()) {
    const auto parts = split(text, ',');
    if (parts.size() > dims.size()) {
      return fail(Error(ErrorCode::bad_shape, "slice_has_at_most_the_rank",
                        fmt::format("slice '{}' has {} parts but the shape {} has {} dimensions", text,
                                    parts.size(), shape_text(dims), dims.size()))
                      .with_hint("give at most one part per dimension"));
    }
    for (const auto part : parts) {
      const std::int64_t extent = dims[axes.size()];
      const bool is_range = part.find(':') != std::string_view::npos;
      axes.push_back(HT_TRY(is_range ? range(part, extent) : one_index(part, extent)));
    }
  }
  while (axes.size() < dims.size()) axes.push_back({.count = dims[axes.size()]});
  return axes;
}

}  // namespace ht::cli
