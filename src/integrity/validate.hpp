// Bytes in memory held against the seal of the file that they came from.
#pragma once

#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/io/port.hpp>
#include <htensor/tensor/storage.hpp>

namespace ht::inline v1 {

/// `range` is where they lie in their file.
[[nodiscard]] Result<void> validate_bytes(Bytes bytes, const Storage::FileBacked& range, io::Port& port);

}  // namespace ht::inline v1
