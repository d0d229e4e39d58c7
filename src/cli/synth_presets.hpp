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

/// Whether the preset says what each tensor is stored as, so that no dtype can be chosen.
[[nodiscard]] bool has_own_types(std::string_view preset);

struct Wanted {
  std::string_view preset;
  /// Spelled as in safetensors; empty for what such models have, and where the preset has types of its own.
  std::string_view dtype = {};
  /// About so many bytes; those of such models where nothing is given.
  std::optional<std::uint64_t> bytes = {};
  /// Names the only tensor of a matrix.
  std::string stem = {};
};

/// The tensors of a preset. `bad_dtype` for a dtype that there is not, `size_overflow` where 63 bits cannot
/// count their bytes.
[[nodiscard]] Result<Plan> plan_of(const Wanted& wanted);

}  // namespace ht::cli
