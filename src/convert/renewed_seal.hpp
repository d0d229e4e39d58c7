// The seals of files that are edited or replaced.
//
// Replaced files get a new seal of the algorithm that the old one had. The order: the new files are written
// and synced without their names; the old seal is removed; the files get their names; the new seal is
// written. A kill between leaves whole files without a seal, and `htensor seal` writes it.
//
// An edit of the metadata carries the digests of the data over, so that damage stays visible. The order: the
// new data file and the new seal are written and synced without their names; the seal gets its name; the data
// file gets its name. A kill between the two leaves the old file beside the new seal: verify reports the
// header, all data digests are kept, and repeating the edit completes it. In no state does the seal match
// bytes that it should not.
#pragma once

#include <filesystem>
#include <htensor/base/work.hpp>
#include <htensor/hash/digest.hpp>
#include <htensor/io/mapped.hpp>
#include <optional>
#include <vector>

#include "io/atomic_file.hpp"

namespace ht::inline v1 {

class RenewedSeal {
 public:
  struct Edit {
    const std::filesystem::path& path;
    const io::Mapped& source;
    Bytes header;
    std::uint64_t moved_by = 0;
    const WorkOptions& work;
    io::Port& port;
  };
  /// Writes and syncs the new seal without its name; nullopt if no seal names the file. The old header is
  /// compared with the old seal first, and all of the file where the seal's algorithm has to read it anyway:
  /// `checksum_mismatch` if they differ.
  [[nodiscard]] static Result<std::optional<RenewedSeal>> prepare(const Edit& edit);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// Call it before the data file gets its name.
  [[nodiscard]] Result<void> commit();
  /// Puts the old seal back after the data file could not get its name. If that fails too, the state is that
  /// of a kill between the two.
  void roll_back(io::Port& port) noexcept;

 private:
  RenewedSeal(std::filesystem::path path, std::vector<std::byte> old) noexcept
      : path_(std::move(path)), old_(std::move(old)) {}

  std::filesystem::path path_;
  std::vector<std::byte> old_;
  std::optional<io::AtomicFile> file_;  // nullopt if the seal is the new one already
};

/// The seal of files that are about to be replaced.
struct ReplacedSeal {
  std::filesystem::path path;
  /// The algorithm to renew it with; nullopt if it cannot be renewed, because other files share the seal.
  std::optional<HashAlgorithm> algorithm;

  /// nullopt if no seal names one of the files that exist. `opened` is the path that the new files are opened
  /// by.
  [[nodiscard]] static Result<std::optional<ReplacedSeal>> find(
      const std::filesystem::path& opened, const std::vector<std::filesystem::path>& files, io::Port& port);
};

/// Removes a file if it exists.
[[nodiscard]] Result<void> remove_file(const std::filesystem::path& path, io::Port& port);

}  // namespace ht::inline v1
