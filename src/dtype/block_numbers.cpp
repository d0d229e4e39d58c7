#include "dtype/block_numbers.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <htensor/dtype/encoding.hpp>

namespace ht::inline v1 {
namespace {

/// Returns `before`, followed by `Count` numbers of `bytes` bytes each, the first at byte `first`.
template <std::size_t Count, std::size_t Before = 0>
consteval auto append_numbers(std::size_t first, std::size_t bytes,
                              std::array<BlockNumber, Before> before = {}) {
  std::array<BlockNumber, Before + Count> numbers{};
  std::ranges::copy(before, numbers.begin());
  for (std::size_t i = 0; i < Count; ++i) {
    numbers[Before + i] = {static_cast<std::uint16_t>(first + i * bytes), static_cast<std::uint16_t>(bytes)};
  }
  return numbers;
}

constexpr auto half = append_numbers<1>(0, 2);
constexpr auto two_halves = append_numbers<2>(0, 2);
constexpr auto q5_0 = append_numbers<1>(2, 4, half);
constexpr auto q5_1 = append_numbers<1>(4, 4, two_halves);
constexpr auto q2_k = append_numbers<2>(80, 2);
constexpr auto q3_k = append_numbers<1>(108, 2);
constexpr auto q6_k = append_numbers<1>(208, 2);
constexpr auto q8_k = append_numbers<16>(260, 2, append_numbers<1>(0, 4));
constexpr auto iq2_xxs = append_numbers<16>(2, 4, half);
constexpr auto iq2_xs = append_numbers<32>(2, 2, half);
constexpr auto iq3_xxs = append_numbers<8>(66, 4, half);
constexpr auto iq1_s = append_numbers<8>(34, 2, half);
constexpr auto iq4_xs = append_numbers<1>(2, 2, half);
constexpr auto iq1_m = append_numbers<4>(48, 2);
constexpr auto tq1_0 = append_numbers<1>(52, 2);
constexpr auto tq2_0 = append_numbers<1>(64, 2);

struct Row {
  EncodingTag encoding;
  std::span<const BlockNumber> numbers;
};

constexpr std::array rows{
    Row{Q4_0::tag, half},       Row{Q4_1::tag, two_halves}, Row{Q5_0::tag, q5_0},
    Row{Q5_1::tag, q5_1},       Row{Q8_0::tag, half},       Row{Q8_1::tag, two_halves},
    Row{Q2_K::tag, q2_k},       Row{Q3_K::tag, q3_k},       Row{Q4_K::tag, two_halves},
    Row{Q5_K::tag, two_halves}, Row{Q6_K::tag, q6_k},       Row{Q8_K::tag, q8_k},
    Row{IQ2_XXS::tag, iq2_xxs}, Row{IQ2_XS::tag, iq2_xs},   Row{IQ3_XXS::tag, iq3_xxs},
    Row{IQ1_S::tag, iq1_s},     Row{IQ4_NL::tag, half},     Row{IQ3_S::tag, half},
    Row{IQ2_S::tag, half},      Row{IQ4_XS::tag, iq4_xs},   Row{IQ1_M::tag, iq1_m},
    Row{TQ1_0::tag, tq1_0},     Row{TQ2_0::tag, tq2_0},     Row{MXFP4::tag, {}},
    Row{NVFP4::tag, {}},        Row{Q1_0::tag, half},       Row{Q2_0::tag, half},
};
static_assert(rows.size() == AllEncodings::size);

}  // namespace

std::span<const BlockNumber> numbers_of_block(EncodingTag encoding) noexcept {
  const auto* const row = std::ranges::find(rows, encoding, &Row::encoding);
  return row != rows.end() ? row->numbers : std::span<const BlockNumber>{};
}

}  // namespace ht::inline v1
