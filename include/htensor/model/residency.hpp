// Where the bytes of tensors are: only in a file, or already in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace ht::inline v1 {

/// Where a tensor's bytes are (transitions: docs/io.md).
enum class Residence : std::uint8_t {
  unbound,   ///< its file is missing or not mapped yet
  mapped,    ///< its file is mapped: pages are read on first access
  loading,   ///< a load is in progress
  resident,  ///< in the model's own memory
  evicted,   ///< no longer resident
  failed,    ///< could not be loaded; the load can be repeated
};

struct TensorResidency {
  /// Index in the catalog.
  std::size_t index = 0;
  /// The size of the tensor in the catalog; for a splat, the expanded size.
  std::uint64_t bytes = 0;
  /// Bytes in the page cache; 0 for a splat. nullopt if the kernel does not report it, as for a file that
  /// this user neither owns nor may write to. A page shared by two tensors counts for both.
  std::optional<std::uint64_t> cached_bytes = 0;
  /// Bytes in the model's own memory: all or 0.
  std::uint64_t resident_bytes = 0;
  Residence residence = Residence::unbound;
};

}  // namespace ht::inline v1
