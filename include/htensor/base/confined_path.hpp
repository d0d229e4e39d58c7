// Paths that files name: they may not lead out of the folder that the file is in.
#pragma once

#include <string_view>

namespace ht::inline v1 {

/// What is wrong with a path that has to name a file below the folder that it is relative to, for instance
/// "is absolute"; nothing where it is well. Only its words are looked at: links on the way are the user's own
/// and are followed, as Hugging Face's cache needs it.
[[nodiscard]] std::string_view path_fault(std::string_view path) noexcept;

}  // namespace ht::inline v1
