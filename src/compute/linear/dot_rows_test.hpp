// Rows, vectors and exact dot products for the tests of dot_rows and dot_rows_int8.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <htensor/dtype/dtypes.hpp>
#include <htensor/dtype/encoding.hpp>
#include <random>
#include <vector>

#include "compute/linear/dot_rows.hpp"
#include "dtype/block_numbers.hpp"
#include "testing/library_types.hpp"
#include "values/convert_values.hpp"

namespace ht::dot_rows_test {

using compute::Int8Vectors;
using compute::WeightRows;
using Floats = std::vector<float>;
using Stored = std::vector<std::byte>;

inline ElementType type_of(const Encoding& encoding) { return detail::element_type_of(encoding); }

inline ElementType type_of(const DTypeInfo& dtype) {
  return {.dtype = dtype.tag, .name = dtype.name, .bits = dtype.bits};
}

// Returns all dtypes and block encodings whose values F32 represents.
inline std::vector<ElementType> all_types() {
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
    if (type.dtype == F32::tag || type.dtype == F16::tag || type.dtype == BF16::tag)
      fill_with_numbers(type, bytes);
    if (!type.is_block_encoded()) return bytes;
    for (std::size_t block = 0; block < bytes.size(); block += type.block_bytes) {
      for (const BlockNumber& number : numbers_of_block(type.encoding)) {
        if (number.bytes == 2)
          put(bytes, block + number.offset, static_cast<std::uint16_t>(0x1C00 + bits() % 0x1000));
        if (number.bytes == 4) put(bytes, block + number.offset, random_scale());
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
  float random_scale() { return 0.01F * (1.F + static_cast<float>(bits() % 16)); }
  void fill_with_numbers(const ElementType& type, Stored& bytes) {
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

inline Floats decoded_row(const WeightRows& rows, std::int64_t row) {
  Floats values(static_cast<std::size_t>(rows.columns));
  const std::byte* const stored = rows.first + row * rows.row_bytes;
  // `read_f32` decodes at most `values::strip_elements` elements.
  for (std::int64_t at = 0; at < rows.columns; at += 512) {
    values::read_f32(rows.type, stored + values::stored_bytes(rows.type, at), values.data() + at,
                     std::min<std::int64_t>(512, rows.columns - at));
  }
  return values;
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
  WeightRows rows;
  std::int64_t batch;
  std::int64_t x_stride;
  Floats x;
};

struct Oracle {
  double sum = 0;
  double magnitude = 0;
};

inline Oracle oracle_of(const Floats& row, const float* x) {
  Oracle oracle;
  for (std::size_t j = 0; j < row.size(); ++j) {
    const double product = static_cast<double>(row[j]) * static_cast<double>(x[j]);
    oracle.sum += product;
    oracle.magnitude += std::fabs(product);
  }
  return oracle;
}

}  // namespace ht::dot_rows_test
