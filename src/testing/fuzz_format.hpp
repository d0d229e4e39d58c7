// What holds for every parser and every input, for its fuzzer to try.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

namespace ht::testing {

/// `data` is eight bytes that claim the file's size, then what is seen of the file. Ends the program where
/// - the parser asks for what it has seen or for what is not there,
/// - it answers otherwise when it sees the file bit by bit,
/// - an error has no words,
/// - more memory is taken than `check_memory` allows,
/// - what it accepts does not encode to a file that parses to the same tensors and encodes to the same bytes.
void check_format(std::string_view format, const std::uint8_t* data, std::size_t size);

/// Ends the program where `parse`, of an input of that many bytes, has more than 8 times as much and 1 MiB
/// allocated at any one time.
void check_memory(std::size_t input_bytes, const std::function<void()>& parse);

}  // namespace ht::testing
