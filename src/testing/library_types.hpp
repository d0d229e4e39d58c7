// All dtypes and block encodings of the library, for tests that cover each of them.
#pragma once

#include <htensor/dtype/encoding.hpp>
#include <htensor/dtype/relations.hpp>
#include <vector>

namespace ht::inline v1 {

/// Ordered by tag.
[[nodiscard]] inline std::vector<DTypeInfo> library_dtypes() {
  std::vector<DTypeInfo> found;
  for (int tag = 0; tag <= UINT8_MAX; ++tag) {
    if (const auto dtype = find_dtype(static_cast<DTypeTag>(tag))) found.push_back(*dtype);
  }
  return found;
}

/// Ordered by tag.
[[nodiscard]] inline std::vector<Encoding> library_encodings() {
  std::vector<Encoding> found;
  for (int tag = 0; tag <= UINT8_MAX; ++tag) {
    if (const auto encoding = find_encoding(static_cast<EncodingTag>(tag))) found.push_back(*encoding);
  }
  return found;
}

}  // namespace ht::inline v1
