// The seal of a model: where it is, what it calls the files, whether it is of these at all.
#pragma once

#include <filesystem>
#include <htensor/format/catalog.hpp>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "integrity/seal_place.hpp"
#include "io/mapped_file.hpp"
#include "model/set_journal.hpp"

namespace ht::inline v1 {

struct FoundSeal {
  Seal seal;
  SealPlace place;
  /// What its files are called now, and their numbers by that.
  std::vector<std::filesystem::path> paths;
  std::map<std::string, std::uint32_t> numbers;
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

/// What a seal at this place calls a file.
[[nodiscard]] std::string name_in_seal(const std::filesystem::path& file, const SealPlace& place);

/// `bad_seal` where the seal has not just the tensors that the files say they have: these were then read from
/// something that was not sealed. `numbers` has the seal's number of each of the catalog's files.
[[nodiscard]] Result<void> check_same_tensors(const FoundSeal& found, const Catalog& catalog,
                                              std::span<const std::uint32_t> numbers);

}  // namespace ht::inline v1
