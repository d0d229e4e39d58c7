// safetensors files for tests, from the JSON that they hold.
#pragma once

#include <htensor/base/bytes.hpp>
#include <string_view>
#include <vector>

namespace ht::testing {

/// The length, the JSON, and this many bytes of data.
inline std::vector<std::byte> safetensors_file(std::string_view json, std::size_t data_bytes = 0) {
  std::vector<std::byte> file(8);
  store_le(MutableBytes(file), static_cast<std::uint64_t>(json.size()));
  const Bytes text = bytes_of(json);
  file.insert(file.end(), text.begin(), text.end());
  for (std::size_t i = 0; i < data_bytes; ++i) file.push_back(static_cast<std::byte>(i));
  return file;
}

}  // namespace ht::testing
