// Paths that files name: they may not lead out of the folder that the file is in.
#pragma once

#include <string_view>

namespace ht::inline v1 {

/// Whether a path, by its words alone, stays below the folder that it is relative to: not empty, not
/// absolute, without "..", without a NUL or a backslash, and UTF-8. Links on the way are the user's own and
/// are followed, as Hugging Face's cache needs it.
[[nodiscard]] bool is_confined(std::string_view path) noexcept;

}  // namespace ht::inline v1
