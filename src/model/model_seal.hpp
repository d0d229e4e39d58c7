// What the seal of a model calls its files.
#pragma once

#include <filesystem>
#include <string>

#include "integrity/seal_place.hpp"

namespace ht::inline v1 {

/// From the seal's folder on, with slashes.
[[nodiscard]] std::string name_in_seal(const std::filesystem::path& file, const SealPlace& place);

}  // namespace ht::inline v1
