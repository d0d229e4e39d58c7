// Planning and applying for sources that are not, or not all, files of a model.
#pragma once

#include <htensor/convert/convert.hpp>
#include <optional>
#include <span>
#include <vector>

#include "convert/pieces.hpp"
#include "io/mapped_file.hpp"

namespace ht::inline v1 {

/// For each tensor of a catalog: its bytes, where they are in memory and in no file. Empty where none is.
using InMemory = std::vector<std::optional<Bytes>>;

[[nodiscard]] Result<ConversionPlan> plan_from(const Catalog& source, const InMemory& memory,
                                               const std::filesystem::path& target,
                                               const ConvertOptions& options);

/// What files are made of.
struct Contents {
  /// The files that the plan's bytes lie in; null where nothing is taken from one.
  std::vector<io::MappedFile*> sources{};
  /// The data of the plan's only file, in place of its parts.
  const Pieces* pieces = nullptr;
};

/// The one way to a file: `convert`, `save` and `write` end here. `reading` is how the target is opened to be
/// sealed.
[[nodiscard]] Result<Converted> apply_from(const ConversionPlan& plan, Contents contents,
                                           const ApplyOptions& options, const OpenOptions& reading);

}  // namespace ht::inline v1
