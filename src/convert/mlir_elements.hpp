// The elements of a tensor one after another, as MLIR's constants have them.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/model/any_tensor.hpp>
#include <optional>
#include <vector>

#include "convert/mlir_syntax.hpp"

namespace ht::inline v1 {

/// Walks the elements in row-major order. They are little endian, those of 4 bits have a byte each, and a
/// truth value is 0 or 1.
class MlirElements {
 public:
  /// `values` are those of `tensor`, which both have to outlive it.
  MlirElements(const MlirTensor& tensor, const AnyTensor& values);

  /// The next ones, valid until it is called again; none after the last. An Error where a page cannot be
  /// read.
  [[nodiscard]] Result<Bytes> next();

 private:
  const MlirTensor& tensor_;
  const AnyTensor& values_;
  std::uint64_t at_ = 0;  // how many of the entry's bytes are read
  std::uint64_t elements_left_;
  std::vector<std::byte> piece_, widened_;
};

/// The one element that a splat repeats, as MlirElements would have it; nothing where its elements differ.
[[nodiscard]] std::optional<std::vector<std::byte>> mlir_splat(const MlirTensor& tensor);

}  // namespace ht::inline v1
