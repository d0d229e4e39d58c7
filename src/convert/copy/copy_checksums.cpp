#include "convert/copy/copy_checksums.hpp"

#include <algorithm>
#include <array>
#include <htensor/hash/digest.hpp>
#include <utility>

namespace ht::inline v1 {
namespace {

// O(log bytes): the checksum of 2n zeros is combined from two checksums of n zeros.
std::uint64_t sum_of_zeros(std::uint64_t bytes) {
  constexpr std::array<std::byte, 1> zero{};
  std::uint64_t sum = crc64nvme({});
  std::uint64_t power = crc64nvme(zero);
  for (std::uint64_t power_bytes = 1; bytes != 0; power_bytes *= 2, bytes /= 2) {
    if (bytes % 2 != 0) sum = crc64nvme_combine(sum, power, power_bytes);
    power = crc64nvme_combine(power, power, power_bytes);
  }
  return sum;
}

}  // namespace

CopyChecksums::CopyChecksums(std::vector<std::uint64_t> cuts) noexcept : cuts_(std::move(cuts)) {
  std::ranges::sort(cuts_);
  cuts_.erase(std::ranges::unique(cuts_).begin(), cuts_.end());
}

// Splits the bytes at the cuts and adds the pieces; `sum` returns the checksum of a piece.
template <class Sum>
void CopyChecksums::add(std::uint64_t offset, std::uint64_t bytes, Sum sum) {
  auto cut = std::ranges::upper_bound(cuts_, offset);
  while (bytes != 0) {
    const std::uint64_t room = cut == cuts_.end() ? UINT64_MAX : *cut++ - offset;
    const Piece piece{offset, std::min(room, bytes), sum(offset, std::min(room, bytes))};
    offset += piece.bytes;
    bytes -= piece.bytes;
    const std::scoped_lock lock(mutex_);
    pieces_.push_back(piece);
    sorted_ = false;
  }
}

void CopyChecksums::add_bytes(std::uint64_t offset, Bytes bytes) {
  add(offset, bytes.size(), [&](std::uint64_t at, std::uint64_t count) {
    return crc64nvme(bytes.subspan(static_cast<std::size_t>(at - offset), static_cast<std::size_t>(count)));
  });
}

void CopyChecksums::add_zeros(std::uint64_t offset, std::uint64_t bytes) {
  // Most pieces have the length of the piece before, whose checksum is used again.
  std::uint64_t summed_bytes = 0;
  std::uint64_t sum = sum_of_zeros(summed_bytes);
  add(offset, bytes, [&](std::uint64_t /*at*/, std::uint64_t count) {
    if (std::exchange(summed_bytes, count) != count) sum = sum_of_zeros(count);
    return sum;
  });
}

void CopyChecksums::replace(std::uint64_t offset, Bytes bytes) {
  {
    const std::scoped_lock lock(mutex_);
    std::erase_if(pieces_, [&](const Piece& piece) {
      return piece.offset >= offset && piece.offset + piece.bytes <= offset + bytes.size();
    });
  }
  add_bytes(offset, bytes);
}

Result<std::uint64_t> CopyChecksums::sum_of(std::uint64_t offset, std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  if (!sorted_) std::ranges::sort(pieces_, {}, &Piece::offset);
  sorted_ = true;
  std::uint64_t sum = 0;
  const std::uint64_t end = offset + bytes;
  auto piece = std::ranges::lower_bound(pieces_, offset, {}, &Piece::offset);
  for (; offset < end && piece != pieces_.end() && piece->offset == offset; ++piece) {
    sum = crc64nvme_combine(sum, piece->sum, piece->bytes);
    offset += piece->bytes;
  }
  if (offset == end) return sum;
  return fail(ErrorCode::internal, "checksummed_ranges_were_copied",
              "checksum requested for bytes that were not copied");
}

}  // namespace ht::inline v1
