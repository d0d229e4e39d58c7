// Decodes arbitrary bytes as blocks of every encoding, on every target of this processor, and compares the
// values with those of the reference decoders.
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <htensor/dtype/encoding.hpp>
#include <memory>

#include "values/blocks/decode_blocks.hpp"
#include "values/blocks/decode_reference.hpp"
#include "values/targets_test.hpp"

namespace {

bool are_equal(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

template <class Encoding>
void check(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t block_bytes{Encoding::block_bytes};
  constexpr std::size_t block_elements{Encoding::block_elements};
  const std::size_t count = size / block_bytes;
  // Buffers of the exact size, so that AddressSanitizer detects an access outside of the blocks.
  const auto blocks = std::make_unique<std::uint8_t[]>(count * block_bytes);
  std::memcpy(blocks.get(), data, count * block_bytes);
  const auto values = std::make_unique<float[]>(count * block_elements);
  ht::decode_blocks(Encoding::tag, reinterpret_cast<const std::byte*>(blocks.get()),
                    static_cast<std::int64_t>(count), values.get());
  float expected[block_elements];
  for (std::size_t i = 0; i < count; ++i) {
    ht::reference::decode(Encoding{}, blocks.get() + i * block_bytes, expected);
    for (std::size_t j = 0; j < block_elements; ++j) {
      if (!are_equal(values[i * block_elements + j], expected[j])) std::abort();
    }
  }
}

template <class... Es>
void check_all(ht::EncodingList<Es...>, const std::uint8_t* data, std::size_t size) {
  (check<Es>(data, size), ...);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ht::testing::for_each_target([&](const char*) { check_all(ht::AllEncodings{}, data, size); });
  return 0;
}
