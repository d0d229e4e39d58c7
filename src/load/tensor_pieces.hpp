// Pieces of files handed on as pieces of tensors.
#pragma once

#include <htensor/format/catalog.hpp>
#include <htensor/load/load.hpp>
#include <span>
#include <vector>

#include "io/staged.hpp"

namespace ht::inline v1 {

/// The pieces of files have to come in the order of the files and of their offsets. What lies between tensors
/// is left out; what two tensors share is handed on for both.
class TensorPieces {
 public:
  /// The catalog and the consumer have to outlive it.
  TensorPieces(const Catalog& catalog, std::span<const std::size_t> tensors, const PieceConsumer& consumer);

  [[nodiscard]] Result<void> take(const io::FileRange& range, Bytes bytes);

 private:
  struct Part {
    std::size_t index;
    io::FileRange range;
  };
  std::vector<Part> parts_;         // by file and offset
  std::size_t next_ = 0;            // those before have begun
  std::vector<std::size_t> begun_;  // and these are not over
  const PieceConsumer& consumer_;
};

}  // namespace ht::inline v1
