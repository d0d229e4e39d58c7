// Checks before a load.
#pragma once

#include <htensor/load/load.hpp>
#include <span>

#include "io/staged.hpp"

namespace ht::inline v1 {

/// The ring within the budget: fewer chunks, then smaller ones. `budget_too_small` below the smallest ring.
[[nodiscard]] Result<io::StagedOptions> ring_within(const LoadOptions& options);

/// `overlap` where two targets do: two reads into the same bytes would race.
[[nodiscard]] Result<void> check_apart(std::span<const Target> targets);

}  // namespace ht::inline v1
