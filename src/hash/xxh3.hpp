// XXH3 with 128 bits, by xxHash's own code.
#pragma once

#include <array>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <memory>

namespace ht::inline v1 {

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

}  // namespace ht::inline v1
