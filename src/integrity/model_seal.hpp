// The seal of a model, for callers that have already hashed the bytes, or that commit the seal together with
// other files.
#pragma once

#include <filesystem>
#include <functional>
#include <htensor/integrity/seal.hpp>
#include <htensor/model/model.hpp>
#include <memory>
#include <vector>

#include "io/port/port.hpp"
#include "io/strategy/mapped_file.hpp"

namespace ht::inline v1 {

struct FoundSeal;

/// All files of a model, including its index.
struct AllFiles {
  std::vector<io::MappedFile*> files;
  std::vector<std::filesystem::path> paths;
  std::unique_ptr<io::MappedFile> index{};
};
/// Returns all files of the model. `missing_shard` if a file is missing. The index is opened through `port`.
[[nodiscard]] Result<AllFiles> all_files_of(const Model& model, io::Port& port);

/// A seal that is not written yet.
struct UnwrittenSeal {
  std::filesystem::path path;
  Seal seal;
};

/// Returns the digest of a part of a file that the caller has hashed already.
using KnownDigest = std::function<Result<Digest>(const std::filesystem::path& file, std::uint64_t offset,
                                                 std::uint64_t bytes)>;

/// Fails with `header_too_large` if the model's seal would be larger than the limit. Reads no data.
[[nodiscard]] Result<void> check_seal_size(const Model& model, HashAlgorithm algorithm);
/// Computes the model's seal; reads the files unless `known_digest` returns their digests. Does not compare
/// the model with an existing seal.
[[nodiscard]] Result<UnwrittenSeal> make_seal(const Model& model, const SealOptions& options,
                                              const KnownDigest& known_digest);

/// Fails if a model cannot be sealed once it is written as `files` and opened by the path `opened`:
/// `bad_name` for a file name, `already_exists` if its seal would replace the seal of other files that still
/// exist.
[[nodiscard]] Result<void> check_can_seal(const std::filesystem::path& opened,
                                          const std::vector<std::filesystem::path>& files,
                                          std::span<const Format> formats, io::Port& port);

/// Compares the model's open files with a seal. Files of the seal that the model does not have count as
/// missing, unless the model is a single file and the seal covers its folder.
[[nodiscard]] Result<Verification> compare(const Model& model, const FoundSeal& found,
                                           const VerifyOptions& options);

}  // namespace ht::inline v1
