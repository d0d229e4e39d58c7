#include "model/relayout.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <htensor/base/bytes.hpp>
#include <htensor/dtype/dtypes.hpp>
#include <htensor/dtype/relations.hpp>
#include <htensor/tensor/shape.hpp>
#include <numeric>

#include "base/format_text.hpp"
#include "dtype/block_numbers.hpp"

namespace ht::inline v1 {
namespace {

static_assert(std::endian::native == std::endian::little,
              "a big-endian machine would have to byte-swap little-endian data");

Relayout relayout_of_blocks(EncodingTag encoding) {
  Relayout relayout{.unit_bytes = find_encoding(encoding).value_or(Encoding{}).block_bytes,
                    .numbers = {},
                    .column_major = {}};
  for (const auto& number : numbers_of_block(encoding))
    relayout.numbers.push_back({number.offset, number.bytes});
  return relayout;
}

// Whether each element has bytes of its own. The size of a user-defined dtype is not known here.
bool has_whole_bytes(const Entry& entry, std::uint64_t elements) {
  const auto dtype = find_dtype(entry.dtype);
  return entry.encoding == EncodingTag::dense && (!dtype || dtype->bits % 8 == 0) &&
         entry.bytes % elements == 0 && checked::narrow<std::uint32_t>(entry.bytes / elements);
}

}  // namespace

Result<std::shared_ptr<const Relayout>> relayout_of(const Entry& entry) {
  const bool is_column_major = !entry.is_row_major();
  const bool is_big = entry.byte_order == ByteOrder::big;
  if (entry.bytes == 0 || entry.is_splat() || !entry.is_typed() || (!is_column_major && !is_big))
    return nullptr;
  const auto elements = static_cast<std::uint64_t>(HT_TRY(layout::count_elements(entry.dims)));
  if (elements == 0) return nullptr;
  if (is_column_major && !has_whole_bytes(entry, elements)) {
    return fail(Error(ErrorCode::unsupported_encoding, "column_major_elements_are_whole_bytes",
                      format_text("tensor '{}' is column-major: {} bytes are not {} elements of whole bytes",
                                  entry.name, entry.bytes, elements))
                    .at_tensor(entry.name)
                    .with_hint("use AnyTensor::read, or store the tensor row-major"));
  }
  if (entry.encoding != EncodingTag::dense) {
    auto relayout = relayout_of_blocks(entry.encoding);
    if (relayout.numbers.empty()) return nullptr;
    return std::make_shared<const Relayout>(std::move(relayout));
  }
  const auto unit_bytes = static_cast<std::uint32_t>(entry.bytes / elements);
  Relayout relayout{.unit_bytes = unit_bytes, .numbers = {}, .column_major = {}};
  // A complex element is two numbers.
  const auto number_bytes = static_cast<std::uint16_t>(unit_bytes / (entry.dtype == C64::tag ? 2 : 1));
  for (std::uint32_t at = 0; is_big && number_bytes > 1 && at < unit_bytes; at += number_bytes) {
    relayout.numbers.push_back({static_cast<std::uint16_t>(at), number_bytes});
  }
  if (is_column_major) relayout.column_major.assign(entry.dims.begin(), entry.dims.end());
  if (relayout.numbers.empty() && !is_column_major) return nullptr;
  return std::make_shared<const Relayout>(std::move(relayout));
}

void copy_units(MutableBytes units, Bytes stored, const Relayout& relayout, std::uint64_t nth) {
  const std::size_t unit = relayout.unit_bytes;
  if (relayout.column_major.empty()) {
    std::ranges::copy(stored.subspan(static_cast<std::size_t>(nth * unit), units.size()), units.begin());
  } else if (!units.empty()) {
    RowMajorWalk walk(relayout.column_major, unit, nth);
    for (std::size_t at = 0; at < units.size(); at += unit, walk.step())
      std::memcpy(units.data() + at, stored.data() + walk.offset(), unit);
  }
}

void swap_numbers(MutableBytes units, const Relayout& relayout) noexcept {
  if (relayout.numbers.empty()) return;
  const std::size_t number_bytes = relayout.numbers.front().bytes;
  if (relayout.numbers.size() * number_bytes == relayout.unit_bytes) {
    // Fast path: units consist of numbers of one size.
    for (std::size_t at = 0; at + number_bytes <= units.size(); at += number_bytes)
      std::ranges::reverse(units.subspan(at, number_bytes));
    return;
  }
  for (std::size_t at = 0; at < units.size(); at += relayout.unit_bytes) {
    for (const auto& number : relayout.numbers)
      std::ranges::reverse(units.subspan(at + number.offset, number.bytes));
  }
}

std::vector<std::byte> splat_element(Bytes pattern, int bits) {
  if (bits % 8 != 0) return {};
  std::vector<std::byte> element(static_cast<std::size_t>(bits) / 8);
  fill_with(element, pattern);
  // Compare over a length that is a multiple of both sizes.
  std::vector<std::byte> elements(std::lcm(pattern.size(), element.size()));
  std::vector<std::byte> patterns(elements.size());
  fill_with(elements, element);
  fill_with(patterns, pattern);
  if (elements != patterns) return {};
  return element;
}

void fill_with(MutableBytes to, Bytes pattern, std::uint64_t first) noexcept {
  std::size_t filled = std::min(to.size(), pattern.size());
  for (std::size_t i = 0; i < filled; ++i)
    to[i] = pattern[static_cast<std::size_t>((first + i) % pattern.size())];
  // Doubles the filled part, which is a whole number of patterns.
  while (filled < to.size()) {
    const std::size_t more = std::min(filled, to.size() - filled);
    std::memcpy(to.data() + filled, to.data(), more);
    filled += more;
  }
}

RowMajorWalk::RowMajorWalk(std::span<const std::int64_t> dims, std::size_t element_bytes, std::uint64_t first)
    : dims_(dims), steps_(dims.size()), index_(dims.size()) {
  std::uint64_t step = element_bytes;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    steps_[i] = step;
    step *= static_cast<std::uint64_t>(dims[i]);
  }
  for (std::size_t i = dims.size(); i-- > 0;) {
    const auto dim = static_cast<std::uint64_t>(dims[i]);
    index_[i] = static_cast<std::int64_t>(first % dim);
    offset_ += first % dim * steps_[i];
    first /= dim;
  }
}

}  // namespace ht::inline v1
