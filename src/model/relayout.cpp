#include "model/relayout.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <htensor/dtype/dtypes.hpp>
#include <htensor/tensor/layout.hpp>
#include <numeric>

#include "base/format_text.hpp"

namespace ht::inline v1 {
namespace {

static_assert(std::endian::native == std::endian::little,
              "a big-endian machine would have to byte-swap little-endian data");

using Number = Relayout::Number;

struct SwappedBlock {
  std::string_view encoding;
  std::array<Number, 2> numbers;
};

// Blocks of bytes but for their scales, which are halves. Others pack numbers of several bytes in ways that
// depend on the machine which wrote them.
constexpr std::array swapped_blocks{
    SwappedBlock{"Q4_0", {{{0, 2}}}},         SwappedBlock{"Q4_1", {{{0, 2}, {2, 2}}}},
    SwappedBlock{"Q8_0", {{{0, 2}}}},         SwappedBlock{"Q2_K", {{{80, 2}, {82, 2}}}},
    SwappedBlock{"Q4_K", {{{0, 2}, {2, 2}}}}, SwappedBlock{"Q5_K", {{{0, 2}, {2, 2}}}},
    SwappedBlock{"Q6_K", {{{208, 2}}}},       SwappedBlock{"MXFP4", {}},
};

Result<Relayout> relayout_of_blocks(const Entry& entry) {
  const auto encoding = find_encoding(entry.encoding).value_or(Encoding{.name = "of an unknown encoding"});
  const auto* const found = std::ranges::find(swapped_blocks, encoding.name, &SwappedBlock::encoding);
  if (found == swapped_blocks.end()) {
    return fail(Error(ErrorCode::unsupported_encoding, "blocks_can_be_byte_swapped",
                      format_text("tensor '{}': big-endian blocks of {} cannot be byte-swapped", entry.name,
                                  encoding.name))
                    .at_tensor(entry.name)
                    .with_hint("convert to GGUF, which keeps them big-endian"));
  }
  Relayout relayout{.unit_bytes = encoding.block_bytes, .numbers = {}, .column_major = {}};
  std::ranges::copy_if(found->numbers, std::back_inserter(relayout.numbers),
                       [](const Number& number) { return number.bytes != 0; });
  return relayout;
}

}  // namespace

Result<std::shared_ptr<const Relayout>> relayout_of(const Entry& entry) {
  const bool by_columns = entry.order == ElementOrder::column_major && entry.dims.size() > 1;
  const bool is_big = entry.byte_order == ByteOrder::big && !entry.is_splat();
  if (entry.bytes == 0 || !entry.is_typed() || (!by_columns && !is_big)) return nullptr;
  if (entry.encoding != EncodingTag::dense)
    return std::make_shared<const Relayout>(HT_TRY(relayout_of_blocks(entry)));
  const auto elements = static_cast<std::uint64_t>(HT_TRY(layout::count_elements(entry.dims)));
  const auto unit_bytes = static_cast<std::uint32_t>(entry.bytes / elements);
  Relayout relayout{.unit_bytes = unit_bytes, .numbers = {}, .column_major = {}};
  // A complex number is two numbers.
  const auto number_bytes = static_cast<std::uint16_t>(unit_bytes / (entry.dtype == C64::tag ? 2 : 1));
  for (std::uint32_t at = 0; is_big && number_bytes > 1 && at < unit_bytes; at += number_bytes) {
    relayout.numbers.push_back({static_cast<std::uint16_t>(at), number_bytes});
  }
  if (by_columns) relayout.column_major.assign(entry.dims.begin(), entry.dims.end());
  if (relayout.numbers.empty() && !by_columns) return nullptr;
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
    // Elements are nothing but numbers of one size, and there are many of them.
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
  // Over a length that both fill without a rest they have to be the same.
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
  // The filled part is doubled until it is enough: it is a whole pattern.
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
