// How much memory a plan may count with.
#pragma once

#include <cstdint>
#include <htensor/htensor.hpp>

namespace ht::cli {

/// What was asked for; without that (0), what is available.
[[nodiscard]] Result<std::uint64_t> memory_budget(std::uint64_t asked, io::Port& port);

}  // namespace ht::cli
