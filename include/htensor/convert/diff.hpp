// What two models have in common and what not, whatever formats they are in.
//
//   const auto found = HT_TRY(ht::diff(a, b, {.tolerance = 1e-3}));
//   for (const auto& tensor : found.differ) report(tensor.name, tensor.max_abs);
//
// Tensors are compared as what they hold, not as how they lie in a file: a splat is the tensor of its
// expanded bytes, and big-endian and column-major elements are those of a little-endian, row-major tensor
// with the same values. The mapped bytes are read once, by all processors, a few MiB of each at a time.
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
  /// By how much elements may differ. Then tensors of numbers are the same if they have the same shape and no
  /// |a - b| is more than this, whatever their floating-point dtypes and block encodings; a NaN is the same
  /// as a NaN. Without it, their bytes have to be the same. Neither negative nor infinite.
  std::optional<double> tolerance{};
  WorkOptions work{};
};

/// The first of these in which a tensor differs.
enum class DifferenceKind : std::uint8_t {
  dtype,
  shape,
  contents,
  /// The text that an IRPA keeps with a tensor, unless it only spells type and shape in another way.
  note,
};

/// "dtype", "shape", "contents", "note".
[[nodiscard]] std::string_view to_string(DifferenceKind kind) noexcept;

struct TensorDifference {
  std::string name;
  /// An encoding counts as a dtype, and so does whether the file says at all what the bytes are.
  DifferenceKind why = DifferenceKind::contents;
  /// Where contents differ: the first byte that does, counted from the tensor's own begin, the elements being
  /// little endian and row-major. With a tolerance, the first byte in `a` of the first element that is too
  /// far off.
  std::optional<std::uint64_t> first_byte{};
  /// The largest |a - b|, where both have the same shape and real numbers for elements, whether their dtypes
  /// differ or not. 0 if they differ in their bytes alone, as -0.0 and 0.0 do; infinity where one is
  /// a NaN and the other is none.
  std::optional<double> max_abs{};
  /// Where there is a `max_abs`: the root mean square of a - b.
  std::optional<double> rms{};
  /// The cosine of the angle between both as vectors, over the elements that are finite in both; nullopt
  /// where one of them is zero.
  std::optional<double> cosine{};

  friend bool operator==(const TensorDifference&, const TensorDifference&) = default;
};

struct MetadataDifferences {
  std::vector<std::string> only_a{};
  std::vector<std::string> only_b{};
  /// The keys whose values differ in type or value.
  std::vector<std::string> differ{};

  [[nodiscard]] bool none() const noexcept { return only_a.empty() && only_b.empty() && differ.empty(); }
};

/// All lists are in the order of the file: `only_b` in that of `b`, all others in that of `a`.
struct Differences {
  std::vector<std::string> only_a{};
  std::vector<std::string> only_b{};
  std::vector<TensorDifference> differ{};
  MetadataDifferences metadata{};

  [[nodiscard]] bool same_tensors() const noexcept {
    return only_a.empty() && only_b.empty() && differ.empty();
  }
  [[nodiscard]] bool same() const noexcept { return same_tensors() && metadata.none(); }
};

/// Two tensors, each alone in its model and named by nothing but its file, are compared whatever the files
/// are called; the name is that of `a` then. Users' own dtypes and what a file does not tell the dtype of are
/// compared by their bytes. `out_of_bounds` for a tolerance that is none; `changed_underfoot`, `read_failed`,
/// `cancelled`.
[[nodiscard]] Result<Differences> diff(const Model& a, const Model& b, const DiffOptions& options = {});

}  // namespace ht::inline v1
