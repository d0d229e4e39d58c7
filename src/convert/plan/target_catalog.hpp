// The tensors of a target: the selected tensors of a source, under their new names.
#pragma once

#include <functional>
#include <htensor/convert/convert.hpp>

#include "convert/plan/plan.hpp"

namespace ht::inline v1 {

/// Like an entry of a Catalog, but mutable and free to be reordered.
struct TargetTensor {
  std::string name;
  /// The entry in the target, but with the name, file and offset that the tensor has in the source.
  Entry entry;
  /// The bytes, if they are not in a file of the source.
  std::optional<Bytes> memory{};
  /// The conversion to the layout of `entry`, if the source has another layout.
  std::shared_ptr<const Relayout> relayout{};
  /// The conversion to the type of `entry`, if the source has another type.
  std::optional<PlannedFile::ValueChange> change{};
  /// The pattern of a splat whose type was changed: `entry` points at it.
  std::shared_ptr<const std::array<std::byte, 16>> pattern{};

  /// The entry with the new name. It is valid as long as this object.
  [[nodiscard]] Entry as_entry() const noexcept {
    Entry renamed = entry;
    renamed.name = name;
    return renamed;
  }
};

/// The tensors selected by the options. `not_found` if the filter or a rename matches no tensor.
[[nodiscard]] Result<std::vector<TargetTensor>> target_tensors(const Catalog& source, const InMemory& memory,
                                                               const ConvertOptions& options);

/// The types and shapes of a tensor before and after a change: "F8_E4M3 [8] → I8 [8]".
[[nodiscard]] std::string change_text(const Entry& before, const Entry& after);

/// Converts tensors to the types of `ConvertOptions::types` and `dequantize`. Calls `lost` with the reason
/// for each note that is dropped, and for each tensor that a type rule casts to a dtype that does not hold
/// every value of the old type. Encoding to blocks and decoding by `dequantize` are not reported. `lost`
/// returns the new Loss.
[[nodiscard]] Result<void> change_types(
    std::span<TargetTensor> tensors, const ConvertOptions& options,
    const std::function<Loss&(const TargetTensor&, Loss::Kind, const Error&)>& lost);

/// Sorts the tensors as `ConvertOptions::canonical` requires.
void sort_canonically(std::span<TargetTensor> tensors, const Format& format);

/// Makes a tensor row-major and little-endian. The errors of `relayout_of`.
[[nodiscard]] Result<void> normalize_layout(TargetTensor& tensor);
/// Normalizes the tensors whose layout the format cannot store. `source` is the source's format, null if
/// unknown.
[[nodiscard]] Result<void> normalize_unsupported_layouts(std::span<TargetTensor> tensors,
                                                         const Format& format, const Format* source);

/// A catalog of the tensors, with the files of the source. `duplicate_tensor` if two have the same name.
[[nodiscard]] Result<Catalog> catalog_of(std::span<const TargetTensor> tensors, const Metadata& metadata,
                                         const Catalog& source, const Format& format);

}  // namespace ht::inline v1
