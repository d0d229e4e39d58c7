// The seal of a model, for those who make it from bytes that they have seen, or write it with other files.
#pragma once

#include <filesystem>
#include <functional>
#include <htensor/integrity/seal.hpp>
#include <htensor/integrity/verify.hpp>
#include <htensor/model/model.hpp>
#include <memory>
#include <vector>

#include "io/mapped_file.hpp"

namespace ht::inline v1 {

struct FoundSeal;

/// Every file that belongs to a model, its index among them.
struct SealedParts {
  std::vector<io::MappedFile*> files;
  std::vector<std::filesystem::path> paths;
  std::unique_ptr<io::MappedFile> index{};
};
/// `missing_shard` where a file is missing. The index is opened by `port`.
[[nodiscard]] Result<SealedParts> sealed_parts(const Model& model, io::Port& port);

/// A seal that is not written yet.
struct MadeSeal {
  std::filesystem::path path;
  Seal seal;
};

/// The digest of a part of one of the model's files whose bytes the caller has seen.
using SeenDigest = std::function<Result<Digest>(const std::filesystem::path& file, std::uint64_t offset,
                                                std::uint64_t bytes)>;

/// `header_too_large` if the model's seal would be larger than the limit; reads no data.
[[nodiscard]] Result<void> check_seal_size(const Model& model, HashAlgorithm algorithm);
/// The model's seal; the files are read unless `seen` has their digests. An existing seal is not compared.
[[nodiscard]] Result<MadeSeal> make_seal(const Model& model, const SealOptions& options,
                                         const SeenDigest& seen);

/// Whether files that do not exist yet can be sealed under these names, with the seal of the path that they
/// are opened by: `bad_name`, or `already_exists` where the seal of other files is there.
[[nodiscard]] Result<void> check_can_seal(const std::filesystem::path& opened,
                                          const std::vector<std::filesystem::path>& files,
                                          std::span<const Format> formats, io::Port& port);

/// The model's open files compared with a seal: files of the seal that the model does not have are missing.
[[nodiscard]] Result<Verification> compare(const Model& model, const FoundSeal& found,
                                           const VerifyOptions& options);

}  // namespace ht::inline v1
