// What a format cannot carry is refused before anything is written.
#pragma once

#include <htensor/base/result.hpp>
#include <htensor/format/catalog.hpp>
#include <string_view>

namespace ht::inline v1 {

/// `would_lose` unless the tensor is of a known dense dtype, in row-major order and little endian: what every
/// format carries. `format` is for the message.
[[nodiscard]] Result<void> check_plain(const Entry& entry, std::string_view format);

/// `would_lose` for metadata where a format has no place for it.
[[nodiscard]] Result<void> check_no_metadata(const Catalog& catalog, std::string_view format);

}  // namespace ht::inline v1
