// Writes the files of a plan. The data is in files, in memory, or supplied by the caller piece by piece.
#pragma once

#include <filesystem>
#include <htensor/convert/convert.hpp>
#include <vector>

#include "convert/write.hpp"
#include "io/strategy/mapped_file.hpp"

namespace ht::inline v1 {

/// The sources of the planned files.
struct Contents {
  /// The files that the plan reads; null for a file that is not read.
  std::vector<io::MappedFile*> sources{};
  /// The data of the plan's only file, instead of its parts.
  const Pieces* pieces = nullptr;
};

/// `would_lose` for losses that the options do not allow. The hint names the options that allow them.
[[nodiscard]] Result<void> check_losses(const ConversionPlan& plan, const ApplyOptions& options);

/// The checks of `apply_from` before its first write. Returns the files that it would remove.
[[nodiscard]] Result<std::vector<std::filesystem::path>> check_target(const ConversionPlan& plan,
                                                                      const ApplyOptions& options,
                                                                      const OpenOptions& open_options);

/// Writes the files of a plan, for `save` and `write`. `open_options` is used to open the target when it is
/// sealed.
[[nodiscard]] Result<ConversionReport> apply_from(const ConversionPlan& plan, Contents contents,
                                                  const ApplyOptions& options,
                                                  const OpenOptions& open_options);

}  // namespace ht::inline v1
