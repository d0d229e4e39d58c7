// Errors of the benchmark itself are exceptions, because they end it.
#pragma once

#include <cerrno>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <htensor/base/result.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <tl/expected.hpp>

namespace ht::bench {

inline void must(bool good, const std::string& message) {
  if (!good) throw std::runtime_error(message);
}

/// For calls that set errno.
inline void system_must(bool good, const std::string& subject) {
  if (!good) throw std::system_error(errno, std::generic_category(), subject);
}

/// Returns true if --smoke is the only argument.
[[nodiscard]] inline bool is_smoke(int argc, char** argv) {
  return argc == 2 && std::string_view(argv[1]) == "--smoke";
}

/// Calls `body` and returns its result, the exit status of the program. Prints an exception and returns 2.
template <class Body>
[[nodiscard]] int exit_status_of(const char* program, const Body& body) {
  // Line-buffered, so that output to a file stays in order with stderr.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  try {
    return body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", std::filesystem::path(program).filename().c_str(), error.what());
    return 2;
  }
}

template <class T>
T value_of(Result<T> result) {
  if (!result) throw std::runtime_error(to_string(result.error()));
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

template <class T>
T value_of(tl::expected<T, std::error_code> result, const std::string& subject) {
  if (!result) throw std::system_error(result.error(), subject);
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

}  // namespace ht::bench
