// The journal of a sharded set that is being replaced: which files are old, which are new, and under which
// temporary names they lie meanwhile. docs/convert.md states the protocol.
//
// The journal lies beside the set as `.htensor-NAME.journal`, where NAME is the set's name: `m.gguf` for
// `m-00001-of-00003.gguf`, `m.safetensors` for `m.safetensors.index.json`. Its fields end with a zero byte:
//
//   htensor-journal-1
//   old  TEMPORARY  NAME     for each file of the old set, the file that the set is opened by first
//   new  TEMPORARY  NAME     for each file of the new set, the file that the set is opened by last
//   16 hexadecimal digits    CRC-64/NVME of all bytes before them
//
// The journal is in effect once the first old file has its temporary name. Before that the set is the old
// one, from then on the new one.
#pragma once

#include <filesystem>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/io/port.hpp>
#include <htensor/io/source.hpp>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ht::inline v1 {

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

/// Whether a file does not exist. One whose name is longer than the system allows does not.
[[nodiscard]] bool is_missing(std::error_code cause) noexcept;

/// The name of the set that a shard, an index or a file of the set's own name belongs to.
[[nodiscard]] std::string set_name_of(const std::filesystem::path& member);
[[nodiscard]] std::filesystem::path journal_path(const std::filesystem::path& member);

[[nodiscard]] std::vector<std::byte> encode_journal(const SetJournal& journal);
/// `bad_header` for anything but a journal, `path_escapes` for names of files that are not of the set.
[[nodiscard]] Result<SetJournal> parse_journal(Bytes bytes, std::string_view set_name);
/// Null where there is none.
[[nodiscard]] Result<std::shared_ptr<const io::FileSource>> open_journal(const std::filesystem::path& path,
                                                                         io::Port& port);
/// `bad_header` for one that is too large; errors name the file.
[[nodiscard]] Result<SetJournal> read_journal(const io::Source& file, std::string_view set_name);
[[nodiscard]] Result<bool> is_in_effect(const SetJournal& journal, const std::filesystem::path& folder,
                                        io::Port& port);

/// Where the files of sets lie while journals are in effect. Nothing is written.
class SetView {
 public:
  /// Every file lies under its own name.
  SetView() = default;
  /// The journal of the set that `member` is of. Costs one call where there is none.
  [[nodiscard]] static Result<SetView> of_set(const std::filesystem::path& member, io::Port& port);
  /// All journals among the names of a folder. The names become those that the folder would have if all of
  /// them were finished.
  [[nodiscard]] static Result<SetView> of_folder(const std::filesystem::path& folder,
                                                 std::vector<std::string>& names, io::Port& port);
  /// The view for a path that the user named: a folder, or a member of a set.
  [[nodiscard]] static Result<SetView> around(const std::filesystem::path& path, io::Port& port);

  [[nodiscard]] bool is_empty() const noexcept { return temporaries_.empty(); }
  /// The path at which the file of this name lies now.
  [[nodiscard]] std::filesystem::path where(const std::filesystem::path& path) const;

 private:
  Result<std::optional<SetJournal>> add(const std::filesystem::path& journal, std::string_view set_name,
                                        io::Port& port);

  std::map<std::filesystem::path, std::filesystem::path> temporaries_;  // by the normal form of the path
  io::Port* port_ = nullptr;
};

/// Opens a file of a set; through the set's journal where the file is missing under its own name.
[[nodiscard]] Result<std::shared_ptr<const io::FileSource>> open_member(const std::filesystem::path& path,
                                                                        io::Port& port);

}  // namespace ht::inline v1
