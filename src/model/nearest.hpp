// The name that somebody probably meant.
#pragma once

#include <htensor/format/catalog.hpp>
#include <optional>
#include <string_view>

namespace ht::inline v1 {

/// The name in the catalog with the fewest insertions, deletions and replacements between it and
/// `name`; the first in file order of several. Nothing where none is even half alike.
[[nodiscard]] std::optional<std::string_view> nearest_name(const Catalog& catalog, std::string_view name);

}  // namespace ht::inline v1
