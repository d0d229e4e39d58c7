// Values of the metadata as they lie in a file.
#pragma once

#include <bit>
#include <htensor/base/bytes.hpp>
#include <htensor/format/metadata.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "format/gguf/gguf_reader.hpp"

namespace ht::inline v1::format_gguf {

inline constexpr int max_array_depth = 8;
/// A key of one byte and a value of one.
inline constexpr std::uint64_t least_pair_bytes = 8 + 1 + 4 + 1;

/// A key and its value, in the byte order of the file.
struct Pair {
  std::string_view key;
  MetaValue value;
};

/// Passes a value and checks all of it; false where the reader stopped.
[[nodiscard]] bool skip_value(Reader& reader, MetaType type);

/// Nothing where the reader stopped.
[[nodiscard]] std::optional<std::vector<Pair>> read_pairs(Reader& reader, std::uint64_t count);

/// Why the pair cannot be stored; empty if it can.
[[nodiscard]] std::string_view pair_fault(const Metadata::Item& item);

/// `would_lose` for such a pair.
[[nodiscard]] Result<void> check_pair(const Metadata::Item& item);

/// Turns a value that is in the order `from` into the other order.
void reverse_value(MetaType type, MutableBytes value, std::endian from) noexcept;

}  // namespace ht::inline v1::format_gguf
