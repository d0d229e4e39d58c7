// Llama-3.2-1B as llama.cpp quantizes it to Q4_K_M, with its tensors under GGUF's names.
#pragma once

#include <cstdint>
#include <htensor/base/result.hpp>
#include <optional>

#include "cli/synth_plan.hpp"

namespace ht::cli {

struct LlamaSizes {
  static constexpr std::int64_t heads = 32;
  static constexpr std::int64_t key_heads = 8;

  std::int64_t layers = 16;
  std::int64_t hidden = 2048;
  std::int64_t intermediate = 8192;
  std::int64_t vocabulary = 128256;

  [[nodiscard]] std::int64_t head() const noexcept { return hidden / heads; }
  [[nodiscard]] std::int64_t keys() const noexcept { return key_heads * head(); }
};

/// The whole model, scaled to about this many bytes if given. `size_overflow` if they exceed 63 bits.
[[nodiscard]] Result<Plan> quantized_llama(std::optional<std::uint64_t> bytes);

}  // namespace ht::cli
