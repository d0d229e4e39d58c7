// Planning and applying for sources that are not, or not all, files of a model.
#pragma once

#include <htensor/convert/convert.hpp>
#include <optional>
#include <span>
#include <vector>

namespace ht::inline v1 {

/// For each tensor of a catalog: its bytes, where they are in memory and in no file. Empty where none is.
using InMemory = std::vector<std::optional<Bytes>>;

[[nodiscard]] Result<ConversionPlan> plan_from(const Catalog& source, const InMemory& memory,
                                               const std::filesystem::path& target,
                                               const ConvertOptions& options);

/// `sources` are the files that the plan's bytes lie in; null where nothing is taken from one. `reading` is
/// how the target is opened to be sealed.
[[nodiscard]] Result<Converted> apply_from(const ConversionPlan& plan,
                                           std::span<const io::Mapped* const> sources,
                                           const ApplyOptions& options, const OpenOptions& reading);

}  // namespace ht::inline v1
