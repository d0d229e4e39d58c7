// What the system said, turned into an Error that a person can act on.
#pragma once

#include <filesystem>
#include <htensor/base/error.hpp>
#include <string_view>
#include <system_error>

namespace ht::inline v1::io {

/// `action` completes "could not be …", for instance "opened".
[[nodiscard]] Error system_error(ErrorCode code, std::string_view rule, std::string_view action,
                                 const std::filesystem::path& path, std::error_code cause,
                                 SourceLine where = SourceLine::here());

}  // namespace ht::inline v1::io
