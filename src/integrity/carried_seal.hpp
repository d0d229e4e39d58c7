// The seal of a file whose header was rewritten, made from the old seal without reading the data.
//
// Chunks are cut at tensors, so the digests of tensors and of their chunks stay valid wherever the data
// moves. Digests are carried, never computed anew from data that was not checked: damage that the old seal
// shows, the new one shows too.
#pragma once

#include <htensor/base/work.hpp>
#include <htensor/integrity/seal.hpp>

#include "io/mapped_file.hpp"

namespace ht::inline v1 {

/// One file of a seal with another header; the rest of the file follows it unchanged.
struct ReplacedHeader {
  /// Which of the seal's files it is.
  std::uint32_t file = 0;
  /// The file before the edit.
  io::MappedFile& source;
  std::uint64_t old_header_bytes = 0;
  /// The new header, at least as long as the old one.
  Bytes header;

  [[nodiscard]] std::uint64_t moved_by() const noexcept { return header.size() - old_header_bytes; }
};

/// The seal after the edit. The caller has compared the old header with `seal`. CRC-64/NVME of the whole file
/// follows from its chunks; the other algorithms read the data once for it, so the caller compares all of the
/// file with `seal` then, or damage would become part of that digest. `bad_seal` if the seal has a tensor
/// inside the old header, `cancelled`, `read_failed`.
[[nodiscard]] Result<Seal> carried_seal(Seal seal, const ReplacedHeader& edit, const WorkOptions& work);

/// Whether the seal already has the size and the header of the edited file: an edit that was killed after it
/// had renewed the seal is repeated.
[[nodiscard]] Result<bool> is_carried_seal(const Seal& seal, const ReplacedHeader& edit,
                                           const WorkOptions& work);

}  // namespace ht::inline v1
