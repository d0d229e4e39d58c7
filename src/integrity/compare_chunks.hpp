// Compares open files with a seal, or with the checksum in a file's own header, such as that of a `.ht`.
#pragma once

#include <htensor/format/format.hpp>
#include <htensor/integrity/seal.hpp>
#include <optional>
#include <span>
#include <string>

#include "io/strategy/mapped_file.hpp"

namespace ht::inline v1 {

enum class MissingFiles : bool { reported, skipped };

/// Compares files with a seal. `files` has one entry per file of the seal, null if it is missing; `paths` are
/// their paths. The file with the number `requested` is reported if it is missing, whatever `missing` is.
[[nodiscard]] Result<Verification> compare(const Seal& seal, io::MappedFiles files,
                                           std::span<const std::filesystem::path> paths,
                                           const VerifyOptions& options,
                                           MissingFiles missing = MissingFiles::reported,
                                           std::optional<std::uint32_t> requested = std::nullopt);

/// Returns the checksum in the header; nullopt if the format has no checksum or this file has none. `more`
/// are formats of the caller in addition to those of the library. Errors are those of `Source::read` and
/// `Format::own_checksum`.
[[nodiscard]] Result<std::optional<Format::OwnChecksum>> own_checksum(const io::Source& file,
                                                                      std::span<const Format> more);

/// Compares the data of a file with the checksum in its header, and checks that the bytes between header and
/// data are zero.
[[nodiscard]] Result<Verification> compare_with_own_checksum(io::MappedFile& file,
                                                             const Format::OwnChecksum& own,
                                                             const VerifyOptions& options);

/// Returns a text such as "bytes 0–79", or "0 bytes at byte 128" for an empty range.
[[nodiscard]] std::string byte_range_text(std::uint64_t offset, std::uint64_t bytes);

}  // namespace ht::inline v1
