// Finds the seal of a model, the names of its files in the seal, and whether the seal covers these files.
#pragma once

#include <filesystem>
#include <htensor/integrity/seal.hpp>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "io/port/port.hpp"
#include "model/journal/set_journal.hpp"
#include "model/model_access.hpp"

namespace ht::inline v1 {

struct SealLocation {
  std::filesystem::path seal;
  /// The file that the seal is stored beside; nullopt for the seal of a folder with several files. If the
  /// file and its seal were renamed together, the seal still lists the old file name; `sealed_paths` then
  /// returns this path for the first file of the seal.
  std::optional<std::filesystem::path> file{};
};

[[nodiscard]] SealLocation seal_location_in_folder(const std::filesystem::path& folder);
[[nodiscard]] SealLocation seal_location_of(const std::filesystem::path& model,
                                            std::span<const Format> formats, io::Port& port);

/// Returns the name of a file in a seal at this location.
[[nodiscard]] std::string name_in_seal(const std::filesystem::path& file, const SealLocation& location);
/// Returns the paths of the seal's files.
[[nodiscard]] std::vector<std::filesystem::path> sealed_paths(const Seal& seal, const SealLocation& location);

struct FoundSeal {
  Seal seal;
  SealLocation location;
  /// The paths of the seal's files, and the file numbers by normalized path.
  std::vector<std::filesystem::path> paths{};
  std::map<std::string, std::uint32_t> numbers{};
  /// Whether the path is only one of several files that the seal of its folder covers.
  bool covers_other_files = false;
  /// While a writer replaces the files of the model, maps their names to their current temporary files
  /// (model/journal/set_journal.hpp).
  SetView view{};

  /// Returns the number of this file in the seal. `not_sealed` if the seal does not have it.
  [[nodiscard]] Result<std::uint32_t> number_of(const std::filesystem::path& path) const;
};

/// Finds the seal of a path: its own or, for a file without one, the seal of its folder if that lists the
/// file. While a writer replaces the files of the model, also finds the seal by its temporary name.
/// `not_sealed` if no such seal exists; `bad_seal` if the first of the two that exists is damaged;
/// `open_failed` or `read_failed` if it cannot be read.
[[nodiscard]] Result<FoundSeal> find_seal(const std::filesystem::path& path, std::span<const Format> formats,
                                          io::Port& port);
/// Finds the seal of an open model. A model from memory or from a descriptor has no seal (`not_sealed`), even
/// if a file exists where its seal would be.
[[nodiscard]] Result<FoundSeal> find_seal(const ModelState& model, io::Port& port);

}  // namespace ht::inline v1
