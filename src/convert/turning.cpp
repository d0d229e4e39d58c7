#include "convert/turning.hpp"

#include <algorithm>
#include <array>
#include <htensor/dtype/encoding.hpp>
#include <htensor/tensor/layout.hpp>

#include "base/format_text.hpp"
#include "convert/number_gap.hpp"
#include "model/plain_copy.hpp"

namespace ht::inline v1 {
namespace {

using Number = Turning::Number;

struct TurnedBlock {
  std::string_view encoding;
  std::array<Number, 2> numbers;
};

// Blocks of bytes but for the scales, which are halves. Others pack numbers of several bytes in ways that
// depend on the machine which wrote them.
constexpr std::array turned_blocks{
    TurnedBlock{"Q4_0", {{{0, 2}}}},         TurnedBlock{"Q4_1", {{{0, 2}, {2, 2}}}},
    TurnedBlock{"Q8_0", {{{0, 2}}}},         TurnedBlock{"Q2_K", {{{80, 2}, {82, 2}}}},
    TurnedBlock{"Q4_K", {{{0, 2}, {2, 2}}}}, TurnedBlock{"Q5_K", {{{0, 2}, {2, 2}}}},
    TurnedBlock{"Q6_K", {{{208, 2}}}},       TurnedBlock{"MXFP4", {}},
};

Result<Turning> turning_of_blocks(const Entry& entry) {
  const auto encoding = find_encoding(entry.encoding).value_or(Encoding{.name = "of an unknown encoding"});
  const auto found = std::ranges::find(turned_blocks, encoding.name, &TurnedBlock::encoding);
  if (found == turned_blocks.end()) {
    return fail(Error(ErrorCode::unsupported_encoding, "blocks_can_be_turned_round",
                      format_text("tensor '{}': big-endian blocks of {} cannot be byte-swapped", entry.name,
                                  encoding.name))
                    .at_tensor(entry.name)
                    .with_hint("convert to GGUF, which keeps them big-endian"));
  }
  Turning turning{.unit_bytes = encoding.block_bytes, .numbers = {}, .column_major = {}};
  std::ranges::copy_if(found->numbers, std::back_inserter(turning.numbers),
                       [](const Number& number) { return number.bytes != 0; });
  return turning;
}

}  // namespace

Result<std::shared_ptr<const Turning>> turning_of(const Entry& entry) {
  const bool is_dense = entry.encoding == EncodingTag::dense;
  const bool by_columns = entry.order == ElementOrder::column_major && entry.dims.size() > 1;
  const bool is_big = entry.byte_order == ByteOrder::big && !entry.is_splat();
  if (entry.bytes == 0 || !entry.is_typed() || (!by_columns && !is_big)) return nullptr;
  if (!is_dense) return std::make_shared<const Turning>(HT_TRY(turning_of_blocks(entry)));
  const auto elements = static_cast<std::uint64_t>(HT_TRY(layout::count_elements(entry.dims)));
  const auto unit_bytes = static_cast<std::uint32_t>(entry.bytes / elements);
  Turning turning{.unit_bytes = unit_bytes, .numbers = {}, .column_major = {}};
  // A complex number is two numbers.
  const auto number_bytes = static_cast<std::uint16_t>(unit_bytes / (is_complex(entry.dtype) ? 2 : 1));
  for (std::uint32_t at = 0; is_big && number_bytes > 1 && at < unit_bytes; at += number_bytes) {
    turning.numbers.push_back({static_cast<std::uint16_t>(at), number_bytes});
  }
  if (by_columns) turning.column_major.assign(entry.dims.begin(), entry.dims.end());
  if (turning.numbers.empty() && !by_columns) return nullptr;
  return std::make_shared<const Turning>(std::move(turning));
}

Result<void> turn(TargetTensor& tensor) {
  if (tensor.turning) return {};
  tensor.turning = HT_TRY(turning_of(tensor.entry));
  tensor.entry.byte_order = ByteOrder::little;
  tensor.entry.order = ElementOrder::row_major;
  return {};
}

Result<void> turn_all(std::span<TargetTensor> tensors) {
  for (auto& tensor : tensors) HT_TRY(turn(tensor));
  return {};
}

void copy_units(MutableBytes units, Bytes stored, const Turning& turning, std::uint64_t nth) {
  if (turning.column_major.empty()) {
    const auto begin = static_cast<std::size_t>(nth * turning.unit_bytes);
    std::ranges::copy(stored.subspan(begin, units.size()), units.begin());
  } else {
    copy_to_row_major(units, stored, turning.column_major, turning.unit_bytes, nth);
  }
}

void turn_numbers(MutableBytes units, const Turning& turning) noexcept {
  if (turning.numbers.empty()) return;
  const auto& first = turning.numbers.front();
  // Elements are nothing but numbers of one size, and there are many of them.
  if (turning.numbers.size() * first.bytes == turning.unit_bytes) return reverse_bytes(units, first.bytes);
  for (std::size_t at = 0; at < units.size(); at += turning.unit_bytes) {
    for (const auto& number : turning.numbers) {
      std::ranges::reverse(units.subspan(at + number.offset, number.bytes));
    }
  }
}

}  // namespace ht::inline v1
