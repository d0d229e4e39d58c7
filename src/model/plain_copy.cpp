#include "model/plain_copy.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/format_text.hpp"

namespace ht::inline v1 {

Error wrong_dtype(const Entry& entry, const DTypeInfo& wanted, std::span<const DTypeInfo> users) {
  if (!entry.is_typed()) {
    return Error(
               ErrorCode::dtype_mismatch, "dtype_is_known",
               format_text("tensor '{}' has an unknown dtype but {} was requested", entry.name, wanted.name))
        .with_hint("use Model::raw to read its bytes");
  }
  if (entry.encoding != EncodingTag::dense) {
    return Error(ErrorCode::dtype_mismatch, "dtype_is_dense",
                 format_text("tensor '{}' is {} [{}] but {} was requested", entry.name,
                             find_encoding(entry.encoding).value_or(Encoding{.name = "encoded"}).name,
                             fmt::join(entry.dims, ", "), wanted.name))
        .with_hint("use Model::raw to read its blocks");
  }
  const auto stored = find_dtype(entry.dtype, users).value_or(DTypeInfo{.name = "an unknown dtype"});
  return Error(ErrorCode::dtype_mismatch, "dtype_is_the_one_asked_for",
               format_text("tensor '{}' is {} [{}] but {} was requested", entry.name, stored.name,
                           fmt::join(entry.dims, ", "), wanted.name))
      .with_hint(format_text("request {} and widen it with cast or as", stored.name));
}

bool is_in_machine_order(const Entry& entry, int bits) noexcept {
  static_assert(std::endian::native == std::endian::little,
                "a big-endian machine would have to byte-swap little-endian data");
  return entry.byte_order == ByteOrder::little || bits <= 8 || entry.is_splat();
}

std::vector<std::byte> splat_element(Bytes pattern, int bits) {
  if (bits % 8 != 0) return {};
  std::vector<std::byte> element(static_cast<std::size_t>(bits) / 8);
  fill_with(element, pattern);
  // Over a length that both fill without a rest they have to be the same.
  std::vector<std::byte> elements(std::lcm(pattern.size(), element.size()));
  std::vector<std::byte> patterns(elements.size());
  fill_with(elements, element);
  fill_with(patterns, pattern);
  if (elements != patterns) return {};
  return element;
}

void fill_with(MutableBytes to, Bytes pattern) noexcept {
  if (to.empty()) return;
  std::size_t filled = std::min(to.size(), pattern.size());
  std::memcpy(to.data(), pattern.data(), filled);
  // What is there is doubled until it is enough.
  while (filled < to.size()) {
    const std::size_t more = std::min(filled, to.size() - filled);
    std::memcpy(to.data() + filled, to.data(), more);
    filled += more;
  }
}

void copy_to_row_major(MutableBytes to, Bytes from, std::span<const std::int64_t> dims,
                       std::size_t element_bytes, std::uint64_t first) {
  if (to.empty()) return;
  std::vector<std::uint64_t> steps(dims.size());
  std::uint64_t step = element_bytes;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    steps[i] = step;
    step *= static_cast<std::uint64_t>(dims[i]);
  }
  std::vector<std::int64_t> index(dims.size(), 0);
  std::uint64_t source = 0;
  for (std::size_t i = dims.size(); i-- > 0;) {
    const auto dim = static_cast<std::uint64_t>(dims[i]);
    index[i] = static_cast<std::int64_t>(first % dim);
    source += first % dim * steps[i];
    first /= dim;
  }
  for (std::size_t target = 0; target < to.size(); target += element_bytes) {
    std::memcpy(to.data() + target, from.data() + source, element_bytes);
    // Counts like an odometer, the last dimension first.
    for (std::size_t i = dims.size(); i-- > 0;) {
      source += steps[i];
      if (++index[i] < dims[i]) break;
      source -= steps[i] * static_cast<std::uint64_t>(dims[i]);
      index[i] = 0;
    }
  }
}

void reverse_bytes(MutableBytes bytes, std::size_t number_bytes) noexcept {
  if (number_bytes < 2) return;
  for (std::size_t at = 0; at + number_bytes <= bytes.size(); at += number_bytes) {
    std::ranges::reverse(bytes.subspan(at, number_bytes));
  }
}

}  // namespace ht::inline v1
