// The seal of a model: where it lies, what it calls the files, and whether it is of these files at all.
#pragma once

#include <filesystem>
#include <htensor/integrity/seal.hpp>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "model/set_journal.hpp"

namespace ht::inline v1 {

struct SealPlace {
  std::filesystem::path seal;
  /// The file that it lies beside under its name; nothing where it is in the folder of several. Where the
  /// seal knows it by another name, as the two were renamed together, the first of its files is this one.
  std::optional<std::filesystem::path> file{};
};

[[nodiscard]] SealPlace place_in_folder(const std::filesystem::path& folder);
[[nodiscard]] SealPlace place_of_seal(const std::filesystem::path& model, std::span<const Format> formats,
                                      io::Port& port);

/// What a seal at this place calls a file.
[[nodiscard]] std::string name_in_seal(const std::filesystem::path& file, const SealPlace& place);
/// What the seal's files are called.
[[nodiscard]] std::vector<std::filesystem::path> sealed_paths(const Seal& seal, const SealPlace& place);

struct FoundSeal {
  Seal seal;
  SealPlace place;
  /// What its files are called now, and their numbers by that.
  std::vector<std::filesystem::path> paths{};
  std::map<std::string, std::uint32_t> numbers{};
  /// Whether it is of more than what was named: a file that was sealed with the others in its folder.
  bool of_more = false;
  /// Where these files lie, if their set is being replaced.
  SetView view{};

  /// Which of its files this is. `not_sealed` where none is.
  [[nodiscard]] Result<std::uint32_t> number_of(const std::filesystem::path& path) const;
};

/// `not_sealed` where there is none, `bad_seal`.
[[nodiscard]] Result<FoundSeal> find_seal(const std::filesystem::path& named, std::span<const Format> formats,
                                          io::Port& port);

/// The seal of a file, its own or that of several files in its folder; nullopt if no seal names it. A damaged
/// seal names nothing; one that cannot be opened or read is an Error.
[[nodiscard]] Result<std::optional<std::filesystem::path>> seal_that_names(const std::filesystem::path& file,
                                                                           std::span<const Format> formats,
                                                                           io::Port& port);

}  // namespace ht::inline v1
