// Converts the element and byte orders of files to dense, row-major, little-endian elements.
#pragma once

#include <algorithm>
#include <htensor/base/result.hpp>
#include <htensor/format/catalog.hpp>
#include <memory>
#include <span>
#include <vector>

namespace ht::inline v1 {

/// How to convert a tensor to row-major, little-endian form. A unit is an element of a dense tensor, or a
/// block.
struct Relayout {
  /// A multi-byte number inside a unit; its bytes are swapped.
  struct Number {
    std::uint16_t offset = 0;
    std::uint16_t bytes = 0;
  };

  std::uint32_t unit_bytes = 1;
  /// The numbers of one unit to byte-swap.
  std::vector<Number> numbers;
  /// The shape of a column-major tensor; else empty.
  std::vector<std::int64_t> column_major;
};

/// Iterates over the stored offsets of a column-major tensor's elements, in row-major order from element
/// `first` on.
class RowMajorWalk {
 public:
  RowMajorWalk(std::span<const std::int64_t> dims, std::size_t element_bytes, std::uint64_t first);
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }
  void step() noexcept {
    // Counts like an odometer, the last dimension first.
    for (std::size_t i = dims_.size(); i-- > 0;) {
      offset_ += steps_[i];
      if (++index_[i] < dims_[i]) break;
      offset_ -= steps_[i] * static_cast<std::uint64_t>(dims_[i]);
      index_[i] = 0;
    }
  }

 private:
  std::span<const std::int64_t> dims_;
  std::vector<std::uint64_t> steps_;
  std::vector<std::int64_t> index_;
  std::uint64_t offset_ = 0;
};

/// Returns how to convert the tensor; null if it is row-major and little-endian already, for splats, and for
/// blocks without multi-byte numbers. `unsupported_encoding` for column-major blocks and packed elements.
[[nodiscard]] Result<std::shared_ptr<const Relayout>> relayout_of(const Entry& entry);

/// Copies whole units of a stored tensor in row-major order, from unit `nth` on, without swapping bytes.
void copy_units(MutableBytes units, Bytes stored, const Relayout& relayout, std::uint64_t nth);

/// Fills `units` as `copy_units` does, with `read_at(offset, into)`, which reads stored bytes of the tensor.
/// `read_at` is called once per unit if the tensor is column-major.
template <class ReadAt>
Result<void> read_units(MutableBytes units, const Relayout& relayout, std::uint64_t nth,
                        const ReadAt& read_at) {
  if (relayout.column_major.empty()) return read_at(nth * relayout.unit_bytes, units);
  RowMajorWalk walk(relayout.column_major, relayout.unit_bytes, nth);
  for (std::size_t at = 0; at < units.size(); at += relayout.unit_bytes, walk.step()) {
    HT_TRY(read_at(walk.offset(), units.subspan(at, relayout.unit_bytes)));
  }
  return {};
}

/// Byte-swaps the numbers of the units.
void swap_numbers(MutableBytes units, const Relayout& relayout) noexcept;

/// Maximum number of units of a column-major tensor copied between two polls of a stop token: each unit may
/// be on its own page.
constexpr std::size_t max_scattered_units = 4096;

/// Fills `to` with the bytes of the converted tensor from byte `first` on; neither end needs to be at the
/// boundary of a unit. `read(nth, units)` must fill whole units as `copy_units` does; if the tensor is
/// column-major, at most `max_scattered_units` per call. An error of `read` is returned.
template <class Read>
Result<void> relayout_into(MutableBytes to, const Relayout& relayout, std::uint64_t first, const Read& read) {
  const std::size_t unit = relayout.unit_bytes;
  std::vector<std::byte> partial;
  while (!to.empty()) {
    const auto before = static_cast<std::size_t>(first % unit);
    const bool is_partial = before != 0 || to.size() < unit;
    if (is_partial) partial.resize(unit);
    const std::size_t whole = to.size() / unit;
    const std::size_t max_units =
        relayout.column_major.empty() ? whole : std::min(whole, max_scattered_units);
    const MutableBytes units = is_partial ? MutableBytes(partial) : to.first(max_units * unit);
    HT_TRY(read(first / unit, units));
    swap_numbers(units, relayout);
    const std::size_t count = std::min(units.size() - before, to.size());
    if (is_partial) std::ranges::copy(units.subspan(before, count), to.begin());
    to = to.subspan(count);
    first += count;
  }
  return {};
}

/// Returns the bytes of one element of a splat; empty if the elements differ or are not whole
/// bytes.
[[nodiscard]] std::vector<std::byte> splat_element(Bytes pattern, int bits);

/// Fills `to` with the repeated pattern, from its byte `first` on.
void fill_with(MutableBytes to, Bytes pattern, std::uint64_t first = 0) noexcept;

}  // namespace ht::inline v1
