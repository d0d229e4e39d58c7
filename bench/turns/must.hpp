// Errors of the benchmark itself are exceptions, because they end it.
#pragma once

#include <cerrno>
#include <htensor/base/result.hpp>
#include <stdexcept>
#include <string>
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
