// Hash functions of other projects: XXH3 and SHA-256.
#pragma once

#include <array>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <memory>

namespace ht::inline v1 {

/// XXH3 with 128 bits, implemented by xxHash.
class Xxh3 {
 public:
  [[nodiscard]] static Result<Xxh3> make();

  void update(Bytes bytes) noexcept;
  /// Returns the digest in xxHash's canonical order, highest byte first, and resets the state.
  [[nodiscard]] std::array<std::byte, 16> finish() noexcept;

 private:
  struct FreeState {
    void operator()(void* state) const noexcept;
  };
  explicit Xxh3(void* state) noexcept : state_(state) {}
  std::unique_ptr<void, FreeState> state_;
};

/// SHA-256 by OpenSSL, which is loaded at first use: programs that do not use it have no cost.
class Sha256 {
 public:
  /// `unsupported_platform` if OpenSSL is not installed or lacks a required function, or if its headers were
  /// missing in the build.
  [[nodiscard]] static Result<Sha256> make();

  void update(Bytes bytes) noexcept;
  /// Returns the digest and resets the state.
  [[nodiscard]] std::array<std::byte, 32> finish() noexcept;

 private:
  struct FreeContext {
    void operator()(void* context) const noexcept;
  };
  explicit Sha256(void* context) noexcept : context_(context) {}
  std::unique_ptr<void, FreeContext> context_;
};

}  // namespace ht::inline v1
