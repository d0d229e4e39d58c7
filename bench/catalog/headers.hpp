// Files with a real header and sparse data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <htensor/htensor.hpp>
#include <string_view>
#include <vector>

namespace ht::bench {

/// A catalog of this many tensors, with the names of a mixture-of-experts model.
[[nodiscard]] Result<Catalog> expert_catalog(std::size_t tensors);

/// A GGUF language model: 2,000 tensors, and a vocabulary of three arrays with 150,000 entries each.
[[nodiscard]] Result<Catalog> vocabulary_catalog();

/// An 8 B Llama 3 as GGUF: 291 tensors, and the vocabulary (128,256 strings) and the merges (280,147 strings)
/// of its tokenizer.
[[nodiscard]] Result<Catalog> llama_catalog();

/// Writes the file of a catalog in a format and returns its header. The data is sparse and uses no disk
/// space.
[[nodiscard]] Result<std::vector<std::byte>> make_file(const std::filesystem::path& path,
                                                       std::string_view format, const Catalog& catalog);

}  // namespace ht::bench
