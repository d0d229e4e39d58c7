// Single elements of a tensor of any dtype, as text.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <htensor/htensor.hpp>
#include <vector>

namespace ht::cli {

/// Prints elements of a dense tensor. A group of 8 elements is read at a time, or more while elements are
/// printed one after another, so that a corner of a large tensor costs no more than that of a small one.
class ElementPrinter {
 public:
  /// `bad_dtype` for dtypes of users.
  [[nodiscard]] static Result<ElementPrinter> of(const AnyTensor& tensor, bool json);

  /// Appends the nth element in row-major order, as text or JSON.
  [[nodiscard]] Result<void> append(fmt::memory_buffer& out, std::int64_t index);

 private:
  using Append = void (*)(fmt::memory_buffer& out, Bytes elements, std::int64_t index, bool json);

  ElementPrinter(const AnyTensor& tensor, Append append_one, bool json);
  [[nodiscard]] Result<void> read(std::int64_t index);

  AnyTensor tensor_;
  Append append_;
  bool json_;
  std::int64_t elements_;  // of the tensor
  // Elements from `begin_` to `end_`.
  std::vector<std::byte> piece_;
  std::int64_t begin_ = 0;
  std::int64_t end_ = 0;
};

}  // namespace ht::cli
