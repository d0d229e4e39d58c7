// What a part of a split GGUF says of the whole.
#pragma once

#include <cstdint>
#include <htensor/format/catalog.hpp>
#include <optional>

namespace ht::inline v1 {

struct SplitInfo {
  /// From 0 on.
  std::uint64_t number = 0;
  std::uint64_t count = 0;
  /// Of all parts together, where it says so.
  std::optional<std::uint64_t> tensors;
};

/// Nothing for a file that is no part of several. Whole numbers count whatever their type.
[[nodiscard]] inline std::optional<SplitInfo> split_info(const Catalog& catalog) {
  const auto number = [&](std::string_view key) -> std::optional<std::uint64_t> {
    const auto value = catalog.metadata().find(key);
    return value ? value->natural() : std::nullopt;
  };
  const auto part = number("split.no");
  const auto count = number("split.count");
  if (!part || !count || *count < 2) return std::nullopt;
  return SplitInfo{*part, *count, number("split.tensors.count")};
}

}  // namespace ht::inline v1
