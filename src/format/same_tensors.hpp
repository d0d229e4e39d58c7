// Whether two catalogs are of the same tensors, wherever their bytes lie.
#pragma once

#include <htensor/format/catalog.hpp>

namespace ht::inline v1 {

/// The same in everything but the offsets: names in the same order, types, shapes, orders, sizes, patterns,
/// notes, the files that they lie in, and metadata.
[[nodiscard]] bool same_tensors(const Catalog& a, const Catalog& b) noexcept;

}  // namespace ht::inline v1
