// Checksums of parts of a file, taken while its bytes pass by in pieces and in any order.
#pragma once

#include <mutex>
#include <span>
#include <vector>

#include "convert/copy_engine.hpp"

namespace ht::inline v1 {

class PassingSums final : public ByteWatcher {
 public:
  /// Sums of parts that begin and end at these offsets can be asked for; they are in order.
  explicit PassingSums(std::vector<std::uint64_t> cuts) noexcept : cuts_(std::move(cuts)) {}

  Result<void> see(std::uint64_t offset, Bytes bytes) override;
  Result<void> see_zeros(std::uint64_t offset, std::uint64_t bytes) override;

  /// What was seen there does not count any more, and these bytes do.
  Result<void> see_instead(std::uint64_t offset, Bytes bytes);

  /// The CRC-64/NVME of a part, once all of it was seen. `internal` where it was not.
  [[nodiscard]] Result<std::uint64_t> sum_of(std::uint64_t offset, std::uint64_t bytes);

 private:
  /// The first of the cuts that lies behind the offset.
  [[nodiscard]] std::vector<std::uint64_t>::const_iterator next_cut(std::uint64_t offset) const;
  void keep(std::uint64_t offset, std::uint64_t bytes, std::uint64_t sum);

  struct Piece {
    std::uint64_t offset;
    std::uint64_t bytes;
    std::uint64_t sum;
  };

  std::vector<std::uint64_t> cuts_;
  std::mutex mutex_;
  std::vector<Piece> pieces_;
  bool sorted_ = true;
};

}  // namespace ht::inline v1
