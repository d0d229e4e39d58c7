// The output of a verb for one of several paths, framed as it goes out.
#pragma once

#include <cstdint>
#include <string_view>

namespace ht::cli {

enum class Frame : std::uint8_t {
  none,
  heading,      // the path on a line of its own
  json_object,  // "path" becomes the object's first key, and its newline is left out
  json_lines,   // "path" becomes the first key of each line
};

/// From now on `print` frames what it writes as output for this path. Nothing is written for a path without
/// output. An object that has the key "path", before any object within it, stays unchanged.
void begin_block(std::string_view path, Frame frame);
void end_block();

/// Whether anything was printed in the current block, or at all if no block was begun.
[[nodiscard]] bool has_printed() noexcept;

}  // namespace ht::cli
