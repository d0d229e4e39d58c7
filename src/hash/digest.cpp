#include <htensor/hash/digest.hpp>

#include <algorithm>
#include <utility>
#include <variant>

#include "hash/hashers.hpp"

namespace ht::inline v1 {

struct Crc64 {
  std::uint64_t sum = 0;

  void update(Bytes bytes) noexcept { sum = crc64nvme(bytes, sum); }
};

namespace {

struct AlgorithmFacts {
  std::string_view name;
  std::size_t digest_bytes;
};

AlgorithmFacts facts_of(HashAlgorithm algorithm) noexcept {
  switch (algorithm) {
    case HashAlgorithm::crc64nvme: return {"crc64nvme", 8};
    case HashAlgorithm::xxh3_128: return {"xxh3-128", 16};
    case HashAlgorithm::sha256: return {"sha256", 32};
  }
  return {"unknown", 0};
}

Digest digest_of(Crc64& hash) noexcept { return Digest(std::exchange(hash.sum, 0)); }
Digest digest_of(Xxh3& hash) noexcept { return {HashAlgorithm::xxh3_128, hash.finish()}; }
Digest digest_of(Sha256& hash) noexcept { return {HashAlgorithm::sha256, hash.finish()}; }

}  // namespace

std::string_view to_string(HashAlgorithm algorithm) noexcept { return facts_of(algorithm).name; }

std::optional<HashAlgorithm> hash_algorithm_named(std::string_view name) noexcept {
  const auto found = std::ranges::find(all_hash_algorithms, name, [](auto each) { return to_string(each); });
  if (found == all_hash_algorithms.end()) return std::nullopt;
  return *found;
}

std::size_t digest_bytes(HashAlgorithm algorithm) noexcept { return facts_of(algorithm).digest_bytes; }

Digest::Digest(HashAlgorithm algorithm, Bytes bytes) noexcept : algorithm_(algorithm) {
  std::ranges::copy(bytes.first(digest_bytes(algorithm)), bytes_.begin());
}

Digest::Digest(std::uint64_t crc64nvme) noexcept : algorithm_(HashAlgorithm::crc64nvme) {
  store_be(bytes_, crc64nvme);
}

std::uint64_t Digest::crc64nvme() const noexcept { return load_be<std::uint64_t>(bytes_); }

bool operator==(const Digest& a, const Digest& b) noexcept {
  return a.algorithm_ == b.algorithm_ && a.bytes_ == b.bytes_;
}

std::string to_hex(const Digest& digest) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : digest.bytes()) {
    text += digits[std::to_integer<std::size_t>(byte >> 4)];
    text += digits[std::to_integer<std::size_t>(byte & std::byte{15})];
  }
  return text;
}

std::string to_base64(const Digest& digest) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  const Bytes bytes = digest.bytes();
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t three = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      three = three << 8 | (i < count ? std::to_integer<std::uint32_t>(bytes[at + i]) : 0);
    }
    for (std::size_t i = 0; i < 4; ++i) text += i <= count ? digits[three >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

struct Hasher::State {
  std::variant<Crc64, Xxh3, Sha256> hash;
};

Hasher::Hasher(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;
Hasher::~Hasher() = default;

Result<Hasher> Hasher::make(HashAlgorithm algorithm) {
  return without_bad_alloc([&]() -> Result<Hasher> {
    switch (algorithm) {
      case HashAlgorithm::crc64nvme: return Hasher(std::make_shared<State>(Crc64()));
      case HashAlgorithm::xxh3_128: return Hasher(std::make_shared<State>(HT_TRY(Xxh3::make())));
      case HashAlgorithm::sha256: return Hasher(std::make_shared<State>(HT_TRY(Sha256::make())));
    }
    return fail(Error(ErrorCode::bad_state, "hash_algorithm_is_known", "hash algorithm is unknown")
                    .with_hint("use crc64nvme, xxh3_128 or sha256"));
  });
}

void Hasher::update(Bytes bytes) noexcept {
  std::visit([&](auto& hash) { hash.update(bytes); }, state_->hash);
}

Digest Hasher::finish() noexcept {
  return std::visit([](auto& hash) { return digest_of(hash); }, state_->hash);
}

Result<Digest> digest(HashAlgorithm algorithm, Bytes bytes) {
  auto hasher = HT_TRY(Hasher::make(algorithm));
  hasher.update(bytes);
  return hasher.finish();
}

}  // namespace ht::inline v1
