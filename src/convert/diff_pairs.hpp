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

#include "convert/plain_tensor.hpp"

namespace ht::inline v1 {

struct TensorPair {
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
  std::uint64_t run_elements = PlainTensor::run_step;
  int bits = 8;
  /// Blocks of one byte order are compared as they are.
  PlainTensor::Order order = PlainTensor::Order::usual;

  [[nodiscard]] std::uint64_t runs() const noexcept {
    return elements / run_elements + (elements % run_elements != 0 ? 1 : 0);
  }
};

/// The tensors that both have, in the order of `a`.
struct Pairs {
  std::vector<TensorPair> both;
  std::vector<std::string> only_a;
  std::vector<std::string> only_b;
  /// Those that have to be looked at.
  std::set<const io::Mapped*> files;
};

/// Errors are those of `Model::raw`, of the first tensor that would have to be looked at and cannot be;
/// `unsupported_encoding` for blocks of different byte orders that cannot be turned round.
[[nodiscard]] Result<Pairs> pair_up(const Model& a, const Model& b, const DiffOptions& options);

[[nodiscard]] MetadataDifferences compare(const Metadata& a, const Metadata& b);

}  // namespace ht::inline v1
