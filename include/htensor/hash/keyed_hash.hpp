// A hash whose key follows from what is hashed, for tables of names that strangers chose.
//
// Names that collide under a key that is known can be made by the million, and would turn a table into a
// list. Here the key is known only when the last name is, so that whoever wants to make some has to break
// XXH3's 128 bits first; and the same names always give the same table, without a random number anywhere.
#pragma once

#include <array>
#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <string_view>

namespace ht::inline v1 {

class KeyedHash {
 public:
  /// Some key, the same every time.
  KeyedHash() noexcept : KeyedHash(Bytes{}) {}
  /// The key that belongs to this content.
  explicit KeyedHash(Bytes content) noexcept;

  [[nodiscard]] std::uint64_t operator()(std::string_view text) const noexcept;

 private:
  std::array<std::byte, 192> secret_{};
};

}  // namespace ht::inline v1
