#include "bench/harness/read_loop.hpp"

#include <gtest/gtest.h>

#include <htensor/tensor/storage.hpp>
#include <random>
#include <vector>

#include "bench/harness/must.hpp"
#include "bench/values/limit.hpp"

namespace ht::read_loop_test {
namespace {

using namespace ht::bench;

std::vector<std::byte> random_bytes(std::size_t count) {
  std::mt19937 random(1);
  std::vector<std::byte> bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST(ReadLoop, avx2_loops_equal_the_plain_loop) {
  if (!has_avx2()) GTEST_SKIP() << "the processor lacks AVX2";
  const auto bytes = random_bytes(5000);
  for (std::size_t size = 0; size <= 600; ++size) {
    const auto some = Bytes(bytes).first(size);
    EXPECT_EQ(by_avx2_read(some), by_plain_read(some)) << size;
    EXPECT_EQ(by_avx2_read_with_prefetch(some), by_plain_read(some)) << size;
  }
  EXPECT_EQ(by_avx2_read(bytes), by_plain_read(bytes));
}

TEST(Limit, reads_all_bytes_and_writes_the_output) {
  const auto in = random_bytes(1'000'008);
  for (const auto stores : {Stores::none, Stores::ordinary, Stores::streaming}) {
    auto out = value_of(Storage::owned(1 << 20));
    const auto into = value_of(out.writable_bytes());
    EXPECT_EQ(run_limit(in, into, stores).answer, by_plain_read(in));
    for (const std::byte byte : into) ASSERT_EQ(byte, stores == Stores::none ? std::byte{0} : std::byte{1});
  }
}

}  // namespace
}  // namespace ht::read_loop_test
