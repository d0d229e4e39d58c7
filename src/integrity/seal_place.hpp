// Where seals lie, and which files they are of.
#pragma once

#include <htensor/integrity/seal.hpp>

namespace ht::inline v1 {

struct SealPlace {
  std::filesystem::path seal;
  /// The file that it lies beside under its name; nothing where it is in the folder of several. Where the
  /// seal knows it by another name, as the two were renamed together, the first of its files is this one.
  std::optional<std::filesystem::path> file;
};

[[nodiscard]] SealPlace place_in_folder(const std::filesystem::path& folder);
[[nodiscard]] SealPlace place_of_seal(const std::filesystem::path& model, std::span<const Format> formats,
                                      io::Port& port);

/// What is wrong with the name of a file in a seal; nothing where it is well.
[[nodiscard]] std::string_view sealed_name_fault(std::string_view name);

/// The seal of a file, its own or that of several files in its folder; nullopt if no seal names it. A damaged
/// seal names nothing; one that cannot be opened or read is an Error.
[[nodiscard]] Result<std::optional<std::filesystem::path>> seal_that_names(const std::filesystem::path& file,
                                                                           std::span<const Format> formats,
                                                                           io::Port& port);

/// What the seal's files are called.
[[nodiscard]] std::vector<std::filesystem::path> sealed_paths(const Seal& seal, const SealPlace& place);

}  // namespace ht::inline v1
