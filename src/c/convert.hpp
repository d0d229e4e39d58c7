// The options and the result that conversions and saves share.
#pragma once

#include <htensor/htensor.h>

#include <htensor/convert/convert.hpp>
#include <htensor/convert/save.hpp>
#include <string>

#include "c/boundary/boundary.hpp"
#include "c/boundary/options.hpp"

namespace ht::c {

struct Conversion {
  ConvertOptions convert;
  ApplyOptions apply;
  MlirOptions mlir;
  std::filesystem::path module;  // empty if no MLIR is written
  bool dry_run = false;
};

[[nodiscard]] Result<Conversion> conversion(const ht_convert_options* given, Work& work);

/// Sets `*out` to a new result that describes the plan and the files that were written. `out` may be null.
void set_converted(const ConversionPlan& plan, const ApplyOptions& apply, const ConversionReport& converted,
                   const ht_conversion_report** out);

}  // namespace ht::c
