// What people and scripts read of conversions.
#pragma once

#include <htensor/convert/convert.hpp>
#include <string>

namespace ht::cli {

/// The plan: every range of every file and where its bytes come from, and what would be lost.
[[nodiscard]] std::string plan_text(const ConversionPlan& plan, const Model& source);
[[nodiscard]] std::string plan_json(const ConversionPlan& plan, const Model& source);

/// What was done.
[[nodiscard]] std::string converted_text(const Converted& converted);
[[nodiscard]] std::string converted_json(const Converted& converted);

}  // namespace ht::cli
