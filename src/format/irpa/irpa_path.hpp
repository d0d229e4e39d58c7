// Paths that an archive names.
#pragma once

#include <string_view>

namespace ht::inline v1::format_irpa {

/// What is wrong with a path that has to be relative to the archive's folder and may not lead out of it;
/// nothing where it is well. Only the text is looked at: links are the business of whoever made them.
[[nodiscard]] std::string_view path_fault(std::string_view path) noexcept;

}  // namespace ht::inline v1::format_irpa
