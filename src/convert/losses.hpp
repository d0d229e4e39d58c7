// Losses: the tensors and the metadata that a format cannot carry.
#pragma once

#include <htensor/convert/convert.hpp>
#include <htensor/format/encode.hpp>

#include "convert/target_catalog.hpp"

namespace ht::inline v1 {

/// The tensors and metadata of a target.
struct Fitted {
  std::vector<TargetTensor> tensors;
  Metadata metadata;
  std::vector<Loss> losses;
  /// Shapes of tensors that are kept as raw bytes; entries point at them.
  std::vector<std::int64_t> dims;
};

/// Leaves out metadata, and keeps tensors as raw bytes, where the format cannot carry them as they are. Looks
/// at each tensor and each key alone: an Error of all of them together, such as too many tensors, is left to
/// `encode`.
[[nodiscard]] Result<Fitted> fit(std::vector<TargetTensor> tensors, const Metadata& metadata,
                                 const Catalog& source, const Format& format, const Layout& layout);

}  // namespace ht::inline v1
