// The Error of an allocation that failed.
#pragma once

#include <cstdint>
#include <htensor/base/error.hpp>

#include "base/format_text.hpp"

namespace ht::inline v1 {

/// `out_of_memory` with the number of bytes that could not be allocated. Throws nothing.
[[nodiscard]] inline Error out_of_memory(std::uint64_t bytes,
                                         SourceLine where = SourceLine::here()) noexcept {
  return {ErrorCode::out_of_memory, {}, format_text("out of memory: {} bytes", bytes), where};
}

}  // namespace ht::inline v1
