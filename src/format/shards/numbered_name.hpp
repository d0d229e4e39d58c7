// Files that are parts of one model. The file name contains the number of the part, as in
// `model-00002-of-00004.safetensors`. In a split model of a format such as GGUF, metadata keys describe the
// part too: `split.no`, `split.count`, `split.tensors.count`.
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
  /// Including its dot.
  std::string extension;

  /// The name of the part with this number.
  [[nodiscard]] std::string name_of_part(std::uint32_t part) const;
  /// The names of all parts, in order.
  [[nodiscard]] std::vector<std::string> names() const;
  friend bool operator==(const NumberedName&, const NumberedName&) = default;
};

/// nullopt if the file name does not match the pattern. `file_name` has no folder.
[[nodiscard]] std::optional<NumberedName> parse_numbered_name(std::string_view file_name);

/// Prefix of all keys that describe the part.
inline constexpr std::string_view split_prefix = "split.";

struct SplitInfo {
  /// Starts at 0.
  std::uint64_t number = 0;
  std::uint64_t count = 0;
  /// Number of tensors of all parts together.
  std::optional<std::uint64_t> tensors;
};

/// nullopt for a file that is not one of several parts. Accepts integers of any type.
[[nodiscard]] std::optional<SplitInfo> split_info(const Catalog& catalog);

/// As `split_info`, with checks; nullopt for a format without `Format::Sharding::parts`. A file is a part if
/// its name (`-00001-of-00003`) or its keys say so. The three keys of a part must exist, have the types that
/// llama.cpp reads, and agree with the name.
[[nodiscard]] Result<std::optional<SplitInfo>> checked_split_info(const Catalog& catalog,
                                                                  const Format* format,
                                                                  std::string_view file_name);

/// The metadata of one part of a model. With `Sharding::index`, each part has all metadata of the model. With
/// `Sharding::parts`, only the first part has the model's metadata, and each part has the `split.*` keys.
/// `info.number` starts at 0.
[[nodiscard]] Result<Metadata> metadata_of_part(Format::Sharding sharding, const Metadata& all,
                                                const SplitInfo& info);

}  // namespace ht::inline v1
