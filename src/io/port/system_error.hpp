// Errors of system calls, with a hint for each common cause.
#pragma once

#include <filesystem>
#include <htensor/base/result.hpp>
#include <string_view>
#include <system_error>

namespace ht::inline v1::io {

/// The error code of every failure in a build without a port (-DHT_PORT=none).
[[nodiscard]] std::error_code no_port() noexcept;

/// Returns the Error of a failed system call: its message contains the message of `cause`, its hint a remedy
/// for common causes. `action` completes "cannot …", for instance "open". `unsupported_platform` for
/// `no_port()`.
[[nodiscard]] Error system_error(ErrorCode code, std::string_view rule, std::string_view action,
                                 const std::filesystem::path& path, std::error_code cause,
                                 SourceLine where = SourceLine::here());

}  // namespace ht::inline v1::io
