#include <htensor/hash/keyed_hash.hpp>

// All of xxHash within this file: short names cost less than a call.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ht::inline v1 {

KeyedHash::KeyedHash(Bytes content) noexcept {
  const XXH128_hash_t digest = XXH3_128bits(content.data(), content.size());
  // It fails for buffers that are too small alone, and this one is as large as xxHash's own.
  static_assert(sizeof(secret_) >= XXH3_SECRET_SIZE_MIN);
  static_cast<void>(XXH3_generateSecret(secret_.data(), secret_.size(), &digest, sizeof(digest)));
}

std::uint64_t KeyedHash::operator()(std::string_view text) const noexcept {
  return XXH3_64bits_withSecret(text.data(), text.size(), secret_.data(), secret_.size());
}

}  // namespace ht::inline v1
