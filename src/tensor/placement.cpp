#include <algorithm>
#include <htensor/tensor/storage.hpp>

#include "base/format_text.hpp"

namespace ht::inline v1::placement {

Result<std::uint64_t> dense_bytes(layout::Extents extents, int bits) {
  const auto elements = HT_TRY(layout::count_elements(extents));
  const auto bytes = bytes_for(static_cast<std::uint64_t>(elements), bits);
  if (!bytes || !checked::narrow<std::int64_t>(*bytes)) {
    return fail(Error(ErrorCode::size_overflow, "bytes_fit_63_bits",
                      format_text("{} elements of {} bits exceed 2^63-1 bytes", elements, bits))
                    .with_hint("use a smaller shape"));
  }
  return *bytes;
}

Result<void> check_value_count(layout::Extents extents, std::uint64_t values) {
  const auto elements = HT_TRY(layout::count_elements(extents));
  if (std::cmp_equal(elements, values)) return {};
  return fail(Error(ErrorCode::size_mismatch, "values_match_the_shape",
                    format_text("shape {} has {} elements but {} values were given", layout::to_text(extents),
                                elements, values))
                  .with_hint("give one value for each element of the shape"));
}

std::uint64_t first_address(const Storage& storage) noexcept {
  if (const auto* const device = std::get_if<Storage::OnDevice>(&storage.origin())) return device->address;
  return reinterpret_cast<std::uintptr_t>(storage.bytes().data());
}

Result<void> check(const ElementPlacement& placed) {
  const auto* const device = std::get_if<Storage::OnDevice>(&placed.storage.origin());
  if (device != nullptr && !placed.on_device) {
    return fail(Error(ErrorCode::bad_state, "storage_is_in_host_memory",
                      format_text("storage is {} bytes in the memory of '{}', which the host cannot access",
                                  device->bytes, device->device))
                    .with_hint("copy the tensor with to_host"));
  }
  if (placed.writes && (device == nullptr || !device->writable)) HT_TRY(placed.storage.writable_bytes());
  const std::uint64_t size = device != nullptr ? device->bytes : placed.storage.bytes().size();
  const auto elements = HT_TRY(layout::count_elements(placed.extents));
  HT_TRY(dense_bytes(placed.extents, placed.bits));
  const auto offsets = HT_TRY(layout::offset_range(placed.extents, placed.strides));
  const auto outside = [&] {
    return fail(Error(ErrorCode::out_of_bounds, "elements_are_within_the_storage",
                      format_text("shape {} with strides {} at byte {} exceeds the storage of {} bytes",
                                  layout::to_text(placed.extents), layout::to_text(placed.strides),
                                  placed.offset, size))
                    .with_hint("use a larger storage, a smaller shape or another offset"));
  };
  if (placed.offset > size) return outside();
  // A view without elements is never accessed.
  if (elements == 0) return {};
  // Magnitudes, because strides may be negative: |lowest| elements before the offset, highest + 1 after it.
  const auto below = bytes_for(std::uint64_t{0} - static_cast<std::uint64_t>(offsets.lowest), placed.bits);
  const auto above = bytes_for(static_cast<std::uint64_t>(offsets.highest) + 1, placed.bits);
  if (!below || !above || *below > placed.offset) return outside();
  if (!checked::range_fits(placed.offset, *above, size)) return outside();
  if ((first_address(placed.storage) + placed.offset) % placed.alignment == 0) return {};
  return fail(Error(ErrorCode::misaligned, "elements_are_aligned",
                    format_text("elements at byte {} of the storage are not aligned to {} bytes",
                                placed.offset, placed.alignment))
                  .with_hint("copy them to aligned memory first"));
}

namespace {

struct BitPlace {
  const std::byte* byte;
  unsigned shift;
};

BitPlace place_of(const Elements& elements, std::int64_t offset) noexcept {
  const auto [byte, shift] = detail::packed_place(elements.index + offset, elements.bits);
  return {elements.base + byte, shift};
}

}  // namespace

Bytes bytes_between(const Elements& elements, layout::OffsetRange offsets) noexcept {
  const auto [end, shift] = place_of(elements, offsets.highest + 1);
  return {place_of(elements, offsets.lowest).byte, end + (shift != 0 ? 1 : 0)};
}

Result<Bytes> touched_bytes(const Elements& elements, layout::Extents extents, layout::Extents strides) {
  if (std::ranges::find(extents, 0) != extents.end()) return Bytes();
  return bytes_between(elements, HT_TRY(layout::offset_range(extents, strides)));
}

Result<Bytes> dense_view(const Elements& elements, layout::Extents extents, layout::Extents strides) {
  const auto bytes = HT_TRY(dense_bytes(extents, elements.bits));
  if (bytes == 0) return Bytes();
  const bool is_dense = elements.base != nullptr && layout::is_row_major(extents, strides);
  const auto [first, shift] = is_dense ? place_of(elements, 0) : BitPlace{nullptr, 0};
  if (!is_dense || shift != 0) {
    return fail(
        Error(ErrorCode::bad_state, "elements_are_contiguous",
              format_text("view of shape {} with strides {} is not contiguous or starts within a byte",
                          layout::to_text(extents), layout::to_text(strides)))
            .with_hint("call copy() first"));
  }
  return Bytes(first, static_cast<std::size_t>(bytes));
}

}  // namespace ht::inline v1::placement
