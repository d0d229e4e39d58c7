// What the file of a quantized Llama says of itself, with the keys and types that llama.cpp writes.
#pragma once

#include <htensor/base/result.hpp>
#include <htensor/format/metadata.hpp>

#include "cli/synth_llama.hpp"

namespace ht::cli {

/// Sizes as the model has them, and a vocabulary that is made up.
[[nodiscard]] Result<Metadata> llama_metadata(const LlamaSizes& model);

}  // namespace ht::cli
