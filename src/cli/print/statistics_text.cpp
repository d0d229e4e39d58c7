#include "cli/print/statistics_text.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "cli/print/text.hpp"

namespace ht::cli {
namespace {

// "[12, 5]": the coordinates of an element, from its row-major index.
std::string place_text(std::uint64_t index, std::span<const std::int64_t> dims) {
  std::vector<std::int64_t> place(dims.size());
  for (std::size_t i = dims.size(); i > 0; --i) {
    const auto extent = static_cast<std::uint64_t>(std::max<std::int64_t>(dims[i - 1], 1));
    place[i - 1] = static_cast<std::int64_t>(index % extent);
    index /= extent;
  }
  return shape_text(place);
}

void append_count(OutputBuffer& out, std::string_view label, std::uint64_t count, std::uint64_t of) {
  append_text(out, "{:<12}{}", label, count);
  if (count != 0)
    append_text(out, " ({:.3g} %)", 100.0 * static_cast<double>(count) / static_cast<double>(of));
  out += '\n';
}

// A bar of `eighths` eighths of a column.
std::string bar_text(std::size_t eighths, Bars bars) {
  std::string text;
  if (bars == Bars::ascii) return text.assign((eighths + 7) / 8, '#');
  for (; eighths >= 8; eighths -= 8) text += "█";
  constexpr std::string_view parts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  return text.append(parts[eighths]);
}

}  // namespace

std::string short_number_text(double value) {
  std::string text;
  if (std::isfinite(value)) {
    append_text(text, "{:.6g}", value);
  } else {
    detail::append_number(text, value, false);
  }
  return text;
}

void append_statistics(OutputBuffer& out, const Statistics& facts, std::span<const std::int64_t> dims) {
  const bool has_extremes = facts.finite_count() != 0;
  const auto append_extreme = [&](std::string_view label, double value, std::uint64_t index) {
    append_text(out, "{:<12}{}", label, short_number_text(value));
    if (has_extremes && !dims.empty()) append_text(out, " at {}", place_text(index, dims));
    out += '\n';
  };
  append_text(out, "{:<12}{}\n", "elements", facts.count);
  append_extreme("min", facts.min, facts.argmin);
  append_extreme("max", facts.max, facts.argmax);
  append_text(out, "{:<12}{}\n", "mean", short_number_text(facts.mean()));
  append_text(out, "{:<12}{}\n", "std", short_number_text(facts.standard_deviation()));
  append_text(out, "{:<12}{}\n", "norm", short_number_text(facts.norm()));
  append_count(out, "zeros", facts.zeros, facts.count);
  append_count(out, "subnormals", facts.subnormals, facts.count);
  append_count(out, "NaN", facts.nans, facts.count);
  append_count(out, "Inf", facts.infinities, facts.count);
}

void append_json_statistics(OutputBuffer& out, const Statistics& facts) {
  const auto append_value = [&](std::string_view key, double value) {
    out += key;
    detail::append_number(out, value, true);
  };
  const auto place = [&](std::uint64_t index) {
    return facts.finite_count() != 0 ? std::optional(index) : std::nullopt;
  };
  out.append(R"({"count":)", facts.count);
  append_value(R"(,"min":)", facts.min);
  append_value(R"(,"max":)", facts.max);
  out.append(R"(,"argmin":)", place(facts.argmin), R"(,"argmax":)", place(facts.argmax));
  append_value(R"(,"mean":)", facts.mean());
  append_value(R"(,"std":)", facts.standard_deviation());
  append_value(R"(,"norm":)", facts.norm());
  append_value(R"(,"sum":)", facts.sum);
  out.append(R"(,"zeros":)", facts.zeros, R"(,"subnormals":)", facts.subnormals, R"(,"nan":)", facts.nans,
             R"(,"inf":)", facts.infinities, '}');
}

Bars bars_of_locale() {
  // The first variable that is set and not empty decides, as in setlocale.
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value =
        std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing changes the environment
    if (value == nullptr || *value == '\0') continue;
    const std::string_view locale = value;
    const bool is_utf8 =
        locale.find("UTF-8") != std::string_view::npos || locale.find("utf8") != std::string_view::npos ||
        locale.find("UTF8") != std::string_view::npos || locale.find("utf-8") != std::string_view::npos;
    return is_utf8 ? Bars::blocks : Bars::ascii;
  }
  return Bars::ascii;
}

void append_histogram(OutputBuffer& out, const Histogram& histogram, std::size_t columns, Bars bars) {
  const auto& range = histogram.range;
  // Interpolates without computing high - low, which could overflow.
  const auto edge = [&](std::size_t i) {
    const double part = static_cast<double>(i) / range.bins;
    return range.low * (1 - part) + range.high * part;
  };
  const std::uint64_t max_count = std::max<std::uint64_t>(std::ranges::max(histogram.counts), 1);
  const std::size_t count_width = digit_count(max_count);
  constexpr std::size_t label_width = 12;
  const std::size_t fixed = label_width + 2 + 1 + count_width;
  const std::size_t all = columns == 0 ? default_columns : columns;
  const std::size_t bar_width = all > fixed + 8 ? std::min<std::size_t>(all - fixed, 60) : 8;
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    const std::uint64_t count = histogram.counts[i];
    // A non-empty interval has a bar of at least one eighth.
    const double share = static_cast<double>(count) / static_cast<double>(max_count);
    auto eighths = static_cast<std::size_t>(share * static_cast<double>(bar_width * 8));
    if (count != 0) eighths = std::max<std::size_t>(eighths, 1);
    const std::string bar = bar_text(eighths, bars);
    append_text(out, "{:>{}}  {}", short_number_text(edge(i)), label_width, bar);
    out.append_spaces(bar_width - display_width(bar));
    append_text(out, " {:>{}}\n", count, count_width);
  }
  append_text(out, "{:>{}}\n", short_number_text(range.high), label_width);
}

void append_json_histogram(OutputBuffer& out, const Histogram& histogram) {
  out += R"({"low":)";
  detail::append_number(out, histogram.range.low, true);
  out += R"(,"high":)";
  detail::append_number(out, histogram.range.high, true);
  out += R"(,"counts":[)";
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    if (i != 0) out += ',';
    out += histogram.counts[i];
  }
  out.append(R"(],"below":)", histogram.below, R"(,"above":)", histogram.above, R"(,"nan":)", histogram.nans,
             '}');
}

}  // namespace ht::cli
