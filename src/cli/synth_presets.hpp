// What `synth` can make: names and shapes as real models have them.
#pragma once

#include <cstdint>
#include <htensor/base/result.hpp>
#include <htensor/dtype/visit.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ht::cli {

struct PlannedTensor {
  std::string name;
  std::vector<std::int64_t> dims;
};

/// The names that plan_of knows.
[[nodiscard]] std::vector<std::string> preset_names();

/// The dtype that such models have.
[[nodiscard]] std::string_view usual_dtype(std::string_view preset);

/// The tensors of a preset, scaled to about so many bytes if that is given. `stem` names the only tensor of
/// a matrix. `size_overflow` where 63 bits cannot count its bytes.
[[nodiscard]] Result<std::vector<PlannedTensor>> plan_of(std::string_view preset, const DTypeInfo& dtype,
                                                         std::optional<std::uint64_t> bytes,
                                                         const std::string& stem);

}  // namespace ht::cli
