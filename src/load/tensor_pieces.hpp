// Converts pieces of files to pieces of tensors.
#pragma once

#include <htensor/format/catalog.hpp>
#include <htensor/load/load.hpp>
#include <span>
#include <vector>

#include "io/strategy/staged.hpp"

namespace ht::inline v1 {

/// Pieces have to come in the order of files and offsets. Bytes between tensors are skipped; bytes that two
/// tensors share are passed on for both.
class TensorPieces {
 public:
  /// The catalog and the consumer have to outlive this object.
  TensorPieces(const Catalog& catalog, std::span<const std::size_t> tensors, const PieceConsumer& consumer);

  [[nodiscard]] Result<void> take(const io::FileRange& range, Bytes bytes);

 private:
  struct Part {
    std::size_t index;
    io::FileRange range;
  };
  std::vector<Part> parts_;        // by file and offset
  std::size_t next_ = 0;           // the first part that has not begun
  std::vector<std::size_t> open_;  // parts that have begun and are not finished
  const PieceConsumer& consumer_;
};

}  // namespace ht::inline v1
