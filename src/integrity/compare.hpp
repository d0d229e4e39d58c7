// Open files held against a seal.
#pragma once

#include <htensor/integrity/seal.hpp>
#include <htensor/integrity/verify.hpp>
#include <span>

#include "io/mapped_file.hpp"

namespace ht::inline v1 {

/// `files` has one for each of the seal's, null where it is missing; `paths` is what they are called.
[[nodiscard]] Result<Verification> compare(const Seal& seal, io::MappedFiles files,
                                           std::span<const std::filesystem::path> paths,
                                           const VerifyOptions& options);

/// Without those that are missing: for who needs some of them alone.
[[nodiscard]] Result<Verification> compare_there(const Seal& seal, io::MappedFiles files,
                                                 std::span<const std::filesystem::path> paths,
                                                 const VerifyOptions& options);

}  // namespace ht::inline v1
