// Files that are parts of one model: by their names, `model-00002-of-00004.safetensors`, and by the keys in
// which a part of a split model, such as a GGUF, has its place in the set: `split.no`, `split.count`,
// `split.tensors.count`.
#pragma once

#include <cstdint>
#include <htensor/base/result.hpp>
#include <htensor/format/catalog.hpp>
#include <htensor/format/format.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ht::inline v1 {

struct NumberedName {
  std::string stem;
  /// From 1 to `count`.
  std::uint32_t number = 0;
  std::uint32_t count = 0;
  /// With its dot.
  std::string extension;

  /// The name of another part.
  [[nodiscard]] std::string of(std::uint32_t other) const;
  /// The names of all parts, in order.
  [[nodiscard]] std::vector<std::string> all() const;
  friend bool operator==(const NumberedName&, const NumberedName&) = default;
};

/// Nothing where a file name, without its folder, is not of the pattern.
[[nodiscard]] std::optional<NumberedName> parse_numbered_name(std::string_view file_name);

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
