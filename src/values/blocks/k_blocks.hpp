// Unpacks blocks of Q4_K, Q5_K and Q6_K for kernels that decode, sum or multiply them. decode_reference.hpp
// has the byte maps.

// Highway includes this file once per target, after highway.h, so the include guard toggles.
#if defined(HT_K_BLOCKS) == defined(HWY_TARGET_TOGGLE)
#ifdef HT_K_BLOCKS
#undef HT_K_BLOCKS
#else
#define HT_K_BLOCKS
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace ht::inline v1::k_blocks::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <std::size_t Count>
using BytesTag = hn::CappedTag<std::uint8_t, Count>;

template <class Tag>
HWY_INLINE void store_elements(Tag /*tag*/, hn::Vec<Tag> bytes, std::int8_t* elements) {
  const hn::RebindToSigned<Tag> integers;
  hn::StoreU(hn::BitCast(integers, bytes), integers, elements);
}

/// The eight 6-bit scales of a block of Q4_K or Q5_K, and its eight 6-bit offsets, one in each byte.
struct ScaleBytes {
  std::uint64_t scales;
  std::uint64_t offsets;
};

HWY_INLINE ScaleBytes scale_bytes(const std::uint8_t* block) {
  std::uint32_t stored[3];
  std::memcpy(stored, block + 4, sizeof stored);
  // The low six bits of each byte: scales 0 to 3 in word 0, offsets 0 to 3 in word 1. The high two bits of
  // each byte are the high two bits of scales 4 to 7 in word 0, of offsets 4 to 7 in word 1. Word 2 has their
  // low four bits: scales in low nibbles, offsets in high nibbles.
  const std::uint64_t last_scales = (stored[2] & 0x0F0F0F0FU) | ((stored[0] >> 2) & 0x30303030U);
  const std::uint64_t last_offsets = ((stored[2] >> 4) & 0x0F0F0F0FU) | ((stored[1] >> 2) & 0x30303030U);
  return {.scales = (stored[0] & 0x3F3F3F3FU) | (last_scales << 32),
          .offsets = (stored[1] & 0x3F3F3F3FU) | (last_offsets << 32)};
}

/// Unpacks the 256 elements of a block of Q5_K.
HWY_INLINE void q5_k_elements(const std::uint8_t* block, std::int8_t* elements) {
  const BytesTag<32> tag;
  const auto mask = hn::Set(tag, std::uint8_t{15});
  const auto fifth = hn::Set(tag, std::uint8_t{16});
  for (std::size_t i = 0; i < 32; i += hn::Lanes(tag)) {
    auto bits = hn::LoadU(tag, block + 16 + i);
    for (std::size_t round = 0; round < 4; ++round) {
      const auto both = hn::LoadU(tag, block + 48 + 32 * round + i);
      const auto first = hn::Or(hn::And(both, mask), hn::And(hn::ShiftLeft<4>(bits), fifth));
      const auto second = hn::Or(hn::ShiftRight<4>(both), hn::And(hn::ShiftLeft<3>(bits), fifth));
      store_elements(tag, first, elements + 64 * round + i);
      store_elements(tag, second, elements + 64 * round + 32 + i);
      bits = hn::ShiftRight<2>(bits);
    }
  }
}

/// Unpacks 128 elements of Q6_K from 64 bytes of low bits and 32 bytes of high bits.
HWY_INLINE void q6_k_elements(const std::uint8_t* low, const std::uint8_t* high, std::int8_t* elements) {
  const BytesTag<32> tag;
  const auto zero_point = hn::Set(tag, std::uint8_t{32});
  const auto low_mask = hn::Set(tag, std::uint8_t{15});
  const auto high_mask = hn::Set(tag, std::uint8_t{0x30});
  for (std::size_t i = 0; i < 32; i += hn::Lanes(tag)) {
    const auto bits = hn::LoadU(tag, high + i);
    const auto first = hn::LoadU(tag, low + i);
    const auto second = hn::LoadU(tag, low + 32 + i);
    const auto q1 = hn::Or(hn::And(first, low_mask), hn::And(hn::ShiftLeft<4>(bits), high_mask));
    const auto q2 = hn::Or(hn::And(second, low_mask), hn::And(hn::ShiftLeft<2>(bits), high_mask));
    const auto q3 = hn::Or(hn::ShiftRight<4>(first), hn::And(bits, high_mask));
    const auto q4 = hn::Or(hn::ShiftRight<4>(second), hn::And(hn::ShiftRight<2>(bits), high_mask));
    store_elements(tag, hn::Sub(q1, zero_point), elements + i);
    store_elements(tag, hn::Sub(q2, zero_point), elements + 32 + i);
    store_elements(tag, hn::Sub(q3, zero_point), elements + 64 + i);
    store_elements(tag, hn::Sub(q4, zero_point), elements + 96 + i);
  }
}

}  // namespace
}  // namespace ht::inline v1::k_blocks::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
