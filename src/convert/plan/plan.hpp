// Plans a conversion of the tensors of a catalog, whose bytes are in files or in memory. `plan_conversion`
// and `save` use it.
#pragma once

#include <filesystem>
#include <htensor/convert/convert.hpp>
#include <optional>
#include <vector>

namespace ht::inline v1 {

/// For each tensor of a catalog, its bytes if they are in memory and not in a file. The vector is empty if
/// all tensors are in files.
using InMemory = std::vector<std::optional<Bytes>>;

[[nodiscard]] Result<ConversionPlan> plan_from(const Catalog& source, const InMemory& memory,
                                               const std::filesystem::path& target,
                                               const ConvertOptions& options);

}  // namespace ht::inline v1
