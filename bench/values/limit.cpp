#include "bench/values/limit.hpp"

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ht::bench {
namespace {

// One step of input for each step of output, so that both streams advance together.
constexpr std::size_t steps = 4096;

#if defined(__x86_64__)

[[gnu::target("avx2")]] std::uint64_t read(const std::byte* data, std::size_t bytes) {
  __m256i sums[4]{};
  std::size_t at = 0;
  for (; at + 128 <= bytes; at += 128) {
    for (std::size_t i = 0; i < 4; ++i) {
      const auto* const from = reinterpret_cast<const __m256i*>(data + at) + i;
      sums[i] = _mm256_xor_si256(sums[i], _mm256_loadu_si256(from));
    }
  }
  const __m256i all =
      _mm256_xor_si256(_mm256_xor_si256(sums[0], sums[1]), _mm256_xor_si256(sums[2], sums[3]));
  std::uint64_t words[4];
  std::memcpy(words, &all, sizeof(words));
  std::uint64_t sum = words[0] ^ words[1] ^ words[2] ^ words[3];
  for (; at + 8 <= bytes; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + at, sizeof(word));
    sum ^= word;
  }
  return sum;
}

[[gnu::target("avx2")]] void write(std::byte* data, std::size_t bytes, bool streaming) {
  const __m256i value = _mm256_set1_epi8(1);
  if (streaming) {
    for (std::size_t at = 0; at + 32 <= bytes; at += 32)
      _mm256_stream_si256(reinterpret_cast<__m256i*>(data + at), value);
  } else {
    for (std::size_t at = 0; at + 32 <= bytes; at += 32)
      _mm256_store_si256(reinterpret_cast<__m256i*>(data + at), value);
  }
}

#else

std::uint64_t read(const std::byte* data, std::size_t bytes) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at + 8 <= bytes; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + at, sizeof(word));
    sum ^= word;
  }
  return sum;
}

void write(std::byte* data, std::size_t bytes, bool) { std::memset(data, 1, bytes); }

#endif

// The part of a thread, split at cache lines.
template <class Span>
Span part_of(Span bytes, std::size_t part, std::size_t parts) {
  const auto edge = [&](std::size_t i) {
    return i == parts ? bytes.size() : bytes.size() / 64 * i / parts * 64;
  };
  return bytes.subspan(edge(part), edge(part + 1) - edge(part));
}

}  // namespace

Turn run_limit(Bytes in, MutableBytes out, Stores stores) {
  const std::size_t threads = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::uint64_t> sums(threads);
  const Stopwatch stopwatch;
  {
    std::vector<std::jthread> workers;
    for (std::size_t i = 0; i < threads; ++i) {
      workers.emplace_back([&, i] {
        const Bytes own_in = part_of(in, i, threads);
        const MutableBytes own_out = part_of(out, i, threads);
        for (std::size_t step = 0; step < steps; ++step) {
          const Bytes piece = part_of(own_in, step, steps);
          sums[i] ^= read(piece.data(), piece.size());
          const MutableBytes target = part_of(own_out, step, steps);
          if (stores != Stores::none) write(target.data(), target.size(), stores == Stores::streaming);
        }
      });
    }
  }
  const double seconds = stopwatch.seconds();
  std::uint64_t answer = 0;
  for (const auto sum : sums) answer ^= sum;
  return {.seconds = seconds, .answer = answer};
}

}  // namespace ht::bench
