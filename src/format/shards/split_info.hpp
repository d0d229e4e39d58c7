// The keys by which a part of a split model, such as a GGUF, names its place in the set: `split.no`,
// `split.count`, `split.tensors.count`.
#pragma once

#include <cstdint>
#include <htensor/base/result.hpp>
#include <htensor/format/catalog.hpp>
#include <htensor/format/format.hpp>
#include <optional>
#include <string_view>

namespace ht::inline v1 {

/// All keys that describe the part begin with it.
inline constexpr std::string_view split_prefix = "split.";

struct SplitInfo {
  /// From 0 on.
  std::uint64_t number = 0;
  std::uint64_t count = 0;
  /// The tensors of all parts together.
  std::optional<std::uint64_t> tensors;
};

/// nullopt for a file that is not a part of several. Whole numbers count whatever their type.
[[nodiscard]] std::optional<SplitInfo> split_info(const Catalog& catalog);

/// The same, checked; nullopt for a format without `Sharding::parts`. A file is a part if its name says so
/// (`-00001-of-00003`) or its keys do; then all three keys have to be there, have the types that llama.cpp
/// reads, and agree with the name.
[[nodiscard]] Result<std::optional<SplitInfo>> checked_split_info(const Catalog& catalog,
                                                                  const Format* format,
                                                                  std::string_view file_name);

/// The metadata of one shard of a model: all of it for an index; for parts the first has it, and each has
/// the split keys. `info.number` is from 0 on.
[[nodiscard]] Result<Metadata> metadata_of_shard(Sharding sharding, const Metadata& all,
                                                 const SplitInfo& info);

}  // namespace ht::inline v1
