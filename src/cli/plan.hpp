// The memory that a plan may use.
#pragma once

#include <cstdint>
#include <htensor/htensor.hpp>

namespace ht::cli {

/// The asked number of bytes; the available memory if that is 0.
[[nodiscard]] Result<std::uint64_t> memory_budget(std::uint64_t asked, io::Port& port);

}  // namespace ht::cli
