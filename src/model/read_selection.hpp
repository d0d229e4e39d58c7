// Reads selected elements of a stored tensor into dense, row-major memory.
//
// A Selection is a set of nested loops over the positions of the stored elements. It does not depend on types
// and files. `read_selection` splits a selection into pieces and reads and converts them on all processors.
#pragma once

#include <cstdint>
#include <functional>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/base/work.hpp>
#include <htensor/model/any_tensor.hpp>
#include <span>
#include <vector>

#include "model/relayout.hpp"
#include "values/convert_values.hpp"

namespace ht::inline v1 {

/// Positions of elements, in the order of the result.
struct Selection {
  struct Loop {
    std::int64_t count = 0;
    std::int64_t step = 0;  // in elements; may be negative
  };

  std::int64_t first = 0;   // position of the first element
  std::int64_t count = 0;   // elements of the result
  std::vector<Loop> loops;  // outermost first; adjacent loops that continue each other are merged

  /// Whether the elements follow each other in storage.
  [[nodiscard]] bool is_contiguous() const noexcept {
    return loops.empty() || (loops.size() == 1 && loops[0].step == 1);
  }
  /// Whether the selection consists of whole units of this many elements, each in its stored order.
  [[nodiscard]] bool has_whole_units(std::int64_t unit_elements) const noexcept;
};

/// Selects elements of a tensor whose first element is at position `first`. One slice per dimension.
/// `out_of_bounds`.
[[nodiscard]] Result<Selection> select_elements(std::span<const std::int64_t> dims,
                                                std::span<const std::int64_t> strides, std::int64_t first,
                                                std::span<const AnyTensor::Slice> slices);

/// Access to the stored bytes of a tensor. Offsets count from its first byte.
struct StoredElements {
  ElementType type{};
  std::uint64_t bytes = 0;
  /// All bytes, or null if they cannot be used in place.
  const std::byte* in_place = nullptr;
  /// Fetches the pages of a range that is going to be read in place; may be empty.
  std::function<Result<void>(std::uint64_t offset, std::uint64_t bytes)> fetch{};
  /// Reads bytes that cannot be used in place.
  std::function<Result<void>(std::uint64_t offset, MutableBytes into)> read{};
  /// The numbers to byte-swap in each element or block; null if there are none.
  const Relayout* relayout = nullptr;
};

struct SelectionResult {
  /// The stored type, or a dense dtype.
  ElementType type{};
  Rounding rounding{};
  /// Writes elements of fewer than 8 bits as whole bytes; `type` is the stored one.
  bool unpack = false;

  [[nodiscard]] std::uint64_t bytes_for(std::int64_t elements) const noexcept;
};

/// Fills `into`, which has the size of the result. A result that keeps stored blocks needs a selection of
/// whole blocks.
[[nodiscard]] Result<void> read_selection(const StoredElements& stored, const Selection& selection,
                                          const SelectionResult& result, MutableBytes into,
                                          const WorkOptions& work);

}  // namespace ht::inline v1
