// What is looked at before anything is loaded.
#pragma once

#include <htensor/model/load.hpp>
#include <span>

#include "io/staged.hpp"

namespace ht::inline v1 {

/// The ring within the budget: fewer chunks, then smaller ones. `budget_too_small` where there can be none.
[[nodiscard]] Result<io::StagedOptions> ring_within(const LoadOptions& options);

/// `overlap` where two targets do: two reads into one place leave there what nobody can tell.
[[nodiscard]] Result<void> check_apart(std::span<const Target> targets);

}  // namespace ht::inline v1
