// The tensors of a target: those that are wanted of a source, under their new names.
#pragma once

#include <functional>
#include <htensor/convert/convert.hpp>

#include "convert/from_memory.hpp"

namespace ht::inline v1 {

/// Like the entries of a Catalog, but free to be put in another order and changed.
struct TargetTensor {
  std::string name;
  /// What it is in the source; its name is the old one.
  Entry entry;
  /// Where its bytes are, if they are in no file of the source.
  std::optional<Bytes> memory{};
  /// How its bytes get the order of `entry`, where the source has another.
  std::shared_ptr<const Relayout> relayout{};
  /// How its values become those of `entry`, where the source has another type.
  std::optional<ValueChange> change{};
  /// The pattern of a splat whose type was changed: `entry` points at it.
  std::shared_ptr<const std::array<std::byte, 16>> pattern{};

  /// With the new name; good as long as this is.
  [[nodiscard]] Entry as_entry() const noexcept {
    Entry renamed = entry;
    renamed.name = name;
    return renamed;
  }
};

/// `not_found` where the glob or a rename matches no tensor.
[[nodiscard]] Result<std::vector<TargetTensor>> target_tensors(const Catalog& source, const InMemory& memory,
                                                               const ConvertOptions& options);

/// Gives tensors the types of `ConvertOptions::types` and `dequantize`. `lost` is called with the
/// reason for each tensor whose values may be rounded without being quantized, and for each that loses its
/// note.
[[nodiscard]] Result<void> change_types(
    std::span<TargetTensor> tensors, const ConvertOptions& options,
    const std::function<void(const TargetTensor&, LossKind, const Error&)>& lost);

/// The order of `ConvertOptions::canonical`.
void sort_canonically(std::span<TargetTensor> tensors, const Format& format);

/// Makes a tensor row-major and little-endian. `unsupported_encoding` for big-endian blocks that cannot be
/// byte-swapped.
[[nodiscard]] Result<void> normalize_layout(TargetTensor& tensor);
/// The same for the tensors whose orders the format cannot carry. `source` is the source's format, null if
/// unknown.
[[nodiscard]] Result<void> normalize_layouts(std::span<TargetTensor> tensors, const Format& format,
                                             const Format* source);

/// A catalog of these; the files are those of the source. `duplicate_tensor` where two have one name.
[[nodiscard]] Result<Catalog> catalog_of(std::span<const TargetTensor> tensors, const Metadata& metadata,
                                         const Catalog& source, const Format& format);

}  // namespace ht::inline v1
