// Compares two models, of the same or different formats.
//
//   const auto found = HT_TRY(ht::diff(a, b, {.tolerance = 1e-3}));
//   for (const auto& tensor : found.differ) report(tensor.name, tensor.max_abs);
//
// Tensors are compared by value, not by storage: splats are expanded, and big-endian or column-major tensors
// are compared in little-endian, row-major form. The mapped bytes are read on all processors, a few MiB of
// each tensor at a time. If a tensor differs, its equal parts are read again for the cosine. The result is a
// value. Many threads may compare the same models at once.
#pragma once

#include <cstdint>
#include <htensor/base/result.hpp>
#include <htensor/base/work.hpp>
#include <htensor/model/model.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ht::inline v1 {

struct DiffOptions {
  /// The largest |a - b| allowed; not negative, finite. With a tolerance, two tensors of numbers are equal if
  /// their shapes are equal and no two elements differ by more than the tolerance; floating-point dtypes and
  /// block encodings may differ. NaN equals NaN. Without a tolerance, bytes must be equal.
  std::optional<double> tolerance{};
  WorkOptions work{};
};

/// All lists are in file order: `only_b` in the order of `b`, all other lists in the order of `a`.
struct Differences {
  /// The first of these properties in which two tensors differ.
  enum class Kind : std::uint8_t {
    dtype,
    shape,
    contents,
    /// The text that an IRPA file stores with a tensor, unless the texts only spell type and shape
    /// differently.
    note,
  };

  struct Tensor {
    std::string name;
    /// The first property that differs. A block encoding counts as a dtype, and so does a missing type.
    Kind why = Kind::contents;
    /// If contents differ: the offset in the tensor of the first different byte, in little-endian, row-major
    /// form. With a tolerance: the offset in the tensor of `a` of the first element that differs by more than
    /// the tolerance.
    std::optional<std::uint64_t> first_byte{};
    /// The largest |a - b|, if both tensors have the same shape and real elements, of the same dtype or of
    /// types whose values F64 holds. 0 if only bytes differ, as for -0.0 and 0.0; infinity if a NaN is
    /// compared with a number. A distance that F64 does not hold is rounded: for integers up, so that it
    /// still exceeds every tolerance that the distance exceeds, otherwise to nearest.
    std::optional<double> max_abs{};
    /// The root mean square of a - b; set if `max_abs` is set and the tensors have elements.
    std::optional<double> rms{};
    /// The cosine of the angle between both tensors as vectors, over the elements that are finite in both;
    /// nullopt if one vector is zero.
    std::optional<double> cosine{};

    friend bool operator==(const Tensor&, const Tensor&) = default;
  };

  struct Metadata {
    std::vector<std::string> only_a{};
    std::vector<std::string> only_b{};
    /// The keys whose values differ in type or value.
    std::vector<std::string> differ{};

    /// Whether both models have the same metadata.
    [[nodiscard]] bool is_same() const noexcept;
  };

  std::vector<std::string> only_a{};
  std::vector<std::string> only_b{};
  std::vector<Tensor> differ{};
  Metadata metadata{};

  /// Whether both models have the same tensors.
  [[nodiscard]] bool has_same_tensors() const noexcept;
  /// Whether both models have the same tensors and the same metadata.
  [[nodiscard]] bool is_same() const noexcept;
};

/// "dtype", "shape", "contents", "note".
[[nodiscard]] std::string_view to_string(Differences::Kind kind) noexcept;

/// Compares the tensors and the metadata of two models. If each model is one tensor that is named after its
/// file, the two are compared in spite of different names; the reported name is that of `a`. User-defined
/// dtypes and tensors of unknown dtype are compared by bytes. `out_of_bounds` for an invalid tolerance;
/// `changed_underfoot`, `read_failed`, `cancelled`.
[[nodiscard]] Result<Differences> diff(const Model& a, const Model& b, const DiffOptions& options = {});

}  // namespace ht::inline v1
