#include "compute/dot_rows.hpp"

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
#include <htensor/dtype/dtypes.hpp>
#include <htensor/dtype/encoding.hpp>
#include <iterator>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "dtype/block_numbers.hpp"
#include "tensor/test_random.hpp"
#include "testing/library_types.hpp"
#include "testing/shared_folder.hpp"
#include "values/convert_values.hpp"
#include "values/decode_reference.hpp"
#include "values/targets_test.hpp"

namespace ht::dot_rows_test {
namespace {

using compute::Int8Vectors;
using compute::Rows;
using Floats = std::vector<float>;
using Stored = std::vector<std::byte>;

ElementType type_of(const Encoding& encoding) {
  return {.encoding = encoding.tag,
          .name = encoding.name,
          .block_elements = encoding.block_elements,
          .block_bytes = encoding.block_bytes};
}

ElementType type_of(const DTypeInfo& dtype) {
  return {.dtype = dtype.tag, .name = dtype.name, .bits = dtype.bits};
}

// Returns all dtypes and block encodings whose values F32 represents.
std::vector<ElementType> all_types() {
  std::vector<ElementType> types;
  for (const auto& dtype : library_dtypes()) {
    if (values::reads_as_f32(type_of(dtype))) types.push_back(type_of(dtype));
  }
  for (const auto& encoding : library_encodings()) types.push_back(type_of(encoding));
  return types;
}

class Random {
 public:
  explicit Random(unsigned seed = 20261117) : engine_(seed) {}
  std::uint32_t bits() { return static_cast<std::uint32_t>(engine_()); }
  float number() { return normal_(engine_); }
  Floats numbers(std::size_t count) {
    Floats result(count);
    for (auto& value : result) value = number();
    return result;
  }
  // Random elements, some of which may be NaN or infinite. Scales of blocks are moderate, so that most
  // elements are finite.
  Stored elements(const ElementType& type, std::int64_t count) {
    Stored bytes(static_cast<std::size_t>(values::stored_bytes(type, count)));
    for (auto& byte : bytes) byte = static_cast<std::byte>(bits());
    if (type.dtype == F32::tag || type.dtype == F16::tag || type.dtype == BF16::tag) moderate(type, bytes);
    if (!type.is_block_encoded()) return bytes;
    for (std::size_t block = 0; block < bytes.size(); block += type.block_bytes) {
      for (const BlockNumber& number : numbers_of_block(type.encoding)) {
        if (number.bytes == 2)
          put(bytes, block + number.offset, static_cast<std::uint16_t>(0x1C00 + bits() % 0x1000));
        if (number.bytes == 4) put(bytes, block + number.offset, number_of_scale());
      }
      if (type.encoding == MXFP4::tag) bytes[block] = static_cast<std::byte>(118 + bits() % 16);
    }
    return bytes;
  }

 private:
  template <class T>
  static void put(Stored& bytes, std::size_t offset, T number) {
    std::memcpy(bytes.data() + offset, &number, sizeof number);
  }
  float number_of_scale() { return 0.01F * (1.F + static_cast<float>(bits() % 16)); }
  void moderate(const ElementType& type, Stored& bytes) {
    const std::size_t size = static_cast<std::size_t>(type.bits) / 8;
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      const float value = number();
      if (type.dtype == F32::tag) put(bytes, at, value);
      if (type.dtype == F16::tag) put(bytes, at, F16::Element(value));
      if (type.dtype == BF16::tag) put(bytes, at, BF16::Element(value));
    }
  }

  std::mt19937 engine_;
  std::normal_distribution<float> normal_;
};

Floats decoded_row(const Rows& rows, std::int64_t row) {
  Floats values(static_cast<std::size_t>(rows.columns));
  const std::byte* const stored = rows.first + row * rows.row_bytes;
  // `read_f32` takes short strips.
  for (std::int64_t at = 0; at < rows.columns; at += 512) {
    values::read_f32(rows.type, stored + values::stored_bytes(rows.type, at), values.data() + at,
                     std::min<std::int64_t>(512, rows.columns - at));
  }
  return values;
}

using Sums = std::array<float, 32>;

// Adds each product to sum j % 32 by one fused operation.
void add_elements(const Rows& rows, std::int64_t row, const float* x, Sums& sums) {
  const Floats elements = decoded_row(rows, row);
  for (std::size_t j = 0; j < elements.size(); ++j) sums[j % 32] = std::fma(elements[j], x[j], sums[j % 32]);
}

// Q8_0: adds the products of integers first, then multiplies them by the scale of the block. Blocks alternate
// between the first and the second 16 sums.
void add_q8_0(const Rows& rows, std::int64_t row, const float* x, Sums& sums) {
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
float dot_by_definition(const Rows& rows, std::int64_t row, const float* x) {
  Sums sums{};
  const bool is_q8_0 = rows.type.is_block_encoded() && rows.type.encoding == Q8_0::tag;
  is_q8_0 ? add_q8_0(rows, row, x, sums) : add_elements(rows, row, x, sums);
  for (std::size_t half = 16; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  return sums[0];
}

std::uint32_t bits_of(float value) {
  // All NaNs compare equal. So do both zeros, because 0 is added to every product.
  if (std::isnan(value)) return 0x7FC00000U;
  return value == 0.F ? 0U : std::bit_cast<std::uint32_t>(value);
}

// Rows at an odd address with gaps between them, and vectors in memory of the exact size.
struct Problem {
  Problem(const ElementType& type, std::int64_t count, std::int64_t columns, std::int64_t vectors,
          Random& random, std::int64_t gap = 0)
      : batch(vectors), x_stride(columns) {
    const auto row_bytes = static_cast<std::int64_t>(values::stored_bytes(type, columns)) + gap;
    bytes.resize(static_cast<std::size_t>(row_bytes * count + 1));
    rows = {
        .type = type, .first = bytes.data() + 1, .row_bytes = row_bytes, .count = count, .columns = columns};
    for (std::int64_t row = 0; row < count; ++row) {
      const auto stored = random.elements(type, columns);
      std::ranges::copy(stored, bytes.data() + 1 + row * row_bytes);
    }
    x = random.numbers(static_cast<std::size_t>(columns * vectors));
  }

  [[nodiscard]] const float* vector(std::int64_t b) const { return x.data() + b * x_stride; }
  [[nodiscard]] Floats solve() const {
    Floats into(static_cast<std::size_t>(rows.count * batch), -1.F);
    compute::dot_rows(rows, x.data(), x_stride, batch, into.data(), rows.count);
    return into;
  }
  [[nodiscard]] Floats solve_int8() const {
    Floats into(static_cast<std::size_t>(rows.count * batch), -1.F);
    compute::dot_rows_int8(rows, Int8Vectors(rows.type, x.data(), x_stride, batch, rows.columns), into.data(),
                           rows.count);
    return into;
  }

  Stored bytes;
  Rows rows;
  std::int64_t batch;
  std::int64_t x_stride;
  Floats x;
};

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
      Rows rows = problem.rows;
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

struct Oracle {
  double sum = 0;
  double magnitude = 0;
};

Oracle oracle_of(const Floats& row, const float* x) {
  Oracle oracle;
  for (std::size_t j = 0; j < row.size(); ++j) {
    const double product = static_cast<double>(row[j]) * static_cast<double>(x[j]);
    oracle.sum += product;
    oracle.magnitude += std::fabs(product);
  }
  return oracle;
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
    const Rows rows{.type = type_of(encoding),
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

// An element as two terms, exact in double: element = product - offset, where product is scale · q.
struct Terms {
  double product;
  double offset;
  [[nodiscard]] double element() const { return product - offset; }
};

Terms terms_of(const ElementType& type, const std::uint8_t* block, std::size_t i) {
  const auto half = [&](std::size_t at) { return static_cast<double>(reference::half_at(block + at)); };
  if (type.encoding == Q8_0::tag) return {half(0) * static_cast<std::int8_t>(block[2 + i]), 0};
  if (type.encoding == Q4_0::tag) {
    const int q = i < 16 ? block[2 + i] & 15 : block[2 + i - 16] >> 4;
    return {half(0) * (q - 8), 0};
  }
  if (type.encoding == Q6_K::tag) {
    const std::uint8_t byte = block[64 * (i / 128) + i % 64];
    const int low = i % 128 < 64 ? byte & 15 : byte >> 4;
    const int high = (block[128 + 32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32))) & 3;
    const double scale = half(208) * static_cast<std::int8_t>(block[192 + i / 16]);
    return {scale * (low | (high << 4)), scale * 32};
  }
  const bool is_q5 = type.encoding == Q5_K::tag;
  const auto [scale, offset] = reference::k_scale(block + 4, static_cast<int>(i / 32));
  const std::uint8_t byte = block[(is_q5 ? 48 : 16) + 32 * (i / 64) + i % 32];
  const int low = i % 64 < 32 ? byte & 15 : byte >> 4;
  const int high = is_q5 ? (block[16 + i % 32] >> (i / 32)) & 1 : 0;
  return {half(0) * scale * (low + 16 * high), half(2) * offset};
}

std::vector<Terms> terms_of_row(const Rows& rows, std::int64_t row) {
  const auto* const stored = reinterpret_cast<const std::uint8_t*>(rows.first + row * rows.row_bytes);
  const std::size_t in_block = rows.type.block_elements;
  std::vector<Terms> terms;
  for (std::size_t j = 0; j < static_cast<std::size_t>(rows.columns); ++j)
    terms.push_back(terms_of(rows.type, stored + j / in_block * rows.type.block_bytes, j % in_block));
  return terms;
}

// The bound of dot_rows.hpp: k · eps · Σ(|scale · q| + |offset|) · |x'| from the rounded vector x', and
// Σ (scale / 2) · |element| more from x. Division by a scale rounds to F32 before elements are rounded.
void expect_int8_within_bound(const Problem& problem, const Floats& found) {
  const Int8Vectors rounded(problem.rows.type, problem.x.data(), problem.x_stride, problem.batch,
                            problem.rows.columns);
  const auto columns = static_cast<std::size_t>(problem.rows.columns);
  const auto group = static_cast<std::size_t>(rounded.group);
  for (std::int64_t r = 0; r < problem.rows.count; ++r) {
    const std::vector<Terms> row = terms_of_row(problem.rows, r);
    const Floats decoded = decoded_row(problem.rows, r);
    for (std::int64_t b = 0; b < problem.batch; ++b) {
      double sum = 0;
      double sum_of_rounded = 0;
      double magnitude = 0;
      double rounding = 0;
      for (std::size_t j = 0; j < columns; ++j) {
        const std::size_t at = static_cast<std::size_t>(b) * columns + j;
        const auto scale = static_cast<double>(rounded.scales[at / group]);
        const double x = rounded.elements[at] * scale;
        const double element = row[j].element();
        const double size = std::fabs(row[j].product) + std::fabs(row[j].offset);
        ASSERT_LE(std::fabs(element - static_cast<double>(decoded[j])), 3 * 0x1p-24 * size) << j;
        sum += element * static_cast<double>(problem.vector(b)[j]);
        sum_of_rounded += element * x;
        magnitude += size * std::fabs(x);
        rounding += scale / 2 * (1 + 0x1p-16) * std::fabs(element);
      }
      const double value = found[static_cast<std::size_t>(b * problem.rows.count + r)];
      const double bound = static_cast<double>(columns) * 0x1p-24 * magnitude;
      ASSERT_LE(std::fabs(value - sum_of_rounded), bound) << problem.rows.type.name << " batch " << b;
      ASSERT_LE(std::fabs(value - sum), bound + rounding) << problem.rows.type.name << " batch " << b;
    }
  }
}

constexpr auto int8_encodings = std::array{Q8_0::tag, Q4_0::tag, Q4_K::tag, Q5_K::tag, Q6_K::tag};

TEST(DotRowsInt8, supports_five_encodings) {
  int known = 0;
  for (const ElementType& type : all_types()) known += compute::has_int8_kernel(type) ? 1 : 0;
  EXPECT_EQ(known, 5);
  for (const EncodingTag tag : int8_encodings)
    EXPECT_TRUE(compute::has_int8_kernel(type_of(*find_encoding(tag))));
}

TEST(DotRowsInt8, error_is_within_the_bound_and_targets_agree) {
  Random random;
  for (const EncodingTag tag : int8_encodings) {
    const ElementType type = type_of(*find_encoding(tag));
    for (const std::int64_t batch : {1, 2, 3, 4, 5, 6}) {
      const Problem problem(type, 3, type.block_elements * (1 + batch), batch, random, batch % 2);
      Floats first;
      testing::for_each_target([&](const char* target) {
        const Floats found = problem.solve_int8();
        if (first.empty()) first = found;
        ASSERT_EQ(found, first) << type.name << " on " << target;
        expect_int8_within_bound(problem, found);
      });
    }
  }
}

TEST(DotRowsInt8, error_of_terms_that_cancel_is_within_the_bound) {
  // scale · q and the offset of each element are 15, so all elements are 0. The two sums are rounded before
  // they are subtracted, so the result need not be 0.
  Random random;
  const ElementType type = type_of(*find_encoding(Q4_K::tag));
  Problem problem(type, 1, 256, 64, random);
  std::byte* const block = problem.bytes.data() + 1;
  const std::uint16_t halves[2] = {0x4200, 0x3C00};  // d = 3, dm = 1
  std::memcpy(block, halves, sizeof halves);
  const std::uint8_t scales[12] = {1, 1, 1, 1, 15, 15, 15, 15, 0xF1, 0xF1, 0xF1, 0xF1};
  std::memcpy(block + 4, scales, sizeof scales);
  std::memset(block + 16, 0x55, 128);  // q = 5
  for (const Terms& terms : terms_of_row(problem.rows, 0)) {
    ASSERT_EQ(terms.product, 15);
    ASSERT_EQ(terms.offset, 15);
  }
  testing::for_each_target([&](const char* target) {
    const Floats found = problem.solve_int8();
    expect_int8_within_bound(problem, found);
    EXPECT_TRUE(std::ranges::any_of(found, [](float value) { return value != 0.F; })) << target;
  });
}

TEST(DotRowsInt8, is_exact_where_rounding_is_exact) {
  // Groups of integers from -127 to 127 that include 127 are not rounded, and all sums fit 24 bits.
  for (const EncodingTag tag : {Q8_0::tag, Q4_0::tag}) {
    const ElementType type = type_of(*find_encoding(tag));
    Random random;
    Problem problem(type, 4, 64, 3, random);
    for (std::size_t i = 0; i < problem.x.size(); ++i)
      problem.x[i] = i % 32 == 0 ? 127.F : static_cast<float>(static_cast<int>(random.bits() % 255) - 127);
    const std::uint16_t half_of_one = 0x3800;
    for (std::int64_t row = 0; row < 4; ++row) {
      for (std::int64_t block = 0; block < 2; ++block)
        std::memcpy(problem.bytes.data() + 1 + row * problem.rows.row_bytes + block * type.block_bytes,
                    &half_of_one, 2);
    }
    EXPECT_EQ(problem.solve_int8(), problem.solve()) << type.name;
  }
}

TEST(Int8Vectors, round_an_element_by_at_most_half_a_scale) {
  for (const EncodingTag tag : {Q8_0::tag, Q4_K::tag}) {
    const ElementType type = type_of(*find_encoding(tag));
    const std::size_t group = type.block_elements;
    Random random;
    Floats x = random.numbers(group * 64);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] *= std::ldexp(1.F, static_cast<int>(i / group) * 4 - 140);
    testing::for_each_target([&](const char* target) {
      const Int8Vectors rounded(type, x.data(), 0, 1, static_cast<std::int64_t>(x.size()));
      ASSERT_EQ(rounded.scales.size(), 64U);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double scale = rounded.scales[i / group];
        const double value = rounded.elements[i] * scale;
        ASSERT_LE(std::fabs(value - static_cast<double>(x[i])), scale / 2 * (1 + 0x1p-20))
            << i << " on " << target;
        ASSERT_LE(std::abs(rounded.elements[i]), 127);
      }
      for (std::size_t i = 0; i < x.size(); i += 16) {
        const auto* const first = rounded.elements.data() + i;
        ASSERT_EQ(rounded.sums[i / 16], std::accumulate(first, first + 16, 0)) << i << " on " << target;
      }
    });
  }
}

TEST(Int8Vectors, round_halves_to_even) {
  Floats x(32, 0.F);
  x[0] = 127.F;  // so that the scale is 1
  x[1] = 0.5F;
  x[2] = 1.5F;
  x[3] = -2.5F;
  x[4] = -126.5F;
  testing::for_each_target([&](const char* target) {
    const Int8Vectors rounded(type_of(*find_encoding(Q8_0::tag)), x.data(), 0, 1, 32);
    EXPECT_EQ(rounded.scales[0], 1.F) << target;
    EXPECT_EQ(rounded.elements[1], 0) << target;
    EXPECT_EQ(rounded.elements[2], 2) << target;
    EXPECT_EQ(rounded.elements[3], -2) << target;
    EXPECT_EQ(rounded.elements[4], -126) << target;
  });
}

TEST(Int8Vectors, have_scale_0_for_zeros_and_nan_for_nans_and_infinities) {
  Floats x(96, 0.F);
  x[40] = std::numeric_limits<float>::infinity();
  x[70] = std::numeric_limits<float>::quiet_NaN();
  const Int8Vectors rounded(type_of(*find_encoding(Q8_0::tag)), x.data(), 0, 1, 96);
  EXPECT_EQ(rounded.scales[0], 0.F);
  EXPECT_TRUE(std::isnan(rounded.scales[1]));
  EXPECT_TRUE(std::isnan(rounded.scales[2]));
  Random random;
  Problem problem(type_of(*find_encoding(Q8_0::tag)), 1, 96, 1, random);
  problem.x = x;
  EXPECT_TRUE(std::isnan(problem.solve_int8()[0]));
}

}  // namespace
}  // namespace ht::dot_rows_test
