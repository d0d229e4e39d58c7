// Bytes compared with the seal of the file that they came from.
#pragma once

#include <functional>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/format/format.hpp>
#include <htensor/hash/digest.hpp>
#include <htensor/io/port.hpp>
#include <htensor/tensor/storage.hpp>

namespace ht::inline v1 {

/// The digest of the bytes by one algorithm.
using DigestOf = std::function<Result<Digest>(HashAlgorithm)>;

/// `range` is where the bytes lie in their file.
[[nodiscard]] Result<void> validate_bytes(const DigestOf& digest_of, const Storage::FileBacked& range,
                                          std::span<const Format> formats, io::Port& port);
/// The digest of bytes that may be mapped.
[[nodiscard]] DigestOf digest_of_memory(Bytes bytes);

}  // namespace ht::inline v1
