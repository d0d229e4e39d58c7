// Which tensors of two models are to be compared, how, and what is known of them without looking at a byte.
#pragma once

#include <cstdint>
#include <htensor/base/result.hpp>
#include <htensor/convert/diff.hpp>
#include <htensor/model/model.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ht::inline v1 {

struct TensorPair {
  /// Runs begin at a multiple of this: at a whole byte, whatever the dtype, where the pattern of a splat
  /// begins anew.
  static constexpr std::uint64_t run_step = 128;

  /// Their places in the catalogs.
  std::size_t a = 0;
  std::size_t b = 0;
  /// What is known to differ.
  std::optional<DifferenceKind> differ{};
  std::optional<std::uint64_t> first_byte{};
  /// Whether the same bytes are the same elements.
  bool by_bytes = false;
  /// Whether elements that differ have a distance.
  bool by_gap = false;
  /// Whether that distance is told.
  bool tells_gap = false;
  double max_abs = 0;
  /// How many elements have to be looked at, how many of them at a time, and how many bits each has in `a`.
  std::uint64_t elements = 0;
  std::uint64_t run_elements = run_step;
  int bits = 8;
  /// Whether stored bytes are compared: blocks of one byte order.
  bool as_stored = false;

  [[nodiscard]] std::uint64_t runs() const noexcept {
    return elements / run_elements + (elements % run_elements != 0 ? 1 : 0);
  }
};

/// The tensors that both have, in the order of `a`.
struct Pairs {
  std::vector<TensorPair> both;
  std::vector<std::string> only_a;
  std::vector<std::string> only_b;
  /// The sources that are read.
  std::set<const io::Source*> sources;
};

/// Bits of an element; blocks, and bytes of an unknown dtype, count as elements of 8 bits.
[[nodiscard]] int compared_bits(const AnyTensor& tensor) noexcept;

/// Errors are those of `Model::raw`, of the first tensor that would have to be looked at and cannot be;
/// `unsupported_encoding` for blocks of different byte orders that cannot be relaid round.
[[nodiscard]] Result<Pairs> pair_up(const Model& a, const Model& b, const DiffOptions& options);

[[nodiscard]] MetadataDifferences compare(const Metadata& a, const Metadata& b);

}  // namespace ht::inline v1
