// The seal of a file whose header was rewritten, made from the old seal without reading the data.
//
// Chunks are counted from the beginning of each tensor, so the digests of tensors and of their chunks stay
// valid when the data moves. Digests are copied, never computed from unverified data: damage detected by the
// old seal is also detected by the new one.
#pragma once

#include <htensor/base/work.hpp>
#include <htensor/integrity/seal.hpp>

#include "io/strategy/mapped_file.hpp"

namespace ht::inline v1 {

/// A sealed file whose header is replaced. The bytes after the header stay the same but may move.
struct ReplacedHeader {
  /// The number of the file in the seal.
  std::uint32_t file = 0;
  /// The file before the edit.
  io::MappedFile& source;
  std::uint64_t old_header_bytes = 0;
  /// The new header, at least as long as the old one.
  Bytes header;

  [[nodiscard]] std::uint64_t moved_by() const noexcept { return header.size() - old_header_bytes; }
};

/// Returns the seal after the edit. The caller has compared the old header with `seal`. The CRC-64/NVME of
/// the whole file is combined from its chunks. With another algorithm the file is read once for its digest;
/// the caller must then have compared the whole file with `seal`, or the new seal would hide damage.
/// `bad_seal` if the seal has a tensor inside the old header, `cancelled`, `read_failed`.
[[nodiscard]] Result<Seal> carried_seal(Seal seal, const ReplacedHeader& edit, const WorkOptions& work);

/// Whether the seal already has the size and the header of the edited file. This is the case if an earlier
/// attempt at the same edit wrote the seal and was killed before it replaced the file.
[[nodiscard]] Result<bool> is_carried_seal(const Seal& seal, const ReplacedHeader& edit,
                                           const WorkOptions& work);

}  // namespace ht::inline v1
