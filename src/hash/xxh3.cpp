#include <bit>
#include <htensor/hash/digest.hpp>

#include "hash/hashers.hpp"
#include "hash/keyed_hash.hpp"

// Inlines xxHash into this file: a call would take longer than the hash of a short name, and programs do not
// have to link xxHash.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ht::inline v1 {
namespace {

XXH3_state_t* state_of(void* state) noexcept { return static_cast<XXH3_state_t*>(state); }

}  // namespace

void Xxh3::FreeState::operator()(void* state) const noexcept {
  static_cast<void>(XXH3_freeState(state_of(state)));
}

Result<Xxh3> Xxh3::make() {
  Xxh3 hash(XXH3_createState());
  if (hash.state_ == nullptr) return fail(Error(ErrorCode::out_of_memory));
  static_cast<void>(XXH3_128bits_reset(state_of(hash.state_.get())));
  return hash;
}

// XXH3_128bits_update fails only for null pointers, which empty pieces may have.
void Xxh3::update(Bytes bytes) noexcept {
  if (!bytes.empty()) {
    static_cast<void>(XXH3_128bits_update(state_of(state_.get()), bytes.data(), bytes.size()));
  }
}

std::array<std::byte, 16> Xxh3::finish() noexcept {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_of(state_.get())));
  static_cast<void>(XXH3_128bits_reset(state_of(state_.get())));
  return std::bit_cast<std::array<std::byte, 16>>(canonical.digest);
}

detail::KeyedHash::KeyedHash(Bytes content) noexcept {
  const XXH128_hash_t digest = XXH3_128bits(content.data(), content.size());
  // XXH3_generateSecret fails only for small buffers; this one is large enough.
  static_assert(sizeof(secret_) >= XXH3_SECRET_SIZE_MIN);
  static_cast<void>(XXH3_generateSecret(secret_.data(), secret_.size(), &digest, sizeof(digest)));
}

std::uint64_t detail::KeyedHash::operator()(std::string_view text) const noexcept {
  return XXH3_64bits_withSecret(text.data(), text.size(), secret_.data(), secret_.size());
}

}  // namespace ht::inline v1
