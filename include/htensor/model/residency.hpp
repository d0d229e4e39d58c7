// Where the bytes of tensors are: on the disk alone, or in memory already.
#pragma once

#include <cstdint>
#include <htensor/base/work.hpp>
#include <optional>
#include <string_view>

namespace ht::inline v1 {

/// Where a tensor stands (docs/io.md has the way from one to the other).
enum class Residence : std::uint8_t {
  unbound,   ///< its file is not there
  bound,     ///< its file is open, and no more
  mapped,    ///< its pages come when they are touched
  loading,   ///< on its way into memory
  resident,  ///< in memory of the model's own
  evicted,   ///< was that, and is on the disk alone
  failed,    ///< could not be loaded; it can be tried again
};

[[nodiscard]] std::string_view to_string(Residence residence) noexcept;

struct TensorResidency {
  /// Its number in the catalog.
  std::size_t index = 0;
  /// The tensor's bytes as the catalog has them. A splat has its pattern repeated this far, in no file.
  std::uint64_t bytes = 0;
  /// The bytes that are in the page cache: 0 for a splat; nullopt where the kernel does not report it, as for
  /// a file that this user neither owns nor may write to. A page that two tensors share counts for both.
  std::optional<std::uint64_t> cached_bytes = 0;
  /// How many are in memory of the model's own: all or none.
  std::uint64_t resident_bytes = 0;
  Residence residence = Residence::mapped;
};

}  // namespace ht::inline v1
