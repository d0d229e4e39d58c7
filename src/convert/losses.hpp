// What a format has no place for, found before anything is planned.
#pragma once

#include <htensor/convert/convert.hpp>
#include <htensor/format/encode.hpp>

#include "convert/target_catalog.hpp"

namespace ht::inline v1 {

/// A model made to fit into a format.
struct Fitted {
  std::vector<TargetTensor> tensors;
  Metadata metadata;
  std::vector<Loss> losses;
  /// The shapes that tensors got which are mere bytes now; entries point at them.
  std::vector<std::int64_t> dims;
};

/// Leaves out metadata, and makes tensors mere bytes, where the format cannot carry them as they are. An
/// Error is what cannot be left out either, such as a second tensor where there is room for one.
/// With `cut` it will be several files, whose headers are shorter than that of one would be.
[[nodiscard]] Result<Fitted> fit(std::vector<TargetTensor> tensors, const Metadata& metadata,
                                 const Catalog& source, std::string_view format, const Layout& layout,
                                 bool cut);

}  // namespace ht::inline v1
