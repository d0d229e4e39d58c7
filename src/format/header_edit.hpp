// Where data begins behind an edited header.
#pragma once

#include <cstdint>
#include <htensor/base/result.hpp>
#include <htensor/format/encode.hpp>

namespace ht::inline v1 {

/// Where data begins behind a header that needs this many bytes, if it began at `old_bytes`: there, or, where
/// it may, later, by whole blocks, so that they can be shared, and with some room for the next edit. A file
/// without data has none to move. `header_too_large`.
[[nodiscard]] Result<std::uint64_t> data_begin_for(std::uint64_t needed, std::uint64_t old_bytes,
                                                   const HeaderEdit& edit);
/// The same, later in any case.
[[nodiscard]] std::uint64_t later_begin(std::uint64_t needed, std::uint64_t old_bytes);

}  // namespace ht::inline v1
