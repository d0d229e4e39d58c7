// From the element and byte orders that files have to dense, row-major, little-endian elements.
#pragma once

#include <algorithm>
#include <htensor/base/result.hpp>
#include <htensor/format/catalog.hpp>
#include <memory>
#include <span>
#include <vector>

namespace ht::inline v1 {

/// How a tensor is made row-major and little-endian.
struct Relayout {
  /// Bytes of a unit that are swapped end for end.
  struct Number {
    std::uint16_t offset = 0;
    std::uint16_t bytes = 0;
  };

  /// Of an element, or of a block.
  std::uint32_t unit_bytes = 1;
  /// Of one unit.
  std::vector<Number> numbers;
  /// The shape of a tensor whose first dimension runs fastest; else empty.
  std::vector<std::int64_t> column_major;
};

/// Where the elements of a column-major tensor are stored, in row-major order from the `first` on.
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

/// Null where the tensor is row-major and little-endian already, and for splats. `unsupported_encoding` for
/// big-endian blocks whose numbers lie at places that are not known.
[[nodiscard]] Result<std::shared_ptr<const Relayout>> relayout_of(const Entry& entry);

/// Copies whole units of a stored tensor in row-major order, from the nth on, without swapping bytes.
void copy_units(MutableBytes units, Bytes stored, const Relayout& relayout, std::uint64_t nth);

/// The same by `read_at(offset, into)`, which reads stored bytes of the tensor: a call for each unit where
/// the tensor is column-major.
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

/// Swaps the bytes of the numbers of units.
void swap_numbers(MutableBytes units, const Relayout& relayout) noexcept;

/// The most units of a column-major tensor that are copied between two polls of a stop: each may lie on a
/// page of its own.
constexpr std::size_t max_scattered_units = 4096;

/// Fills `to` with the bytes of the relaid tensor from `first` on, which need not begin or end with a unit.
/// `read(nth, units)` has to get whole units as `copy_units` does, at most `max_scattered_units` at once if
/// the tensor is column-major; an error of it ends the work.
template <class Read>
Result<void> relayout_into(MutableBytes to, const Relayout& relayout, std::uint64_t first, const Read& read) {
  const std::size_t unit = relayout.unit_bytes;
  std::vector<std::byte> partial;
  while (!to.empty()) {
    const auto before = static_cast<std::size_t>(first % unit);
    const bool is_partial = before != 0 || to.size() < unit;
    if (is_partial) partial.resize(unit);
    const std::size_t whole = to.size() / unit;
    const std::size_t most = relayout.column_major.empty() ? whole : std::min(whole, max_scattered_units);
    const MutableBytes units = is_partial ? MutableBytes(partial) : to.first(most * unit);
    HT_TRY(read(first / unit, units));
    swap_numbers(units, relayout);
    const std::size_t count = std::min(units.size() - before, to.size());
    if (is_partial) std::ranges::copy(units.subspan(before, count), to.begin());
    to = to.subspan(count);
    first += count;
  }
  return {};
}

/// The bytes of one element of a splat; empty where the elements are not all the same.
[[nodiscard]] std::vector<std::byte> splat_element(Bytes pattern, int bits);

/// Fills `to` with the repeated pattern, from its byte `first` on.
void fill_with(MutableBytes to, Bytes pattern, std::uint64_t first = 0) noexcept;

}  // namespace ht::inline v1
