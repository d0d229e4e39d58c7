// The dtypes that safetensors has names for.
#pragma once

#include <algorithm>
#include <htensor/dtype/sizes.hpp>
#include <htensor/dtype/visit.hpp>
#include <optional>
#include <string_view>

namespace ht::inline v1::format_safetensors {

/// All of the library's but its 4-bit integers, which safetensors does not know.
[[nodiscard]] inline bool is_safetensors_dtype(DTypeTag tag) noexcept {
  return tag != I4::tag && tag != U4::tag;
}

/// One of safetensors', or one of the users' own.
[[nodiscard]] inline std::optional<DTypeInfo> dtype_named(std::string_view name,
                                                          std::span<const DTypeInfo> users) {
  const auto found = find_dtype(name, users);
  if (!found || !is_safetensors_dtype(found->tag)) return std::nullopt;
  return found;
}

/// Whether a tensor ends at the end of a byte. Eight elements do, whatever their width, so only the rest of
/// eight counts. The elements are known to be countable.
[[nodiscard]] inline bool fills_whole_bytes(std::span<const std::int64_t> dims, int bits) noexcept {
  const auto elements = static_cast<std::uint64_t>(element_count(dims).value_or(0));
  return elements % 8 * static_cast<std::uint64_t>(bits) % 8 == 0;
}

}  // namespace ht::inline v1::format_safetensors
