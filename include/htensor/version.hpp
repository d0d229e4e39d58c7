// Which version this is. A test holds it against the build's own.
#pragma once

#include <string_view>

namespace ht::inline v1 {

inline constexpr std::string_view library_version = "0.1.0";

}  // namespace ht::inline v1
