// The system's own queue for reads.
#pragma once

#include <htensor/io/port.hpp>
#include <memory>

namespace ht::inline v1::io {

/// `function_not_supported` where the library was built without io_uring, the system has none, or forbids it.
[[nodiscard]] IoResult<std::unique_ptr<ReadQueue>> uring_queue(std::uint32_t depth);

}  // namespace ht::inline v1::io
