// Builds safetensors files for tests from their JSON header.
#pragma once

#include <algorithm>
#include <htensor/base/bytes.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "format/safetensors/safetensors_header.hpp"

namespace ht::testing {

/// Returns the length, the JSON, and `data_bytes` bytes of data that count up from 0.
inline std::vector<std::byte> safetensors_file(std::string_view json, std::size_t data_bytes = 0) {
  // Allocates the final size, because g++ 12 warns about a vector of a known size that grows.
  std::vector<std::byte> file(sizeof(std::uint64_t) + json.size() + data_bytes);
  store_le(MutableBytes(file), static_cast<std::uint64_t>(json.size()));
  auto data = std::ranges::copy(bytes_of(json), file.begin() + sizeof(std::uint64_t)).out;
  for (std::size_t i = 0; i < data_bytes; ++i) *data++ = static_cast<std::byte>(i);
  return file;
}

/// Returns the JSON of a header of U8 tensors with `bytes` bytes each, whose data is in the order of the
/// names.
inline std::string u8_header(const std::vector<std::string>& names, std::uint64_t bytes) {
  std::string json = "{";
  std::uint64_t end = 0;
  for (const auto& name : names) {
    json.append(json.size() == 1 ? "\"" : ",\"").append(name).append(R"(":{"dtype":"U8","shape":[)");
    json.append(std::to_string(bytes)).append(R"(],"data_offsets":[)").append(std::to_string(end));
    json.append(",").append(std::to_string(end + bytes)).append("]}");
    end += bytes;
  }
  return json + "}";
}

/// Whether two readers packed the same members.
inline bool same_members(const format_safetensors::HeaderMembers& a,
                         const format_safetensors::HeaderMembers& b) {
  return std::ranges::equal(a.packed.bytes(), b.packed.bytes()) &&
         std::ranges::equal(a.dtypes, b.dtypes, {}, &DTypeInfo::tag, &DTypeInfo::tag) &&
         a.tensors == b.tensors && a.name_bytes == b.name_bytes && a.dims == b.dims && a.values == b.values &&
         a.key_bytes == b.key_bytes && a.value_bytes == b.value_bytes;
}

}  // namespace ht::testing
