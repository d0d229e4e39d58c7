// A set whose replacement was interrupted, for tests of readers.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/format_text.hpp"
#include "model/journal/set_journal.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::testing {

/// Renames the files of a new set to temporary names and writes a committed journal that lists them, as a
/// killed writer leaves them. The last name is that of the index. Returns the journal.
inline SetJournal interrupt_replacement(const std::filesystem::path& folder,
                                        const std::vector<std::string>& names) {
  SetJournal journal;
  for (const auto& name : names) {
    journal.new_files.push_back({name, format_text(".htensor-{}.part", journal.new_files.size())});
    std::filesystem::rename(folder / name, folder / journal.new_files.back().temporary);
  }
  write_file(journal_path(folder / names.back()), encode_journal(journal));
  return journal;
}

}  // namespace ht::testing
