// The seals of files that are edited or replaced. A file and its seal are committed together.
//
// The new files and the new seal are written and synced before the first rename. The seal is renamed, and its
// folder synced, before the file is renamed. A kill or a loss of power between the renames leaves the new
// seal beside the old file, or without a file if the path is new: verify reports a mismatch or a missing
// file, never `intact`, and repeating the command completes the replacement. A set is replaced together with
// its seal (model/journal/set_replacement.hpp).
//
// Replaced files get a new seal of the algorithm that the old one had. An edit of the metadata carries the
// digests of the data over, so that damage stays visible.
#pragma once

#include <filesystem>
#include <htensor/base/work.hpp>
#include <htensor/hash/digest.hpp>
#include <optional>
#include <span>
#include <vector>

#include "integrity/model_seal.hpp"
#include "io/atomic_file.hpp"
#include "io/port/port.hpp"
#include "io/strategy/mapped_file.hpp"

namespace ht::inline v1 {

class NewSeal {
 public:
  struct Edit {
    const std::filesystem::path& path;
    io::MappedFile& source;
    /// The new header.
    Bytes header;
    /// Bytes by which the edit moves the data: the size of the new header minus that of the old one.
    std::uint64_t moved_by = 0;
    const WorkOptions& work;
    std::span<const Format> formats{};
    io::Port& port;
  };
  /// Writes and syncs the new seal, and does not rename it into place yet; nullopt if no seal names the file
  /// or the seal is damaged. First compares the file with the old seal. With CRC-64/NVME, the header and the
  /// bytes between tensors are enough, because the checksums of tensors are carried over. Other algorithms
  /// have a digest of the whole file, so the whole file is compared. `checksum_mismatch` if the file differs,
  /// unless an earlier attempt at the same edit already wrote the new seal.
  [[nodiscard]] static Result<std::optional<NewSeal>> prepare(const Edit& edit);

  struct NewFiles {
    /// The path that the new files will be opened by.
    const std::filesystem::path& opened;
    /// Written and synced, but not renamed into place yet.
    std::span<const io::AtomicFile> files;
    /// Files that are removed after the commit.
    std::span<const std::filesystem::path> removed{};
    /// The path of the seal, in the folder of the files; nullopt is `seal_path(opened)`.
    std::optional<std::filesystem::path> seal{};
    std::vector<DTypeInfo> dtypes{};
    std::vector<Format> formats{};
    io::Port& port;
  };
  /// Writes and syncs the seal of files that are not renamed into place yet; the seal itself is not renamed
  /// either. The files are read unless `seen` has their digests.
  [[nodiscard]] static Result<NewSeal> of_new_files(NewFiles files, const SealOptions& options,
                                                    const KnownDigest& seen = {});

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// Null if the old seal already has the new contents.
  [[nodiscard]] io::AtomicFile* file() noexcept { return file_ ? &*file_ : nullptr; }

 private:
  friend Result<void> commit_file(io::AtomicFile& file, NewSeal* seal);

  explicit NewSeal(std::filesystem::path path) noexcept : path_(std::move(path)) {}
  [[nodiscard]] Result<void> write(Bytes seal, io::Port& port);
  /// Puts the old seal back or, if there was no old seal, removes the new one. If that fails, the state is
  /// that of a kill between the renames.
  void roll_back() noexcept;

  std::filesystem::path path_;
  std::optional<std::vector<std::byte>> old_;  // nullopt if there was no seal
  std::optional<io::AtomicFile> file_;         // nullopt if the old seal already has the new contents
};

/// Renames a synced file into place, and its seal before it, with an fsync of the folder after each rename.
/// If the file cannot be renamed, the old seal is put back.
[[nodiscard]] Result<void> commit_file(io::AtomicFile& file, NewSeal* seal);

/// The seal of files that are about to be replaced.
struct ReplacedSeal {
  std::filesystem::path path;
  /// The algorithm to renew it with; nullopt if it cannot be renewed, for example because other files share
  /// it.
  std::optional<HashAlgorithm> algorithm;
  /// Whether the old seal covers only these files, and their new seal has another default path. This is the
  /// case if a split model gets another number of parts, which the name of its seal contains, or if the
  /// folder of a single file was sealed instead of the file.
  bool path_changes = false;

  /// nullopt if no seal names one of the files, which need not exist. `opened` is the path that the new files
  /// are opened by.
  [[nodiscard]] static Result<std::optional<ReplacedSeal>> find(
      const std::filesystem::path& opened, const std::vector<std::filesystem::path>& files,
      std::span<const Format> formats, io::Port& port);
};

}  // namespace ht::inline v1
