#include "compute/linear/dot_rows.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "compute/linear/dot_rows_test.hpp"
#include "tensor/test_random.hpp"
#include "testing/shared_folder.hpp"
#include "values/targets_test.hpp"

namespace ht::dot_rows_test {
namespace {

using Sums = std::array<float, 32>;

// Adds each product to sum j % 32 by one fused operation.
void add_elements(const WeightRows& rows, std::int64_t row, const float* x, Sums& sums) {
  const Floats elements = decoded_row(rows, row);
  for (std::size_t j = 0; j < elements.size(); ++j) sums[j % 32] = std::fma(elements[j], x[j], sums[j % 32]);
}

// Q8_0: adds the products of integers first, then multiplies them by the scale of the block. Blocks alternate
// between the first and the second 16 sums.
void add_q8_0(const WeightRows& rows, std::int64_t row, const float* x, Sums& sums) {
  for (std::int64_t at = 0; at < rows.columns; at += 32) {
    const std::byte* const block = rows.first + row * rows.row_bytes + at / 32 * 34;
    std::uint16_t code;
    std::memcpy(&code, block, sizeof code);
    const auto scale = static_cast<float>(F16::Element::from_bits(code));
    const auto q = [&](std::size_t i) { return static_cast<float>(static_cast<std::int8_t>(block[2 + i])); };
    for (std::size_t i = 0; i < 16; ++i) {
      const float both = std::fma(q(i + 16), x[i + 16], q(i) * x[i]);
      float& sum = sums[i + (at / 32 % 2 == 0 ? 0 : 16)];
      sum = std::fma(both, scale, sum);
    }
    x += 32;
  }
}

// Computes a dot product by the definition in dot_rows.hpp.
float dot_by_definition(const WeightRows& rows, std::int64_t row, const float* x) {
  Sums sums{};
  const bool is_q8_0 = rows.type.is_block_encoded() && rows.type.encoding == Q8_0::tag;
  is_q8_0 ? add_q8_0(rows, row, x, sums) : add_elements(rows, row, x, sums);
  for (std::size_t half = 16; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  return sums[0];
}

std::uint32_t bits_of(float value) {
  // All NaNs compare equal. So do both zeros: kernels pad rows with zeros, and adding these turns -0 into 0.
  if (std::isnan(value)) return 0x7FC00000U;
  return value == 0.F ? 0U : std::bit_cast<std::uint32_t>(value);
}

void expect_by_definition(const Problem& problem) {
  Floats expected;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    for (std::int64_t r = 0; r < problem.rows.count; ++r)
      expected.push_back(dot_by_definition(problem.rows, r, problem.vector(b)));
  }
  testing::for_each_target([&](const char* target) {
    const Floats found = problem.solve();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(bits_of(found[i]), bits_of(expected[i]))
          << problem.rows.type.name << " on " << target << ", " << problem.rows.columns << " columns, batch "
          << problem.batch << ", result " << i << ": " << found[i] << " instead of " << expected[i];
    }
  });
}

TEST(DotRows, equals_its_definition_for_every_type_on_every_target) {
  Random random;
  for (const ElementType& type : all_types()) {
    const auto block = static_cast<std::int64_t>(type.block_elements);
    for (const std::int64_t blocks : {1, 2, 5}) {
      expect_by_definition(
          Problem(type, 3, block * (type.is_block_encoded() ? blocks : 96 * blocks), 1, random));
    }
  }
}

TEST(DotRows, equals_its_definition_where_q8_0_overflows) {
  Random random;
  Problem problem(type_of(*find_encoding(Q8_0::tag)), 2, 64, 1, random);
  for (std::size_t i = 0; i < problem.x.size(); ++i) problem.x[i] = i % 2 == 0 ? 3e36F : -3e36F;
  expect_by_definition(problem);
  std::memset(problem.bytes.data() + 1, 0, 2);  // the scale of the first block
  expect_by_definition(problem);
}

TEST(DotRows, has_the_same_bits_for_any_number_of_vectors) {
  Random random;
  for (const ElementType& type : all_types()) {
    const std::int64_t columns = type.is_block_encoded() ? 2 * type.block_elements : 64;
    for (const std::int64_t batch : {1, 2, 3, 4, 5, 9})
      expect_by_definition(Problem(type, 3, columns, batch, random));
  }
}

TEST(DotRows, accepts_any_number_of_columns_of_dense_rows) {
  Random random;
  for (const ElementType& type : all_types()) {
    if (type.is_block_encoded()) continue;
    for (const std::int64_t columns : {0, 1, 7, 8, 15, 17, 31, 32, 33, 63, 513, 1030})
      expect_by_definition(Problem(type, 2, columns, columns % 3 + 1, random));
  }
}

TEST(DotRows, reads_rows_at_any_stride) {
  Random random;
  for (const ElementType& type : all_types()) {
    Problem problem(type, 5, type.is_block_encoded() ? type.block_elements : 40, 1, random, 3);
    expect_by_definition(problem);
    problem.rows.first += 4 * problem.rows.row_bytes;
    problem.rows.row_bytes = -problem.rows.row_bytes;
    expect_by_definition(problem);
  }
}

template <class D>
void expect_every_code() {
  constexpr std::int64_t codes = std::int64_t{1} << D::bits;
  Random random;
  Problem problem(type_of(*find_dtype(D::tag)), 1, 64, 1, random);
  problem.bytes.resize(static_cast<std::size_t>(codes) * D::bits / 8);
  for (std::int64_t code = 0; code < codes; ++code)
    std::memcpy(problem.bytes.data() + code * D::bits / 8, &code, D::bits / 8);
  // Each row is a single code, so that a NaN affects only its own result.
  problem.rows.first = problem.bytes.data();
  problem.rows.count = codes;
  problem.rows.columns = 1;
  problem.rows.row_bytes = D::bits / 8;
  problem.x = {1.F};
  expect_by_definition(problem);
}

TEST(DotRows, widens_every_code_of_8_and_16_bits) {
  expect_every_code<F16>();
  expect_every_code<BF16>();
  expect_every_code<F8_E4M3>();
  expect_every_code<F8_E5M2>();
}

// Memory that ends at an inaccessible page: a read past its end terminates the test.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(std::size_t bytes) : bytes_(bytes), pages_((bytes + page - 1) / page * page) {
    start_ = mmap(nullptr, pages_ + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(start_, MAP_FAILED);
    EXPECT_EQ(mprotect(static_cast<std::byte*>(start_) + pages_, page, PROT_NONE), 0);
  }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;
  ~GuardedBuffer() { munmap(start_, pages_ + page); }
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(start_) + (pages_ - bytes_); }

 private:
  static constexpr std::size_t page = 65536;
  std::size_t bytes_;
  std::size_t pages_;
  void* start_ = nullptr;
};

TEST(DotRows, does_not_read_past_rows_and_vectors) {
  Random random;
  for (const ElementType& type : all_types()) {
    for (const std::int64_t batch : {1, 2, 4}) {
      const std::int64_t columns = type.is_block_encoded() ? type.block_elements : 30 + 5 * batch;
      const Problem problem(type, 2, columns, batch, random);
      const GuardedBuffer stored(problem.bytes.size() - 1);
      const GuardedBuffer x(problem.x.size() * sizeof(float));
      std::memcpy(stored.data(), problem.bytes.data() + 1, problem.bytes.size() - 1);
      std::memcpy(x.data(), problem.x.data(), problem.x.size() * sizeof(float));
      WeightRows rows = problem.rows;
      rows.first = stored.data();
      const auto* const vectors = reinterpret_cast<const float*>(x.data());
      Floats into(static_cast<std::size_t>(2 * batch));
      testing::for_each_target([&](const char*) {
        compute::dot_rows(rows, vectors, columns, batch, into.data(), 2);
        EXPECT_EQ(bits_of(into[0]), bits_of(problem.solve()[0]));
        if (compute::has_int8_kernel(type))
          compute::dot_rows_int8(rows, Int8Vectors(type, vectors, columns, batch, columns), into.data(), 2);
      });
    }
  }
}

TEST(DotRows, writes_nothing_without_rows_or_vectors) {
  Random random;
  Problem problem(type_of(*find_dtype(F32::tag)), 2, 8, 1, random);
  problem.rows.count = 0;
  EXPECT_TRUE(problem.solve().empty());
  problem.rows.count = 2;
  problem.batch = 0;
  EXPECT_TRUE(problem.solve().empty());
}

RC_GTEST_PROP(DotRowsProperty, equals_its_definition, ()) {
  const auto types = all_types();
  const ElementType type = types[tests::below(types.size())];
  Random random(static_cast<unsigned>(tests::between(0, 1 << 20)));
  const std::int64_t columns =
      type.is_block_encoded() ? type.block_elements * tests::between(0, 3) : tests::between(0, 200);
  expect_by_definition(Problem(type, tests::between(1, 6), columns, tests::between(1, 6), random));
  RC_ASSERT(!::testing::Test::HasFatalFailure());
}

template <class T>
std::vector<T> read_numbers(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<T> numbers(text.size() / sizeof(T));
  std::memcpy(numbers.data(), text.data(), numbers.size() * sizeof(T));
  return numbers;
}

TEST(DotRows, error_is_within_the_bound_for_blocks_of_ggml) {
  HT_SHARED_OR_SKIP(folder, "vectors/decode");
  Random random;
  int tried = 0;
  for (const Encoding& encoding : library_encodings()) {
    const std::string name(encoding.name);
    if (!std::filesystem::exists(folder / (name + ".blocks"))) continue;
    const auto blocks = read_numbers<std::byte>(folder / (name + ".blocks"));
    const auto values = read_numbers<float>(folder / (name + ".f32"));
    const Floats x = random.numbers(values.size());
    const WeightRows rows{.type = type_of(encoding),
                          .first = blocks.data(),
                          .row_bytes = 0,
                          .count = 1,
                          .columns = static_cast<std::int64_t>(values.size())};
    float found = 0;
    compute::dot_rows(rows, x.data(), 0, 1, &found, 1);
    const Oracle oracle = oracle_of(values, x.data());
    if (!std::isfinite(oracle.sum)) continue;
    const double k = static_cast<double>(values.size());
    EXPECT_LE(std::fabs(found - oracle.sum), (k / 32 + 6) * 0x1p-24 * oracle.magnitude) << name;
    ++tried;
  }
  EXPECT_GE(tried, 20);
}

}  // namespace
}  // namespace ht::dot_rows_test
