// The dtypes that safetensors has names for.
#pragma once

#include <algorithm>
#include <array>
#include <htensor/dtype/sizes.hpp>
#include <htensor/dtype/visit.hpp>
#include <optional>
#include <string_view>

namespace ht::inline v1::format_safetensors {

/// All of the library's but its 4-bit integers, which safetensors does not know.
[[nodiscard]] inline bool is_safetensors_dtype(DTypeTag tag) noexcept {
  return tag != I4::tag && tag != U4::tag;
}

/// The reference crate writes tensors by their dtypes, the last of these first, and then by their names:
/// those that need the largest alignment go first.
inline constexpr std::array canonical_dtypes{
    Bool::tag,    F4::tag,      F6_E2M3::tag, F6_E3M2::tag,     U8::tag,          I8::tag,
    F8_E5M2::tag, F8_E4M3::tag, F8_E8M0::tag, F8_E4M3FNUZ::tag, F8_E5M2FNUZ::tag, I16::tag,
    U16::tag,     F16::tag,     BF16::tag,    I32::tag,         U32::tag,         F32::tag,
    C64::tag,     F64::tag,     I64::tag,     U64::tag};

/// The place of a dtype among these; -1 for one that is not there.
[[nodiscard]] constexpr int canonical_rank(DTypeTag tag) noexcept {
  const auto found = std::ranges::find(canonical_dtypes, tag);
  return found == canonical_dtypes.end() ? -1 : static_cast<int>(found - canonical_dtypes.begin());
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
