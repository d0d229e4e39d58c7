// The checks of `diagnose` for models whose catalog could be read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <htensor/model/model.hpp>
#include <optional>
#include <span>
#include <vector>

namespace ht::inline v1 {

struct FileSize {
  std::filesystem::path path;
  std::optional<std::uint64_t> bytes{};  // nullopt if the file was removed meanwhile
};

/// Returns warnings, each with a hint. `files` are the files of the entries, by number; `formats` are the
/// caller's.
[[nodiscard]] std::vector<Error> warnings_of(const Catalog& catalog, std::span<const FileSize> files,
                                             std::span<const Format> formats = {});

/// Returns a `truncated` error for each file that ends before the end of its data, with the number of missing
/// bytes and the incomplete tensors.
[[nodiscard]] std::vector<Error> missing_data(const Catalog& catalog, std::span<const FileSize> files);

}  // namespace ht::inline v1
