// The journal of a sharded set that is being replaced: its old files, its new files, and their temporary
// names. docs/convert.md states the protocol.
//
// The journal is stored beside the set as `.htensor-NAME.journal`, where NAME is the set's name: `m.gguf` for
// `m-00001-of-00003.gguf`, `m.safetensors` for `m.safetensors.index.json`. Its fields end with a zero byte:
//
//   htensor-journal-1
//   old  TEMPORARY  NAME     for each file of the old set; first the file by which the set is opened
//   new  TEMPORARY  NAME     for each file of the new set; last the file by which the set is opened
//   16 hexadecimal digits    CRC-64/NVME of all bytes before them
//
// The journal is committed once the first old file is renamed to its temporary name; without old files, as
// soon as the journal exists. Before that the set consists of the old files, afterwards of the new ones.
#pragma once

#include <filesystem>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/io/source.hpp>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/file_source.hpp"
#include "io/port/port.hpp"

namespace ht::inline v1 {

/// The seal of a file has the name of the file plus `seal_suffix`. The seal of a folder is named
/// `folder_seal_name`.
inline constexpr std::string_view seal_suffix = ".htseal";
inline constexpr std::string_view folder_seal_name = "model.htseal";

struct SetJournal {
  struct File {
    std::string name;
    std::string temporary;
    friend bool operator==(const File&, const File&) = default;
  };
  std::vector<File> old_files;
  /// At least one.
  std::vector<File> new_files;

  friend bool operator==(const SetJournal&, const SetJournal&) = default;
};

/// Whether the error means that a file does not exist. A file whose name is too long does not exist.
[[nodiscard]] bool is_missing(std::error_code cause) noexcept;

/// Returns the name of the set of a shard, an index or a file with the set's own name.
[[nodiscard]] std::string set_name_of(const std::filesystem::path& member);
[[nodiscard]] std::filesystem::path journal_path(const std::filesystem::path& member);

[[nodiscard]] std::vector<std::byte> encode_journal(const SetJournal& journal);
/// `bad_header` if the bytes are not a journal, `path_escapes` if it names files outside the set.
[[nodiscard]] Result<SetJournal> parse_journal(Bytes bytes, std::string_view set_name);
/// Opens the journal at this path. Null if it does not exist.
[[nodiscard]] Result<std::shared_ptr<const io::FileSource>> open_journal(const std::filesystem::path& path,
                                                                         io::Port& port);
/// `bad_header` if the journal is malformed or too large; errors name the file.
[[nodiscard]] Result<SetJournal> read_journal(const io::Source& file, std::string_view set_name);
/// Whether the set consists of the new files (see the top of this file). `open_failed` if a
/// file cannot be examined.
[[nodiscard]] Result<bool> is_committed(const SetJournal& journal, const std::filesystem::path& folder,
                                        io::Port& port);

/// Maps the files of sets to their current paths while their journals are committed. Read-only.
class SetView {
 public:
  /// A view without journals: every file is at its own path.
  SetView() = default;
  /// Reads the journal of the set of `member`. Costs one system call if there is none.
  [[nodiscard]] static Result<SetView> of_set(const std::filesystem::path& member, io::Port& port);
  /// Reads all journals among the names of a folder. Changes `names` to the state after all journals are
  /// finished.
  [[nodiscard]] static Result<SetView> of_folder(const std::filesystem::path& folder,
                                                 std::vector<std::string>& names, io::Port& port);
  /// Returns the view for a path from the user: a folder, or a member of a set.
  [[nodiscard]] static Result<SetView> of_path(const std::filesystem::path& path, io::Port& port);

  [[nodiscard]] bool is_empty() const noexcept { return temporaries_.empty(); }
  /// Returns the current path of the file with this name.
  [[nodiscard]] std::filesystem::path current_path(const std::filesystem::path& path) const;

 private:
  Result<std::optional<SetJournal>> add(const std::filesystem::path& journal, std::string_view set_name,
                                        io::Port& port);

  std::map<std::filesystem::path, std::filesystem::path> temporaries_;  // key: path in normal form
  io::Port* port_ = nullptr;
};

/// Opens a file of a set. If the file does not exist under its own name, opens its temporary file from the
/// set's journal.
[[nodiscard]] Result<std::shared_ptr<const io::FileSource>> open_member(const std::filesystem::path& path,
                                                                        io::Port& port);

}  // namespace ht::inline v1
