// A file's header with other metadata in it, such that its data can stay where it is.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/format/catalog.hpp>
#include <vector>

namespace ht::inline v1 {

struct HeaderEdit {
  /// The file from its first byte on, its whole header at least; it was parsed to `catalog`.
  Bytes seen;
  std::uint64_t file_bytes = 0;
  const Catalog& catalog;
  /// All that is to be in it.
  const Metadata& metadata;
  /// Whether data may begin later than before.
  bool grow = false;
};

struct EditedHeader {
  /// All before the data. What follows it in the file is what followed `old_bytes`.
  std::vector<std::byte> bytes;
  std::uint64_t old_bytes = 0;
};

/// Where data begins behind a header that needs this many bytes, if it began at `old_bytes`: there, or, where
/// it may, later, by whole blocks, so that they can be shared, and with some room for the next edit. A file
/// without data has none to move. `header_too_large`.
[[nodiscard]] Result<std::uint64_t> data_begin_for(std::uint64_t needed, std::uint64_t old_bytes,
                                                   const HeaderEdit& edit);
/// The same, later in any case.
[[nodiscard]] std::uint64_t later_begin(std::uint64_t needed, std::uint64_t old_bytes);

}  // namespace ht::inline v1
