// Properties of every parser for every input, checked by its fuzzer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

namespace ht::testing {

/// `data` is eight bytes with the claimed file size, followed by the available bytes of the file. Aborts if
/// - the parser requests bytes that it already has or that are outside of the file,
/// - the result differs when the parser gets the file in parts,
/// - an error has an empty message or rule,
/// - the parser allocates more memory than `check_memory` allows,
/// - the catalog of an accepted file cannot be encoded, except for `size_overflow`,
/// - the encoded file parses to other tensors,
/// - the catalog of the encoded file encodes to another header or another file size.
void check_format(std::string_view format, const std::uint8_t* data, std::size_t size);

/// Aborts if `parse` has more than 8 times `input_bytes` plus 1 MiB allocated at any time.
void check_memory(std::size_t input_bytes, const std::function<void()>& parse);

}  // namespace ht::testing
