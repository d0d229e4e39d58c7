// A hash whose key is derived from the hashed content, for tables of names from untrusted files.
//
// With a known key, an attacker can generate millions of colliding names, and lookups take linear time. Here
// the key depends on all names, so generating collisions requires breaking 128-bit XXH3. The hash uses no
// random numbers: the same names always give the same table.
#pragma once

#include <array>
#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <string_view>

namespace ht::inline v1::detail {

class KeyedHash {
 public:
  /// A fixed key.
  KeyedHash() noexcept : KeyedHash(Bytes{}) {}
  /// The key derived from this content.
  explicit KeyedHash(Bytes content) noexcept;

  [[nodiscard]] std::uint64_t operator()(std::string_view text) const noexcept;

 private:
  std::array<std::byte, 192> secret_{};
};

}  // namespace ht::inline v1::detail
