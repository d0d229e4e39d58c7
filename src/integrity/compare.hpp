// Open files compared with a seal, or with the checksum of its data that a file, such as a `.ht`, has in its
// own header.
#pragma once

#include <htensor/format/format.hpp>
#include <htensor/integrity/seal.hpp>
#include <htensor/integrity/verify.hpp>
#include <optional>
#include <span>

#include "io/mapped_file.hpp"

namespace ht::inline v1 {

enum class MissingFiles : bool { reported, skipped };

/// `files` has one for each of the seal's, null where it is missing; `paths` is what they are called.
[[nodiscard]] Result<Verification> compare(const Seal& seal, io::MappedFiles files,
                                           std::span<const std::filesystem::path> paths,
                                           const VerifyOptions& options,
                                           MissingFiles missing = MissingFiles::reported);

/// nullopt where the file's format, one of the caller's `more` or of the library's, stores no checksum in the
/// header, or this file has none. Errors are those of `Format::own_checksum`.
[[nodiscard]] Result<std::optional<OwnChecksum>> own_checksum(const io::Source& file,
                                                              std::span<const Format> more);

[[nodiscard]] Result<Verification> verify_own(io::MappedFile& file, const OwnChecksum& own,
                                              const VerifyOptions& options);

}  // namespace ht::inline v1
