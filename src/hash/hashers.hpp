// The hashes of other projects that digests are made with: XXH3 and SHA-256.
#pragma once

#include <array>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <memory>

namespace ht::inline v1 {

/// XXH3 with 128 bits, by xxHash's own code.
class Xxh3 {
 public:
  [[nodiscard]] static Result<Xxh3> make();

  void update(Bytes bytes) noexcept;
  /// In xxHash's canonical order, highest byte first; and begins anew.
  [[nodiscard]] std::array<std::byte, 16> finish() noexcept;

 private:
  struct FreeState {
    void operator()(void* state) const noexcept;
  };
  explicit Xxh3(void* state) noexcept : state_(state) {}
  std::unique_ptr<void, FreeState> state_;
};

/// SHA-256 by OpenSSL, which is loaded at first use: who needs none pays nothing for it.
class Sha256 {
 public:
  /// `unsupported_platform` where there is no OpenSSL.
  [[nodiscard]] static Result<Sha256> make();
  /// Whether a library of that name has what is needed; else the same error.
  [[nodiscard]] static Result<void> check_library(const char* name);

  void update(Bytes bytes) noexcept;
  /// And begins anew.
  [[nodiscard]] std::array<std::byte, 32> finish() noexcept;

 private:
  struct FreeContext {
    void operator()(void* context) const noexcept;
  };
  explicit Sha256(void* context) noexcept : context_(context) {}
  std::unique_ptr<void, FreeContext> context_;
};

}  // namespace ht::inline v1
