// How MLIR spells names, texts and types.
#pragma once

#include <array>
#include <cstdint>
#include <htensor/format/catalog.hpp>
#include <span>
#include <string>
#include <string_view>

namespace ht::inline v1 {

/// Appends `"text"`: what is not printable ASCII is a backslash and two hexadecimal digits.
void append_mlir_string(std::string& out, std::string_view text);

/// Appends `@name`, in quotes where it is no bare identifier. A symbol is the same with and without them.
void append_mlir_symbol(std::string& out, std::string_view name);

/// The elements of a tensor as MLIR knows them.
struct MlirElement {
  std::string_view type = "i8";
  /// That a file has for each of them.
  int bits = 8;
  /// Whose order is the file's byte order; a complex number is two.
  std::size_t number_bytes = 1;

  [[nodiscard]] bool is_boolean() const noexcept { return type == "i1"; }
};

/// A tensor as MLIR sees it: of its own dtype and shape, or its bytes where MLIR and IREE have no type that
/// is stored like it. Where the data goes has no say in this, so that moving it in or out changes no program.
class MlirTensor {
 public:
  /// The entry's catalog has to outlive it.
  explicit MlirTensor(const Entry& entry);

  [[nodiscard]] const Entry& entry() const noexcept { return entry_; }
  [[nodiscard]] const MlirElement& element() const noexcept { return element_; }
  [[nodiscard]] bool is_bytes() const noexcept { return is_bytes_; }
  [[nodiscard]] std::span<const std::int64_t> dims() const noexcept {
    return is_bytes_ ? std::span<const std::int64_t>(byte_dims_) : entry_.dims;
  }
  [[nodiscard]] std::uint64_t elements() const noexcept;

 private:
  Entry entry_;
  MlirElement element_;
  bool is_bytes_ = false;
  std::array<std::int64_t, 1> byte_dims_{};
};

/// Appends `tensor<4x8xf32>`.
void append_mlir_type(std::string& out, const MlirTensor& tensor);

}  // namespace ht::inline v1
