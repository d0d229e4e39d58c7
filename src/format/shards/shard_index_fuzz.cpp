// For any text: no crash, memory in proportion to the text, and every file of an index is below the folder of
// the index.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "base/utf8.hpp"
#include "format/fuzz_format.hpp"
#include "format/shards/shard_index.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // An exact copy on the heap, so that a sanitizer detects a read past its end.
  const std::vector<std::uint8_t> text(data, data + size);
  ht::Result<std::optional<ht::ShardIndex>> index;
  ht::testing::check_memory(size, [&] { index = ht::parse_shard_index(std::as_bytes(std::span(text))); });
  if (!index) {
    if (index.error().message().empty() || index.error().rule().empty()) std::abort();
    return 0;
  }
  if (!*index) return 0;
  const ht::ShardIndex& read = **index;
  if (read.file_of.size() != read.tensors.size()) std::abort();
  for (const auto& file : read.files) {
    if (!ht::path_problem(file).empty()) std::abort();
  }
  for (std::size_t i = 0; i < read.tensors.size(); ++i) {
    if (read.file_of[i] >= read.files.size() || read.tensors.find(read.tensors[i]) != i) std::abort();
  }
  return 0;
}
