#include "bench/harness/sum.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace ht::bench {
namespace {

constexpr std::size_t word = sizeof(std::uint64_t);
// Enough lanes to saturate the processor's adders; compilers vectorize them.
using Lanes = std::array<std::uint64_t, 8>;

// A number of which only some bytes are present; the others are zero.
std::uint64_t partial_word(std::size_t at, Bytes bytes) noexcept {
  std::array<std::byte, word> number{};
  std::memcpy(number.data() + at, bytes.data(), bytes.size());
  return std::bit_cast<std::uint64_t>(number);
}

}  // namespace

std::uint64_t sum_of(std::uint64_t position, Bytes bytes) noexcept {
  std::uint64_t total = 0;
  if (const auto at = static_cast<std::size_t>(position % word); at != 0) {
    const auto head = std::min(word - at, bytes.size());
    total += partial_word(at, bytes.first(head));
    bytes = bytes.subspan(head);
  }
  Lanes lanes{};
  const std::byte* data = bytes.data();
  for (std::size_t rounds = bytes.size() / sizeof(Lanes); rounds > 0; --rounds, data += sizeof(Lanes)) {
    Lanes next;
    std::memcpy(next.data(), data, sizeof(Lanes));
    for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] += next[i];
  }
  for (const auto lane : lanes) total += lane;
  for (bytes = bytes.last(bytes.size() % sizeof(Lanes)); !bytes.empty();) {
    const auto next = std::min(word, bytes.size());
    total += partial_word(0, bytes.first(next));
    bytes = bytes.subspan(next);
  }
  return total;
}

}  // namespace ht::bench
