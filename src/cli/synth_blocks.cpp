#include "cli/synth_blocks.hpp"

#include <fmt/format.h>

#include <array>
#include <htensor/dtype/scalar.hpp>

#include "cli/synth_random.hpp"

namespace ht::cli {
namespace {

// What 16 bits of `bell` deviate from their middle by.
constexpr float bell_deviation = 9459.0F;

// The random numbers of one block: one for each of its elements, and others for its scales.
class BlockRandom {
 public:
  BlockRandom(std::uint64_t seed, std::uint64_t first) : elements_(seed + first * random_step) {}

  // The quantized element: so many bits, about normal around their middle.
  [[nodiscard]] unsigned quant(std::uint64_t element, int bits) const {
    return static_cast<unsigned>(bell(mixed(elements_ + (element + 1) * random_step)) >> (16 - bits));
  }
  [[nodiscard]] std::uint64_t scales(std::uint64_t number) const { return mixed(mixed(~elements_) + number); }

 private:
  std::uint64_t elements_;
};

void put_byte(MutableBytes block, std::uint64_t at, unsigned value) {
  block[static_cast<std::size_t>(at)] = static_cast<std::byte>(value & 0xFFU);
}

void put_half(MutableBytes block, std::size_t at, float value) {
  store_le(block.subspan(at), F16::Element(value).bits());
}

// From 3/4 to 5/4, so that blocks differ.
float varied(std::uint64_t random) { return 0.75F + static_cast<float>(random & 0xFF) / 512.0F; }

// { f16 d, dmin; u8 scales[12]; u8 quants[128] }: an element is d * scale * quant - dmin * min, with a scale
// and a min of 6 bits for each 32 elements.
void make_q4_k(const BlockRandom& random, MutableBytes block) {
  // The mins are what the scales are, and dmin takes the middle of the quants to 0.
  constexpr float middle = 7.5F;
  constexpr float usual_scale = 48.4F;
  constexpr float usual_d = usual_deviation / (usual_scale * bell_deviation / 4096.0F);
  const std::uint64_t bits = random.scales(0);
  const float d = usual_d * varied(bits);
  put_half(block, 0, d);
  put_half(block, 2, d * middle);

  std::array<unsigned, 8> scales{};
  for (std::size_t i = 0; i < 8; ++i) scales[i] = 32U + static_cast<unsigned>((bits >> (8 + 5 * i)) & 31U);
  // Four of them lie in bytes of their own, whose free bits are the upper ones of the others.
  for (std::size_t i = 0; i < 4; ++i) {
    const unsigned own = scales[i] | (scales[i + 4] >> 4 << 6);
    put_byte(block, 4 + i, own);
    put_byte(block, 8 + i, own);
    put_byte(block, 12 + i, (scales[i + 4] & 15U) * 0x11U);
  }

  // A byte has elements that are 32 apart.
  for (std::uint64_t i = 0; i < 128; ++i) {
    const std::uint64_t low = i / 32 * 64 + i % 32;
    put_byte(block, 16 + i, random.quant(low, 4) | (random.quant(low + 32, 4) << 4));
  }
}

// { u8 low[128], high[64]; i8 scales[16]; f16 d }: an element is d * scale * (quant - 32), with a scale for
// each 16 elements and four bits of the quant in `low`, two in `high`.
void make_q6_k(const BlockRandom& random, MutableBytes block) {
  constexpr float usual_scale = 97.2F;
  constexpr float usual_d = usual_deviation / (usual_scale * bell_deviation / 1024.0F);
  for (std::uint64_t half = 0; half < 2; ++half) {
    for (std::uint64_t i = 0; i < 32; ++i) {
      std::array<unsigned, 4> quants{};
      for (std::uint64_t j = 0; j < 4; ++j) quants[j] = random.quant(128 * half + 32 * j + i, 6);
      put_byte(block, 64 * half + i, (quants[0] & 15U) | (quants[2] << 4));
      put_byte(block, 64 * half + 32 + i, (quants[1] & 15U) | (quants[3] << 4));
      put_byte(block, 128 + 32 * half + i,
               (quants[0] >> 4) | (quants[1] >> 4 << 2) | (quants[2] >> 4 << 4) | (quants[3] >> 4 << 6));
    }
  }
  // Of either sign, which evens out that 32 is not quite the middle of the quants.
  for (std::uint64_t i = 0; i < 16; ++i) {
    const auto bits = static_cast<unsigned>(random.scales(1 + i));
    const unsigned scale = 64U + (bits & 63U);
    put_byte(block, 192 + i, (bits & 64U) != 0 ? 256U - scale : scale);
  }
  put_half(block, 208, usual_d * varied(random.scales(0)));
}

struct Maker {
  std::string_view encoding;
  void (*make)(const BlockRandom& random, MutableBytes block);
};

constexpr std::array makers{Maker{"Q4_K", make_q4_k}, Maker{"Q6_K", make_q6_k}};

}  // namespace

Result<void> fill_blocks(EncodingTag encoding, std::uint64_t seed, std::uint64_t first, MutableBytes blocks) {
  const auto facts = find_encoding(encoding).value_or(Encoding{});
  for (const auto& maker : makers) {
    if (maker.encoding != facts.name) continue;
    for (; !blocks.empty(); blocks = blocks.subspan(facts.block_bytes), first += facts.block_elements)
      maker.make(BlockRandom(seed, first), blocks.first(facts.block_bytes));
    return {};
  }
  return fail(ErrorCode::unsupported_encoding, "synth_makes_such_blocks",
              fmt::format("cannot generate blocks of {}", facts.name));
}

}  // namespace ht::cli
