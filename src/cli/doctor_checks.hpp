// What may be wrong with a model that can be read all the same.
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

/// What there is to be warned of, each with what to do. `files` are those that the entries lie in.
[[nodiscard]] std::vector<Error> warnings_of(const Catalog& catalog, std::span<const FileFacts> files);

/// `truncated` for each file that ends before its data does: how much is missing and which tensors that hits.
[[nodiscard]] std::vector<Error> missing_data(const Catalog& catalog, std::span<const FileFacts> files);

}  // namespace ht::cli
