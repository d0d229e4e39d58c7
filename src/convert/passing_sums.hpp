// Checksums of parts of a file, taken while its bytes pass by in pieces, in any order and on any thread.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <mutex>
#include <utility>
#include <vector>

namespace ht::inline v1 {

class PassingSums {
 public:
  /// Sums of parts that begin and end at these offsets can be asked for; they are in order.
  explicit PassingSums(std::vector<std::uint64_t> cuts) noexcept : cuts_(std::move(cuts)) {}

  /// Every byte of the file is seen once.
  void see(std::uint64_t offset, Bytes bytes);
  /// The same for zeros that nobody writes, as they are a hole: there may be any number of them.
  void see_zeros(std::uint64_t offset, std::uint64_t bytes);
  /// What was seen there does not count any more, and these bytes do.
  void see_instead(std::uint64_t offset, Bytes bytes);

  /// The CRC-64/NVME of a part, once all of it was seen. `internal` where it was not.
  [[nodiscard]] Result<std::uint64_t> sum_of(std::uint64_t offset, std::uint64_t bytes);

 private:
  template <class Sum>
  void add(std::uint64_t offset, std::uint64_t bytes, Sum sum);

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
