// Functions shared by the files of a port.
#pragma once

#include <cstdint>
#include <memory>

#include "io/port/port.hpp"

namespace ht::inline v1::io {

[[nodiscard]] inline tl::unexpected<std::error_code> failed_with(int error_number) {
  return tl::unexpected(std::error_code(error_number, std::generic_category()));
}

/// Creates the system's own read queue. `function_not_supported` if the system has none, or forbids it.
[[nodiscard]] IoResult<std::unique_ptr<ReadQueue>> uring_queue(std::uint32_t depth);

}  // namespace ht::inline v1::io
