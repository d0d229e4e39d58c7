// Where the bytes of tensors are: in a file alone, or in memory already.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace ht::inline v1 {

/// Where a tensor's bytes are (docs/io.md has the transitions).
enum class Residence : std::uint8_t {
  unbound,   ///< its file is missing or not mapped yet
  mapped,    ///< its file is mapped: pages come when they are touched
  loading,   ///< a load is in progress
  resident,  ///< in memory of the model's own
  evicted,   ///< was resident and is not any more
  failed,    ///< could not be loaded; the load can be repeated
};

struct TensorResidency {
  /// In the catalog.
  std::size_t index = 0;
  /// The tensor's bytes as the catalog has them. A splat has its pattern repeated this far, in no file.
  std::uint64_t bytes = 0;
  /// The bytes that are in the page cache: 0 for a splat; nullopt where the kernel does not report it, as for
  /// a file that this user neither owns nor may write to. A page that two tensors share counts for both.
  std::optional<std::uint64_t> cached_bytes = 0;
  /// The bytes that are in memory of the model's own: all or none.
  std::uint64_t resident_bytes = 0;
  Residence residence = Residence::unbound;
};

}  // namespace ht::inline v1
