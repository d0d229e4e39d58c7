// Checksums of parts of a file, computed while its bytes are written in pieces, in any order and on any
// thread.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <mutex>
#include <vector>

namespace ht::inline v1 {

class CopyChecksums {
 public:
  /// `cuts` are the offsets at which the parts passed to `sum_of` may begin and end, in any order. An offset
  /// may occur several times.
  explicit CopyChecksums(std::vector<std::uint64_t> cuts) noexcept;

  /// Adds bytes. Every byte of the file must be added once.
  void add_bytes(std::uint64_t offset, Bytes bytes);
  /// Adds zeros of a hole, which are not written. Takes O(log bytes) for each piece between two cuts.
  void add_zeros(std::uint64_t offset, std::uint64_t bytes);
  /// Replaces bytes that were added at this range before.
  void replace(std::uint64_t offset, Bytes bytes);

  /// The CRC-64/NVME of a part. `internal` unless all of its bytes were added.
  [[nodiscard]] Result<std::uint64_t> sum_of(std::uint64_t offset, std::uint64_t bytes);

 private:
  template <class Sum>
  void add(std::uint64_t offset, std::uint64_t bytes, Sum sum);

  struct Piece {
    std::uint64_t offset;
    std::uint64_t bytes;
    std::uint64_t sum;
  };

  std::vector<std::uint64_t> cuts_;  // ascending, each once: two equal cuts would make a piece of 0 bytes
  std::mutex mutex_;
  std::vector<Piece> pieces_;
  bool sorted_ = true;
};

}  // namespace ht::inline v1
