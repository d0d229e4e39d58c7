// What `synth` can make: names and shapes as real models have them.
#pragma once

#include <cstdint>
#include <htensor/base/result.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/synth_plan.hpp"

namespace ht::cli {

/// The names that plan_of knows.
[[nodiscard]] std::vector<std::string> preset_names();

/// Whether the preset fixes the type of each tensor, so that no dtype can be chosen.
[[nodiscard]] bool has_own_types(std::string_view preset);

struct Wanted {
  std::string_view preset;
  /// Spelled as in safetensors; empty for the preset's default or fixed types.
  std::string_view dtype = {};
  /// Approximate size; nullopt for the size of the real model.
  std::optional<std::uint64_t> bytes = {};
  /// Names the only tensor of a matrix.
  std::string stem = {};
};

/// The tensors of a preset. `bad_dtype` for an unknown dtype, `size_overflow` if their bytes exceed 63 bits.
[[nodiscard]] Result<Plan> plan_of(const Wanted& wanted);

}  // namespace ht::cli
