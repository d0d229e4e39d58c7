// Where seals lie, and which files they are of.
#pragma once

#include <htensor/integrity/seal.hpp>

namespace ht::inline v1 {

struct SealPlace {
  std::filesystem::path seal;
  /// The file that it lies beside under its name; nothing where it is in the folder of several. The first of
  /// its files is this one, whatever the two are called by now.
  std::optional<std::filesystem::path> file;
};

[[nodiscard]] SealPlace place_of_seal(const std::filesystem::path& model, io::Port& port);

/// What the seal's files are called.
[[nodiscard]] std::vector<std::filesystem::path> sealed_paths(const Seal& seal, const SealPlace& place);

}  // namespace ht::inline v1
