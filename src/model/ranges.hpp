// Where tensors lie in their files.
#pragma once

#include <htensor/format/catalog.hpp>
#include <span>
#include <string>
#include <vector>

#include "io/chunks.hpp"

namespace ht::inline v1 {

/// What the tensors have in their files, in the order of the files; those that touch, or have no more than
/// `gap_bytes` between them, as one.
[[nodiscard]] std::vector<io::FileRange> merged_ranges(const Catalog& catalog,
                                                       std::span<const std::size_t> tensors,
                                                       std::uint64_t gap_bytes = 0);

/// The name of the tensor that has the byte at an offset of a file; may be empty. For who wants it once.
[[nodiscard]] std::string name_at(const Catalog& catalog, std::size_t file, std::uint64_t offset);

}  // namespace ht::inline v1
