// The index of a sharded model, `model.safetensors.index.json`:
//
// {"metadata":{"total_size":16060522496},"weight_map":{"lm_head.weight":"model-00004-of-00004.safetensors",
// …}}
#pragma once

#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/format/metadata.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/catalog/name_store.hpp"

namespace ht::inline v1 {

/// The end of an index's file name.
inline constexpr std::string_view index_suffix = ".index.json";
[[nodiscard]] constexpr bool is_index_name(std::string_view name) noexcept {
  return name.ends_with(index_suffix);
}

struct ShardIndex {
  /// Paths below the index's folder and relative to it, sorted, each once.
  std::vector<std::string> files;
  /// All tensors, and for each tensor the index of its file in `files`.
  detail::NameStore tensors;
  std::vector<std::uint32_t> file_of;
};

/// Whether the prefix is that of a JSON object; other files cannot be an index.
[[nodiscard]] bool may_be_shard_index(Bytes prefix);

/// nullopt if the text is JSON without a weight_map. `text` is the whole file.
[[nodiscard]] Result<std::optional<ShardIndex>> parse_shard_index(Bytes text);

/// The text of the index. `total_bytes` is the size of all tensors.
[[nodiscard]] std::string encode_shard_index(const ShardIndex& index, std::uint64_t total_bytes);

}  // namespace ht::inline v1
