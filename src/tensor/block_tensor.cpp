#include <htensor/base/bytes.hpp>
#include <htensor/tensor/block_tensor.hpp>

#include "base/format_text.hpp"

namespace ht::inline v1::placement {

Result<std::uint64_t> bytes_of_blocks(layout::Extents extents, const Encoding& encoding) {
  HT_TRY(layout::count_elements(extents));
  const std::int64_t row = extents.empty() ? 1 : extents.back();
  if (row % encoding.block_elements != 0) {
    return fail(
        Error(ErrorCode::bad_shape, "rows_are_whole_blocks",
              format_text("rows of {} elements are not a whole number of {} blocks of {}", row, encoding.name,
                          encoding.block_elements))
            .with_hint(format_text("use rows of a multiple of {} elements", encoding.block_elements)));
  }
  if (const auto bytes = block_bytes(extents, encoding)) return *bytes;
  return fail(
      Error(ErrorCode::size_overflow, "bytes_fit_63_bits",
            format_text("shape {} of {} exceeds 2^63-1 bytes", layout::to_text(extents), encoding.name))
          .with_hint("use a smaller shape"));
}

Result<void> check_blocks(const Storage& storage, layout::Extents extents, std::uint64_t offset,
                          const Encoding& encoding) {
  const auto bytes = HT_TRY(bytes_of_blocks(extents, encoding));
  if (checked::range_fits(offset, bytes, storage.bytes().size())) return {};
  return fail(
      Error(ErrorCode::out_of_bounds, "blocks_are_within_the_storage",
            format_text("shape {} of {} at byte {} needs {} bytes but the storage has {}",
                        layout::to_text(extents), encoding.name, offset, bytes, storage.bytes().size()))
          .with_hint("use a larger storage, a smaller shape or another offset"));
}

}  // namespace ht::inline v1::placement
