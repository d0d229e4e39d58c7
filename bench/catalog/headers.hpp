// Files that are all header: their data is a hole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <htensor/htensor.hpp>
#include <string_view>
#include <vector>

namespace ht::bench {

/// As many tensors as that, named as a mixture of experts names them.
[[nodiscard]] Result<Catalog> experts(std::size_t tensors);

/// A language model's GGUF: 2,000 tensors, and a vocabulary of three arrays with 150,000 entries each.
[[nodiscard]] Result<Catalog> vocabulary();

/// A Llama 3 of 8 B as GGUF: 291 tensors, and the vocabulary and merges of its tokenizer, 128,256 and 280,147
/// strings.
[[nodiscard]] Result<Catalog> llama();

/// The file of the catalog in a format; its header. The data takes no room on the disk.
[[nodiscard]] Result<std::vector<std::byte>> make_file(const std::filesystem::path& path,
                                                       std::string_view format, const Catalog& catalog);

}  // namespace ht::bench
