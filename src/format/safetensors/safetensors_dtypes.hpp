// The dtypes that safetensors has names for.
#pragma once

#include <algorithm>
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

}  // namespace ht::inline v1::format_safetensors
