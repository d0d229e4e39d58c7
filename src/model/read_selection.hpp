// Reads selected elements of a stored tensor into dense, row-major memory.
//
// `read_selection` splits a selection (selection.hpp) into pieces and reads and converts them on all
// processors.
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
#include "model/selection.hpp"
#include "values/convert_values.hpp"

namespace ht::inline v1 {

/// Access to the stored bytes of a tensor. Offsets count from its first byte.
struct StoredElements {
  ElementType type{};
  std::uint64_t bytes = 0;
  /// All bytes, or null if they cannot be used in place.
  const std::byte* in_place = nullptr;
  /// Optional. Fetches the pages of a range before the range is read in place.
  std::function<Result<void>(std::uint64_t offset, std::uint64_t bytes)> fetch{};
  /// Reads bytes that cannot be used in place.
  std::function<Result<void>(std::uint64_t offset, MutableBytes into)> read{};
  /// The numbers to byte-swap in each element or block; null if there are none.
  const Relayout* relayout = nullptr;
};

/// The requested form of the elements that are read.
struct ResultForm {
  /// The stored type, or a dense dtype.
  ElementType type{};
  Rounding rounding{};
  /// Writes elements that are not whole bytes as whole bytes; `type` is the stored one.
  bool unpack = false;

  [[nodiscard]] std::uint64_t bytes_for(std::int64_t elements) const noexcept;
};

/// Fills `into`, which has the size of the result. A result that keeps stored blocks needs a selection of
/// whole blocks.
[[nodiscard]] Result<void> read_selection(const StoredElements& stored, const Selection& selection,
                                          const ResultForm& result, MutableBytes into,
                                          const WorkOptions& work);

}  // namespace ht::inline v1
