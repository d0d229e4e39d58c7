// What holds for every parser and every input, for its fuzzer to try.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ht::testing {

/// `data` is eight bytes that claim the file's size, then what is seen of the file. Ends the program where
/// - the parser asks for what it has seen or for what is not there,
/// - it answers otherwise when it sees the file bit by bit,
/// - an error has no words,
/// - more than 8 times the input and 1 MiB was allocated at any one time,
/// - what it accepts does not encode to a file that parses to the same tensors and encodes to the same bytes.
void check_format(std::string_view format, const std::uint8_t* data, std::size_t size);

}  // namespace ht::testing
