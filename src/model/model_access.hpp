// What other parts of the library need of a model beyond its public face.
#pragma once

#include <functional>
#include <htensor/integrity/seal.hpp>
#include <htensor/model/model.hpp>
#include <vector>

namespace ht::inline v1 {

struct FoundSeal;

/// A seal that is not written yet.
struct MadeSeal {
  std::filesystem::path path;
  Seal seal;
};

struct ModelAccess {
  /// All files, mapped. `bad_state` where it was opened for its catalog alone, `missing_shard`.
  [[nodiscard]] static Result<std::vector<const io::Mapped*>> files(const Model& model) {
    return model.all_files();
  }
  /// The file that a tensor's bytes are mapped from; null where they are memory of the model's own. Errors
  /// are those of `AnyTensor::bytes`.
  [[nodiscard]] static Result<const io::Mapped*> file_of(const AnyTensor& tensor);
  /// Whether the bytes of an entry that is not a splat can be used; pins nothing.
  [[nodiscard]] static Result<void> check_is_there(const Model& model, const Entry& entry);
  /// Brings pages of a part of the stored bytes into memory, all at once and not one by one as they are
  /// touched.
  [[nodiscard]] static Result<void> fetch(const AnyTensor& tensor, std::uint64_t begin, std::uint64_t count);
  /// With which another file of the same kind can be opened.
  [[nodiscard]] static OpenOptions open_options(const Model& model);

  /// The model's open files compared with a seal: those of its files that the model does not have are
  /// missing.
  [[nodiscard]] static Result<Verification> compare(const Model& model, const FoundSeal& found,
                                                    const VerifyOptions& options);

  /// The digest of a part of one of the model's files, from who has seen its bytes.
  using Seen = std::function<Result<Digest>(const std::filesystem::path& file, std::uint64_t offset,
                                            std::uint64_t bytes)>;
  /// `header_too_large` if the model's seal would be larger than the limit; reads no data.
  [[nodiscard]] static Result<void> check_seal_size(const Model& model, HashAlgorithm algorithm);
  /// The model's seal; the files are read unless `seen` has their digests. It is not compared with a seal
  /// that the model has.
  [[nodiscard]] static Result<MadeSeal> make_seal(const Model& model, const SealOptions& options,
                                                  const Seen& seen);
  [[nodiscard]] static Result<SealedModel> write_seal(const MadeSeal& made, io::Port& port);
  /// Both.
  [[nodiscard]] static Result<SealedModel> seal(const Model& model, const SealOptions& options,
                                                const Seen& seen);
  /// Whether files that are to be can be sealed under these names, with the seal of what they are opened by:
  /// `bad_name`, or `already_exists` where the seal of other files is there.
  [[nodiscard]] static Result<void> check_can_seal(const std::filesystem::path& opened,
                                                   const std::vector<std::filesystem::path>& files,
                                                   io::Port& port);
};

}  // namespace ht::inline v1
