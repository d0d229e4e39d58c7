// Statistics and histograms as text and as JSON.
#pragma once

#include <cstdint>
#include <htensor/htensor.hpp>
#include <span>
#include <string>

#include "cli/print/output.hpp"

namespace ht::cli {

/// Intervals of the histogram that the program prints.
inline constexpr std::uint32_t histogram_bins = 20;

/// A number in at most six significant digits.
[[nodiscard]] std::string short_number_text(double value);

/// One value per line, with the coordinates of the extremes.
void append_statistics(OutputBuffer& out, const Statistics& facts, std::span<const std::int64_t> dims);
/// `{"count":…,"min":…,…}`.
void append_json_statistics(OutputBuffer& out, const Statistics& facts);

enum class Bars : std::uint8_t { blocks, ascii };

/// Unicode block characters if the locale is UTF-8.
[[nodiscard]] Bars bars_of_locale();

/// One interval per line: its lower end, a bar, its count. Bars fit `columns`; 0 means 80.
void append_histogram(OutputBuffer& out, const Histogram& histogram, std::size_t columns, Bars bars);
/// `{"low":…,"high":…,"counts":[…],"below":…,"above":…,"nan":…}`.
void append_json_histogram(OutputBuffer& out, const Histogram& histogram);

}  // namespace ht::cli
