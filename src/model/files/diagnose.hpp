// The checks of `diagnose` for problems of models that are readable.
#pragma once

#include <cstdint>
#include <filesystem>
#include <htensor/model/model.hpp>
#include <span>
#include <vector>

namespace ht::inline v1 {

struct FileSize {
  std::filesystem::path path;
  std::uint64_t bytes = 0;
};

/// Warnings, each with a hint. `files` are the files of the entries, by number; `formats` are the caller's.
[[nodiscard]] std::vector<Error> warnings_of(const Catalog& catalog, std::span<const FileSize> files,
                                             std::span<const Format> formats = {});

/// `truncated` for each file that ends before its data: the missing bytes and the tensors that they belong
/// to.
[[nodiscard]] std::vector<Error> missing_data(const Catalog& catalog, std::span<const FileSize> files);

}  // namespace ht::inline v1
