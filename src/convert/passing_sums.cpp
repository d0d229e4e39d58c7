#include "convert/passing_sums.hpp"

#include <algorithm>
#include <htensor/hash/crc64.hpp>

namespace ht::inline v1 {

Result<void> PassingSums::see(std::uint64_t offset, Bytes bytes) {
  auto cut = std::ranges::upper_bound(cuts_, offset);
  while (!bytes.empty()) {
    const std::uint64_t room = cut == cuts_.end() ? UINT64_MAX : *cut++ - offset;
    const Bytes piece = bytes.first(static_cast<std::size_t>(std::min<std::uint64_t>(room, bytes.size())));
    const std::uint64_t sum = crc64nvme(piece);
    {
      const std::scoped_lock lock(mutex_);
      pieces_.push_back({offset, piece.size(), sum});
      sorted_ = false;
    }
    offset += piece.size();
    bytes = bytes.subspan(piece.size());
  }
  return {};
}

Result<void> PassingSums::see_instead(std::uint64_t offset, Bytes bytes) {
  {
    const std::scoped_lock lock(mutex_);
    std::erase_if(pieces_, [&](const Piece& piece) {
      return piece.offset >= offset && piece.offset + piece.bytes <= offset + bytes.size();
    });
  }
  return see(offset, bytes);
}

Result<std::uint64_t> PassingSums::sum_of(std::uint64_t offset, std::uint64_t bytes) {
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
  return fail(ErrorCode::internal, "bytes_were_seen_as_they_were_cut",
              "a checksum was asked for of bytes that have not passed by");
}

}  // namespace ht::inline v1
