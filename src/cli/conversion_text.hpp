// Plans and results of conversions, for people and as JSON.
#pragma once

#include <filesystem>
#include <htensor/convert/convert.hpp>
#include <span>
#include <string>
#include <vector>

namespace ht::cli {

/// A line for each of the first ten losses, "kept as raw bytes: 'x' F8_E4M3 [8] → I8 [8]", and one with the
/// number of further losses.
[[nodiscard]] std::string losses_text(std::span<const Loss> losses);

/// The plan: every range of every file with the origin of its bytes, losses; in JSON also warnings.
/// `removed` are the files that would go away.
[[nodiscard]] std::string plan_text(const ConversionPlan& plan, const Model& source,
                                    const std::vector<std::filesystem::path>& removed);
[[nodiscard]] std::string plan_json(const ConversionPlan& plan, const Model& source,
                                    const std::vector<std::filesystem::path>& removed);

/// The files that were written and the ways that their bytes took; in JSON also losses and warnings.
[[nodiscard]] std::string converted_text(const Converted& converted);
[[nodiscard]] std::string converted_json(const Converted& converted, const ConversionPlan& plan);

}  // namespace ht::cli
