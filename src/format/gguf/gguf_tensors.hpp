// The table of tensors: what a file says of each, and where their data has to be. ggml's types are dense
// dtypes and block encodings under one numbering.
#pragma once

#include <cstdint>
#include <htensor/base/result.hpp>
#include <htensor/dtype/encoding.hpp>
#include <htensor/format/catalog.hpp>
#include <optional>

#include "format/gguf/gguf.hpp"
#include "format/gguf/gguf_reader.hpp"

namespace ht::inline v1::format_gguf {

struct TensorType {
  std::uint32_t id = 0;
  /// `invalid` for a block encoding.
  DTypeTag dtype = DTypeTag::invalid;
  /// A dense dtype has blocks of one element and the tag `dense`.
  Encoding encoding{};
};

/// Nothing for numbers that ggml has retired or not given out.
[[nodiscard]] std::optional<TensorType> find_type(std::uint32_t id) noexcept;

/// Nothing for what ggml has no type for.
[[nodiscard]] std::optional<TensorType> type_of(const Entry& entry) noexcept;

/// A name without a byte, no dimension, a type and an offset.
inline constexpr std::uint64_t least_tensor_bytes = 8 + 4 + 4 + 8;

/// Passes the whole table; false where the reader stopped.
[[nodiscard]] bool skip_tensors(Reader& reader, std::uint64_t count);

/// Where the data of tensors lies that follow each other as the format wants it.
class DataPlan {
 public:
  /// The alignment is a power of two; so is `begin` a multiple of it.
  DataPlan(std::uint64_t begin, std::uint64_t alignment) noexcept : begin_(begin), alignment_(alignment) {}

  [[nodiscard]] std::uint64_t alignment() const noexcept { return alignment_; }
  /// Where the next tensor has to be, from the beginning of the data and from that of the file.
  [[nodiscard]] std::uint64_t next() const noexcept { return next_; }
  [[nodiscard]] std::uint64_t next_in_file() const noexcept { return begin_ + next_; }
  /// Puts it there; false where 63 bits cannot count where it and what it is filled up with end in the file.
  [[nodiscard]] bool place(std::uint64_t bytes) noexcept;

 private:
  std::uint64_t begin_;
  std::uint64_t alignment_;
  std::uint64_t next_ = 0;
};

/// Reads a table that was passed before. `plan` has the end of the data afterwards.
[[nodiscard]] Result<void> read_tensors(Reader& reader, std::uint64_t count, DataPlan& plan,
                                        CatalogBuilder& builder);

}  // namespace ht::inline v1::format_gguf
