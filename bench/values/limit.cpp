#include "bench/values/limit.hpp"

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "bench/harness/read_loop.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ht::bench {
namespace {

// Each thread divides its input and its output into this many pieces and alternates between them, so that
// both streams advance together.
constexpr std::size_t pieces = 4096;

#if defined(__x86_64__)

[[gnu::target("avx2")]] void write_by_avx2(std::byte* data, std::size_t bytes, bool streaming) {
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

void write_by_avx2(std::byte* data, std::size_t bytes, bool) { std::memset(data, 1, bytes); }

#endif

void write(MutableBytes into, Stores stores, bool use_avx2) {
  if (use_avx2) {
    write_by_avx2(into.data(), into.size(), stores == Stores::streaming);
  } else {
    std::memset(into.data(), 1, into.size());
  }
}

// The part of a thread, split at cache lines.
template <class Span>
Span part_of(Span bytes, std::size_t part, std::size_t parts) {
  const auto edge = [&](std::size_t i) {
    return i == parts ? bytes.size() : bytes.size() / 64 * i / parts * 64;
  };
  return bytes.subspan(edge(part), edge(part + 1) - edge(part));
}

}  // namespace

TurnResult run_limit(Bytes in, MutableBytes out, Stores stores) {
  const std::size_t threads = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::uint64_t> sums(threads);
  const bool use_avx2 = has_avx2();
  const Stopwatch stopwatch;
  {
    std::vector<std::jthread> workers;
    for (std::size_t i = 0; i < threads; ++i) {
      workers.emplace_back([&, i] {
        const Bytes own_in = part_of(in, i, threads);
        const MutableBytes own_out = part_of(out, i, threads);
        for (std::size_t piece = 0; piece < pieces; ++piece) {
          const Bytes input = part_of(own_in, piece, pieces);
          sums[i] ^= use_avx2 ? by_avx2_read(input) : by_plain_read(input);
          if (stores != Stores::none) write(part_of(own_out, piece, pieces), stores, use_avx2);
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
