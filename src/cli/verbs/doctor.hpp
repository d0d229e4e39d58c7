// The checks of `doctor` for problems of models that are readable.
#pragma once

#include <cstdint>
#include <filesystem>
#include <htensor/htensor.hpp>
#include <span>
#include <vector>

namespace ht::cli {

struct FileFacts {
  std::filesystem::path path;
  std::uint64_t bytes = 0;
};

/// Warnings, each with a hint. `files` are the files of the entries, by number.
[[nodiscard]] std::vector<Error> warnings_of(const Catalog& catalog, std::span<const FileFacts> files);

/// `truncated` for each file that ends before its data: the missing bytes and the tensors that they belong
/// to.
[[nodiscard]] std::vector<Error> missing_data(const Catalog& catalog, std::span<const FileFacts> files);

}  // namespace ht::cli
